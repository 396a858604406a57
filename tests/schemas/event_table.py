"""The profile's table of events, written down by hand: fields in order, and kinds of values.

Not here: reading it from `schemas.eventfields`, which these values are to judge.

Profile: §2.1, §2.2, §2.5, §2.8, §3.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
LARGEST = 2**63 - 1
YEAR_10000_MS = 253_402_300_800_000
STEWARD = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of value: some that are right, some of a wrong type, some out of range."""

    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    outside: tuple[Any, ...] = ()


NO_INTEGER: tuple[Any, ...] = (
    None,
    True,
    1.5,
    "x",
    "",
    "01",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "٣",
    [],
    {},
)
TEXT = Kind(good=("", "x", "é/ü", "a" * 300), bad=(None, 1, True, [], {}))
FLAG = Kind(good=(True, False), bad=(None, 0, 1, "true", []))
QUANTITY = Kind(good=(0, 1, LARGEST), bad=NO_INTEGER, outside=(-1, 2**63, 10**30, -(10**30)))
PRIORITY = Kind(good=(-1000, 0, 1000), bad=NO_INTEGER, outside=(-1001, 1001, 2**63))
INSTANT = Kind(good=(0, YEAR_10000_MS - 1), bad=NO_INTEGER, outside=(-1, YEAR_10000_MS, 2**63))
READING = Kind(good=(None, 0, LARGEST), bad=NO_INTEGER[1:], outside=(-1, 2**63))
GRADE = Kind(
    good=("Estimator", "ModelBased", "HwShunt"), bad=(None, "hwshunt", "", 1, ["HwShunt"], {})
)
OUTCOME = Kind(good=("completed", "failed", "evicted"), bad=(None, "done", "", 1, [], {}))
OBSERVED = Kind(good=("observed",), bad=(None, "", "Observed", True, [], {}))
KEY = Kind(good=(STEWARD,), bad=(None, "", "did:key:z6Mk", STEWARD[:-1], STEWARD + "1", 1))
AMOUNTS = Kind(
    good=({}, {"mdev": 0}, {"uj": LARGEST, "mdev": 1}),
    bad=(None, 1, "x", [], [1], {"mdev": None}, {"mdev": "01"}, {"mdev": 1.0}, {"mdev": True}),
    outside=({"mdev": -1}, {"uj": 2**63}),
)
TEXTS = Kind(good=(["mdev", "uj"],), bad=(None, "mdev", {}, [1], ["mdev", None]))
NODE = {"id": "a", "guarantee": {"mdev": 1}}
TREE = Kind(
    good=([], [NODE], [{**NODE, "limit": {"mdev": 2}, "lend": ["uj"], "max_live": None}]),
    bad=(
        None, {}, "x", [1], [[]], [{}], [{"id": "a"}], [{"guarantee": {}}],
        [{**NODE, "id": 1}], [{**NODE, "guarantee": []}], [{**NODE, "guarantee": {"mdev": "x"}}],
        [{**NODE, "weight": None}], [{**NODE, "weight": "01"}], [{**NODE, "limit": None}],
        [{**NODE, "borrow": 1}], [{**NODE, "lend": None}], [{**NODE, "lend": "mdev"}],
        [{**NODE, "lend": [1]}], [{**NODE, "max_live": "x"}], [{**NODE, "max_waiting": 1.0}],
        [{**NODE, "weigth": 1}], [NODE, {**NODE, "parent": "/"}],
    ),
    outside=([{**NODE, "weight": 2**63}], [{**NODE, "max_live": -1}],
             [NODE, {**NODE, "limit": {"uj": 2**63}}], [{**NODE, "max_waiting": 2**63}]),
)  # fmt: skip
POLICY = Kind(good=({}, {"aging_ms": 1}, {"anything": [None]}), bad=(None, 1, "x", []))
META = Kind(
    good=({}, {"a": {"b": [1, "x", None, True]}}),
    bad=(None, [], "x", {"a": 1.5}, {"a": 2**64}, {"a": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}),
)
GANG = Kind(
    good=([], [{}], [{"mdev": 1, "uj": 2}, {"gpu.mig": 3}]),
    bad=(None, {}, "x", [1], [None], [{"mdev": "x"}], [{"mdev": 1}, {"uj": None}]),
    outside=([{"mdev": 2**63}], [{"uj": 2**62}, {"uj": 2**62}], [{"mdev": -1}]),
)
ACTUAL = Kind(
    good=({"uj": 0, "grade": "Estimator"}, {"grade": "HwShunt", "uj": LARGEST}),
    bad=(
        None, 5, [], {}, {"uj": 1}, {"grade": "HwShunt"}, {"uj": None, "grade": "HwShunt"},
        {"uj": 1, "grade": "x"}, {"uj": 1, "grade": "HwShunt", "basis": "reported"},
    ),
    outside=({"uj": 2**63, "grade": "HwShunt"}, {"uj": -1, "grade": "HwShunt"}),
)  # fmt: skip
OCCUPANTS = Kind(
    good=([], [{"claim": "c", "mdev": 0}], [{"claim": "c", "mdev": 1}] * 2),
    bad=(
        None, {}, [1], [{}], [{"claim": "c"}], [{"mdev": 1}], [{"claim": 1, "mdev": 1}],
        [{"claim": "c", "mdev": "x"}], [{"claim": "c", "mdev": 1, "uj": 2}],
    ),
    outside=([{"claim": "c", "mdev": 2**63}], [{"claim": "c", "mdev": -1}]),
)  # fmt: skip

# The profile's table: name, kind, whether it must be there.
TABLE: dict[str, list[tuple[str, Kind, bool]]] = {
    "pool.opened": [
        ("capacity", AMOUNTS, True),
        ("resources", TEXTS, False),
        ("tree", TREE, True),
        ("policy", POLICY, False),
        ("meta", META, False),
    ],
    "tree.set": [("tree", TREE, True)],
    "policy.set": [("policy", POLICY, True)],
    "period.opened": [("period", TEXT, True)],
    "pool.archived": [],
    "steward.rotate": [("steward", KEY, True)],
    "idle.review": [],
    "tick": [],
    "claim.submitted": [
        ("claim", TEXT, True),
        ("leaf", TEXT, True),
        ("gang", GANG, True),
        ("grade", GRADE, True),
        ("class", TEXT, False),
        ("unit", TEXT, False),
        ("priority", PRIORITY, False),
        ("preemptible", FLAG, False),
        ("commit_within_ms", QUANTITY, False),
        ("lease_ms", QUANTITY, False),
        ("max_wait_ms", QUANTITY, False),
    ],
    "claim.committed": [("claim", TEXT, True)],
    "claim.renewed": [("claim", TEXT, True)],
    "claim.progressed": [("claim", TEXT, True), ("completed", QUANTITY, True)],
    "claim.cancelled": [("claim", TEXT, True)],
    "claim.released": [
        ("claim", TEXT, True),
        ("outcome", OUTCOME, True),
        ("actual", ACTUAL, False),
        ("completed", QUANTITY, False),
    ],
    "meter.read": [
        ("device", TEXT, True),
        ("from_ms", INSTANT, True),
        ("to_ms", INSTANT, True),
        ("uj", READING, True),
        ("grade", GRADE, True),
        ("occupants", OCCUPANTS, True),
    ],
}
FIELDS = [(kind, *field) for kind, fields in TABLE.items() for field in fields]


def whole(kind: str) -> Json:
    """An event with all the fields of its type."""
    event: Json = {"pool": "p", "type": kind}
    for name, what, _ in TABLE[kind]:
        event[name] = copy.deepcopy(what.good[-1])
    return event
