"""A claim arrives (profile §4.1): it is refused, starts at once, or waits and is told why.

Not here: repeats (`repeats`), the pass that takes waiting claims (`passes`).

1. archived, unknown-leaf, gang-empty, class-empty, history-insufficient, never-fits.
2. It is tried at once; if it does not fit, or a guard holds it, queue-full may refuse it.
3. Else it waits; inside its guarantee it may reclaim what others borrowed.

Profile: §4.1, §4.2 check 6, §4.3, §5.1.
"""

from __future__ import annotations

from schemas.records import MDEV, UJ, ClaimSubmitted, Reason
from streams.kernel import estimates
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.effects_queue import new_claim
from streams.kernel.fit import Failure, first_failure, never_fits
from streams.kernel.guards import holder
from streams.kernel.preemption import reclaim, reclaimable
from streams.kernel.run import Run
from streams.kernel.tree import Node


def submit(run: Run, event: ClaimSubmitted) -> None:
    """Decide a `claim.submitted` that is no repeat."""
    claim = _acceptable(run, event)
    if claim is None:
        return
    state = run.state
    failure = first_failure(state, claim)
    borrows = would_borrow(claim)
    scope = holder(state, claim, borrows=borrows)
    if failure is None:
        if scope is None:
            run.admit(claim)
            return
        node = state.tree.nodes.get(scope, state.tree.root)
        failure = Failure(Reason.STARVED_AHEAD, node)
    full = _full(claim.leaf)
    if full is not None:
        run.refuse_claim(claim.id, Reason.QUEUE_FULL, node=full.id)
        return
    if not borrows and scope is None and reclaimable(claim, failure):
        reclaim(run, claim, failure)
    if claim.id not in state.waiting:
        run.wait(claim, failure.reason, failure)


def _acceptable(run: Run, event: ClaimSubmitted) -> Claim | None:
    """The claim that the event submits, or None and the refusal is written."""
    state = run.state
    if state.archived:
        run.refuse_claim(event.claim, Reason.ARCHIVED)
        return None
    if state.tree.leaf(event.leaf) is None:
        run.refuse_claim(event.claim, Reason.UNKNOWN_LEAF)
        return None
    reserved_uj, grade = event.demand.get(UJ, 0), event.grade
    nothing = event.demand.get(MDEV, 0) == 0 and reserved_uj == 0
    if not event.gang or (nothing and grade is not None):
        run.refuse_claim(event.claim, Reason.GANG_EMPTY)
        return None
    if grade is None:
        estimate = estimates.observed(state, event.class_)
        if isinstance(estimate, estimates.NoEstimate):
            run.refuse_claim(event.claim, estimate.reason, **estimate.details)
            return None
        reserved_uj, grade = estimate.uj, estimate.grade
    claim = new_claim(state, event, reserved_uj, grade)
    return None if refuse_never_fits(run, claim) else claim


def refuse_never_fits(run: Run, claim: Claim) -> bool:
    """Refuse a claim that can never fit; True if it was refused."""
    failure = never_fits(claim)
    if failure is None:
        return False
    assert failure.position is not None
    run.refuse_claim(
        claim.id,
        Reason.NEVER_FITS,
        node=failure.node.id,
        resource=run.state.resources[failure.position],
        excess=failure.short,
    )
    return True


def _full(leaf: Node) -> Node | None:
    """The first node, leaf upward, that has as many claims waiting as it may."""
    for node in leaf.path:
        if node.max_waiting is not None and node.waiting >= node.max_waiting:
            return node
    return None
