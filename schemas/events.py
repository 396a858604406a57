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
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import cbor2

from schemas import cbor, records
from schemas.keys import KeyRefused, from_did_key
from schemas.records import (
    DEPTH_MAX,
    EVENT_BYTES_MAX,
    GRADE_RANK,
    INSTANT_LIMIT_MS,
    PRIORITY_LIMIT,
    QUANTITY_LIMIT,
    UJ,
    Event,
    EventType,
    Malformed,
    Value,
)

CONTENT_TYPE_CBOR = "application/cbor"
CONTENT_TYPE_JSON = "application/json"
OUTCOMES = frozenset({"completed", "failed", "evicted"})
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,39}")


class _Fault(Exception):
    """A field's value is of the wrong type; caught in this module, at the field."""


class _Reader:
    """One event's reading: whether integers may be strings, and whether all were in range."""

    __slots__ = ("declared", "from_json", "in_range")

    def __init__(self, from_json: bool, declared: frozenset[str] | None) -> None:
        self.from_json = from_json
        self.in_range = True
        self.declared = declared

    def integer(self, value: Any) -> int:
        """Any integer, written as one or, in JSON, as a decimal string."""
        if type(value) is int:
            return value
        if self.from_json and type(value) is str and _DECIMAL.fullmatch(value):
            return int(value)
        raise _Fault("an integer is needed")

    def bounded(self, value: Any, low: int, limit: int) -> int:
        number = self.integer(value)
        if not low <= number < limit:
            self.in_range = False
        return number

    def quantity(self, value: Any) -> int:
        return self.bounded(value, 0, QUANTITY_LIMIT)

    def quantity_or_none(self, value: Any) -> int | None:
        return None if value is None else self.quantity(value)

    def instant(self, value: Any) -> int:
        return self.bounded(value, 0, INSTANT_LIMIT_MS)

    def priority(self, value: Any) -> int:
        return self.bounded(value, -PRIORITY_LIMIT, PRIORITY_LIMIT + 1)

    def text(self, value: Any) -> str:
        if type(value) is not str:
            raise _Fault("text is needed")
        return value

    def flag(self, value: Any) -> bool:
        if type(value) is not bool:
            raise _Fault("true or false is needed")
        return value

    def grade(self, value: Any) -> str:
        if type(value) is not str or value not in GRADE_RANK:
            raise _Fault("a grade is needed: Estimator, ModelBased or HwShunt")
        return value

    def observed(self, value: Any) -> str:
        if value != "observed":
            raise _Fault('the only estimate is "observed"')
        return "observed"

    def outcome(self, value: Any) -> str:
        if type(value) is not str or value not in OUTCOMES:
            raise _Fault("an outcome is needed: completed, failed or evicted")
        return value

    def steward(self, value: Any) -> str:
        text = self.text(value)
        try:
            from_did_key(text)
        except KeyRefused as refused:
            raise _Fault(f"a usable did:key is needed: {refused}") from None
        return text

    def amounts(self, value: Any) -> dict[str, int]:
        amounts = {name: self.quantity(amount) for name, amount in _map(value).items()}
        self.check_declared(amounts)
        return amounts

    def check_declared(self, names: Iterable[str]) -> None:
        """An opening declares its own resources; other events are judged against the pool's."""
        if self.declared is not None and not self.declared.issuperset(names):
            raise _Fault("a resource that the pool does not declare")

    def gang(self, value: Any) -> list[dict[str, int]]:
        return [self.amounts(member) for member in _list(value)]

    def texts(self, value: Any) -> list[str]:
        return [self.text(item) for item in _list(value)]

    def lend(self, value: Any) -> bool | list[str]:
        if type(value) is bool:
            return value
        names = self.texts(value)
        self.check_declared(names)
        return names

    def tree(self, value: Any) -> list[dict[str, Value]]:
        return [self.read(_map(node), _NODE_FIELDS, _NODE_REQUIRED) for node in _list(value)]

    def actual(self, value: Any) -> dict[str, Value]:
        return self.read(_map(value), _ACTUAL_FIELDS, _ACTUAL_FIELDS)

    def occupants(self, value: Any) -> list[dict[str, Value]]:
        return [self.read(_map(item), _OCCUPANT_FIELDS, _OCCUPANT_FIELDS) for item in _list(value)]

    def policy(self, value: Any) -> dict[str, Value]:
        """A map whose members the kernel judges; decimal strings become integers here."""
        return {key: self._policy_value(member) for key, member in _map(value).items()}

    def _policy_value(self, value: Any) -> Any:
        if type(value) is dict:
            return {key: self._policy_value(member) for key, member in value.items()}
        if self.from_json and type(value) is str and _DECIMAL.fullmatch(value):
            return int(value)
        return value

    def meta(self, value: Any) -> dict[str, Value]:
        try:
            cbor.encode(_map(value))
        except cbor.CborError as error:
            raise _Fault(f"meta cannot be kept: {error}") from None
        return _map(value)

    def read(
        self, value: dict[str, Any], fields: Mapping[str, str], required: Mapping[str, str]
    ) -> dict[str, Value]:
        """A nested map with known fields; any fault is a fault of the field that holds it."""
        for name in value:
            if name not in fields:
                raise _Fault(f"unknown field {name!r}")
        for name in required:
            if name not in value:
                raise _Fault(f"{name!r} is missing")
        return {name: getattr(self, fields[name])(value[name]) for name in value}


def _map(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise _Fault("a map is needed")
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _Fault("a list is needed")
    return value


_NODE_FIELDS = {
    "id": "text",
    "guarantee": "amounts",
    "weight": "quantity",
    "limit": "amounts",
    "borrow": "flag",
    "lend": "lend",
    "max_live": "quantity_or_none",
    "max_waiting": "quantity_or_none",
}
_NODE_REQUIRED = {"id": "text", "guarantee": "amounts"}
_ACTUAL_FIELDS = {"uj": "quantity", "grade": "grade"}
_OCCUPANT_FIELDS = {"claim": "text", "mdev": "quantity"}

_CLAIM = {"claim": "text"}
# Per type: the fields in the table's order (name -> how it is read), and which must be there.
_FIELDS: dict[str, tuple[dict[str, str], frozenset[str]]] = {
    EventType.POOL_OPENED: (
        {
            "capacity": "amounts",
            "resources": "texts",
            "tree": "tree",
            "policy": "policy",
            "meta": "meta",
        },
        frozenset({"capacity", "tree"}),
    ),
    EventType.TREE_SET: ({"tree": "tree"}, frozenset({"tree"})),
    EventType.POLICY_SET: ({"policy": "policy"}, frozenset({"policy"})),
    EventType.PERIOD_OPENED: ({"period": "text"}, frozenset({"period"})),
    EventType.POOL_ARCHIVED: ({}, frozenset()),
    EventType.STEWARD_ROTATE: ({"steward": "steward"}, frozenset({"steward"})),
    EventType.IDLE_REVIEW: ({}, frozenset()),
    EventType.TICK: ({}, frozenset()),
    EventType.CLAIM_SUBMITTED: (
        {
            "claim": "text",
            "leaf": "text",
            "gang": "gang",
            "grade": "grade",
            "estimate": "observed",
            "class": "text",
            "unit": "text",
            "priority": "priority",
            "preemptible": "flag",
            "commit_within_ms": "quantity",
            "lease_ms": "quantity",
            "max_wait_ms": "quantity",
        },
        frozenset({"claim", "leaf", "gang"}),
    ),
    EventType.CLAIM_COMMITTED: (_CLAIM, frozenset({"claim"})),
    EventType.CLAIM_RENEWED: (_CLAIM, frozenset({"claim"})),
    EventType.CLAIM_PROGRESSED: (
        {"claim": "text", "completed": "quantity"},
        frozenset({"claim", "completed"}),
    ),
    EventType.CLAIM_CANCELLED: (_CLAIM, frozenset({"claim"})),
    EventType.CLAIM_RELEASED: (
        {"claim": "text", "outcome": "outcome", "actual": "actual", "completed": "quantity"},
        frozenset({"claim", "outcome"}),
    ),
    EventType.METER_READ: (
        {
            "device": "text",
            "from_ms": "instant",
            "to_ms": "instant",
            "uj": "quantity_or_none",
            "grade": "grade",
            "occupants": "occupants",
        },
        frozenset({"device", "from_ms", "to_ms", "uj", "occupants"}),
    ),
}


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
    except _Fault as fault:
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
        raise _Fault(f"an event has at most {EVENT_BYTES_MAX} bytes")
    if content_type == CONTENT_TYPE_JSON:
        return decode_json(data)
    if content_type == CONTENT_TYPE_CBOR:
        try:
            return cbor.decode_loose(data)
        except cbor.CborError as error:
            raise _Fault(str(error)) from None
    raise _Fault(f"unknown content type {content_type!r}")


def decode_json(data: bytes) -> Any:
    """JSON text to a value: no duplicate keys, bounded depth, text that is UTF-8."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
        _check_json(value, 0)
    except (ValueError, RecursionError) as error:
        raise _Fault(f"not JSON: {error}") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key appears twice")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _check_json(value: Any, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"deeper than {DEPTH_MAX}")
    if type(value) is str:
        value.encode("utf-8")
    elif type(value) is list:
        for item in value:
            _check_json(item, depth + 1)
    elif type(value) is dict:
        for key, item in value.items():
            key.encode("utf-8")
            _check_json(item, depth + 1)


def parse_event(value: object, *, from_json: bool) -> Event | Malformed:
    """Judge a decoded value (a map of text keys) and give its record. It raises nothing."""
    if type(value) is not dict:
        return Malformed(pool=None, field=None, detail="an event is a map")
    pool = value.get("pool")
    if type(pool) is not str or not pool:
        return Malformed(pool=None, field="pool", detail="the pool's id is needed")
    kind = value.get("type")
    if type(kind) is not str or kind not in _FIELDS:
        return Malformed(pool=pool, field="type", detail="unknown event type")
    reader = _Reader(from_json, _declared(value) if kind == EventType.POOL_OPENED else None)
    parsed: dict[str, Any] = {"pool": pool, "type": kind}
    fault = _read_fields(value, kind, reader, parsed)
    if fault is not None:
        return Malformed(pool=pool, field=fault[0], detail=fault[1])
    return _build(kind, parsed, reader)


def _declared(value: dict[str, Any]) -> frozenset[str] | None:
    """The resources that an opening declares; None where they are no list of names."""
    names = value.get("resources", [records.MDEV, records.UJ])
    if type(names) is list and all(type(name) is str for name in names):
        return frozenset(names)
    return None


def _read_fields(
    value: dict[str, Any], kind: str, reader: _Reader, parsed: dict[str, Any]
) -> tuple[str, str] | None:
    """Fill `parsed` in the table's order; the first fault as (field, detail)."""
    fields, required = _FIELDS[kind]
    if "id" in value and kind != EventType.TICK:
        if type(value["id"]) is not str:
            return "id", "text is needed"
        parsed["id"] = value["id"]
    for name, how in fields.items():
        if name in value:
            try:
                parsed[name] = getattr(reader, how)(value[name])
            except _Fault as fault:
                return name, str(fault)
        elif name in required or _required_here(kind, name, value):
            return name, "missing"
        if kind == EventType.CLAIM_SUBMITTED and "estimate" in value:
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


def _build(kind: str, parsed: dict[str, Any], reader: _Reader) -> Event:
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


def _pool_opened(parsed: dict[str, Any], reader: _Reader) -> dict[str, Any]:
    return {
        "capacity": parsed["capacity"],
        "resources": tuple(parsed.get("resources", (records.MDEV, records.UJ))),
        "tree": _nodes(parsed["tree"]),
        "policy": parsed.get("policy", {}),
        "meta": parsed.get("meta", {}),
    }


def _submitted(parsed: dict[str, Any], reader: _Reader) -> dict[str, Any]:
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


def _released(parsed: dict[str, Any], reader: _Reader) -> dict[str, Any]:
    actual = parsed.get("actual")
    return {
        "claim": parsed["claim"],
        "outcome": parsed["outcome"],
        "actual": None if actual is None else records.Actual(**actual),
        "completed": parsed.get("completed"),
    }


def _meter_read(parsed: dict[str, Any], reader: _Reader) -> dict[str, Any]:
    return {
        "device": parsed["device"],
        "from_ms": parsed["from_ms"],
        "to_ms": parsed["to_ms"],
        "uj": parsed["uj"],
        "grade": parsed.get("grade"),
        "occupants": tuple(records.Occupant(**item) for item in parsed["occupants"]),
    }


_BUILD: dict[str, Callable[[dict[str, Any], _Reader], dict[str, Any]]] = {
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
EVENT_TYPES = frozenset(_FIELDS)
