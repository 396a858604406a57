"""Any bytes are an event or malformed, and answered (profile §3).

Not here: which field is at fault (`test_events`), and where receipts' bytes are read (`test_cbor`).
"""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, decode_event, parse_event
from schemas.records import Decision, Event, Malformed
from streams.kernel import PoolState, decide
from tests.schemas.event_table import TABLE, whole

SUBMITTED = {"pool": "p", "type": "claim.submitted", "claim": "c", "leaf": "a"}

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


@pytest.mark.parametrize(
    "value",
    [
        {"pool": "p", "type": "claim.committed", "claim": "\ud800"},
        {"pool": "p", "type": "tick", "\ud800": 1},
        {"pool": "p\ud800", "type": "tick"},
        {"pool": "p", "type": "policy.set", "policy": {"a": ["\udfff"]}},
    ],
)
def test_text_that_is_no_utf_8_is_malformed_without_a_field(value: dict[str, Any]) -> None:
    """JSON spells half a surrogate pair: no core can hold it. A pool whose name is text is told."""
    event = parse_event(value, from_json=True)
    assert isinstance(event, Malformed)
    assert (event.pool, event.field) == ("p" if value["pool"] == "p" else None, None)
