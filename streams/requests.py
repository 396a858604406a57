"""What a producer asks of a pool, as records with the profile's field names, and their wire form.

Not here: sending them (`streams.client`); what a steward makes of them (`schemas.events` parses).

1. A field that has its default is left out, so that two ways to say one thing are one content.
2. A claim without a grade asks for an observed estimate (profile §2.6).

Invariant: `fields_of(request, pool)` is an event that `schemas.events.parse_event` takes, unless a
value itself is at fault.
Profile: §3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar

from schemas.records import Actual, Amounts, EventType, Grade, Occupant, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What every request may carry: `id`, chosen by the producer, makes sending it twice safe."""

    TYPE: ClassVar[EventType]

    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Request):
    """A claim on capacity: a gang of demands, admitted whole or not at all.

    `grade` None asks for the class's observed estimate; the gang then names no `uj`.
    """

    TYPE = EventType.CLAIM_SUBMITTED

    claim: str
    leaf: str
    gang: Sequence[Amounts]
    grade: Grade | None = None
    class_: str = ""
    unit: str = ""
    priority: int = 0
    preemptible: bool = True
    commit_within_ms: int = 0
    lease_ms: int = 0
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Request):
    """What was held runs."""

    TYPE = EventType.CLAIM_COMMITTED

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal(Request):
    """The lease starts anew."""

    TYPE = EventType.CLAIM_RENEWED

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Request):
    """`completed` units so far."""

    TYPE = EventType.CLAIM_PROGRESSED

    claim: str
    completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation(Request):
    """A waiting claim leaves the queue."""

    TYPE = EventType.CLAIM_CANCELLED

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Request):
    """A live claim ended: `outcome` is `completed`, `failed` or `evicted`."""

    TYPE = EventType.CLAIM_RELEASED

    claim: str
    outcome: str
    actual: Actual | None = None
    completed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Request):
    """What a device spent in a window; `uj` None: the meter gave no answer."""

    TYPE = EventType.METER_READ

    device: str
    from_ms: int
    to_ms: int
    uj: int | None
    grade: Grade | None = None
    occupants: Sequence[Occupant] = ()


_ALWAYS = frozenset({"uj", "occupants"})
_NAMES = {"class_": "class"}


def fields_of(request: Request, pool: str) -> dict[str, Value]:
    """The event's fields as they are encoded."""
    said: dict[str, Value] = {"pool": pool, "type": request.TYPE.value}
    for field in fields(request):
        value = getattr(request, field.name)
        if field.default is not MISSING and value == field.default and field.name not in _ALWAYS:
            continue
        said[_NAMES.get(field.name, field.name)] = _plain(value)
    if isinstance(request, Claim) and request.grade is None:
        said["estimate"] = "observed"
    return said


def _plain(value: object) -> Value:
    if isinstance(value, Grade):
        return value.value
    if isinstance(value, Actual):
        return {"uj": value.uj, "grade": str(value.grade)}
    if isinstance(value, Occupant):
        return {"claim": value.claim, "mdev": value.mdev}
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    assert value is None or isinstance(value, bool | int | str)
    return value
