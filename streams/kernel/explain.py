"""Why a claim waits now (profile §4.3): computed on request, never recorded.

Not here: what became of a claim and which receipts say so (the ledger's readers).

Profile: §4.2, §4.3, §5.1.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from schemas.records import ClaimState, Reason
from streams.kernel.passes import why
from streams.kernel.state import PoolState


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The state of a claim now, and for a waiting one why it does not start.

    `reason` is None if it would start in the next pass. `node`, `resource` and `short` (in the
    resource's unit) are those of the first check that fails; `ahead` counts the claims of its
    leaf that wait and came before it; `victims` are being reclaimed for it; `guarded_by` is the
    claim whose starvation guard holds it.
    """

    claim: str
    state: ClaimState
    reason: Reason | None = None
    node: str | None = None
    resource: str | None = None
    short: int | None = None
    ahead: int = 0
    starved: bool = False
    victims: tuple[str, ...] = ()
    guarded_by: str | None = None
    reclaimed_for: str | None = None


def explain(state: PoolState, claim_id: str) -> Why | None:
    """Why the claim waits now, or where it is; None if the pool does not know it."""
    claim = state.claims.get(claim_id)
    if claim is None:
        return None
    if claim.state is not ClaimState.WAITING:
        return Why(claim=claim_id, state=claim.state, reclaimed_for=claim.reclaimed_for)
    failure = why(state, claim)
    position = None if failure is None else failure.position
    reason = None if failure is None else failure.reason
    node = None if failure is None else failure.node.id
    guarded = state.active.get(node) if reason is Reason.STARVED_AHEAD and node else None
    return Why(
        claim=claim_id,
        state=claim.state,
        reason=reason,
        node=node,
        resource=None if position is None else state.resources[position],
        short=None if failure is None else failure.short,
        ahead=bisect_left(claim.leaf.starved, (claim.arrival,))
        + sum(
            entry[2].arrival < claim.arrival
            for shape in claim.leaf.queue.values()
            for entry in shape.entries
        ),
        starved=claim.starved,
        victims=tuple(sorted(state.claimants.get(claim_id, ()))),
        guarded_by=guarded,
    )
