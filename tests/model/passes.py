"""The admission order (§4.3): an arrival, a pass, and the starvation guards.

Not handled here: which event starts a pass (§3).
"""

from __future__ import annotations

from typing import Any

from .admission import Failure, first_failure, full_queue, guard_can_help
from .books import (
    ROOT,
    Claim,
    Pool,
    Usage,
    borrows,
    by_id,
    holding_guard,
    over,
    path,
    usage,
)
from .integers import in_bytes
from .reclaim import fails_for_others, may_reclaim, order_victims, plan, spare_victims

STEP_ONE = (
    "concurrency",
    "limit",
    "guess-cannot-borrow",
    "unpreemptible-cannot-borrow",
    "borrowing-off",
)
STEP_TWO = ("share", "capacity", "earmarked", "awaiting-reclaim")


def admit(pool: Pool, claim: Claim) -> None:
    used = usage(pool)
    body: dict[str, Any] = {"mode": "guaranteed", "grade": claim.grade}
    if borrows(pool, used, claim):
        body = {"mode": "borrowed", "grade": claim.grade, "borrowed": {}}
        for node in path(claim.leaf)[:-1]:
            parts = {
                r: min(claim.demand[r], over(pool, used, claim, node, r)) for r in pool.resources
            }
            parts = {r: amount for r, amount in parts.items() if amount > 0}
            if parts:
                body["borrowed"][node] = parts
    pool.admissions += 1
    claim.state = "held"
    claim.was_admitted = True
    claim.admission = pool.admissions
    claim.admitted_ms = pool.now_ms
    pool.emit("claim.admitted", claim=claim.id, leaf=claim.leaf, demand=dict(claim.demand), **body)
    left_the_queue(pool, claim)


def end_waiting(pool: Pool, claim: Claim, kind: str, **body: Any) -> None:
    """A waiting claim is cancelled or refused: it is ended without ever having been admitted."""
    claim.state = "ended"
    claim.ended_period = pool.period
    pool.emit(kind, claim=claim.id, **body)
    left_the_queue(pool, claim)


def left_the_queue(pool: Pool, claim: Claim) -> None:
    claim.awaiting = False
    pool.guards = {scope: owner for scope, owner in pool.guards.items() if owner is not claim}
    spare_victims(pool, claim)


def arrive(pool: Pool, claim: Claim) -> None:
    """Try a new claim; admit it, refuse it for a full queue, or let it wait."""
    failure = first_failure(pool, claim, arriving=True)
    if failure is None:
        pool.claims[claim.id] = claim
        admit(pool, claim)
        return
    full = full_queue(pool, claim)
    if full is not None:
        pool.emit("claim.refused", claim=claim.id, reason="queue-full", node=full)
        return
    pool.claims[claim.id] = claim
    extra = {"demand": dict(claim.demand), "grade": claim.grade}
    if not try_reclaim(pool, claim, failure, extra):
        write_waiting(pool, claim, failure.reason, failure, extra)


def write_waiting(
    pool: Pool, claim: Claim, reason: str, failure: Failure, extra: dict[str, Any]
) -> None:
    claim.reason = (reason, failure.resource)
    pool.emit("claim.waiting", claim=claim.id, reason=reason, **failure.details(), **extra)


def try_reclaim(pool: Pool, claim: Claim, failure: Failure, extra: dict[str, Any]) -> bool:
    """Plan for a claim that was tried and failed (§5); whether it wrote the claim's reason."""
    if not may_reclaim(pool, claim, failure):
        return False
    picks = plan(pool, claim)
    if picks is None:
        return False
    comes_to_await = not claim.awaiting
    claim.awaiting = True
    order_victims(pool, claim, picks)
    if comes_to_await:
        write_waiting(pool, claim, "awaiting-reclaim", failure, extra)
    return comes_to_await


def run_pass(pool: Pool) -> None:
    for claimant in by_id(pool.waiting()):
        if borrows(pool, usage(pool), claimant):
            spare_victims(pool, claimant)
    pool.guards = {}
    for claim in pool.waiting():
        if claim.starved:
            guard_before_rounds(pool, claim)
    while run_round(pool):
        pass
    for scope in sorted(pool.guard_said, key=in_bytes):
        if pool.guard_said[scope] is not None and scope not in pool.guards:
            pool.guard_said[scope] = None
            pool.emit("guard.off", scope=scope)


def run_round(pool: Pool) -> bool:
    """One round over the waiting claims; whether it admitted any."""
    untried = pool.waiting()
    admitted = False
    while untried:
        used = usage(pool)
        claim = min(untried, key=lambda one: order_key(pool, used, one))
        untried.remove(claim)
        if holding_guard(pool, used, claim) is not None:
            continue
        failure = first_failure(pool, claim)
        if failure is None:
            admit(pool, claim)
            admitted = True
        else:
            tried_in_vain(pool, claim, failure)
    return admitted


def order_key(pool: Pool, used: Usage, claim: Claim) -> tuple[Any, ...]:
    tier = 1 if borrows(pool, used, claim) else 0
    if claim.starved:
        second: tuple[Any, ...] = (0, claim.arrival)
    else:
        downward = [node for node in reversed(path(claim.leaf)) if node != ROOT]
        second = (1, [(ratio(pool, used, node), in_bytes(node)) for node in downward])
    aging_ms = pool.setting("aging_ms", 0)
    third = claim.priority * aging_ms - claim.submitted_ms if aging_ms > 0 else claim.priority
    return (tier, second, -third, claim.arrival)


def ratio(pool: Pool, used: Usage, node: str) -> int:
    weight = pool.tree[node].weight
    return max(
        (
            used[node][r] * 10**9 // (pool.capacity[r] * weight)
            for r in pool.resources
            if pool.capacity[r] > 0
        ),
        default=0,
    )


def tried_in_vain(pool: Pool, claim: Claim, failure: Failure) -> None:
    try_reclaim(pool, claim, failure, {})
    if not claim.starved or failure.resource == "uj":
        return
    reason = failure.reason
    if claim.awaiting and fails_for_others(pool, claim, failure):
        reason = "awaiting-reclaim"
    if reason in STEP_TWO and guard_can_help(pool, claim):
        set_guard(pool, ROOT, claim)


def guard_before_rounds(pool: Pool, claim: Claim) -> None:
    """§4.3, guards, step 1."""
    used = usage(pool)
    if holding_guard(pool, used, claim) is not None:
        return
    failure = first_failure(pool, claim)
    if failure is None or failure.reason not in STEP_ONE or failure.resource == "uj":
        return
    inside = not borrows(pool, used, claim)
    if inside and failure.reason == "limit" and failure.node != claim.leaf:
        return
    set_guard(pool, failure.node, claim)


def set_guard(pool: Pool, scope: str, claim: Claim) -> None:
    """One guard a scope: the first one set in a pass stands."""
    if scope in pool.guards:
        return
    pool.guards[scope] = claim
    if pool.guard_said.get(scope) != claim.id:
        pool.guard_said[scope] = claim.id
        pool.emit("guard.on", for_=claim.id, scope=scope)
