"""The core of a receipt: its members, from bytes and to bytes.

Sealing is `schemas.cose`; whether a receipt follows the one before it is `schemas.chain`; whether
its decision is right is the audit's question.

1. A core has exactly the members of §6.5, each of its type and in its range.
2. `id` is `<pool>:<seq>`, and `closed_at` is the one way to write that instant: both are
   derived when written and compared when read.
3. The first receipt of an event (`index` 0), and no other, carries `event` in its body.
4. `steward.rotated` names a key in its body; other bodies are described in `cddl/`.

Invariant: `parse_core(cbor.encode(core_of(receipt))) == receipt`.
Profile: §6.5, §6.6. RFC 3339.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Literal

from schemas import PROFILE, cbor, cose
from schemas.cose import CoseError, Sealed
from schemas.keys import KeyRefused, from_did_key
from schemas.records import INSTANT_LIMIT_MS, QUANTITY_LIMIT, Body, Kind, Value
from schemas.wellformed import CborError

HASH_BYTES = 32
NO_RECEIPT = bytes(HASH_BYTES)
"""`prev` of the receipt with `seq` 0."""

_DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):([0-5]\d):([0-5]\d)\.(\d{3})Z", re.ASCII
)
_CORE_KEYS = frozenset(
    ("jc_receipt", "id", "pool", "seq", "prev", "closed_at", "steward", "cause", "kind", "body")
)
_CAUSE_KEYS = frozenset(("topic", "partition", "offset", "digest", "index", "count"))
_KINDS = {kind.value: kind for kind in Kind}


class ReceiptError(Exception):
    """A core that is deterministic CBOR but no receipt; `member` is the first at fault."""

    check: Literal["decode"] = "decode"

    def __init__(self, member: str, detail: str) -> None:
        super().__init__(f"{member}: {detail}")
        self.member = member
        self.detail = str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Where an event came from, SHA-256 of its bytes, and which of its receipts this is.

    `index` counts the event's receipts from 0; `count` is how many there are.
    """

    topic: str
    partition: int
    offset: int
    digest: bytes
    index: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One decision in its place in the chain. `steward` is a `did:key`, `prev` has 32 bytes."""

    pool: str
    seq: int
    prev: bytes
    closed_at_ms: int
    steward: str
    cause: Cause
    kind: Kind
    body: Body


def core_of(receipt: Receipt) -> dict[str, object]:
    """The core's members, as `schemas.cbor.encode` or `schemas.cose.seal` takes them."""
    cause = receipt.cause
    return {
        "jc_receipt": PROFILE,
        "id": f"{receipt.pool}:{receipt.seq}",
        "pool": receipt.pool,
        "seq": receipt.seq,
        "prev": receipt.prev,
        "closed_at": rfc3339_ms(receipt.closed_at_ms),
        "steward": receipt.steward,
        "cause": {
            "topic": cause.topic,
            "partition": cause.partition,
            "offset": cause.offset,
            "digest": cause.digest,
            "index": cause.index,
            "count": cause.count,
        },
        "kind": receipt.kind,
        "body": receipt.body,
    }


def open_receipt(data: bytes) -> tuple[Sealed, Receipt]:
    """A receipt's seal and what is in it; the signature is still to be checked.

    Raises `CoseError`, `CborError` or `ReceiptError`, whose `check` is `decode`, `canonical` or
    `headers`: the first, in this order, that the envelope or the core fails. (A signature
    that has not 64 bytes is the one fault of `signature` found here.)
    """
    try:
        sealed = cose.split(data)
    except CoseError as envelope:
        if envelope.check != "decode":
            _refuse_core(cose.payload_of(data), envelope.check)
        raise
    return sealed, parse_core(sealed.payload)


def parse_core(payload: bytes) -> Receipt:
    """The receipt of a core's bytes.

    Raises `CborError` for bytes that are not §6.6's, `ReceiptError` for a core that is not §6.5's.
    """
    return receipt_of(cbor.decode(payload))


def receipt_of(core: Value) -> Receipt:
    """The receipt of a decoded core. Raises `ReceiptError`."""
    if not isinstance(core, dict):
        raise ReceiptError("core", "not a map")
    if core.keys() != _CORE_KEYS:
        odd = min(core.keys() ^ _CORE_KEYS)
        raise ReceiptError(odd, "missing" if odd in _CORE_KEYS else "not a member of a core")
    if core["jc_receipt"] != PROFILE:
        raise ReceiptError("jc_receipt", f"not {PROFILE!r}")
    pool, seq = _text(core, "pool"), _count(core, "seq")
    if not pool:
        raise ReceiptError("pool", "an empty name")
    if core["id"] != f"{pool}:{seq}":
        raise ReceiptError("id", "not <pool>:<seq>")
    receipt = Receipt(
        pool=pool,
        seq=seq,
        prev=_hash(core, "prev"),
        closed_at_ms=_instant(core),
        steward=_key(core["steward"], "steward"),
        cause=_cause(core["cause"]),
        kind=_kind(core["kind"]),
        body=_body(core["body"]),
    )
    _check_event(receipt)
    if receipt.kind is Kind.STEWARD_ROTATED:
        _key(receipt.body.get("steward"), "body")
    return receipt


def _refuse_core(payload: bytes, before: str) -> None:
    """Raises what is wrong with a core, if that is an earlier check than the one named."""
    try:
        parse_core(payload)
    except CborError as error:
        if error.check == "decode" or before != "canonical":
            raise
    except ReceiptError:
        if before != "canonical":
            raise


def _check_event(receipt: Receipt) -> None:
    """Rule 3: the event is where a replay looks for it."""
    if receipt.cause.index == 0:
        if not isinstance(receipt.body.get("event"), dict):
            raise ReceiptError("body", "the first receipt of an event carries it")
    elif "event" in receipt.body:
        raise ReceiptError("body", "only the first receipt of an event carries it")


def rfc3339_ms(instant_ms: int) -> str:
    """An instant (ms since the epoch, before the year 10000) in UTC with three decimals."""
    assert 0 <= instant_ms < INSTANT_LIMIT_MS, "instants lie between 1970 and 9999"
    day, rest_ms = divmod(instant_ms, _DAY_MS)
    seconds, ms = divmod(rest_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{_day_text(day)}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def parse_rfc3339_ms(text: str) -> int:
    """The instant that `rfc3339_ms` writes so. Raises `ReceiptError` for any other text."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ReceiptError("closed_at", "not an instant like 2026-07-01T12:00:00.000Z")
    day, hour, minute, second, ms = match.groups()
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second)
    return _day_of(day) * _DAY_MS + seconds * 1000 + int(ms)


@lru_cache(maxsize=64)
def _day_text(day: int) -> str:
    """`YYYY-MM-DD` of a day, counted from the epoch."""
    return date.fromordinal(_EPOCH_DAY + day).isoformat()


@lru_cache(maxsize=64)
def _day_of(text: str) -> int:
    """The day of `YYYY-MM-DD`, counted from the epoch."""
    try:
        day = date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise ReceiptError("closed_at", "no such day") from error
    if day < 0:
        raise ReceiptError("closed_at", "before 1970")
    return day


def _text(members: Mapping[str, Value], name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        raise ReceiptError(name, "not a text")
    return value


def _count(members: Mapping[str, Value], name: str) -> int:
    value = members[name]
    if type(value) is not int or not 0 <= value < QUANTITY_LIMIT:
        raise ReceiptError(name, "not an integer from 0 to 2**63 - 1")
    return value


def _hash(members: Mapping[str, Value], name: str) -> bytes:
    value = members[name]
    if not isinstance(value, bytes) or len(value) != HASH_BYTES:
        raise ReceiptError(name, f"not a byte string of {HASH_BYTES}")
    return value


def _instant(core: Mapping[str, Value]) -> int:
    return parse_rfc3339_ms(_text(core, "closed_at"))


def _key(value: Value, name: str) -> str:
    """A `did:key` that is one; its bytes are remembered by `schemas.keys`."""
    if not isinstance(value, str):
        raise ReceiptError(name, "no did:key of a steward")
    try:
        from_did_key(value)
    except KeyRefused as error:
        raise ReceiptError(name, str(error)) from error
    return value


def _cause(value: Value) -> Cause:
    if not isinstance(value, dict) or value.keys() != _CAUSE_KEYS:
        raise ReceiptError("cause", "not a map of topic, partition, offset, digest, index, count")
    cause = Cause(
        topic=_text(value, "topic"),
        partition=_count(value, "partition"),
        offset=_count(value, "offset"),
        digest=_hash(value, "digest"),
        index=_count(value, "index"),
        count=_count(value, "count"),
    )
    if cause.index >= cause.count:
        raise ReceiptError("cause", f"index {cause.index} of {cause.count}")
    return cause


def _kind(value: Value) -> Kind:
    kind = _KINDS.get(value) if isinstance(value, str) else None
    if kind is None:
        raise ReceiptError("kind", "no decision of this profile")
    return kind


def _body(value: Value) -> Body:
    if not isinstance(value, dict):
        raise ReceiptError("body", "not a map")
    return value
