"""A trace as a plan: the pool to open, and its jobs in the order in which they were submitted.

Not here: reading a file (`streams.traces.philly`, `streams.traces.openb`), and what becomes of a
job once the pool decides (`streams.traces.drive`).

1. A plan is complete before the first event: it depends on the file and the tuning alone.
2. Instants are the trace's own, milliseconds since the Unix epoch; nothing here reads a clock.
3. A tenant's guarantee is its share of the accelerator time that the trace's jobs took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.records import MDEV, UJ, Value

PPM = 1_000_000
HOUR_MS = 3_600_000
TRACE_ROWS_MAX = 1_000_000
"""A longer trace is refused: it is read into memory whole."""


class TraceError(Exception):
    """A trace file that is not what its format says; `place` is the file and the line."""

    def __init__(self, place: str, detail: str) -> None:
        super().__init__(f"{place}: {detail}")
        self.place = place
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What the user may vary. None means the format's own stated default."""

    gpus: int | None = None
    guarantee_ppm: int = PPM
    period_hours: int | None = None
    rows: int | None = None
    grace_ms: int = 60_000

    def __post_init__(self) -> None:
        """Refuse what cannot be meant (ValueError; the command names the option)."""
        if not 0 <= self.guarantee_ppm <= PPM:
            raise ValueError("a guarantee is between 0 and 1000000 ppm of the capacity")
        for name in ("gpus", "period_hours", "rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of a trace.

    `member` is what each of `count` alike members occupies; a member reserves `reserved_uw` for
    `declared_ms`. Once admitted it runs for `run_ms` (None: it outlasts the trace) and really draws
    `drawn_uw`, all members together. `commits` False: it never starts. `withdraw_ms` is when its
    owner gives up waiting (None: never). `reports` False: it ends without a figure. `observed`: it
    gives no energy, the pool reserves what its class was measured to need.
    """

    claim: str
    leaf: str
    submit_ms: int
    member: Mapping[str, int]
    count: int
    grade: str
    reserved_uw: int
    declared_ms: int
    drawn_uw: int
    run_ms: int | None
    outcome: str = "completed"
    commits: bool = True
    withdraw_ms: int | None = None
    commit_within_ms: int = 0
    lease_ms: int = 0
    max_wait_ms: int = 0
    reports: bool = True
    observed: bool = False
    preemptible: bool = True
    priority: int = 0
    class_: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole replay: `opened` are the fields of `pool.opened`, `notes` say how it came about.

    `also` are further events with their instants, in order: an operator's.
    """

    pool: str
    opened_ms: int
    opened: Mapping[str, Value]
    jobs: tuple[Job, ...]
    period_ms: int
    grace_ms: int
    notes: tuple[str, ...] = ()
    also: tuple[tuple[int, Mapping[str, Value]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """One input event with its topic and its instant on the log."""

    at_ms: int
    topic: str
    event: dict[str, Value]


def guarantees(
    used: Mapping[str, int], capacity: Mapping[str, int], guarantee_ppm: int
) -> list[Value]:
    """One leaf a tenant, by id; each guaranteed its share of `guarantee_ppm` of every resource.

    `used` is accelerator time by tenant, in any unit. Shares are floored, so that they never sum to
    more than the capacity.
    """
    total = max(1, sum(used.values()))
    return [
        {
            "id": tenant,
            "guarantee": {
                resource: amount * guarantee_ppm * used[tenant] // (PPM * total)
                for resource, amount in capacity.items()
            },
        }
        for tenant in sorted(used)
    ]


def describe_capacity(capacity: Mapping[str, int], period_hours: int) -> str:
    """The pool's capacity in the units that people read, for a plan's notes."""
    others = ", ".join(
        f"{amount} {resource}"
        for resource, amount in capacity.items()
        if resource not in (MDEV, UJ)
    )
    return (
        f"capacity {capacity[MDEV] // 1000} accelerators"
        + (f", {others}" if others else "")
        + f", and {capacity[UJ] / 3.6e15:.1f} MWh a period of {period_hours} h"
    )
