"""Trying one waiting claim in a pass, and setting a guard (profile §4.3, a round and step 2).

Not here: whose turn it is (`passes`, `starved`), whom a guard holds (`guards`).

1. A claim that a guard holds is not tried: it does not plan and guards nothing.
2. Tried in vain, it plans for what is still missing (§5.1); if it is starved it may guard `/`.

Profile: §4.3, §5.1.
"""

from __future__ import annotations

from schemas.records import ROOT, Kind, Reason
from streams.kernel import projection
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import first_failure
from streams.kernel.guards import can_help, holder
from streams.kernel.preemption import reclaim, reclaimable
from streams.kernel.run import Run

_IN_VAIN = frozenset({Reason.SHARE, Reason.CAPACITY, Reason.EARMARKED})


def attempt(run: Run, claim: Claim) -> None:
    """Try one claim: admit it, or let it plan and guard."""
    state = run.state
    claim.tried = state.rounds
    borrows = would_borrow(claim)
    if holder(state, claim, borrows=borrows) is not None:
        return
    failure = first_failure(state, claim)
    if failure is None:
        run.admit(claim)
        return
    may_reclaim = not borrows and reclaimable(claim, failure)
    if may_reclaim:
        reclaim(run, claim, failure)
    if claim.starved and failure.position != state.uj and ROOT not in state.active:
        in_vain = failure.reason in _IN_VAIN or (may_reclaim and claim.awaiting)
        if in_vain and can_help(state, claim):
            set_guard(run, ROOT, claim)


def set_guard(run: Run, scope: str, claim: Claim) -> None:
    """Let a claim guard a scope, if no guard stands there yet."""
    state = run.state
    if scope in state.active:
        return
    state.active[scope] = claim.id
    state.version += 1
    projection.stale_everywhere(state)
    if state.guards.get(scope) != claim.id:
        run.emit(Kind.GUARD_ON, {"for": claim.id, "scope": scope})
