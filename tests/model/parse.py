"""Reads the JSON form of one event (§3, §7) and says what is malformed or outside the ranges.

Not handled here: anything that needs the pool's claims or its tree.  The one thing asked of the
pool is which resources it declared (§2.1).

Rules:
1. A missing or mistyped known field is found in the table's order, then unknown ones in byte order.
2. An integer is a JSON integer or a decimal string without sign and without leading zeros.
3. A number outside its range is no malformation: it is noted, and judged after the repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .didkey import is_did_key
from .integers import INTEGER_END, Mistyped, as_integer, in_bytes
from .policies import policy_value

TIME_END_MS = 253_402_300_800_000  # 10000-01-01T00:00:00Z
GRADES = ("Estimator", "ModelBased", "HwShunt")
OUTCOMES = ("completed", "failed", "evicted")


class Malformed(Exception):
    """The event is none: `field` is the top-level field at fault."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def content_text(fields: dict[str, Any]) -> str:
    """Fields as one text, so that contents can be compared and `true` is never `1`."""
    return json.dumps(fields, sort_keys=True)


class Reader:
    """Reads one event; `outside` says afterwards whether a number was out of range."""

    def __init__(self, event: dict[str, Any], declared: list[str] | None) -> None:
        self.event = event
        self.declared = declared  # None: the pool is not open, any resource may be meant
        self.outside = False

    def read(self) -> dict[str, Any]:
        """The fields as given, integers parsed; raises Malformed."""
        kind = self.event.get("type")
        if not isinstance(kind, str) or kind not in TABLE:
            raise Malformed("type")
        if kind == "pool.opened":
            self.declared = self.declared_by_event()
        fields: dict[str, Any] = {"pool": self.event["pool"], "type": kind}
        for name, needed, reading in TABLE[kind]:
            if name in self.event:
                try:
                    fields[name] = reading(self, self.event[name])
                except Mistyped:
                    raise Malformed(name) from None
            elif needed(self.event):
                raise Malformed(name)
        unknown = set(self.event) - set(fields) - {"at_ms"}
        if unknown:
            raise Malformed(min(unknown, key=in_bytes))
        return fields

    def declared_by_event(self) -> list[str] | None:
        """The resources that a `pool.opened` declares; None where they are mistyped."""
        try:
            return self.texts(self.event.get("resources", ["mdev", "uj"]))
        except Mistyped:
            return None

    def text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Mistyped
        return value

    def texts(self, value: Any) -> list[str]:
        if not isinstance(value, list):
            raise Mistyped
        return [self.text(item) for item in value]

    def boolean(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Mistyped
        return value

    def within(self, value: Any, low: int, high: int) -> int:
        number = as_integer(value)
        if not low <= number <= high:
            self.outside = True
        return number

    def integer(self, value: Any) -> int:
        return self.within(value, 0, INTEGER_END - 1)

    def instant(self, value: Any) -> int:
        return self.within(value, 0, TIME_END_MS - 1)

    def priority(self, value: Any) -> int:
        return self.within(value, -1000, 1000)

    def integer_or_null(self, value: Any) -> int | None:
        return None if value is None else self.integer(value)

    def mapping(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Mistyped
        return value

    def resource(self, value: Any) -> str:
        if self.declared is not None and self.text(value) not in self.declared:
            raise Mistyped
        return self.text(value)

    def amounts(self, value: Any) -> dict[str, int]:
        """A demand, a guarantee, a limit or a capacity."""
        return {self.resource(k): self.integer(v) for k, v in self.mapping(value).items()}

    def record(self, value: Any, shape: dict[str, Any], needed: tuple[str, ...]) -> dict[str, Any]:
        """A map with the fields of `shape` and no others."""
        fields = self.mapping(value)
        if set(fields) - set(shape) or set(needed) - set(fields):
            raise Mistyped
        return {name: shape[name](item) for name, item in fields.items()}

    def grade(self, value: Any) -> str:
        if value not in GRADES:
            raise Mistyped
        return str(value)

    def submitted_grade(self, value: Any) -> str:
        if self.event.get("estimate") == "observed":
            raise Mistyped
        return self.grade(value)

    def did_key(self, value: Any) -> str:
        if not is_did_key(self.text(value)):
            raise Mistyped
        return str(value)

    def estimate(self, value: Any) -> str:
        if value != "observed":
            raise Mistyped
        return "observed"

    def outcome(self, value: Any) -> str:
        if value not in OUTCOMES:
            raise Mistyped
        return str(value)

    def actual(self, value: Any) -> dict[str, Any]:
        return self.record(value, {"uj": self.integer, "grade": self.grade}, ("uj", "grade"))

    def gang(self, value: Any) -> list[dict[str, int]]:
        if not isinstance(value, list):
            raise Mistyped
        members = [self.amounts(member) for member in value]
        if self.event.get("estimate") == "observed" and any("uj" in one for one in members):
            raise Mistyped
        for resource in {name for member in members for name in member}:
            if sum(member.get(resource, 0) for member in members) >= INTEGER_END:
                self.outside = True
        return members

    def occupants(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise Mistyped
        shape = {"claim": self.text, "mdev": self.integer}
        return [self.record(one, shape, ("claim", "mdev")) for one in value]

    def lend(self, value: Any) -> bool | list[str]:
        if isinstance(value, list):
            return [self.resource(item) for item in value]
        return self.boolean(value)

    def tree(self, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            raise Mistyped
        shape = {
            "id": self.text,
            "guarantee": self.amounts,
            "weight": self.integer,
            "limit": self.amounts,
            "borrow": self.boolean,
            "lend": self.lend,
            "max_live": self.integer_or_null,
            "max_waiting": self.integer_or_null,
        }
        return [self.record(node, shape, ("id", "guarantee")) for node in value]

    def policy(self, value: Any) -> dict[str, Any]:
        """The policy with its integers parsed; what is wrong with it is judged later (§3)."""
        return {key: policy_value(key, item) for key, item in self.mapping(value).items()}


Needed = Callable[[dict[str, Any]], bool]
Reading = Callable[[Reader, Any], Any]


def always(event: dict[str, Any]) -> bool:
    return True


def never(event: dict[str, Any]) -> bool:
    return False


def unless_estimated(event: dict[str, Any]) -> bool:
    return "estimate" not in event


def unless_no_answer(event: dict[str, Any]) -> bool:
    return event["uj"] is not None


ID = ("id", never, Reader.text)
CLAIM = ("claim", always, Reader.text)
TABLE: dict[str, list[tuple[str, Needed, Reading]]] = {
    "pool.opened": [
        ID,
        ("capacity", always, Reader.amounts),
        ("resources", never, Reader.texts),
        ("tree", always, Reader.tree),
        ("policy", never, Reader.policy),
        ("meta", never, Reader.mapping),
    ],
    "tree.set": [ID, ("tree", always, Reader.tree)],
    "policy.set": [ID, ("policy", always, Reader.policy)],
    "period.opened": [ID, ("period", always, Reader.text)],
    "pool.archived": [ID],
    "steward.rotate": [ID, ("steward", always, Reader.did_key)],
    "idle.review": [ID],
    "tick": [],
    "claim.submitted": [
        ID,
        CLAIM,
        ("leaf", always, Reader.text),
        ("gang", always, Reader.gang),
        ("grade", unless_estimated, Reader.submitted_grade),
        ("estimate", never, Reader.estimate),
        ("class", never, Reader.text),
        ("unit", never, Reader.text),
        ("priority", never, Reader.priority),
        ("preemptible", never, Reader.boolean),
        ("commit_within_ms", never, Reader.integer),
        ("lease_ms", never, Reader.integer),
        ("max_wait_ms", never, Reader.integer),
    ],
    "claim.committed": [ID, CLAIM],
    "claim.renewed": [ID, CLAIM],
    "claim.progressed": [ID, CLAIM, ("completed", always, Reader.integer)],
    "claim.cancelled": [ID, CLAIM],
    "claim.released": [
        ID,
        CLAIM,
        ("outcome", always, Reader.outcome),
        ("actual", never, Reader.actual),
        ("completed", never, Reader.integer),
    ],
    "meter.read": [
        ID,
        ("device", always, Reader.text),
        ("from_ms", always, Reader.instant),
        ("to_ms", always, Reader.instant),
        ("uj", always, Reader.integer_or_null),
        ("grade", unless_no_answer, Reader.grade),
        ("occupants", always, Reader.occupants),
    ],
}
