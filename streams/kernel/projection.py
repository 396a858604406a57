"""Projected usage (profile §5.1): without those being reclaimed, with those that await a reclaim.

Not here: who is reclaimed (`preemption`), what is earmarked (`fit`).

1. `freed` of a node: what the live claims being reclaimed below it will return.
2. `awaited` of a node: the demands of the waiting claims below it that *count as awaiting*: they
   await a reclaim, are inside their guarantee now, and no guard holds them.
3. Which claims count changes with their leaf's usage and with the guards; `refresh` brings the
   sums up to date before anybody reads them.

Invariant: after `refresh`, `freed` and `awaited` equal their definition, recomputed.
Profile: §5.1, §4.2 check 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from streams.kernel import usage
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.guards import holder
from streams.kernel.state import PoolState
from streams.kernel.surplus import occupied
from streams.kernel.tree import Node


def free(claim: Claim, step: int) -> None:
    """Take a claim being reclaimed into the projection (`step` 1), or out of it (-1)."""
    for node in claim.leaf.path:
        node.projections += step
        node.candidates = None
        for position, amount in enumerate((*claim.demand[:-1], claim.freed_uj)):
            if amount:
                node.freed[position] += step * amount
                _reshift(node, position)


def refree_uj(claim: Claim, amount: int) -> None:
    """A victim's meter moved: it frees `amount` more joules (negative: fewer)."""
    last = len(claim.demand) - 1
    for node in claim.leaf.path:
        node.candidates = None
        node.freed[last] += amount
        _reshift(node, last)


def count(claim: Claim, *, counts: bool) -> None:
    """Let a waiting claim count as awaiting, or no longer."""
    if claim.counted == counts:
        return
    claim.counted = counts
    step = 1 if counts else -1
    for node in claim.leaf.path:
        node.projections += step
        for position, amount in enumerate(claim.demand):
            if amount:
                node.awaited[position] += step * amount
                _reshift(node, position)


def _reshift(node: Node, position: int) -> None:
    parent = node.parent
    assert parent is not None
    usage.reshift(node, parent, position)


def stale(state: PoolState, leaf: Node) -> None:
    """Usage changed at a leaf: whoever awaits there, or is held by its guards, is judged anew."""
    if not state.awaiting:
        return
    if state.stale_awaiting is None:
        return
    if any(state.claims[owner].leaf is leaf for owner in state.active.values()):
        state.stale_awaiting = None
    elif leaf.awaiting:
        state.stale_awaiting[leaf] = None


def stale_everywhere(state: PoolState) -> None:
    """The guards changed: everybody who awaits is judged anew."""
    state.stale_awaiting = None


def refresh(state: PoolState) -> None:
    """Bring `awaited` up to date."""
    if state.stale_awaiting is None:
        claims: Sequence[Claim] = list(state.awaiting.values())
    elif state.stale_awaiting:
        claims = [claim for leaf in state.stale_awaiting for claim in leaf.awaiting.values()]
    else:
        return
    state.stale_awaiting = {}
    for claim in claims:
        tier_1 = would_borrow(claim)
        counts = not tier_1 and holder(state, claim, borrows=tier_1) is None
        if counts != claim.counted:
            state.version += 1
            count(claim, counts=counts)


def projected(node: Node, position: int) -> int:
    """A node's projected usage in one resource."""
    return node.usage[position] - node.freed[position] + node.awaited[position]


def projected_room(node: Node, top: int, position: int) -> int:
    """`room(parent, node)` of §4.2 on projected usage; `top` is always of actual usage."""
    parent = node.parent
    assert parent is not None
    others = parent.occupied[position] - occupied(node, position, node.usage[position])
    others += parent.shifted[position] - node.shift[position]
    return top - projected(node, position) - others
