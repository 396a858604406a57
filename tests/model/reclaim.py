"""Preemption (§5): who may be reclaimed for whom, in what order, and how much at once.

Not handled here: when a claim is tried (§4.3).
"""

from __future__ import annotations

from fractions import Fraction

from .admission import Failure, check_capacity, check_limit
from .books import (
    ROOT,
    Claim,
    Pool,
    asked,
    borrows,
    by_id,
    counted_awaiting,
    holding_guard,
    is_below,
    path,
    usage,
)


def may_reclaim(pool: Pool, claim: Claim, failure: Failure) -> bool:
    """§5.1, first paragraph; a claim that a guard holds does not plan."""
    actual = usage(pool)
    if holding_guard(pool, actual, claim) is not None:
        return False
    return fails_for_others(pool, claim, failure)


def fails_for_others(pool: Pool, claim: Claim, failure: Failure) -> bool:
    """Inside its guarantee, and failing for `capacity` or for `limit` above its leaf."""
    if borrows(pool, usage(pool), claim):
        return False
    above = failure.reason == "limit" and failure.node != claim.leaf
    return failure.reason == "capacity" or above


def violated(pool: Pool, claim: Claim, picks: list[Claim]) -> list[tuple[str, str]]:
    """The (node, resource) that stand in the way on projected usage, `picks` being reclaimed."""
    actual = usage(pool)
    others = counted_awaiting(pool, actual, claim)
    projected = usage(pool, without=[*pool.reclaimed(), *picks], adding=others)
    between = [node for node in path(claim.leaf)[1:] if node != ROOT]
    failures = [
        *check_limit(pool, projected, claim, between),
        *check_capacity(pool, actual, projected, claim),
    ]
    return [(failure.node, str(failure.resource)) for failure in failures]


def frees(victim: Claim, resource: str) -> int:
    if resource == "uj":
        return max(victim.reserved_uj, victim.metered_uj) - victim.metered_uj
    return victim.demand[resource]


def is_candidate(
    pool: Pool, claim: Claim, victim: Claim, faults: list[tuple[str, str]], picks: list[Claim]
) -> bool:
    taken = victim.reclaimed_for is not None or victim in picks
    if victim.leaf == claim.leaf or not victim.preemptible or taken:
        return False
    left = usage(pool, without=[*pool.reclaimed(), *picks])
    ancestor = next(node for node in path(victim.leaf) if is_below(claim.leaf, node))
    strictly_below = [n for n in path(victim.leaf) if n != ancestor and is_below(n, ancestor)]
    for node, r in faults:
        over_all = all(left[n][r] > pool.tree[n].guarantee[r] for n in strictly_below)
        if is_below(victim.leaf, node) and frees(victim, r) > 0 and over_all:
            return True
    return False


def is_measured(victim: Claim) -> bool:
    return victim.completed > 0 and victim.metered_grade not in (None, "Estimator")


def in_order(victims: list[Claim]) -> list[Claim]:
    """§5.2."""

    def key(victim: Claim) -> tuple[int, Fraction, int, int]:
        measured = is_measured(victim)
        cost = Fraction(victim.metered_uj, victim.completed) if measured else Fraction(0)
        return (0 if measured else 1, -cost, victim.priority, -victim.admission)

    return sorted(victims, key=key)


def plan(pool: Pool, claim: Claim) -> list[Claim] | None:
    """The victims in the order they were picked (§5.3); None where there is no plan."""
    if not fits_the_guarantee_together(pool, claim):
        return None
    picks: list[Claim] = []
    while faults := violated(pool, claim, picks):
        found = [v for v in pool.live() if is_candidate(pool, claim, v, faults, picks)]
        if not found:
            return None
        picks.append(in_order(found)[0])
    for victim in list(reversed(picks)):
        rest = [other for other in picks if other is not victim]
        if not violated(pool, claim, rest):
            picks = rest
    return picks


def fits_the_guarantee_together(pool: Pool, claim: Claim) -> bool:
    actual = usage(pool)
    leaf = claim.leaf
    others = [o for o in counted_awaiting(pool, actual, claim) if o.leaf == leaf]
    for r in asked(pool, claim):
        total = actual[leaf][r] + sum(other.demand[r] for other in others) + claim.demand[r]
        if total > pool.tree[leaf].guarantee[r]:
            return False
    return True


def order_victims(pool: Pool, claim: Claim, picks: list[Claim]) -> None:
    """Write the plan's orders, as far as `policy.disruption_ppm` lets them (§5.3)."""
    ppm = pool.policy.get("disruption_ppm")
    for victim in picks:
        under_way = pool.reclaimed()
        mdev = sum(other.demand["mdev"] for other in under_way) + victim.demand["mdev"]
        within = ppm is None or mdev * 10**6 <= ppm * pool.capacity["mdev"]
        if under_way and not within:
            return
        victim.reclaimed_for = claim
        if is_measured(victim):
            cost = {"uj": victim.metered_uj, "completed": victim.completed}
            pool.emit(
                "claim.preempting", claim=victim.id, for_=claim.id, basis="measured", cost=cost
            )
        else:
            pool.emit(
                "claim.preempting",
                claim=victim.id,
                for_=claim.id,
                basis="declared",
                priority=victim.priority,
            )


def spare_victims(pool: Pool, claimant: Claim) -> None:
    """Victims of `claimant` that still live are reclaimed no more (§5.3)."""
    for victim in by_id(pool.reclaimed()):
        if victim.reclaimed_for is claimant:
            victim.reclaimed_for = None
            pool.emit("claim.spared", claim=victim.id, for_=claimant.id)
