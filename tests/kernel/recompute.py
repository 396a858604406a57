"""Every figure that the kernel keeps along a path, computed anew from its definition.

Not here: whether the figures' sources are right (`auditor`): claims and usage are taken as found.

Profile: §4.2 (kept, borrowed, occupied, contending), §5.1 (freed, awaited).
"""

from __future__ import annotations

from schemas.records import ClaimState
from streams.kernel import PoolState, projection, queue
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.guards import holder
from streams.kernel.tree import Node


def check_kept_figures(state: PoolState) -> None:
    """Hold each kept figure of each node against its definition."""
    projection.refresh(state)
    live = [claim for claim in state.claims.values() if claim.is_live]
    waiting = list(state.waiting.values())
    for node in (state.tree.root, *state.tree.nodes.values()):
        for at in range(len(state.resources)):
            _check_sums(node, at)
        if node.parent is not None:
            _check_below(state, node, live=_below(node, live), waiting=_below(node, waiting))
    assert state.tree.root.waiting == len(waiting)
    assert state.live_count == len(live)
    victims = [claim for claim in live if claim.reclaimed_for is not None]
    assert state.reclaiming == len(victims)
    assert state.reclaiming_mdev == sum(claim.demand[0] for claim in victims)
    assert set(state.awaiting) == {claim.id for claim in waiting if claim.awaiting}


def _below(node: Node, claims: list[Claim]) -> list[Claim]:
    return [claim for claim in claims if node in claim.leaf.path]


def _check_sums(node: Node, at: int) -> None:
    """The sums over a node's children in one resource."""
    kept = borrowed = occupied = weight = contend_borrowed = usage = 0
    over = set()
    for child in node.children:
        promised, used = child.guarantee[at], child.usage[at]
        excess = max(0, used - promised)
        usage += used
        kept += min(used, promised) if child.lends[at] else promised
        occupied += used if child.lends[at] else max(used, promised)
        borrowed += excess
        if child.contenders[at]:
            weight += child.weight
            contend_borrowed += excess
        if excess:
            over.add(child.id)
    if node.children:
        assert node.usage[at] == usage
    assert node.kept[at] == kept
    assert node.borrowed[at] == borrowed
    assert node.occupied[at] == occupied
    assert node.contend_weight[at] == weight
    assert node.contend_borrowed[at] == contend_borrowed
    assert {child.id for child in node.over[at]} == over


def _check_below(state: PoolState, node: Node, *, live: list[Claim], waiting: list[Claim]) -> None:
    """The sums over the claims below a node."""
    victims = [claim for claim in live if claim.reclaimed_for is not None]
    counted = [claim for claim in waiting if _counts(state, claim)]
    for at in range(len(state.resources)):
        assert node.contenders[at] == sum(one.contends and at in one.asks for one in waiting)
        last = at == state.uj
        freed = sum(one.freed_uj if last else one.demand[at] for one in victims)
        assert node.freed[at] == freed
        assert node.awaited[at] == sum(claim.demand[at] for claim in counted)
    assert node.live == len(live)
    assert node.waiting == len(waiting)
    assert (node in _waiting_children(node)) == bool(waiting)
    if node.is_leaf:
        assert set(node.live_claims) == {claim.id for claim in live}
    if waiting:
        least = [min(claim.demand[at] for claim in waiting) for at in range(len(state.resources))]
        assert queue.least(node) == least


def _waiting_children(node: Node) -> dict[Node, None]:
    assert node.parent is not None
    return node.parent.waiting_children


def _counts(state: PoolState, claim: Claim) -> bool:
    """Whether a claim counts as awaiting now (§5.1)."""
    if not claim.awaiting or claim.state is not ClaimState.WAITING:
        return False
    borrows = would_borrow(claim)
    return not borrows and holder(state, claim, borrows=borrows) is None
