"""The pass of profile §4.3 as its text has it: one plain loop over the waiting claims.

Not here: whether a claim fits, whom a guard holds, whom a claim reclaims, and whether a guard can
help: those are the kernel's own functions. What differs from the kernel's pass is only how it finds
the next claim: no shapes, no stretches, no pruning, no key that is kept.

1. Before the rounds: victims of claimants that now borrow are spared, guards begin anew (step 1).
2. A round takes the first untried claim by the key, every key computed anew each time.
3. Rounds go on until one admits nothing; then `guard.off` where due.

Profile: §4.3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from schemas.records import ROOT, Kind, Reason
from streams.kernel import passes, projection
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import first_failure
from streams.kernel.guards import can_help, holder
from streams.kernel.preemption import reclaim, reclaimable
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.tree import Node

STEP_1 = (
    Reason.CONCURRENCY,
    Reason.LIMIT,
    Reason.GUESS_CANNOT_BORROW,
    Reason.UNPREEMPTIBLE_CANNOT_BORROW,
    Reason.BORROWING_OFF,
)
STEP_2 = (Reason.SHARE, Reason.CAPACITY, Reason.EARMARKED)


def run_pass(run: Run) -> None:
    """Run one pass, the plain way."""
    state = run.state
    for claimant in sorted(state.claimants):
        if would_borrow(state.claims[claimant]):
            run.spare(claimant)
    state.active.clear()
    state.version += 1
    projection.stale_everywhere(state)
    for claim in sorted(state.waiting.values(), key=lambda claim: claim.arrival):
        if claim.starved:
            _before_the_rounds(run, claim)
    while _round(run):
        pass
    for scope in sorted(state.guards):
        if scope not in state.active:
            run.emit(Kind.GUARD_OFF, {"scope": scope})


def _set_guard(run: Run, scope: str, claim: Claim) -> None:
    state = run.state
    if scope in state.active:
        return
    state.active[scope] = claim.id
    state.version += 1
    projection.stale_everywhere(state)
    if state.guards.get(scope) != claim.id:
        run.emit(Kind.GUARD_ON, {"for": claim.id, "scope": scope})


def _before_the_rounds(run: Run, claim: Claim) -> None:
    state = run.state
    borrows = would_borrow(claim)
    if holder(state, claim, borrows=borrows) is not None:
        return
    failure = first_failure(state, claim)
    if failure is None or failure.reason not in STEP_1 or failure.position == state.uj:
        return
    if not borrows and failure.reason is Reason.LIMIT and failure.node is not claim.leaf:
        return
    _set_guard(run, failure.node.id, claim)


def _round(run: Run) -> bool:
    state = run.state
    tried: set[str] = set()
    admitted = False
    while True:
        untried = [claim for claim in state.waiting.values() if claim.id not in tried]
        if not untried:
            return admitted
        claim = min(untried, key=lambda one: key(state, one))
        tried.add(claim.id)
        admitted = _try(run, claim) or admitted


def _try(run: Run, claim: Claim) -> bool:
    """Try one claim; True if it was admitted."""
    state = run.state
    borrows = would_borrow(claim)
    if holder(state, claim, borrows=borrows) is not None:
        return False
    failure = first_failure(state, claim)
    if failure is None:
        run.admit(claim)
        return True
    may_reclaim = not borrows and reclaimable(claim, failure)
    if may_reclaim:
        reclaim(run, claim, failure)
    in_vain = failure.reason in STEP_2 or (may_reclaim and claim.awaiting)
    if claim.starved and in_vain and failure.position != state.uj and can_help(state, claim):
        _set_guard(run, ROOT, claim)
    return False


def key(state: PoolState, claim: Claim) -> tuple[object, ...]:
    """The admission order's key: smallest first."""
    tier = 1 if would_borrow(claim) else 0
    if claim.starved:
        return tier, 0, claim.arrival
    path = tuple((ratio(state, node), node.id.encode()) for node in reversed(claim.leaf.path))
    aging_ms = state.policy.aging_ms
    age = claim.submitted_ms - claim.priority * aging_ms if aging_ms > 0 else -claim.priority
    return tier, 1, path, age, claim.arrival


def ratio(state: PoolState, node: Node) -> int:
    """Parts per billion of the capacity that the node uses for its weight, the largest."""
    return max(
        (
            used * 10**9 // (total * node.weight)
            for used, total in zip(node.usage, state.capacity, strict=True)
            if total > 0
        ),
        default=0,
    )


@contextmanager
def plain_passes() -> Iterator[None]:
    """Within it, wherever the kernel runs a pass it runs the plain one."""
    fast = passes.run_pass
    users = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("streams.kernel.") and getattr(module, "run_pass", None) is fast
    ]
    assert len(users) >= 2
    with pytest.MonkeyPatch.context() as patch:
        for module in users:
            patch.setattr(module, "run_pass", run_pass)
        yield
