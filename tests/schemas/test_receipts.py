"""The core: every member in its place and of its kind, written one way and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import cbor, cose
from schemas.cbor import CborError
from schemas.cose import CoseError
from schemas.keys import did_key
from schemas.receipts import (
    Cause,
    Receipt,
    ReceiptError,
    core_of,
    open_receipt,
    parse_core,
    parse_rfc3339_ms,
    receipt_of,
    rfc3339_ms,
)
from schemas.records import INSTANT_LIMIT_MS, QUANTITY_LIMIT, Kind
from tests.schemas.ledgers import START_MS, STEWARD, small_ledger

RECEIPT = Receipt(
    pool="acme",
    seq=7,
    prev=b"p" * 32,
    closed_at_ms=START_MS,
    steward=did_key(STEWARD.public_key),
    cause=Cause(topic="pool.claims", partition=3, offset=41, digest=b"d" * 32, index=0, count=2),
    kind=Kind.CLAIM_ADMITTED,
    body={"claim": "a", "event": {"type": "claim.submitted"}},
)


def test_the_core_has_the_members_of_the_profile() -> None:
    """§6.5's table, member by member."""
    assert core_of(RECEIPT) == {
        "jc_receipt": "pool/1",
        "id": "acme:7",
        "pool": "acme",
        "seq": 7,
        "prev": b"p" * 32,
        "closed_at": "2026-07-01T12:00:00.000Z",
        "steward": RECEIPT.steward,
        "cause": {
            "topic": "pool.claims",
            "partition": 3,
            "offset": 41,
            "digest": b"d" * 32,
            "index": 0,
            "count": 2,
        },
        "kind": "claim.admitted",
        "body": {"claim": "a", "event": {"type": "claim.submitted"}},
    }


def test_round_trip() -> None:
    """What is written is read back, from the bare core and from the sealed receipt."""
    assert parse_core(cbor.encode(core_of(RECEIPT))) == RECEIPT
    sealed, receipt = open_receipt(cose.seal(STEWARD, core_of(RECEIPT)))
    assert receipt == RECEIPT
    cose.verify_signature(sealed, STEWARD.public_key)
    for data in small_ledger():
        assert cbor.encode(core_of(open_receipt(data)[1])) == cose.split(data).payload


def put(*path: str) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    """Sets a member, which may be nested, to a value."""

    def with_value(value: Any) -> Callable[[dict[str, Any]], None]:
        def change(core: dict[str, Any]) -> None:
            members = core
            for name in path[:-1]:
                members = members[name]
            members[path[-1]] = value

        return change

    return with_value


def drop(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(core: dict[str, Any]) -> None:
        members = core
        for name in path[:-1]:
            members = members[name]
        del members[path[-1]]

    return change


REFUSED = [
    ("jc_receipt", put("jc_receipt")("pool/2")),
    ("jc_receipt", put("jc_receipt")(1)),
    ("jc_receipt", drop("jc_receipt")),
    ("id", drop("id")),
    ("id", put("id")("acme:8")),
    ("id", put("id")("acme:07")),
    ("id", put("id")(7)),
    ("pool", put("pool")(b"acme")),
    ("pool", put("pool")(None)),
    ("pool", put("pool")("")),
    ("seq", put("seq")(-1)),
    ("seq", put("seq")(QUANTITY_LIMIT)),
    ("seq", put("seq")("7")),
    ("seq", put("seq")(True)),
    ("prev", put("prev")(b"p" * 31)),
    ("prev", put("prev")("p" * 32)),
    ("prev", put("prev")(None)),
    ("closed_at", put("closed_at")("2026-07-01T12:00:00Z")),
    ("closed_at", put("closed_at")(START_MS)),
    ("steward", put("steward")("did:key:z6Mk")),
    ("steward", put("steward")(STEWARD.public_key)),
    ("steward", put("steward")(did_key(b"\x01" + bytes(31)))),
    ("cause", put("cause")([])),
    ("cause", put("cause")({})),
    ("cause", drop("cause", "count")),
    ("cause", put("cause", "more")(0)),
    ("topic", put("cause", "topic")(0)),
    ("partition", put("cause", "partition")(-1)),
    ("offset", put("cause", "offset")(QUANTITY_LIMIT)),
    ("offset", put("cause", "offset")(None)),
    ("digest", put("cause", "digest")(b"")),
    ("index", put("cause", "index")("0")),
    ("count", put("cause", "count")(False)),
    ("cause", put("cause", "count")(0)),
    ("cause", put("cause", "index")(2)),
    ("kind", put("kind")("claim.submitted")),
    ("kind", put("kind")("")),
    ("kind", put("kind")(1)),
    ("kind", put("kind")(["refused"])),
    ("body", put("body")(None)),
    ("body", put("body")([])),
    ("body", drop("body", "event")),
    ("body", put("body", "event")("claim.submitted")),
    ("body", put("cause", "index")(1)),
    ("body", put("kind")("steward.rotated")),
    ("more", put("more")(0)),
    ("event", put("event")({})),
]


@pytest.mark.parametrize(("member", "change"), REFUSED)
def test_a_member_out_of_place_is_named(
    member: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """A core with a member missing, added, of another type or out of range is no receipt."""
    core: Any = cbor.decode(cbor.encode(core_of(RECEIPT)))
    change(core)
    with pytest.raises(ReceiptError) as caught:
        parse_core(cbor.encode(core))
    assert caught.value.member == member
    assert caught.value.check == "decode"


@pytest.mark.parametrize("core", [None, 0, "core", b"", [], {}])
def test_what_is_no_core_at_all(core: Any) -> None:
    """Any value but a map of the members is refused."""
    with pytest.raises(ReceiptError):
        receipt_of(core)


def test_a_later_receipt_of_an_event_carries_no_event() -> None:
    """The event stands once in a ledger, in its first receipt."""
    cause = replace(RECEIPT.cause, index=1)
    later = replace(RECEIPT, cause=cause, body={"claim": "a"})
    assert parse_core(cbor.encode(core_of(later))) == later


CORE = cbor.encode(core_of(RECEIPT))
PROTECTED = cose.protected_header(STEWARD.public_key)
PADDED_CORE = CORE.replace(b"\x63seq\x07", b"\x63seq\x18\x07")
SHAPELESS_CORE = CORE.replace(b"\x63seq\x07", b"\x63sec\x07")


def envelope(payload: bytes, protected: bytes = PROTECTED, start: bytes = b"\xd2\x84") -> bytes:
    parts = (start, cbor.encode(protected), b"\xa0", cbor.encode(payload), cbor.encode(bytes(64)))
    return b"".join(parts)


@pytest.mark.parametrize(
    ("data", "check"),
    [
        (envelope(CORE[:-1]), "decode"),
        (envelope(CORE + b"\x00"), "decode"),
        (envelope(b"\xf9\x3c\x00"), "decode"),
        (envelope(PADDED_CORE), "canonical"),
        (envelope(SHAPELESS_CORE), "decode"),
        # Envelope and core both at fault: the earlier check, whichever of the two it is in.
        (envelope(CORE[:-1], start=b"\xd8\x12\x84"), "decode"),
        (envelope(CORE, start=b"\xd8\x12\x84"), "canonical"),
        (envelope(SHAPELESS_CORE, start=b"\xd8\x12\x84"), "canonical"),
        (envelope(PADDED_CORE, start=b"\x84"), "decode"),
        (envelope(CORE[:-1], protected=b"\xa0"), "decode"),
        (envelope(PADDED_CORE, protected=b"\xa0"), "canonical"),
        (envelope(SHAPELESS_CORE, protected=b"\xa0"), "decode"),
        (envelope(CORE, protected=b"\xa0"), "headers"),
        (envelope(CORE)[:-66] + b"\x40", "signature"),
        (envelope(PADDED_CORE)[:-66] + b"\x40", "canonical"),
        (envelope(SHAPELESS_CORE)[:-66] + b"\x40", "decode"),
    ],
)
def test_the_first_check_that_fails_is_named(data: bytes, check: str) -> None:
    """`decode`, `canonical`, `headers`: envelope and core go through each together."""
    with pytest.raises((CoseError, CborError, ReceiptError)) as caught:
        open_receipt(data)
    assert caught.value.check == check  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("instant_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (951_782_400_000 - 1, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (START_MS, "2026-07-01T12:00:00.000Z"),
        (INSTANT_LIMIT_MS - 1, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_instants(instant_ms: int, text: str) -> None:
    """An instant has one text, with three decimals, in UTC."""
    assert rfc3339_ms(instant_ms) == text
    assert parse_rfc3339_ms(text) == instant_ms


@given(st.integers(0, INSTANT_LIMIT_MS - 1))
def test_instants_are_the_calendars(instant_ms: int) -> None:
    """The standard library writes the same text, and it is read back."""
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant_ms)
    expected = instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert rfc3339_ms(instant_ms) == expected
    assert parse_rfc3339_ms(expected) == instant_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-07-01T12:00:00Z",
        "2026-07-01T12:00:00.00Z",
        "2026-07-01T12:00:00.0000Z",
        "2026-07-01T12:00:00.000+00:00",
        "2026-07-01t12:00:00.000z",
        "2026-07-01 12:00:00.000Z",
        "2026-07-01T12:00:00,000Z",
        "2026-7-01T12:00:00.000Z",
        "2026-07-01T24:00:00.000Z",
        "2026-07-01T23:59:60.000Z",
        "2026-07-01T23:60:00.000Z",
        "2026-02-30T12:00:00.000Z",
        "2026-00-01T12:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "0000-01-01T00:00:00.000Z",
        "12026-07-01T12:00:00.000Z",
        "2026-07-01T12:00:00.000Z\n",
        "２０２６-07-01T12:00:00.000Z",
    ],
)
def test_other_texts_are_no_instants(text: str) -> None:
    """RFC 3339 knows more ways to write it; a core has one."""
    with pytest.raises(ReceiptError):
        parse_rfc3339_ms(text)
