"""Planting a tree: the pool's first, and one that replaces another under running claims (§2.2).

Not here: whether the tree may be planted (`admin`).

1. Live claims bring their usage, leaves what they have spent in this period.
2. Nobody awaits a reclaim any more; victims already ordered stay ordered.
3. Waiting claims keep their arrival, their last written reason and their starvation.

Profile: §2.2, §4.3 (a new aging value re-orders the queue).
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas import records
from schemas.records import ClaimState
from streams.kernel import projection, queue, usage
from streams.kernel.claims import Claim
from streams.kernel.state import PoolState
from streams.kernel.tree import Node, build, resort


def plant(state: PoolState, nodes: Sequence[records.Node]) -> None:
    """Set the tree of a pool with nothing in it."""
    state.tree = build(nodes, state.capacity, state.resources)
    state.tree_spec = tuple(nodes)


def replant(state: PoolState, nodes: Sequence[records.Node]) -> None:
    """Replace the tree; every leaf that is in use is there again, and a leaf."""
    spent = {node.id: node.spent_uj for node in state.tree.nodes.values() if node.spent_uj}
    plant(state, nodes)
    last = state.uj
    for leaf_id, amount in spent.items():
        leaf = _leaf(state, leaf_id)
        leaf.spent_uj = amount
        usage.add(leaf, last, amount)
    state.awaiting = {}
    state.starved_leaves = {}
    for claim in state.claims.values():
        if claim.state is not ClaimState.ENDED:
            _move(state, claim)
    forget_marks(state)


def _leaf(state: PoolState, leaf_id: str) -> Node:
    leaf = state.tree.leaf(leaf_id)
    assert leaf is not None
    return leaf


def _move(state: PoolState, claim: Claim) -> None:
    """Put a live or waiting claim into the new tree."""
    claim.leaf = _leaf(state, claim.leaf_id)
    if claim.state is ClaimState.WAITING:
        claim.awaiting = claim.counted = False
        enqueue(state, claim)
        return
    enter(claim)
    if claim.reclaimed_for is not None:
        projection.free(claim, 1)


def enter(claim: Claim) -> None:
    """Add a live claim to its leaf: the counts above it, its demand and its hold."""
    leaf = claim.leaf
    leaf.live_claims[claim.id] = claim
    resort(leaf)
    for node in leaf.path:
        node.live += 1
    for position, amount in enumerate((*claim.demand[:-1], claim.hold_uj)):
        if amount:
            usage.add(leaf, position, amount)


def enqueue(state: PoolState, claim: Claim) -> None:
    """Put a waiting claim with all its marks into its leaf's queue and counts."""
    leaf = claim.leaf
    queue.count(leaf, 1)
    if claim.contends:
        usage.contend(leaf, claim.asks, 1)
    if claim.awaiting:
        state.awaiting[claim.id] = claim
        leaf.awaiting[claim.id] = claim
    queue.join(claim, state.policy.aging_ms)
    if claim.starved:
        state.starved_leaves[leaf] = None


def forget_marks(state: PoolState) -> None:
    """Everything that is kept lazily is to be found anew."""
    state.stale_awaiting = None
    state.tier0_leaves = {}
    state.tier0_starved = {}
    state.stale_tiers = {
        node: None for node in state.tree.nodes.values() if node.is_leaf and node.waiting
    }
    state.version += 1


def requeue(state: PoolState, aging_before_ms: int) -> None:
    """The aging changed: every waiting claim takes its new place in its shape."""
    for claim in state.waiting.values():
        queue.leave(claim, aging_before_ms)
    for claim in state.waiting.values():
        queue.join(claim, state.policy.aging_ms)
