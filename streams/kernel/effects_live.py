"""What happens to live claims: they start, run, are reclaimed or spared, and end.

Not here: why (`run`, `settlement`, `preemption`, `deadlines`).

1. An admission adds demand and reservation to the leaf and to all above it.
2. At the end all is returned, and the figure replaces the hold in this period's spending.
3. A settled figure is an observation of its class (§2.6).

Profile: §2.3, §2.6, §2.8, §3, §5.3.
"""

from __future__ import annotations

import heapq

from schemas.records import (
    Body,
    ClaimState,
)
from streams.kernel import projection, relink, usage
from streams.kernel.bodies import claim_of, integer, text, touched
from streams.kernel.claims import Claim
from streams.kernel.effects_queue import arrive, known, leave_queue
from streams.kernel.state import EXPIRY, LAPSE, History, PoolState
from streams.kernel.tree import resort


def admitted(state: PoolState, body: Body) -> None:
    claim = known(state, body)
    if claim is None:
        claim = arrive(state, body)
    else:
        leave_queue(state, claim)
    claim.state = ClaimState.HELD
    claim.admission = state.admissions
    state.admissions += 1
    claim.admitted_ms = claim.start_ms = state.now_ms
    state.live_count += 1
    relink.enter(claim)
    touched(state, claim.leaf)
    if claim.commit_within_ms > 0:
        when = state.now_ms + claim.commit_within_ms
        heapq.heappush(state.deadlines, (when, claim.id, EXPIRY))


def committed(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.state is ClaimState.HELD
    claim.start_ms = state.now_ms
    _run(state, claim)


def _run(state: PoolState, claim: Claim) -> None:
    """The claim runs, and its lease starts anew."""
    claim.state = ClaimState.RUNNING
    claim.lease_from_ms = state.now_ms
    if claim.lease_ms > 0 and not claim.lapse_queued:
        claim.lapse_queued = True
        heapq.heappush(state.deadlines, (state.now_ms + claim.lease_ms, claim.id, LAPSE))


def renewed(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.state in (ClaimState.RUNNING, ClaimState.UNCERTAIN)
    _run(state, claim)


def progressed(state: PoolState, body: Body) -> None:
    renewed(state, body)
    claim = claim_of(state, body)
    claim.completed = integer(body["completed"])
    resort(claim.leaf)


def uncertain(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.state is ClaimState.RUNNING
    claim.state = ClaimState.UNCERTAIN


def expired(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    _end_live(state, claim, claim.metered_uj)


def settled(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    spent = body["spent"]
    assert isinstance(spent, dict)
    figure, grade = integer(spent["uj"]), text(spent["grade"])
    event = state.event
    completed = getattr(event, "completed", None)
    if completed is not None:
        claim.completed = completed
    _end_live(state, claim, figure)
    if body["outcome"] == "completed" and claim.class_:
        observe(state, claim.class_, figure, grade)


def _end_live(state: PoolState, claim: Claim, figure_uj: int) -> None:
    """All returned; the figure replaces the hold."""
    assert claim.is_live
    if claim.reclaimed_for is not None:
        _unreclaim(state, claim)
    leaf, charge = claim.leaf, max(0, figure_uj - claim.charged_uj)
    for node in leaf.path:
        node.live -= 1
    for position, amount in enumerate((*claim.demand[:-1], claim.hold_uj - charge)):
        if amount:
            usage.add(leaf, position, -amount)
    leaf.spent_uj += charge
    touched(state, leaf)
    del leaf.live_claims[claim.id]
    resort(leaf)
    state.live_count -= 1
    claim.state = ClaimState.ENDED
    claim.figure_uj = figure_uj
    claim.ended_period = state.period_index
    claim.devices = {}


def observe(state: PoolState, class_: str, figure_uj: int, grade: str) -> None:
    """One observation of a class (§2.6): a guess is counted, anything better is kept."""
    history = state.classes.setdefault(class_, History())
    if grade == "Estimator":
        history.guesses += 1
        return
    history.kept.append((figure_uj, grade))
    del history.kept[: -state.policy.history]


def preempting(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.is_live and claim.reclaimed_for is None
    claimant = text(body["for"])
    claim.reclaimed_for = claimant
    state.claimants.setdefault(claimant, {})[claim.id] = claim
    state.reclaiming += 1
    state.reclaiming_mdev += claim.demand[0]
    projection.free(claim, 1)


def _unreclaim(state: PoolState, claim: Claim) -> None:
    assert claim.reclaimed_for is not None
    victims = state.claimants[claim.reclaimed_for]
    del victims[claim.id]
    if not victims:
        del state.claimants[claim.reclaimed_for]
    claim.reclaimed_for = None
    state.reclaiming -= 1
    state.reclaiming_mdev -= claim.demand[0]
    projection.free(claim, -1)


def spared(state: PoolState, body: Body) -> None:
    claim = claim_of(state, body)
    assert claim.reclaimed_for == body["for"]
    _unreclaim(state, claim)
