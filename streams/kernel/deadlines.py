"""Deadlines (profile §3): what time alone brings about, settled before any event is judged.

Not here: when a deadline is set (`apply`).

1. Every deadline at or before now is settled as of now, oldest first; ties go by claim id, then
   expiry, lapse, wait, starvation.
2. Starvation depends on the policy as it stands, so it is kept by submission time.

Profile: §3.
"""

from __future__ import annotations

import heapq

from schemas.records import ClaimState, Kind, Reason
from streams.kernel.passes import run_pass
from streams.kernel.run import Run
from streams.kernel.state import EXPIRY, LAPSE, STARVATION, WAIT, Deadline, PoolState


def next_deadline(state: PoolState) -> Deadline | None:
    """The next deadline, whenever it is: (when in ms, claim id, order in the table)."""
    first = _next_timed(state)
    starving = _next_starving(state)
    if starving is None or (first is not None and first < starving):
        return first
    return starving


def settle(run: Run) -> None:
    """Settle every deadline that has come."""
    state = run.state
    while True:
        due = next_deadline(state)
        if due is None or due[0] > state.now_ms:
            return
        _, claim_id, order = due
        if order == EXPIRY:
            run.emit(Kind.CLAIM_EXPIRED, {"claim": claim_id})
        elif order == LAPSE:
            run.emit(Kind.CLAIM_UNCERTAIN, {"claim": claim_id})
            continue
        elif order == WAIT:
            run.refuse_claim(claim_id, Reason.WAIT_EXPIRED)
        else:
            run.emit(Kind.CLAIM_STARVED, {"claim": claim_id})
        run_pass(run)


def _next_timed(state: PoolState) -> Deadline | None:
    heap = state.deadlines
    while heap:
        when, claim_id, order = heap[0]
        actual = _when(state, claim_id, order)
        if actual == when:
            return heap[0]
        if actual is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (actual, claim_id, order))
    return None


def _when(state: PoolState, claim_id: str, order: int) -> int | None:
    """When this deadline of a claim is now; None if it has none any more."""
    claim = state.claims.get(claim_id)
    if claim is None:
        return None
    if order == EXPIRY:
        held = claim.state is ClaimState.HELD and claim.commit_within_ms > 0
        return claim.admitted_ms + claim.commit_within_ms if held else None
    if order == WAIT:
        return claim.wait_until_ms if claim.state is ClaimState.WAITING else None
    if claim.state is ClaimState.RUNNING and claim.lease_ms > 0:
        return claim.lease_from_ms + claim.lease_ms
    claim.lapse_queued = False
    return None


def _next_starving(state: PoolState) -> Deadline | None:
    after_ms = state.policy.reserve_after_ms
    if after_ms == 0:
        return None
    heap = state.starving
    while heap:
        submitted_ms, claim_id = heap[0]
        claim = state.claims.get(claim_id)
        waits = claim is not None and claim.state is ClaimState.WAITING and not claim.starved
        if claim is not None and waits and claim.submitted_ms == submitted_ms:
            return submitted_ms + after_ms, claim_id, STARVATION
        heapq.heappop(heap)
    return None
