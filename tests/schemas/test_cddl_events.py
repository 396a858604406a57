"""The grammar of events: what it takes is what the reader of events takes, and nothing else.

Not here: receipts (`test_cddl_receipts`), the envelope and statements (`test_cddl`).

Invariant: every event type has a row that is taken; the property ties grammar and reader together.
Profile: §2.1, §2.2, §2.5, §2.6, §3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import parse_event
from schemas.records import Event, EventType
from tests.schemas.cddl_support import encoded, findings, grammar, validate_event

CASES = sorted((Path(__file__).resolve().parents[2] / "schemas" / "cases").glob("*.json"))
MOST = 2**63 - 1
DID = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"


def event(name: str, **fields: Any) -> dict[str, Any]:
    """An event of a type for pool `p`; `class_` stands for the field `class`."""
    return {"pool": "p", "type": name, **{key.rstrip("_"): it for key, it in fields.items()}}


def submitted(**fields: Any) -> dict[str, Any]:
    """A claim whose gang is one device, the fields given replacing its own."""
    base = {"claim": "a", "leaf": "acme", "gang": [{"mdev": 1000, "uj": 5}], "grade": "HwShunt"}
    return event("claim.submitted", **(base | fields))


def observed(**fields: Any) -> dict[str, Any]:
    """A claim that asks for an observed estimate."""
    base = {"claim": "a", "leaf": "acme", "gang": [{"mdev": 1000}], "estimate": "observed"}
    return event("claim.submitted", **(base | fields))


def released(**fields: Any) -> dict[str, Any]:
    """A claim that failed."""
    return event("claim.released", **({"claim": "a", "outcome": "failed"} | fields))


def reading(**fields: Any) -> dict[str, Any]:
    """A reading with one occupant."""
    base = {
        "device": "g0",
        "from_ms": 0,
        "to_ms": 1000,
        "uj": 5,
        "grade": "HwShunt",
        "occupants": [{"claim": "a", "mdev": 1000}],
    }
    return event("meter.read", **(base | fields))


def opened(**fields: Any) -> dict[str, Any]:
    """A pool with one leaf."""
    base = {"capacity": {"mdev": 8000, "uj": 10}, "tree": [node()]}
    return event("pool.opened", **(base | fields))


def node(**fields: Any) -> dict[str, Any]:
    """A node of a tree."""
    return {"id": "acme", "guarantee": {"mdev": 1000}} | fields


def without(value: dict[str, Any], name: str) -> dict[str, Any]:
    """The map less one field."""
    return {key: it for key, it in value.items() if key != name}


def policy(**fields: Any) -> dict[str, Any]:
    """A change of policy."""
    return event("policy.set", policy=fields)


GOOD = [
    opened(),
    opened(id="e1", resources=["mdev", "uj"], policy={}, meta={}),
    opened(resources=["mdev", "vcpu", "gpu.mig", "uj"], meta={"a": {"b": [1, "x", None, True]}}),
    opened(capacity={}, tree=[]),
    event("tree.set", tree=[node(id="acme/train.v1_a-2")]),
    event("tree.set", tree=[node(weight=1, limit={}, borrow=False, lend=False)]),
    event("tree.set", tree=[node(lend=["mdev"], max_live=0, max_waiting=None)]),
    policy(),
    policy(aging_ms=0, reserve_after_ms=0, max_wait_ms=MOST, disruption_ppm=1_000_000),
    policy(min_samples=1, history=1, meter_slack_ms=0, power_limit_uw=None, idle=None),
    policy(disruption_ppm=None, idle={"threshold_uw": 0, "window_ms": 1}),
    event("period.opened", period="2026-11"),
    event("pool.archived", id="last"),
    event("steward.rotate", steward=DID),
    event("idle.review"),
    event("tick"),
    submitted(),
    submitted(gang=[], class_="c", unit="step", priority=-1000, preemptible=False),
    submitted(commit_within_ms=1, lease_ms=MOST, max_wait_ms=0, priority=1000),
    submitted(gang=[{}, {"vcpu": 3, "uj": 0}]),
    observed(),
    observed(gang=[{"mdev": 1, "vcpu": 2}, {}]),
    event("claim.committed", claim="a"),
    event("claim.renewed", claim="a"),
    event("claim.progressed", claim="a", completed=0),
    event("claim.cancelled", claim="a"),
    released(outcome="evicted"),
    released(actual={"uj": 0, "grade": "Estimator"}, completed=MOST),
    reading(),
    reading(uj=None),
    without(reading(uj=None), "grade"),
    reading(occupants=[]),
    reading(from_ms=253_402_300_799_998, to_ms=253_402_300_799_999),
]

BAD = [
    ("not a map", [opened()]),
    ("no pool", without(opened(), "pool")),
    ("an empty pool id", opened(pool="")),
    ("no type", without(opened(), "type")),
    ("an unknown type", event("pool.closed")),
    ("an unknown field", opened(policies={})),
    ("an id that is no text", opened(id=7)),
    ("a tick with an id", event("tick", id="e1")),
    ("capacity missing", without(opened(), "capacity")),
    ("tree missing", without(opened(), "tree")),
    ("uj before the last", opened(resources=["mdev", "uj", "uj"])),
    ("no uj", opened(resources=["mdev", "vcpu"])),
    ("no mdev", opened(resources=["vcpu", "uj"])),
    ("a null policy", opened(policy=None)),
    ("a float in meta", opened(meta={"x": 1.5})),
    ("a node without guarantee", event("tree.set", tree=[without(node(), "guarantee")])),
    ("a node with a misspelt field", event("tree.set", tree=[node(wieght=1)])),
    ("the root's id", event("tree.set", tree=[node(id="/")])),
    ("a path that ends in a slash", event("tree.set", tree=[node(id="acme/")])),
    ("capitals in a path", event("tree.set", tree=[node(id="Acme")])),
    ("a line break in a path", event("tree.set", tree=[node(id="acme\n")])),
    ("a weight of 0", event("tree.set", tree=[node(weight=0)])),
    ("a null weight", event("tree.set", tree=[node(weight=None)])),
    ("lend as text", event("tree.set", tree=[node(lend="mdev")])),
    ("a negative bound", event("tree.set", tree=[node(max_live=-1)])),
    ("an unknown policy", policy(agingms=1)),
    ("disruption above the whole", policy(disruption_ppm=1_000_001)),
    ("no samples needed", policy(min_samples=0)),
    ("an empty idle window", policy(idle={"threshold_uw": 1, "window_ms": 0})),
    ("idle without a window", policy(idle={"threshold_uw": 1})),
    ("null where there is a default", policy(history=None)),
    ("a period that is no text", event("period.opened", period=1)),
    ("archived with a field", event("pool.archived", pool_="p", claim="a")),
    ("a key that is no did:key", event("steward.rotate", steward="did:web:example.org")),
    ("neither grade nor estimate", without(submitted(), "grade")),
    ("grade and estimate", observed(grade="HwShunt")),
    ("an estimate and uj", observed(gang=[{"mdev": 1, "uj": 0}])),
    ("another estimate", observed(estimate="guessed")),
    ("an unknown grade", submitted(grade="hwshunt")),
    ("a gang that is a map", submitted(gang={"mdev": 1})),
    ("a text amount", submitted(gang=[{"mdev": "1"}])),
    ("a priority above", submitted(priority=1001)),
    ("a priority below", submitted(priority=-1001)),
    ("preemptible as a number", submitted(preemptible=1)),
    ("a null lease", submitted(lease_ms=None)),
    ("committed without claim", event("claim.committed")),
    ("progress without units", event("claim.progressed", claim="a")),
    ("an unknown outcome", released(outcome="done")),
    (
        "an actual without grade",
        event("claim.released", claim="a", outcome="failed", actual={"uj": 1}),
    ),
    ("a null actual", event("claim.released", claim="a", outcome="failed", actual=None)),
    ("a reading without grade", without(reading(), "grade")),
    ("a reading without uj", without(reading(), "uj")),
    ("an occupant that holds nothing", reading(occupants=[{"claim": "a", "mdev": 0}])),
    ("an occupant with a share", reading(occupants=[{"claim": "a", "mdev": 1, "uj": 1}])),
    ("an instant in the year 10000", reading(to_ms=253_402_300_800_000)),
]


@pytest.mark.parametrize("value", GOOD, ids=lambda value: str(value["type"]))
def test_the_grammar_takes_what_the_profile_names(value: dict[str, Any]) -> None:
    """Every field of the table, at its ends, is in the grammar, in CBOR and in JSON."""
    validate_event(encoded(value))
    validate_event(json.dumps(value).encode(), "application/json")


def test_every_event_type_has_a_row() -> None:
    """A type that nobody tried would be a type that nobody described."""
    assert {value["type"] for value in GOOD} == {name.value for name in EventType}


@pytest.mark.parametrize(("why", "value"), BAD, ids=[why for why, _ in BAD])
def test_the_grammar_refuses_all_else(why: str, value: Any) -> None:
    """What §3 refuses as malformed, and what one event alone shows to be invalid, is not in it."""
    with pytest.raises(AssertionError):
        validate_event(encoded(value))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_golden_cases_are_events(path: Path) -> None:
    """Each event of each golden case is in the grammar, in JSON and in CBOR."""
    for value in json.loads(path.read_bytes())["events"]:
        fields = without(value, "at_ms")
        validate_event(json.dumps(fields).encode(), "application/json")
        validate_event(encoded(fields))


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        *((number, True) for number in (0, 1, MOST)),
        *((other, False) for other in (MOST + 1, 2**64 - 1, 2**64, -1, 1.0, True, None, "1")),
    ],
)
def test_a_quantity_is_an_integer_from_0_to_2_63_minus_1(value: Any, taken: bool) -> None:
    """§2.1: a number outside, a float, a flag and a text are no quantities."""
    assert (not findings("amount", encoded(value))) == taken


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        *((text, True) for text in ("0", "12", str(MOST))),
        *((text, False) for text in ("01", "", "+1", "-1", "1.0", " 1", "1\n", "9" * 20)),
    ],
)
def test_json_may_write_an_integer_as_a_decimal_string(text: str, taken: bool) -> None:
    """§2.1: without sign and leading zeros; in CBOR it is never one."""
    value = event("claim.progressed", claim="a", completed=text)
    assert grammar("json").validate(value, "event").valid == taken
    assert not grammar("events").validate(value, "event").valid


_SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, -1, MOST, MOST + 1, 1001, "", "a", "uj", "HwShunt", [], {}, [{}]]
)
_NAMES = st.sampled_from(["id", "claim", "uj", "mdev", "grade", "lease_ms", "actual", "x"])
# Refused by a later check of the kernel, with its own reason, though the reader takes it.
_STRICTER = ("tree", "policy", "resources")


@st.composite
def _changed(draw: st.DrawFn) -> dict[str, Any]:
    """A good event with up to two changes, at the top or in a member of a list."""
    value: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(GOOD))))
    for _ in range(draw(st.integers(0, 2))):
        lists = [it for it in value.values() if isinstance(it, list)]
        members = [it for one in lists for it in one if isinstance(it, dict)]
        place = draw(st.sampled_from([value, *members]))
        name = draw(_NAMES | st.sampled_from(sorted(place) or ["x"]))
        if draw(st.booleans()):
            place[name] = json.loads(json.dumps(draw(_SCALARS)))
        else:
            place.pop(name, None)
    return value


def _kernel_refuses(value: dict[str, Any]) -> bool:
    occupants = value.get("occupants") or []
    return any(name in value for name in _STRICTER) or any(it["mdev"] < 1 for it in occupants)


@settings(max_examples=200, deadline=None)
@given(_changed())
def test_the_grammar_and_the_reader_agree(value: dict[str, Any]) -> None:
    """What the grammar takes, the reader reads and finds in range; and the other way round."""
    parsed = parse_event(value, from_json=False)
    read = isinstance(parsed, Event) and parsed.in_range
    taken = not findings("event", encoded(value), part="events")
    if taken and not read:
        assert _gang_sum(value) > MOST
    if read and not taken:
        assert _kernel_refuses(value)


def _gang_sum(value: dict[str, Any]) -> int:
    """An upper bound of what the gang asks for in one resource: sums are beyond a grammar."""
    return sum(sum(member.values()) for member in value.get("gang", []))
