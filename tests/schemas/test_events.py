"""From bytes to an event, or to `Malformed` with the field at fault (profile §2.1, §3).

The tables here are the profile's: per event type its fields in their order, whether each must be
there, and what kind of value it takes. Faults are made from them, one and two at a time.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import (
    CONTENT_TYPE_CBOR,
    CONTENT_TYPE_JSON,
    EVENT_TYPES,
    decode_event,
    parse_event,
)
from schemas.jsonform import dumps_line
from schemas.records import (
    Actual,
    ClaimReleased,
    ClaimSubmitted,
    Decision,
    Event,
    EventType,
    Malformed,
    MeterRead,
    Node,
    Occupant,
    PolicySet,
    PoolOpened,
    TreeSet,
)
from streams.kernel import PoolState, decide

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


def fault_of(event: object, *, from_json: bool = True) -> str | None:
    """The field that is told; fails unless the event is malformed."""
    found = parse_event(event, from_json=from_json)
    assert isinstance(found, Malformed), found
    return found.field


def test_the_table_has_every_event_type() -> None:
    """The table here, the reader's and the records' list the same types."""
    assert set(TABLE) == EVENT_TYPES == {kind.value for kind in EventType}


@pytest.mark.parametrize("kind", TABLE)
def test_an_event_with_all_its_fields_is_one(kind: str) -> None:
    """It is a record of its type with the fields as given, parsed, in range."""
    event = whole(kind)
    found = parse_event(event, from_json=True)
    assert isinstance(found, Event)
    assert (found.pool, found.id, found.in_range) == ("p", None, True)
    assert found.fields == event


@pytest.mark.parametrize("kind", TABLE)
def test_an_event_without_its_optional_fields_is_one(kind: str) -> None:
    """Only what the table asks for must be there."""
    optional = {name for name, _, required in TABLE[kind] if not required}
    event = {name: value for name, value in whole(kind).items() if name not in optional}
    assert isinstance(parse_event(event, from_json=True), Event)


@pytest.mark.parametrize(("kind", "name", "what", "required"), FIELDS)
def test_each_field_takes_its_kind_of_value(
    kind: str, name: str, what: Kind, required: bool
) -> None:
    """Good values are kept, wrong types are malformed, numbers out of range are flagged."""
    event = whole(kind)
    for value in what.good:
        found = parse_event({**event, name: value}, from_json=True)
        assert isinstance(found, Event) and found.in_range, value
        assert found.fields[name] == value
    for value in what.bad:
        assert fault_of({**event, name: value}) == name, value
    for value in what.outside:
        found = parse_event({**event, name: value}, from_json=True)
        assert isinstance(found, Event) and not found.in_range, value
    del event[name]
    if required:
        assert fault_of(event) == name


@pytest.mark.parametrize("kind", TABLE)
def test_of_two_faults_the_first_in_the_table_is_told(kind: str) -> None:
    """Fields are judged in the table's order, missing or mistyped, wherever they stand."""
    for (one, first, needed), (other, second, _) in combinations(TABLE[kind], 2):
        event = {**whole(kind), one: first.bad[0], other: second.bad[0]}
        assert fault_of(dict(reversed(event.items()))) == one
        if needed:
            del event[one]
            assert fault_of(event) == one


@pytest.mark.parametrize("kind", TABLE)
def test_an_unknown_field_is_told_after_the_known_ones(kind: str) -> None:
    """A field that the table does not name is malformed; of several the first in byte order."""
    event = whole(kind)
    assert fault_of({**event, "zz": 1, "é": 1, "Zz": 1}) == "Zz"
    assert fault_of({**event, "é": 1, "zz": 1}) == "zz"
    for name, what, _ in TABLE[kind]:
        assert fault_of({"A": 1, **event, name: what.bad[0]}) == name


@pytest.mark.parametrize("kind", TABLE)
def test_the_time_is_no_field_of_an_event(kind: str) -> None:
    """`at_ms` belongs to the JSON lines of `pool decide`; in an event it is unknown."""
    assert fault_of({**whole(kind), "at_ms": 1}) == "at_ms"


@pytest.mark.parametrize("kind", TABLE)
def test_an_id_is_optional_text(kind: str) -> None:
    """Any event but a tick may have an id; it is judged before the other fields."""
    event = {**whole(kind), "id": "e1"}
    if kind == "tick":
        assert fault_of(event) == "id"
        return
    found = parse_event(event, from_json=True)
    assert isinstance(found, Event) and found.id == "e1"
    for bad in TEXT.bad:
        assert fault_of({**event, "id": bad}) == "id"
        assert fault_of({"pool": "p", "type": kind, "id": bad, "zz": 1}) == "id"


HEADS: list[tuple[str, object, str | None, str | None]] = [
    ("no map: a list", [], None, None),
    ("no map: nothing", None, None, None),
    ("no pool", {"type": "tick"}, None, "pool"),
    ("no pool before no type", {}, None, "pool"),
    ("a pool that is no text", {"pool": 1, "type": "tick"}, None, "pool"),
    ("a pool without a name", {"pool": "", "type": "tick"}, None, "pool"),
    ("no type", {"pool": "p"}, "p", "type"),
    ("a type that is no text", {"pool": "p", "type": 1}, "p", "type"),
    ("an unknown type", {"pool": "p", "type": "claim.submit"}, "p", "type"),
    ("an unknown type before an unknown field", {"pool": "p", "type": "x", "a": 1}, "p", "type"),
]


@pytest.mark.parametrize(
    ("value", "pool", "field"), [one[1:] for one in HEADS], ids=[one[0] for one in HEADS]
)
def test_without_pool_and_type_there_is_no_event(
    value: object, pool: str | None, field: str | None
) -> None:
    """The pool is told where it can be; the field where there is a map."""
    found = parse_event(value, from_json=True)
    assert isinstance(found, Malformed)
    assert (found.pool, found.field) == (pool, field)


SUBMITTED = {"pool": "p", "type": "claim.submitted", "claim": "c", "leaf": "a"}
ESTIMATES: list[tuple[str, Json, str | None]] = [
    ("observed, without grade and energy", {"gang": [{"mdev": 1}], "estimate": "observed"}, None),
    ("observed, without devices", {"gang": [{}], "estimate": "observed"}, None),
    ("observed with a grade", {"gang": [], "estimate": "observed", "grade": "HwShunt"}, "grade"),
    ("observed with energy", {"gang": [{"uj": 1}], "estimate": "observed"}, "gang"),
    ("observed with no energy, said", {"gang": [{"uj": 0}], "estimate": "observed"}, "gang"),
    ("observed with energy in a later member",
     {"gang": [{"mdev": 1}, {"mdev": 1, "uj": 0}], "estimate": "observed"}, "gang"),
    ("energy before grade", {"gang": [{"uj": 1}], "estimate": "observed", "grade": "x"}, "gang"),
    ("a wrong grade before a wrong estimate", {"gang": [], "estimate": "x", "grade": "x"}, "grade"),
    ("a wrong estimate", {"gang": [], "estimate": "guessed"}, "estimate"),
    ("neither", {"gang": []}, "grade"),
    ("a wrong estimate before a wrong class", {"gang": [], "estimate": 1, "class": 1}, "estimate"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field"), [one[1:] for one in ESTIMATES], ids=[one[0] for one in ESTIMATES]
)
def test_an_observed_estimate_stands_for_energy_and_grade(fields: Json, field: str | None) -> None:
    """A claim gives energy and grade, or asks for an observed estimate: never both."""
    found = parse_event({**SUBMITTED, **fields}, from_json=True)
    assert (found.field if isinstance(found, Malformed) else None) == field


READ = {"pool": "p", "type": "meter.read", "device": "g", "from_ms": 1, "to_ms": 2, "occupants": []}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"uj": 1, "grade": "HwShunt"}, None),
        ({"uj": None}, None),
        ({"uj": None, "grade": "HwShunt"}, None),
        ({"uj": None, "grade": "x"}, "grade"),
        ({"uj": 1}, "grade"),
        ({"uj": 0}, "grade"),
        ({}, "uj"),
        ({"uj": "x"}, "uj"),
    ],
)
def test_a_reading_has_a_grade_unless_the_meter_gave_no_answer(
    fields: Json, field: str | None
) -> None:
    """`uj: null` says that it is unknown; then the grade is optional."""
    found = parse_event({**READ, **fields}, from_json=True)
    assert (found.field if isinstance(found, Malformed) else None) == field


OPENED = {"pool": "p", "type": "pool.opened", "capacity": {"mdev": 1}, "tree": []}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"capacity": {"vcpu": 1}}, "capacity"),
        ({"capacity": {"vcpu": 1}, "resources": ["mdev", "vcpu", "uj"]}, None),
        ({"tree": [{"id": "a", "guarantee": {"vcpu": 1}}]}, "tree"),
        ({"tree": [{"id": "a", "guarantee": {}, "limit": {"vcpu": 1}}]}, "tree"),
        ({"tree": [{"id": "a", "guarantee": {}, "lend": ["vcpu"]}]}, "tree"),
        ({"tree": [{"id": "a", "guarantee": {}, "lend": ["uj"]}]}, None),
        ({"capacity": {"vcpu": 1}, "resources": 1}, "resources"),
        ({"capacity": {"mdev": 1}, "resources": ["uj"]}, "capacity"),
    ],
)
def test_an_opening_names_only_resources_that_it_declares(fields: Json, field: str | None) -> None:
    """Capacity, guarantees, limits and lending know the declared resources, `mdev` and `uj`."""
    found = parse_event({**OPENED, **fields}, from_json=True)
    assert (found.field if isinstance(found, Malformed) else None) == field


# --- JSON and CBOR ------------------------------------------------------------------------------


def as_strings(value: Any) -> Any:
    """The same value with every integer that may be one as a decimal string."""
    if isinstance(value, dict):
        return {key: as_strings(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_strings(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    return value


def loose(value: Any) -> bytes:
    """CBOR of the same value in another form: other key order, no shortest heads."""

    def head(major: int, argument: int) -> bytes:
        return bytes([major << 5 | 27]) + argument.to_bytes(8)

    if isinstance(value, dict):
        pairs = [loose(key) + loose(member) for key, member in reversed(value.items())]
        return head(5, len(value)) + b"".join(pairs)
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(loose(member) for member in value)
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return head(0, value)
    return cbor2.dumps(value)


@pytest.mark.parametrize("kind", TABLE)
def test_json_and_cbor_of_one_event_are_one_event(kind: str) -> None:
    """Record and content are alike, whatever the encoding, its order and its heads."""
    event = {**whole(kind)} if kind == "tick" else {**whole(kind), "id": "e"}
    event.pop("meta", None)
    forms = [
        decode_event(cbor2.dumps(event), CONTENT_TYPE_CBOR, b"p"),
        decode_event(cbor2.dumps(event, canonical=True), CONTENT_TYPE_CBOR, b"p"),
        decode_event(loose(event), CONTENT_TYPE_CBOR, b"p"),
        decode_event(json.dumps(event).encode(), CONTENT_TYPE_JSON, b"p"),
        decode_event(json.dumps(as_strings(event), indent=1).encode(), CONTENT_TYPE_JSON, b"p"),
        decode_event(dumps_line(event).encode(), CONTENT_TYPE_JSON, b"p"),
    ]
    assert isinstance(forms[0], Event)
    assert all(form == forms[0] for form in forms)


@pytest.mark.parametrize(("kind", "name", "what", "required"), FIELDS)
def test_decimal_strings_are_integers_in_json_alone(
    kind: str, name: str, what: Kind, required: bool
) -> None:
    """In CBOR an integer is an integer: a decimal string there is of the wrong type."""
    event = whole(kind)
    if what in (POLICY, META):
        return  # their members are judged elsewhere, or not at all
    for value in what.good:
        stringed = as_strings(value)
        if stringed != value:
            assert fault_of({**event, name: stringed}, from_json=False) == name
            found = parse_event({**event, name: stringed}, from_json=True)
            assert isinstance(found, Event) and found.fields[name] == value


def test_content_is_the_fields_as_given() -> None:
    """An id is no content, a default that is filled in is, and so is every other field."""
    base = {**SUBMITTED, "gang": [{"mdev": 1}], "grade": "HwShunt"}

    def content(**fields: Any) -> bytes:
        found = parse_event({**base, **fields}, from_json=True)
        assert isinstance(found, Event)
        return found.content

    assert content() == content(id="x") == content(gang=[{"mdev": "1"}])
    others = [content(priority=0), content(gang=[{"mdev": 1, "uj": 0}]), content(claim="d")]
    others += [content(pool="q"), content(gang=[{"mdev": 1}, {}]), content(unit="")]
    assert len({content(), *others}) == 1 + len(others)


# --- records ------------------------------------------------------------------------------------


def test_a_submission_as_a_record() -> None:
    """Members are summed, defaults are filled in beside the fields as given."""
    found = parse_event(
        {**SUBMITTED, "gang": [{"mdev": 2, "uj": 5}, {"mdev": 1}], "grade": "ModelBased"},
        from_json=True,
    )
    assert isinstance(found, ClaimSubmitted)
    assert found.demand == {"mdev": 3, "uj": 5}
    assert (found.grade, found.class_, found.unit) == ("ModelBased", "", "")
    assert (found.priority, found.preemptible) == (0, True)
    assert (found.commit_within_ms, found.lease_ms, found.max_wait_ms) == (0, 0, 0)
    assert "priority" not in found.fields


def test_other_events_as_records() -> None:
    """Nested maps become records of their own; a policy's members are left to the kernel."""
    opened = parse_event({**OPENED, "tree": [NODE], "policy": {"aging_ms": "7"}}, from_json=True)
    assert isinstance(opened, PoolOpened)
    assert opened.resources == ("mdev", "uj")
    assert opened.tree == (Node(id="a", guarantee={"mdev": 1}, limit={}),)
    assert opened.policy == {"aging_ms": 7}
    planted = parse_event({"pool": "p", "type": "tree.set", "tree": [NODE]}, from_json=True)
    assert isinstance(planted, TreeSet) and planted.tree == opened.tree
    ruled = parse_event(
        {"pool": "p", "type": "policy.set", "policy": {"idle": {"window_ms": "9"}}}, from_json=True
    )
    assert isinstance(ruled, PolicySet) and ruled.policy == {"idle": {"window_ms": 9}}
    released = parse_event(whole("claim.released"), from_json=True)
    assert isinstance(released, ClaimReleased)
    assert released.actual == Actual(uj=LARGEST, grade="HwShunt")
    read = parse_event(whole("meter.read"), from_json=True)
    assert isinstance(read, MeterRead)
    assert read.occupants == (Occupant(claim="c", mdev=1),) * 2


# --- bytes --------------------------------------------------------------------------------------

TICK = b'{"pool": "p", "type": "tick"}'
NO_JSON: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("no JSON", b"{"),
    ("two values", TICK + TICK),
    ("no UTF-8", b'{"pool": "\xff", "type": "tick"}'),
    ("a byte order mark", b"\xef\xbb\xbf" + TICK),
    ("a key twice", b'{"pool": "p", "type": "tick", "type": "tick"}'),
    ("a key twice below", b'{"pool": "p", "type": "tick", "a": {"b": 1, "b": 1}}'),
    ("no number", b'{"pool": "p", "type": "tick", "a": NaN}'),
    ("no number either", b'{"pool": "p", "type": "tick", "a": -Infinity}'),
    ("half a character", b'{"pool": "p", "type": "tick", "a": "\\ud800"}'),
    ("half a character in a key", b'{"pool": "p", "type": "tick", "\\udfff": 1}'),
    ("too deep", b'{"pool": "p", "type": "tick", "a": ' + b"[" * 17 + b"]" * 17 + b"}"),
    ("far too deep", b"[" * 100_000),
    ("an endless number", b'{"pool": "p", "type": "tick", "a": ' + b"9" * 10_000 + b"}"),
    ("too long", TICK + b" " * 960 * 1024),
]
NO_CBOR: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("cut", cbor2.dumps({"pool": "p"})[:-1]),
    ("bytes behind it", cbor2.dumps({"pool": "p", "type": "tick"}) + b"\x00"),
    ("a key twice", b"\xa2\x61a\x01\x61a\x01"),
    ("a key that is no text", cbor2.dumps({1: 1})),
    ("a float", cbor2.dumps({"pool": "p", "type": "tick", "a": 1.5})),
    ("a tag", cbor2.dumps({"pool": "p", "type": "tick", "a": cbor2.CBORTag(0, "x")})),
    ("a bignum", cbor2.dumps({"pool": "p", "type": "tick", "a": 2**64})),
    ("undefined", b"\xa1\x61a\xf7"),
    ("a length that is not told", b"\xbf\x61a\x01\xff"),
    ("a text in pieces", b"\xa1\x61a\x7f\x61b\xff"),
    ("no UTF-8", b"\xa1\x61\xff\x01"),
    ("too deep", b"\xa1\x61a" + b"\x81" * 17 + b"\x01"),
    ("far too deep", b"\x81" * 100_000),
]


@pytest.mark.parametrize("data", [one[1] for one in NO_JSON], ids=[one[0] for one in NO_JSON])
def test_what_is_no_json_is_malformed_without_a_field(data: bytes) -> None:
    """Where not even a map can be decoded no field is told, and the pool is the key's."""
    found = decode_event(data, CONTENT_TYPE_JSON, b"k")
    assert isinstance(found, Malformed) and (found.pool, found.field) == ("k", None)


@pytest.mark.parametrize("data", [one[1] for one in NO_CBOR], ids=[one[0] for one in NO_CBOR])
def test_what_is_no_cbor_is_malformed_without_a_field(data: bytes) -> None:
    """The same for CBOR; what a core could not hold is no event's either."""
    found = decode_event(data, CONTENT_TYPE_CBOR, b"k")
    assert isinstance(found, Malformed) and (found.pool, found.field) == ("k", None)


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=utf-8"])
def test_another_content_type_is_malformed(content_type: str) -> None:
    """There are two content types, told exactly."""
    found = decode_event(TICK, content_type, b"p")
    assert isinstance(found, Malformed) and (found.pool, found.field) == ("p", None)


KEYS: list[tuple[str, bytes | None, bytes, str | None, str | None]] = [
    ("no key is asked for", None, TICK, "p", None),
    ("the pool's key", b"p", TICK, "p", None),
    ("another pool's key: the event is the key's pool's fault", b"q", TICK, "q", "pool"),
    ("an empty key", b"", TICK, None, "pool"),
    ("a key that is no text", b"\xff", TICK, None, "pool"),
    ("no pool in the event, but a key", b"p", b'{"type": "tick"}', "p", "pool"),
    ("no pool in the event and no key", None, b'{"type": "tick"}', None, "pool"),
    ("another fault of another pool", b"q", b'{"pool": "p", "type": "x"}', "q", "pool"),
    ("another fault of the key's pool", b"p", b'{"pool": "p", "type": "x"}', "p", "type"),
]


@pytest.mark.parametrize(
    ("key", "data", "pool", "field"), [one[1:] for one in KEYS], ids=[one[0] for one in KEYS]
)
def test_the_records_key_is_the_pool(
    key: bytes | None, data: bytes, pool: str | None, field: str | None
) -> None:
    """An event whose pool is not its record's key is malformed: another partition owns that one."""
    found = decode_event(data, CONTENT_TYPE_JSON, key)
    assert found.pool == pool
    assert (found.field if isinstance(found, Malformed) else None) == field


# --- anything -----------------------------------------------------------------------------------

CONTENT_TYPES = st.sampled_from((CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NAMES = sorted({name for fields in TABLE.values() for name, _, _ in fields} | {"id", "estimate"})
# What one field says may make another one wrong.
SHOWS_AT = {"resources": ("capacity", "tree"), "estimate": ("gang", "grade")}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Bytes that begin as an event's: with other values, or with some bytes changed."""
    event = whole(draw(st.sampled_from(sorted(TABLE))))
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=2)):
        event[name] = draw(VALUES)
    if draw(st.booleans()):
        data = bytearray(cbor2.dumps(event))
    else:
        data = bytearray(json.dumps(event).encode())
    for _ in range(draw(st.integers(0, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def open_pool() -> PoolState:
    """A pool p with two leaves and some claims."""
    state = PoolState("p")
    tree = [{"id": "a", "guarantee": {"mdev": 1}}, {"id": "x", "guarantee": {}}]
    events = [
        {"pool": "p", "type": "pool.opened", "capacity": {"mdev": 2, "uj": 9}, "tree": tree},
        {**SUBMITTED, "gang": [{"mdev": 1, "uj": 1}], "grade": "HwShunt"},
        {**SUBMITTED, "claim": "w", "gang": [{"mdev": 2, "uj": 1}], "grade": "HwShunt"},
    ]
    for event in events:
        parsed = parse_event(event, from_json=True)
        assert isinstance(parsed, Event)
        decide(state, parsed, 1_000)
    assert state.is_open
    return state


def judged(data: bytes, content_type: str, key: bytes | None) -> list[Decision]:
    """Decide whatever the bytes are on an open pool; nothing but decisions may come of it."""
    event = decode_event(data, content_type, key)
    assert isinstance(event, (Event, Malformed))
    decisions = decide(open_pool(), event, 2_000)
    is_tick = isinstance(event, Event) and event.fields["type"] == "tick"
    assert is_tick or decisions
    return decisions


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=200), content_type=CONTENT_TYPES, key=st.none() | st.binary(max_size=4)
)
def test_any_bytes_are_decided(data: bytes, content_type: str, key: bytes | None) -> None:
    """Any bytes with any key are an event or malformed, and answered."""
    judged(data, content_type, key)


@settings(max_examples=200, deadline=None)
@given(data=damaged(), content_type=CONTENT_TYPES)
def test_damaged_events_are_decided(data: bytes, content_type: str) -> None:
    """What was nearly an event is one, or malformed, and answered."""
    judged(data, content_type, b"p")


@settings(max_examples=200, deadline=None)
@given(value=VALUES, kind=st.sampled_from(sorted(TABLE)), name=st.sampled_from(NAMES))
def test_any_value_in_any_field_is_decided(value: Any, kind: str, name: str) -> None:
    """A value of any type in a field of any event is read, or is that field's fault."""
    event = {**whole(kind), name: value}
    found = parse_event(event, from_json=True)
    if isinstance(found, Malformed):
        assert found.field == name or found.field in SHOWS_AT.get(name, ())
    decide(open_pool(), found, 2_000)
