"""What a simulation's decisions come to: waits, borrowing, preemptions, energy, fairness.

1. A job is a trace's row with all the claims that its evictions made of it; its wait is the sum of
   theirs, until each was admitted.
2. Borrowed device time is what an admission borrowed at its leaf (§4.2), for as long as it ran.
3. The energy of runs that were evicted is what they were settled at. It is thrown away where a job
   keeps no checkpoint; the simulation lets the rest run on, as if it did.
4. A bucket's satisfaction of a tenant that wanted something: what it had over what it was entitled
   to, which is what it wanted (held and waiting) but at most its guarantee; at most 1. Fairness is
   Jain's index over tenants, unmet is what they lacked, in device time.

Invariant: integers throughout; nothing here decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.records import MDEV, Decision, Kind
from streams.simulate.series import Series, jain_ppm

PPM = 1_000_000


@dataclass(slots=True)
class Tenant:
    """One leaf: its guarantee in mdev, its jobs' waits by job, its device time in buckets."""

    guarantee: int
    held: Series
    waiting: Series
    waits: dict[str, int] = field(default_factory=dict)
    jobs: int = 0
    admitted: int = 0
    borrowed: int = 0
    gave_up: int = 0
    starved: int = 0
    evicted: int = 0
    evicted_uj: int = 0
    energy_uj: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Claim:
    """What is known of a claim that waits or is live."""

    tenant: Tenant
    job: str
    mdev: int
    submitted_ms: int
    admitted_ms: int | None = None
    borrowed: int = 0


class Measures:
    """Hears every event with its decisions, in order."""

    def __init__(self, guarantees: Mapping[str, int], begin_ms: int, bucket_ms: int) -> None:
        self.begin_ms = begin_ms
        self.bucket_ms = bucket_ms
        self.end_ms = begin_ms
        self.kinds: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        """Why claims came to wait: the reason and the resource."""
        self.borrowed_mdev_ms = 0
        self.longest_wait_ms = 0
        self.tenants = {
            name: Tenant(guarantee, Series(begin_ms, bucket_ms), Series(begin_ms, bucket_ms))
            for name, guarantee in sorted(guarantees.items())
        }
        self._claims: dict[str, _Claim] = {}

    def submitted(self, event: Mapping[str, Any], now_ms: int) -> None:
        """A claim is about to be decided."""
        tenant = self.tenants[event["leaf"]]
        mdev = sum(member.get(MDEV, 0) for member in event["gang"])
        job, _, again = event["claim"].partition("+")
        tenant.jobs += not again
        self._claims[event["claim"]] = _Claim(tenant, job, mdev, now_ms)
        tenant.waiting.add(mdev, now_ms)

    def heard(self, decisions: Sequence[Decision], now_ms: int) -> None:
        """The decisions of one event."""
        self.end_ms = now_ms
        for decision in decisions:
            self.kinds[decision.kind] += 1
            body: Mapping[str, Any] = decision.body
            match decision.kind:
                case Kind.CLAIM_ADMITTED:
                    self._admitted(body, now_ms)
                case Kind.CLAIM_WAITING:
                    self.waits[f"{body['reason']} {body.get('resource', '')}".strip()] += 1
                case Kind.CLAIM_REFUSED:
                    self.refusals[body["reason"]] += 1
                    self._left(body["claim"], now_ms)
                case Kind.CLAIM_CANCELLED:
                    self._left(body["claim"], now_ms)
                case Kind.CLAIM_EXPIRED:
                    self._ended(body["claim"], now_ms)
                case Kind.CLAIM_SETTLED:
                    self._settled(body, now_ms)
                case Kind.CLAIM_STARVED:
                    self._claims[body["claim"]].tenant.starved += 1

    def finish(self) -> None:
        """Time ends with the last event; what still waits has waited until then."""
        for tenant in self.tenants.values():
            tenant.held.advance(self.end_ms)
            tenant.waiting.advance(self.end_ms)
        for claim in self._claims.values():
            if claim.admitted_ms is None:
                claim.tenant.gave_up += 1
                self._waited(claim, self.end_ms)
            else:
                self.borrowed_mdev_ms += claim.borrowed * (self.end_ms - claim.admitted_ms)

    def _admitted(self, body: Mapping[str, Any], now_ms: int) -> None:
        claim = self._claims[body["claim"]]
        claim.admitted_ms = now_ms
        self._waited(claim, now_ms)
        claim.tenant.waiting.add(-claim.mdev, now_ms)
        claim.tenant.held.add(claim.mdev, now_ms)
        claim.tenant.admitted += 1
        if body["mode"] == "borrowed":
            claim.tenant.borrowed += 1
            claim.borrowed = body["borrowed"].get(body["leaf"], {}).get(MDEV, 0)

    def _waited(self, claim: _Claim, now_ms: int) -> None:
        wait_ms = claim.tenant.waits.get(claim.job, 0) + now_ms - claim.submitted_ms
        claim.tenant.waits[claim.job] = wait_ms
        self.longest_wait_ms = max(self.longest_wait_ms, wait_ms)

    def _left(self, name: str, now_ms: int) -> None:
        claim = self._claims.pop(name)
        claim.tenant.waiting.add(-claim.mdev, now_ms)
        claim.tenant.gave_up += 1
        self._waited(claim, now_ms)

    def _ended(self, name: str, now_ms: int) -> _Claim:
        claim = self._claims.pop(name)
        assert claim.admitted_ms is not None
        claim.tenant.held.add(-claim.mdev, now_ms)
        self.borrowed_mdev_ms += claim.borrowed * (now_ms - claim.admitted_ms)
        return claim

    def _settled(self, body: Mapping[str, Any], now_ms: int) -> None:
        tenant = self._ended(body["claim"], now_ms).tenant
        spent = body["spent"]
        tenant.energy_uj[spent["grade"]] += spent["uj"]
        if body["outcome"] == "evicted":
            tenant.evicted += 1
            tenant.evicted_uj += spent["uj"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """One bucket: Jain's index in ppm (None: nobody wanted anything), unmet device time."""

    jain_ppm: int | None
    unmet_mdev_ms: int


def fairness(measures: Measures) -> list[Fairness]:
    """Every bucket's, in order (rule 4)."""
    buckets = max(len(tenant.held.buckets) for tenant in measures.tenants.values())
    return [_bucket(measures, at) for at in range(buckets)]


def _bucket(measures: Measures, at: int) -> Fairness:
    shares: list[int] = []
    unmet = 0
    for tenant in measures.tenants.values():
        held, waiting = _at(tenant.held, at), _at(tenant.waiting, at)
        entitled = min(held + waiting, tenant.guarantee * measures.bucket_ms)
        if entitled > 0:
            shares.append(min(PPM, held * PPM // entitled))
            unmet += max(0, entitled - held)
    return Fairness(jain_ppm=jain_ppm(shares), unmet_mdev_ms=unmet)


def _at(series: Series, at: int) -> int:
    return series.buckets[at] if at < len(series.buckets) else 0


def quantile(ordered: Sequence[int], ppm: int) -> int:
    """The nearest-rank quantile of ordered values; of none, 0."""
    if not ordered:
        return 0
    rank = -(-len(ordered) * ppm // PPM)
    return ordered[max(0, rank - 1)]
