"""Release and settlement (profile §2.8): the actual figure replaces the reservation.

Not here: what it does to the leaf (`apply`), the pass after it (`passes`).

1. Faults in order: unknown-claim, wrong-state, out-of-range, progress-fell, implausible.
2. A report below the meter never counts: the meter's figure does, disputed.
3. Else the meter's figure if readings cover the claim; else the report; else the reservation,
   as a guess.

Profile: §2.8.
"""

from __future__ import annotations

from schemas.records import (
    QUANTITY_LIMIT,
    Body,
    ClaimReleased,
    ClaimState,
    Grade,
    Kind,
    Reason,
)
from streams.kernel.claims import Claim
from streams.kernel.run import Run, wrong_state
from streams.kernel.state import PoolState

LIVE = frozenset({ClaimState.HELD, ClaimState.RUNNING, ClaimState.UNCERTAIN})
COVERAGE_DIVISOR = 10
"""Readings may leave out a tenth of a run, at most."""


def release(run: Run, event: ClaimReleased) -> bool:
    """Decide a `claim.released`; True if the claim was settled."""
    state = run.state
    claim = wrong_state(run, event.claim, LIVE)
    if claim is None:
        return False
    actual = event.actual
    if actual is not None and actual.uj + state.tree.root.usage[-1] >= QUANTITY_LIMIT:
        run.refuse(Reason.OUT_OF_RANGE)
        return False
    if event.completed is not None and event.completed < claim.completed:
        run.refuse(Reason.PROGRESS_FELL)
        return False
    limit_uj = _plausible_uj(state, claim)
    if actual is not None and limit_uj is not None and actual.uj > limit_uj:
        run.refuse(Reason.IMPLAUSIBLE, limit_uj=limit_uj)
        return False
    run.emit(Kind.CLAIM_SETTLED, _settlement(state, claim, event))
    return True


def _plausible_uj(state: PoolState, claim: Claim) -> int | None:
    """The most that the claim's devices can have drawn since its start, floored; None: no limit.

    Microwatts times milliseconds are nanojoules, and `mdev` are thousandths: hence 10**6.
    """
    power_uw = state.policy.power_limit_uw
    if power_uw is None or claim.demand[0] == 0:
        return None
    span_ms = state.now_ms - claim.start_ms + state.policy.meter_slack_ms
    return power_uw * claim.demand[0] * span_ms // 10**6


def _settlement(state: PoolState, claim: Claim, event: ClaimReleased) -> Body:
    actual = event.actual
    disputed = actual is not None and actual.uj < claim.metered_uj
    spent: Body
    if disputed or covered(state, claim):
        spent = {"uj": claim.metered_uj, "grade": claim.metered_grade, "basis": "metered"}
    elif actual is not None:
        spent = {"uj": actual.uj, "grade": actual.grade, "basis": "reported"}
    else:
        figure = max(claim.reserved_uj, claim.metered_uj)
        spent = {"uj": figure, "grade": Grade.ESTIMATOR.value, "basis": "reserved"}
    if claim.charged_uj:
        spent["prior_uj"] = claim.charged_uj
    body: Body = {"claim": claim.id, "outcome": event.outcome, "spent": spent}
    if disputed:
        body["disputed"] = True
    return body


def covered(state: PoolState, claim: Claim) -> bool:
    """Whether readings cover the claim: no gap, all its devices, nearly all of its time."""
    if claim.gap or not claim.devices:
        return False
    if sum(use.mdev for use in claim.devices.values()) < claim.demand[0]:
        return False
    span_ms = state.now_ms - claim.start_ms
    allowed_ms = min(state.policy.meter_slack_ms, span_ms // COVERAGE_DIVISOR)
    return all(
        span_ms - use.covered_ms(claim.start_ms, state.now_ms) <= allowed_ms
        for use in claim.devices.values()
    )
