"""What happens to waiting claims: they arrive, wait, starve, and leave the queue.

Not here: why (`submit`, `passes`, `deadlines`), and the queue's order (`queue`).

1. A claim's terms come from the event that submitted it; the decision gives demand and grade.
2. A claim contends while its last written reason says so, and not for joules (§4.2).

Profile: §2.3, §3, §4.2, §4.3.
"""

from __future__ import annotations

import heapq

from schemas.records import (
    UJ,
    Body,
    ClaimState,
    ClaimSubmitted,
    Reason,
)
from streams.kernel import projection, queue, usage
from streams.kernel.bodies import claim_of, integer, text
from streams.kernel.claims import Claim
from streams.kernel.state import WAIT, PoolState

CONTENDING = frozenset({Reason.SHARE, Reason.CAPACITY, Reason.EARMARKED, Reason.STARVED_AHEAD})


def new_claim(state: PoolState, event: ClaimSubmitted, reserved_uj: int, grade: str) -> Claim:
    """A submitted claim as the pool would keep it; it is not in the state yet."""
    leaf = state.tree.leaf(event.leaf)
    assert leaf is not None
    amounts = [event.demand.get(name, 0) for name in state.resources]
    amounts[-1] = reserved_uj
    claim = Claim(event.claim, leaf, tuple(amounts), state.arrivals)
    claim.demand_map = dict(zip(state.resources, amounts, strict=True))
    claim.grade = grade
    claim.guess = grade == "Estimator"
    claim.class_ = event.class_
    claim.unit = event.unit
    claim.priority = event.priority
    claim.preemptible = event.preemptible
    claim.commit_within_ms = event.commit_within_ms
    claim.lease_ms = event.lease_ms
    claim.submitted_ms = state.now_ms
    waits = [bound for bound in (event.max_wait_ms, state.policy.max_wait_ms) if bound > 0]
    claim.wait_until_ms = state.now_ms + min(waits) if waits else None
    claim.content = event.content
    return claim


def arrive(state: PoolState, body: Body) -> Claim:
    """Take the claim that the running event submits into the state."""
    event = state.event
    assert isinstance(event, ClaimSubmitted) and event.claim == body["claim"]
    demand = body["demand"]
    assert isinstance(demand, dict)
    claim = new_claim(state, event, integer(demand[UJ]), text(body["grade"]))
    assert claim.demand_map == demand
    assert state.answer_seq is not None
    claim.first_seq = state.answer_seq
    state.arrivals += 1
    state.claims[claim.id] = claim
    return claim


def known(state: PoolState, body: Body) -> Claim | None:
    """The claim that a body names, if it waits; None if it arrives with this event."""
    claim = state.claims.get(text(body["claim"]))
    assert claim is None or claim.state is ClaimState.WAITING
    return claim


def waiting(state: PoolState, body: Body) -> None:
    claim = known(state, body)
    if claim is None:
        claim = arrive(state, body)
        state.waiting[claim.id] = claim
        if claim.wait_until_ms is not None:
            heapq.heappush(state.deadlines, (claim.wait_until_ms, claim.id, WAIT))
        heapq.heappush(state.starving, (claim.submitted_ms, claim.id))
        queue.count(claim.leaf, 1)
    else:
        queue.leave(claim, state.policy.aging_ms)
        set_contends(claim, contends=False)
    claim.reason = text(body["reason"])
    if claim.reason == Reason.AWAITING_RECLAIM:
        claim.awaiting = True
        state.awaiting[claim.id] = claim
        claim.leaf.awaiting[claim.id] = claim
        projection.stale(state, claim.leaf)
    set_contends(claim, contends=claim.reason in CONTENDING and body.get("resource") != UJ)
    queue.join(claim, state.policy.aging_ms)
    state.stale_tiers[claim.leaf] = None


def set_contends(claim: Claim, *, contends: bool) -> None:
    """Let a waiting claim contend for what it asks for, or no longer (§4.2)."""
    if claim.contends != contends:
        claim.contends = contends
        usage.contend(claim.leaf, claim.asks, 1 if contends else -1)


def leave_queue(state: PoolState, claim: Claim) -> None:
    """A waiting claim leaves: its places, its guards, and whatever it awaited."""
    queue.leave(claim, state.policy.aging_ms)
    queue.count(claim.leaf, -1)
    set_contends(claim, contends=False)
    del state.waiting[claim.id]
    state.stale_tiers[claim.leaf] = None
    if claim.starved and not claim.leaf.starved:
        del state.starved_leaves[claim.leaf]
    if claim.awaiting:
        projection.count(claim, counts=False)
        del state.awaiting[claim.id]
        del claim.leaf.awaiting[claim.id]
        claim.awaiting = False
    scopes = [scope for scope, owner in state.active.items() if owner == claim.id]
    for scope in scopes:
        del state.active[scope]
    if scopes:
        projection.stale_everywhere(state)


def refused(state: PoolState, body: Body) -> None:
    if body["reason"] == Reason.CLAIM_ID_REUSED:
        return
    claim = state.claims.get(text(body["claim"]))
    if claim is not None and claim.state is ClaimState.WAITING:
        _end_waiting(state, claim)


def cancelled(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.state is ClaimState.WAITING
    _end_waiting(state, claim)


def _end_waiting(state: PoolState, claim: Claim) -> None:
    leave_queue(state, claim)
    claim.state = ClaimState.ENDED
    claim.ended_period = state.period_index


def starved(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.state is ClaimState.WAITING
    queue.leave(claim, state.policy.aging_ms)
    claim.starved = True
    queue.join(claim, state.policy.aging_ms)
    state.starved_leaves[claim.leaf] = None
    state.stale_tiers[claim.leaf] = None
