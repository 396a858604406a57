"""Records of the wire contract: what events say and what decisions are, as plain typed values.

Not here: bytes (`schemas.events` parses them, `schemas.receipts` writes them), and any rule of the
profile that needs a pool's state (`streams.kernel`).

1. Quantities are integers; the unit is the last part of the name (profile §2.1).
2. A record holds what an event said; whether its numbers are in range is a flag on it, because the
   profile judges range after repeats (§3).
3. Reason codes and kinds are closed lists, and append-only.

Profile: §2.1, §2.2, §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Value: TypeAlias = "bool | int | str | bytes | list[Value] | dict[str, Value] | None"
"""What deterministic CBOR inside a core may hold (profile §6.6)."""

Body: TypeAlias = dict[str, Value]
"""A decision's body, as its receipt carries it."""

Amounts: TypeAlias = Mapping[str, int]
"""Resource -> amount, in that resource's unit."""

QUANTITY_LIMIT = 2**63
"""Quantities are below this; the first one that is not is `out-of-range`."""
INSTANT_LIMIT_MS = 253_402_300_800_000
"""The year 10000, in milliseconds since the Unix epoch: instants are before it."""
PRIORITY_LIMIT = 1000
"""Priorities are between minus this and this."""
EVENT_BYTES_MAX = 960 * 1024
"""A longer event is `malformed`: a receipt carries its event and may itself be 1 MiB long."""
DEPTH_MAX = 16
"""How deep an event's or a core's value may nest."""

MDEV = "mdev"
UJ = "uj"
ROOT = "/"


class Grade(StrEnum):
    """How an energy figure was obtained, worst first (profile §2.1)."""

    ESTIMATOR = "Estimator"
    MODEL_BASED = "ModelBased"
    HW_SHUNT = "HwShunt"


GRADE_RANK: Mapping[str, int] = {grade.value: rank for rank, grade in enumerate(Grade)}


def worst(one: str, other: str) -> str:
    """The worse of two grades' names."""
    return one if GRADE_RANK[one] <= GRADE_RANK[other] else other


class EventType(StrEnum):
    """The event types of profile §3."""

    POOL_OPENED = "pool.opened"
    TREE_SET = "tree.set"
    POLICY_SET = "policy.set"
    PERIOD_OPENED = "period.opened"
    POOL_ARCHIVED = "pool.archived"
    STEWARD_ROTATE = "steward.rotate"
    IDLE_REVIEW = "idle.review"
    TICK = "tick"
    CLAIM_SUBMITTED = "claim.submitted"
    CLAIM_COMMITTED = "claim.committed"
    CLAIM_RENEWED = "claim.renewed"
    CLAIM_PROGRESSED = "claim.progressed"
    CLAIM_CANCELLED = "claim.cancelled"
    CLAIM_RELEASED = "claim.released"
    METER_READ = "meter.read"


class Kind(StrEnum):
    """The decision kinds of profile §3."""

    POOL_OPENED = "pool.opened"
    TREE_SET = "tree.set"
    POLICY_SET = "policy.set"
    PERIOD_OPENED = "period.opened"
    POOL_ARCHIVED = "pool.archived"
    STEWARD_ROTATED = "steward.rotated"
    CLAIM_ADMITTED = "claim.admitted"
    CLAIM_WAITING = "claim.waiting"
    CLAIM_REFUSED = "claim.refused"
    CLAIM_COMMITTED = "claim.committed"
    CLAIM_RENEWED = "claim.renewed"
    CLAIM_CANCELLED = "claim.cancelled"
    CLAIM_EXPIRED = "claim.expired"
    CLAIM_UNCERTAIN = "claim.uncertain"
    CLAIM_STARVED = "claim.starved"
    CLAIM_PROGRESSED = "claim.progressed"
    CLAIM_OVERRUN = "claim.overrun"
    CLAIM_SETTLED = "claim.settled"
    CLAIM_PREEMPTING = "claim.preempting"
    CLAIM_SPARED = "claim.spared"
    GUARD_ON = "guard.on"
    GUARD_OFF = "guard.off"
    METER_SPLIT = "meter.split"
    METER_GAP = "meter.gap"
    IDLE_REVIEWED = "idle.reviewed"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


class Reason(StrEnum):
    """Why an event or a claim is refused, or a claim waits. Append-only."""

    MALFORMED = "malformed"
    UNKNOWN_POOL = "unknown-pool"
    OUT_OF_RANGE = "out-of-range"
    EVENT_ID_REUSED = "event-id-reused"
    CLAIM_ID_REUSED = "claim-id-reused"
    ALREADY_OPEN = "already-open"
    ARCHIVED = "archived"
    RESOURCES_INVALID = "resources-invalid"
    POLICY_INVALID = "policy-invalid"
    TREE_INVALID = "tree-invalid"
    LEAF_IN_USE = "leaf-in-use"
    UNKNOWN_CLAIM = "unknown-claim"
    WRONG_STATE = "wrong-state"
    PROGRESS_FELL = "progress-fell"
    IMPLAUSIBLE = "implausible"
    WINDOW_EMPTY = "window-empty"
    WINDOW_FUTURE = "window-future"
    WINDOW_OVERLAPS = "window-overlaps"
    OCCUPANTS_INVALID = "occupants-invalid"
    UNKNOWN_OCCUPANT = "unknown-occupant"
    UNKNOWN_LEAF = "unknown-leaf"
    GANG_EMPTY = "gang-empty"
    CLASS_EMPTY = "class-empty"
    HISTORY_INSUFFICIENT = "history-insufficient"
    NEVER_FITS = "never-fits"
    QUEUE_FULL = "queue-full"
    WAIT_EXPIRED = "wait-expired"
    CONCURRENCY = "concurrency"
    LIMIT = "limit"
    GUESS_CANNOT_BORROW = "guess-cannot-borrow"
    UNPREEMPTIBLE_CANNOT_BORROW = "unpreemptible-cannot-borrow"
    BORROWING_OFF = "borrowing-off"
    SHARE = "share"
    CAPACITY = "capacity"
    EARMARKED = "earmarked"
    STARVED_AHEAD = "starved-ahead"
    AWAITING_RECLAIM = "awaiting-reclaim"


class ClaimState(StrEnum):
    """Where a claim is (profile §2.3, §3)."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    UNCERTAIN = "uncertain"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of the kernel: its kind and the body that its receipt carries."""

    kind: Kind
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of an entitlement tree as an event gives it (profile §2.2)."""

    id: str
    guarantee: Amounts
    weight: int = 1
    limit: Amounts
    borrow: bool = True
    lend: bool | tuple[str, ...] = True
    max_live: int | None = None
    max_waiting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every well-formed event has.

    `content` is SHA-256 over the fields as given, without `id` (profile §3, repeats); `fields` are
    those fields, parsed; `in_range` is False if one of its numbers is outside its range.
    """

    pool: str
    id: str | None
    content: bytes
    fields: Mapping[str, Value]
    in_range: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOpened(Event):
    """`pool.opened`: capacity per resource, the declared resources, the tree, the policy."""

    capacity: Amounts
    resources: tuple[str, ...]
    tree: tuple[Node, ...]
    policy: Mapping[str, Value]
    meta: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSet(Event):
    """`tree.set`: replaces the whole tree."""

    tree: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet(Event):
    """`policy.set`: replaces the whole policy."""

    policy: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodOpened(Event):
    """`period.opened`: a new accounting period with its label."""

    period: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolArchived(Event):
    """`pool.archived`: nothing new is taken; what runs, runs to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StewardRotate(Event):
    """`steward.rotate`: the next steward's key, as `did:key`."""

    steward: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReview(Event):
    """`idle.review`: give each live claim its verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    """`tick`: nothing but the passing of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSubmitted(Event):
    """`claim.submitted`. `demand` is the members' sum; `grade` is None for an observed estimate."""

    claim: str
    leaf: str
    gang: tuple[Amounts, ...]
    demand: Amounts
    grade: str | None
    class_: str
    unit: str
    priority: int
    preemptible: bool
    commit_within_ms: int
    lease_ms: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCommitted(Event):
    """`claim.committed`: what was held runs."""

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRenewed(Event):
    """`claim.renewed`: the lease starts anew."""

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimProgressed(Event):
    """`claim.progressed`: units completed so far."""

    claim: str
    completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCancelled(Event):
    """`claim.cancelled`: a waiting claim leaves the queue."""

    claim: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """What a release reports as spent."""

    uj: int
    grade: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReleased(Event):
    """`claim.released` with its outcome and, where reported, the actual figure and the units."""

    claim: str
    outcome: str
    actual: Actual | None
    completed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """How much of a device a claim held during a reading's window."""

    claim: str
    mdev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterRead(Event):
    """`meter.read`: one device's energy in a window; `uj` is None if the meter did not answer."""

    device: str
    from_ms: int
    to_ms: int
    uj: int | None
    grade: str | None
    occupants: tuple[Occupant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """What arrived and is no event: its pool, if that can be told, and the field at fault.

    `field` is None where not even a map could be decoded. `named`: the field before it, if any,
    that names resources, and which; whoever knows the pool may find that one at fault first.
    """

    pool: str | None
    field: str | None
    detail: str
    named: tuple[str, frozenset[str]] | None = None
