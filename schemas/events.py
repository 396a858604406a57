"""From bytes or a JSON value to a typed event, or to `Malformed` with the field at fault.

Not here: every check that needs the pool's state (undeclared resources, states, repeats): the
kernel makes them. Numbers outside their range are kept and flagged, since a repeat is judged first.

1. Decode: CBOR (well-formed, bounded, unique text keys) or JSON (no duplicate keys).
2. The known fields are judged in the order of the profile's table, then unknown ones in byte order;
   the first fault names its field.
3. In JSON an integer may be a decimal string without sign or leading zeros.

Invariant: `decode_event` returns for any bytes; it raises nothing.
Profile: §2.1, §2.2, §2.5, §2.6, §3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import cbor2

from schemas import cbor, records
from schemas.eventfields import FIELDS, FieldFault, FieldReader
from schemas.records import (
    DEPTH_MAX,
    EVENT_BYTES_MAX,
    QUANTITY_LIMIT,
    UJ,
    Event,
    EventType,
    Malformed,
)

CONTENT_TYPE_CBOR = "application/cbor"
CONTENT_TYPE_JSON = "application/json"


def decode_event(
    data: bytes, content_type: str = CONTENT_TYPE_CBOR, key: bytes | None = None
) -> Event | Malformed:
    """Decode one record's value. `key` is the record's key, the pool's id as UTF-8.

    A pool that the event names and that is not the key's is `malformed` (field `pool`) for the
    key's pool: another partition may own the other one.
    """
    pool_of_key = _pool_of_key(key)
    try:
        value = _decode(data, content_type)
    except FieldFault as fault:
        return Malformed(pool=pool_of_key, field=None, detail=str(fault))
    event = parse_event(value, from_json=content_type == CONTENT_TYPE_JSON)
    if key is None:
        return event
    if event.pool is None and pool_of_key is not None and isinstance(event, Malformed):
        return Malformed(pool=pool_of_key, field=event.field, detail=event.detail)
    if event.pool != pool_of_key:
        return Malformed(pool=pool_of_key, field="pool", detail="pool and record key differ")
    return event


def _pool_of_key(key: bytes | None) -> str | None:
    if not key:
        return None
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _decode(data: bytes, content_type: str) -> Any:
    if len(data) > EVENT_BYTES_MAX:
        raise FieldFault(f"an event has at most {EVENT_BYTES_MAX} bytes")
    if content_type == CONTENT_TYPE_JSON:
        return decode_json(data)
    if content_type == CONTENT_TYPE_CBOR:
        try:
            return cbor.decode_loose(data)
        except cbor.CborError as error:
            raise FieldFault(str(error)) from None
    raise FieldFault(f"unknown content type {content_type!r}")


def decode_json(data: bytes) -> Any:
    """JSON text to a value: no duplicate keys, bounded depth, text that is UTF-8."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
        check_json(value)
    except (ValueError, RecursionError) as error:
        raise FieldFault(f"not JSON: {error}") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key appears twice")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def check_json(value: Any, depth: int = 0) -> None:
    """What decoding leaves to be judged. Raises: ValueError (depth; text that is not UTF-8)."""
    if depth > DEPTH_MAX:
        raise ValueError(f"deeper than {DEPTH_MAX}")
    if type(value) is str:
        value.encode("utf-8")
    elif type(value) is list:
        for item in value:
            check_json(item, depth + 1)
    elif type(value) is dict:
        for key, item in value.items():
            key.encode("utf-8")
            check_json(item, depth + 1)


def _is_text(value: Any) -> bool:
    """Whether all text in a value is UTF-8: JSON can spell half a surrogate pair."""
    if type(value) is str:
        return value.isascii() or _encodes(value)
    if type(value) is dict:
        return all(_is_text(key) and _is_text(member) for key, member in value.items())
    return all(map(_is_text, value)) if type(value) is list else True


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def parse_event(value: object, *, from_json: bool) -> Event | Malformed:
    """Judge a decoded value (a map of text keys) and give its record. It raises nothing."""
    if not _is_text(value):
        pool = value.get("pool") if type(value) is dict else None
        told = pool if type(pool) is str and pool and _encodes(pool) else None
        return Malformed(pool=told, field=None, detail="text that is not UTF-8")
    if type(value) is not dict:
        return Malformed(pool=None, field=None, detail="an event is a map")
    pool = value.get("pool")
    if type(pool) is not str or not pool:
        return Malformed(pool=None, field="pool", detail="the pool's id is needed")
    kind = value.get("type")
    if type(kind) is not str or kind not in FIELDS:
        return Malformed(pool=pool, field="type", detail="unknown event type")
    reader = FieldReader(from_json, _declared(value) if kind == EventType.POOL_OPENED else None)
    parsed: dict[str, Any] = {"pool": pool, "type": kind}
    fault = _read_fields(value, kind, reader, parsed)
    if fault is not None:
        return Malformed(pool=pool, field=fault[0], detail=fault[1], named=_named(kind, parsed))
    return _build(kind, parsed, reader)


def _named(kind: str, parsed: dict[str, Any]) -> tuple[str, frozenset[str]] | None:
    """The resources that a field names which was read, where the pool's are to be judged against.

    An opening declares its own, and was judged by them.
    """
    if kind == EventType.CLAIM_SUBMITTED and "gang" in parsed:
        return "gang", frozenset(name for member in parsed["gang"] for name in member)
    if kind == EventType.TREE_SET and "tree" in parsed:
        return "tree", frozenset(name for node in parsed["tree"] for name in _resources_of(node))
    return None


def _resources_of(node: dict[str, Any]) -> list[str]:
    lent = node.get("lend")
    names = [*node["guarantee"], *node.get("limit", ())]
    return [*names, *lent] if isinstance(lent, list) else names


def _declared(value: dict[str, Any]) -> frozenset[str] | None:
    """The resources that an opening declares; None where they are no list of names."""
    names = value.get("resources", [records.MDEV, records.UJ])
    if type(names) is list and all(type(name) is str for name in names):
        return frozenset(names)
    return None


def _read_fields(
    value: dict[str, Any], kind: str, reader: FieldReader, parsed: dict[str, Any]
) -> tuple[str, str] | None:
    """Fill `parsed` in the table's order; the first fault as (field, detail)."""
    fields, required = FIELDS[kind]
    if "id" in value and kind != EventType.TICK:
        if type(value["id"]) is not str:
            return "id", "text is needed"
        parsed["id"] = value["id"]
    for name, how in fields.items():
        if name in value:
            try:
                parsed[name] = getattr(reader, how)(value[name])
            except FieldFault as fault:
                return name, str(fault)
        elif name in required or _required_here(kind, name, value):
            return name, "missing"
        if kind == EventType.CLAIM_SUBMITTED and value.get("estimate") == "observed":
            clash = _estimate_clash(name, parsed)
            if clash is not None:
                return name, clash
    if len(parsed) != len(value):
        return min(set(value) - set(parsed), key=str.encode), "unknown field"
    return None


def _required_here(kind: str, name: str, value: dict[str, Any]) -> bool:
    """A grade is needed unless the energy is to be observed, or the meter gave no answer."""
    if name != "grade":
        return False
    if kind == EventType.CLAIM_SUBMITTED:
        return "estimate" not in value
    return value["uj"] is not None


def _estimate_clash(name: str, parsed: dict[str, Any]) -> str | None:
    if name == "grade" and "grade" in parsed:
        return "an observed estimate gives no grade"
    if name == "gang" and any(UJ in member for member in parsed["gang"]):
        return "an observed estimate gives no energy"
    return None


def _build(kind: str, parsed: dict[str, Any], reader: FieldReader) -> Event:
    event_id = parsed.get("id")
    content = {key: member for key, member in parsed.items() if key != "id"}
    specific = _BUILD[kind](parsed, reader) if kind in _BUILD else _plain(parsed)
    return _RECORDS[kind](
        pool=parsed["pool"],
        id=event_id,
        content=hashlib.sha256(cbor2.dumps(content, canonical=True)).digest(),
        fields=parsed,
        in_range=reader.in_range,
        **specific,
    )


def _plain(parsed: dict[str, Any]) -> dict[str, Any]:
    return {key: member for key, member in parsed.items() if key not in ("pool", "type", "id")}


def _nodes(tree: list[dict[str, Any]]) -> tuple[records.Node, ...]:
    return tuple(
        records.Node(
            id=node["id"],
            guarantee=node["guarantee"],
            weight=node.get("weight", 1),
            limit=node.get("limit", {}),
            borrow=node.get("borrow", True),
            lend=tuple(lend) if isinstance(lend := node.get("lend", True), list) else lend,
            max_live=node.get("max_live"),
            max_waiting=node.get("max_waiting"),
        )
        for node in tree
    )


def _pool_opened(parsed: dict[str, Any], reader: FieldReader) -> dict[str, Any]:
    return {
        "capacity": parsed["capacity"],
        "resources": tuple(parsed.get("resources", (records.MDEV, records.UJ))),
        "tree": _nodes(parsed["tree"]),
        "policy": parsed.get("policy", {}),
        "meta": parsed.get("meta", {}),
    }


def _submitted(parsed: dict[str, Any], reader: FieldReader) -> dict[str, Any]:
    demand: dict[str, int] = {}
    for member in parsed["gang"]:
        for resource, amount in member.items():
            demand[resource] = demand.get(resource, 0) + amount
    if any(amount >= QUANTITY_LIMIT for amount in demand.values()):
        reader.in_range = False
    return {
        "claim": parsed["claim"],
        "leaf": parsed["leaf"],
        "gang": tuple(parsed["gang"]),
        "demand": demand,
        "grade": parsed.get("grade"),
        "class_": parsed.get("class", ""),
        "unit": parsed.get("unit", ""),
        "priority": parsed.get("priority", 0),
        "preemptible": parsed.get("preemptible", True),
        "commit_within_ms": parsed.get("commit_within_ms", 0),
        "lease_ms": parsed.get("lease_ms", 0),
        "max_wait_ms": parsed.get("max_wait_ms", 0),
    }


def _released(parsed: dict[str, Any], reader: FieldReader) -> dict[str, Any]:
    actual = parsed.get("actual")
    return {
        "claim": parsed["claim"],
        "outcome": parsed["outcome"],
        "actual": None if actual is None else records.Actual(**actual),
        "completed": parsed.get("completed"),
    }


def _meter_read(parsed: dict[str, Any], reader: FieldReader) -> dict[str, Any]:
    return {
        "device": parsed["device"],
        "from_ms": parsed["from_ms"],
        "to_ms": parsed["to_ms"],
        "uj": parsed["uj"],
        "grade": parsed.get("grade"),
        "occupants": tuple(records.Occupant(**item) for item in parsed["occupants"]),
    }


_BUILD: dict[str, Callable[[dict[str, Any], FieldReader], dict[str, Any]]] = {
    EventType.POOL_OPENED: _pool_opened,
    EventType.TREE_SET: lambda parsed, reader: {"tree": _nodes(parsed["tree"])},
    EventType.CLAIM_SUBMITTED: _submitted,
    EventType.CLAIM_RELEASED: _released,
    EventType.METER_READ: _meter_read,
}
_RECORDS: dict[str, Callable[..., Event]] = {
    EventType.POOL_OPENED: records.PoolOpened,
    EventType.TREE_SET: records.TreeSet,
    EventType.POLICY_SET: records.PolicySet,
    EventType.PERIOD_OPENED: records.PeriodOpened,
    EventType.POOL_ARCHIVED: records.PoolArchived,
    EventType.STEWARD_ROTATE: records.StewardRotate,
    EventType.IDLE_REVIEW: records.IdleReview,
    EventType.TICK: records.Tick,
    EventType.CLAIM_SUBMITTED: records.ClaimSubmitted,
    EventType.CLAIM_COMMITTED: records.ClaimCommitted,
    EventType.CLAIM_RENEWED: records.ClaimRenewed,
    EventType.CLAIM_PROGRESSED: records.ClaimProgressed,
    EventType.CLAIM_CANCELLED: records.ClaimCancelled,
    EventType.CLAIM_RELEASED: records.ClaimReleased,
    EventType.METER_READ: records.MeterRead,
}
EVENT_TYPES = frozenset(FIELDS)
