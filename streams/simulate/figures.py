"""An outcome as plain figures: what the table and `--json` show.

Invariant: integers, texts and lists of them; the same run gives the same figures.
"""

from __future__ import annotations

from typing import Any

from schemas.records import GRADE_RANK, Kind
from streams.simulate.measures import PPM, Tenant, quantile
from streams.simulate.running import Outcome

Figures = dict[str, Any]


def figures(outcome: Outcome) -> Figures:
    """The whole outcome, without its buckets."""
    measures = outcome.measures
    tenants = measures.tenants
    waits = sorted(wait for tenant in tenants.values() for wait in tenant.waits.values())
    held = sum(tenant.held.total for tenant in tenants.values())
    span_ms = max(1, measures.end_ms - measures.begin_ms)
    jains = sorted(one.jain_ppm for one in outcome.fairness if one.jain_ppm is not None)
    evicted_uj = sum(tenant.evicted_uj for tenant in tenants.values())
    return {
        "policy": outcome.name,
        "jobs": sum(tenant.jobs for tenant in tenants.values()),
        "events": outcome.events,
        "decisions": outcome.decisions,
        "admitted": measures.kinds[Kind.CLAIM_ADMITTED],
        "borrowing": sum(tenant.borrowed for tenant in tenants.values()),
        "gave_up": sum(tenant.gave_up for tenant in tenants.values()),
        "refusals": dict(sorted(measures.refusals.items())),
        "wait_ms": _waits(waits),
        "waited_for": dict(sorted(measures.waits.items())),
        "used_ppm": held * PPM // (outcome.capacity_mdev * span_ms),
        "borrowed_ppm": measures.borrowed_mdev_ms * PPM // max(1, held),
        "preempted": measures.kinds[Kind.CLAIM_PREEMPTING],
        "evicted": sum(tenant.evicted for tenant in tenants.values()),
        "evicted_uj": evicted_uj,
        "energy_uj": _energy(list(tenants.values())),
        "starved": measures.kinds[Kind.CLAIM_STARVED],
        "fairness_ppm": {
            "mean": sum(jains) // max(1, len(jains)),
            "p5": quantile(jains, 50_000),
            "least": jains[0] if jains else PPM,
        },
        "unmet_mdev_ms": sum(one.unmet_mdev_ms for one in outcome.fairness),
        "ended_ms": measures.end_ms,
        "tenants": {name: _tenant(tenant) for name, tenant in tenants.items()},
    }


def _tenant(tenant: Tenant) -> Figures:
    return {
        "guarantee_mdev": tenant.guarantee,
        "jobs": tenant.jobs,
        "admitted": tenant.admitted,
        "borrowing": tenant.borrowed,
        "gave_up": tenant.gave_up,
        "starved": tenant.starved,
        "evicted": tenant.evicted,
        "evicted_uj": tenant.evicted_uj,
        "held_mdev_ms": tenant.held.total,
        "wait_ms": _waits(sorted(tenant.waits.values())),
        "energy_uj": _energy([tenant]),
    }


def _waits(ordered: list[int]) -> Figures:
    return {
        "median": quantile(ordered, 500_000),
        "p95": quantile(ordered, 950_000),
        "max": ordered[-1] if ordered else 0,
    }


def _energy(tenants: list[Tenant]) -> Figures:
    return {grade: sum(one.energy_uj[grade] for one in tenants) for grade in GRADE_RANK}


def series(outcome: Outcome) -> Figures:
    """The buckets: mean devices in mdev of each tenant held and waited for, and fairness."""
    measures = outcome.measures
    bucket_ms = measures.bucket_ms
    return {
        "begin_ms": measures.begin_ms,
        "bucket_ms": bucket_ms,
        "held_mdev": {
            name: [amount // bucket_ms for amount in tenant.held.buckets]
            for name, tenant in measures.tenants.items()
        },
        "waiting_mdev": {
            name: [amount // bucket_ms for amount in tenant.waiting.buckets]
            for name, tenant in measures.tenants.items()
        },
        "fairness_ppm": [one.jain_ppm for one in outcome.fairness],
    }
