"""The fields of every event (profile §3, table): how each is read, and which must be there.

Not here: decoding bytes, and the order in which fields are judged (`schemas.events`).

1. A value of another type than the table's is a `FieldFault`; the caller knows the field.
2. A number outside its range is kept, and flagged on the reader: range is judged after repeats.
3. In JSON an integer may be a decimal string without sign or leading zeros.

Profile: §2.1, §2.2, §2.5, §2.8, §3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from schemas import cbor
from schemas.keys import KeyRefused, from_did_key
from schemas.records import (
    GRADE_RANK,
    INSTANT_LIMIT_MS,
    PRIORITY_LIMIT,
    QUANTITY_LIMIT,
    EventType,
    Value,
)

OUTCOMES = frozenset({"completed", "failed", "evicted"})
_DECIMAL = re.compile(r"0|[1-9][0-9]*")
_DIGITS_MAX = 4300
"""As many as Python takes: what has more is as far out of range as what has so many."""


class FieldFault(Exception):
    """A field's value is of the wrong type; caught in this module, at the field."""


class FieldReader:
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
            return int(value[:_DIGITS_MAX])
        raise FieldFault("an integer is needed")

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
            raise FieldFault("text is needed")
        return value

    def flag(self, value: Any) -> bool:
        if type(value) is not bool:
            raise FieldFault("true or false is needed")
        return value

    def grade(self, value: Any) -> str:
        if type(value) is not str or value not in GRADE_RANK:
            raise FieldFault("a grade is needed: Estimator, ModelBased or HwShunt")
        return value

    def observed(self, value: Any) -> str:
        if value != "observed":
            raise FieldFault('the only estimate is "observed"')
        return "observed"

    def outcome(self, value: Any) -> str:
        if type(value) is not str or value not in OUTCOMES:
            raise FieldFault("an outcome is needed: completed, failed or evicted")
        return value

    def steward(self, value: Any) -> str:
        text = self.text(value)
        try:
            from_did_key(text)
        except KeyRefused as refused:
            raise FieldFault(f"a usable did:key is needed: {refused}") from None
        return text

    def amounts(self, value: Any) -> dict[str, int]:
        amounts = {name: self.quantity(amount) for name, amount in as_map(value).items()}
        self.check_declared(amounts)
        return amounts

    def check_declared(self, names: Iterable[str]) -> None:
        """An opening declares its own resources; other events are judged against the pool's."""
        if self.declared is not None and not self.declared.issuperset(names):
            raise FieldFault("a resource that the pool does not declare")

    def gang(self, value: Any) -> list[dict[str, int]]:
        return [self.amounts(member) for member in as_list(value)]

    def texts(self, value: Any) -> list[str]:
        return [self.text(item) for item in as_list(value)]

    def lend(self, value: Any) -> bool | list[str]:
        if type(value) is bool:
            return value
        names = self.texts(value)
        self.check_declared(names)
        return names

    def tree(self, value: Any) -> list[dict[str, Value]]:
        return [self.read(as_map(node), _NODE_FIELDS, _NODE_REQUIRED) for node in as_list(value)]

    def actual(self, value: Any) -> dict[str, Value]:
        return self.read(as_map(value), _ACTUAL_FIELDS, _ACTUAL_FIELDS)

    def occupants(self, value: Any) -> list[dict[str, Value]]:
        return [
            self.read(as_map(item), _OCCUPANT_FIELDS, _OCCUPANT_FIELDS) for item in as_list(value)
        ]

    def policy(self, value: Any) -> dict[str, Value]:
        """A map whose members the kernel judges; an integer of the profile's may be a string.

        What the profile does not know stays as given: a repeat is told by the fields as given.
        """
        policy = self._integers(as_map(value), _POLICY_INTEGERS)
        if type(policy.get("idle")) is dict:
            policy["idle"] = self._integers(policy["idle"], _IDLE_INTEGERS)
        return policy

    def _integers(self, given: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
        return {
            name: int(value[:_DIGITS_MAX])
            if self.from_json and name in names and type(value) is str and _DECIMAL.fullmatch(value)
            else value
            for name, value in given.items()
        }

    def meta(self, value: Any) -> dict[str, Value]:
        try:
            cbor.encode(as_map(value))
        except cbor.CborError as error:
            raise FieldFault(f"meta cannot be kept: {error}") from None
        return as_map(value)

    def read(
        self, value: dict[str, Any], fields: Mapping[str, str], required: Mapping[str, str]
    ) -> dict[str, Value]:
        """A nested map with known fields; any fault is a fault of the field that holds it."""
        for name in value:
            if name not in fields:
                raise FieldFault(f"unknown field {name!r}")
        for name in required:
            if name not in value:
                raise FieldFault(f"{name!r} is missing")
        return {name: getattr(self, fields[name])(value[name]) for name in value}


def as_map(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise FieldFault("a map is needed")
    return value


def as_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise FieldFault("a list is needed")
    return value


_POLICY_INTEGERS = frozenset(
    {
        "aging_ms",
        "reserve_after_ms",
        "max_wait_ms",
        "disruption_ppm",
        "min_samples",
        "history",
        "meter_slack_ms",
        "power_limit_uw",
    }
)
_IDLE_INTEGERS = frozenset({"threshold_uw", "window_ms"})
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
FIELDS: dict[str, tuple[dict[str, str], frozenset[str]]] = {
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
