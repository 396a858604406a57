"""A claim as the pool keeps it (profile §2.3), and what readings said of it.

Not here: when a claim changes state (`apply`), and what may be admitted (`fit`).

1. A claim waits, is live (held, running, uncertain) or has ended.
2. `hold_uj` is reality over the reservation, less what earlier periods were charged.

Profile: §2.3, §2.5, §2.7, §2.8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schemas.records import ClaimState, Value

if TYPE_CHECKING:
    from streams.kernel.tree import Node

READINGS_MAX = 100_000
"""Newest readings kept for one claim on one device in a run without a hole."""

Reading = tuple[int, int, int, str]
"""(from_ms, to_ms, this claim's uj, grade)."""


class DeviceUse:
    """What one device's readings said of one claim.

    `covered`: disjoint windows [from_ms, to_ms] in time order, touching ones joined; `run`: the
    newest readings without a hole; `mdev`: this claim's milli-devices in the newest reading.
    """

    __slots__ = ("covered", "mdev", "run")

    def __init__(self) -> None:
        self.mdev = 0
        self.covered: list[list[int]] = []
        self.run: list[Reading] = []

    def add(self, reading: Reading, mdev: int) -> None:
        """Take a reading; the caller has made sure that it begins where nothing was read yet."""
        from_ms, to_ms = reading[0], reading[1]
        self.mdev = mdev
        if self.covered and self.covered[-1][1] == from_ms:
            self.covered[-1][1] = to_ms
        else:
            self.covered.append([from_ms, to_ms])
            self.run = []
        self.run.append(reading)
        if len(self.run) > READINGS_MAX:
            del self.run[: READINGS_MAX // 10]

    def covered_ms(self, start_ms: int, end_ms: int) -> int:
        """How much of [start_ms, end_ms] the readings cover."""
        total = 0
        for from_ms, to_ms in reversed(self.covered):
            if to_ms <= start_ms:
                break
            total += max(0, min(to_ms, end_ms) - max(from_ms, start_ms))
        return total


class Claim:
    """One claim. `demand` and `asks` are by resource position; times in ms since the epoch."""

    __slots__ = (
        "admission",
        "admitted_ms",
        "arrival",
        "asks",
        "awaiting",
        "charged_uj",
        "class_",
        "commit_within_ms",
        "completed",
        "contends",
        "content",
        "counted",
        "demand",
        "demand_map",
        "devices",
        "ended_period",
        "figure_uj",
        "first_seq",
        "gap",
        "grade",
        "guess",
        "id",
        "lapse_queued",
        "leaf",
        "leaf_id",
        "lease_from_ms",
        "lease_ms",
        "metered_grade",
        "metered_uj",
        "preemptible",
        "priority",
        "reason",
        "reclaimed_for",
        "reserved_uj",
        "start_ms",
        "starved",
        "state",
        "submitted_ms",
        "tried",
        "unit",
        "wait_until_ms",
    )

    def __init__(self, claim_id: str, leaf: Node, demand: tuple[int, ...], arrival: int) -> None:
        self.id = claim_id
        self.leaf = leaf
        self.leaf_id = leaf.id
        self.state = ClaimState.WAITING
        self.demand = demand
        self.demand_map: Mapping[str, Value] = {}
        self.asks: tuple[int, ...] = asked(demand)
        self.reserved_uj = demand[-1]
        self.grade = ""
        self.guess = False
        self.class_ = ""
        self.unit = ""
        self.priority = 0
        self.preemptible = True
        self.commit_within_ms = 0
        self.lease_ms = 0
        self.wait_until_ms: int | None = None
        self.submitted_ms = 0
        self.arrival = arrival
        self.content = b""
        self.first_seq = 0
        self.reason = ""
        self.contends = False
        self.awaiting = False
        self.counted = False
        self.starved = False
        self.tried = 0
        self.admission = -1
        self.admitted_ms = 0
        self.start_ms = 0
        self.lease_from_ms = 0
        self.lapse_queued = False
        self.completed = 0
        self.reclaimed_for: str | None = None
        self.metered_uj = 0
        self.metered_grade: str | None = None
        self.charged_uj = 0
        self.gap = False
        self.devices: dict[str, DeviceUse] = {}
        self.figure_uj = 0
        self.ended_period = 0

    @property
    def is_live(self) -> bool:
        """Held, running or uncertain."""
        return self.state is not ClaimState.WAITING and self.state is not ClaimState.ENDED

    @property
    def may_not_borrow(self) -> bool:
        """A guess, or not preemptible (§4.2, check 3)."""
        return self.guess or not self.preemptible

    @property
    def was_admitted(self) -> bool:
        """Whether this pool ever admitted it (a waiting or cancelled claim never was)."""
        return self.admission >= 0

    @property
    def hold_uj(self) -> int:
        """What a live claim holds of its leaf's joules in this period (§2.3)."""
        return max(self.reserved_uj, self.metered_uj) - self.charged_uj

    @property
    def freed_uj(self) -> int:
        """What a victim frees of its joules (§5.3): its reservation's unspent rest."""
        return max(self.reserved_uj, self.metered_uj) - self.metered_uj


def exceeds(leaf: Node, demand: Sequence[int], asks: Sequence[int]) -> bool:
    """Whether a demand, added now, would exceed a leaf's guarantee in what it asks for: tier 1."""
    usage, guarantee = leaf.usage, leaf.guarantee
    for at in asks:  # noqa: SIM110 - a generator costs as much again, and nothing is asked more
        if usage[at] + demand[at] > guarantee[at]:
            return True
    return False


def would_borrow(claim: Claim) -> bool:
    """Whether a claim, started now, would borrow: tier 1 (§4.2)."""
    return exceeds(claim.leaf, claim.demand, claim.asks)


def asked(demand: tuple[int, ...]) -> tuple[int, ...]:
    """The resource positions that a demand is looked at in (§4.2), in resource order.

    Those of which it demands something, and joules whenever it demands devices (position 0).
    """
    last = len(demand) - 1
    return tuple(
        position
        for position, amount in enumerate(demand)
        if amount > 0 or (position == last and demand[0] > 0)
    )
