"""From a value to an event, or to `Malformed` with the field at fault (profile §2.1, §3).

Not here: bytes that decode to no value, and anything at all (`test_event_bytes`).

The table (`event_table`) is the profile's. Faults are made from it, one and two at a time.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import cbor2
import pytest

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
from tests.schemas.event_table import (
    FIELDS,
    LARGEST,
    META,
    NODE,
    POLICY,
    TABLE,
    TEXT,
    Json,
    Kind,
    whole,
)


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


def test_a_policys_unknown_members_stay_as_given() -> None:
    """Only where the profile knows an integer is a decimal string one."""
    idle = {"window_ms": "60000", "more": "2"}
    given = {"aging_ms": "1", "speed": "1", "idle": idle, "disruption_ppm": None}
    event = {"pool": "p", "type": "policy.set", "policy": given}
    found = parse_event(event, from_json=True)
    assert isinstance(found, Event)
    assert found.fields["policy"] == {
        "aging_ms": 1,
        "speed": "1",
        "idle": {"window_ms": 60_000, "more": "2"},
        "disruption_ppm": None,
    }


def test_a_decimal_string_of_any_length_is_a_number() -> None:
    """However far out of range it is, it is no other type."""
    for digits in (20, 4300, 4301, 10_000):
        gang = [{"mdev": "9" * digits}]
        found = parse_event({**SUBMITTED, "gang": gang, "grade": "HwShunt"}, from_json=True)
        assert isinstance(found, Event) and not found.in_range


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
