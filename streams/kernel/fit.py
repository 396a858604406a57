"""Does it fit now (profile §4.2), and can it ever (§4.1 `never-fits`).

Not here: what follows from a failure (`passes`, `preemption`), guards on arrival (`submit`).

1. `first_failure` runs the six checks of §4.2 in their order, up to `earmarked`; within a check
   nodes go from the leaf to the root and for each the resources in order.
2. `starved-ahead` is judged by whoever asks, since it holds on arrival only.
3. A claim is looked at only in the resources that it asks for.

Profile: §4.1, §4.2, §4.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.records import Reason
from streams.kernel import projection
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.state import PoolState
from streams.kernel.surplus import ceilings, room, tops
from streams.kernel.tree import Node, most


@dataclass(frozen=True, slots=True)
class Failure:
    """The first check that fails: its reason, node, resource position and by how much."""

    reason: Reason
    node: Node
    position: int | None = None
    short: int | None = None


def first_failure(state: PoolState, claim: Claim) -> Failure | None:
    """The first check of §4.2 that a claim fails now (up to `earmarked`), or None: it fits."""
    leaf = claim.leaf
    failure = _concurrency(leaf) or _limit(leaf, claim)
    if failure is not None:
        return failure
    borrows = would_borrow(claim)
    last = state.uj
    found = [ceilings(leaf, at, is_uj=at == last) for at in claim.asks]
    if borrows:
        failure = _borrowing(leaf, claim, found)
        if failure is not None:
            return failure
    top = [tops(leaf, one, at) for one, at in zip(found, claim.asks, strict=True)]
    failure = _capacity(leaf, claim, top)
    if failure is None and (state.awaiting or state.reclaiming):
        failure = _earmarked(state, claim, top, borrows=borrows)
    return failure


def _concurrency(leaf: Node) -> Failure | None:
    for node in leaf.path:
        if node.max_live is not None and node.live >= node.max_live:
            return Failure(Reason.CONCURRENCY, node)
    return None


def _limit(leaf: Node, claim: Claim) -> Failure | None:
    demand = claim.demand
    for node in leaf.path:
        if node.has_limit:
            for at in claim.asks:
                limit = node.limit[at]
                if limit is not None and node.usage[at] + demand[at] > limit:
                    return Failure(Reason.LIMIT, node, at, node.usage[at] + demand[at] - limit)
    return None


def _borrowing(leaf: Node, claim: Claim, found: list[list[int]]) -> Failure | None:
    """Check 3: who may borrow, and how much."""
    demand = claim.demand
    if claim.may_not_borrow:
        for at in claim.asks:
            over = leaf.usage[at] + demand[at] - leaf.guarantee[at]
            if over > 0:
                reason = (
                    Reason.GUESS_CANNOT_BORROW
                    if claim.guess
                    else Reason.UNPREEMPTIBLE_CANNOT_BORROW
                )
                return Failure(reason, leaf, at, over)
    for index, node in enumerate(leaf.path):
        for one, at in zip(found, claim.asks, strict=True):
            wanted = node.usage[at] + demand[at]
            over = wanted - node.guarantee[at]
            if over > 0:
                if not node.borrow:
                    return Failure(Reason.BORROWING_OFF, node, at, over)
                if wanted > one[index]:
                    return Failure(Reason.SHARE, node, at, wanted - one[index])
    return None


def _capacity(leaf: Node, claim: Claim, top: list[list[int]]) -> Failure | None:
    demand = claim.demand
    for index, node in enumerate(leaf.path):
        for one, at in zip(top, claim.asks, strict=True):
            free = room(node, one[index], at)
            if demand[at] > free:
                assert node.parent is not None
                return Failure(Reason.CAPACITY, node.parent, at, demand[at] - free)
    return None


def _earmarked(
    state: PoolState, claim: Claim, top: list[list[int]], *, borrows: bool
) -> Failure | None:
    """Check 5: what is being reclaimed for somebody's guarantee is not for the next one."""
    projection.refresh(state)
    leaf, demand = claim.leaf, claim.demand
    if not claim.awaiting:
        for at in claim.asks:
            wanted = leaf.usage[at] + demand[at]
            excess = wanted + leaf.awaited[at] - leaf.guarantee[at]
            if wanted <= leaf.guarantee[at] and excess > 0:
                return Failure(Reason.EARMARKED, leaf, at, excess)
    if not borrows:
        return None
    for node in leaf.path[1:]:
        if node.has_limit:
            for at in claim.asks:
                limit = node.limit[at]
                wanted = projection.projected(node, at) + demand[at]
                if limit is not None and wanted > limit:
                    return Failure(Reason.EARMARKED, node, at, wanted - limit)
    for index, node in enumerate(leaf.path):
        for one, at in zip(top, claim.asks, strict=True):
            free = projection.projected_room(node, one[index], at)
            if demand[at] > free:
                assert node.parent is not None
                return Failure(Reason.EARMARKED, node.parent, at, demand[at] - free)
    return None


def never_fits(claim: Claim) -> Failure | None:
    """Where the claim exceeds what it could have at best (§4.1); None if it may fit some day."""
    for node in (*claim.leaf.path, _root(claim.leaf)):
        for at, amount in enumerate(claim.demand):
            if amount == 0:
                continue
            best = most(node, at)
            limit = node.limit[at]
            if limit is not None:
                best = min(best, limit)
            if node is claim.leaf and claim.may_not_borrow:
                best = min(best, node.guarantee[at])
            if amount > best:
                return Failure(Reason.NEVER_FITS, node, at, amount - best)
    return None


def _root(leaf: Node) -> Node:
    root = leaf.path[-1].parent
    assert root is not None
    return root


def borrowed_amounts(claim: Claim) -> dict[str, dict[int, int]]:
    """For each node of the path, what part of the demand would be borrowed there (§4.2)."""
    result: dict[str, dict[int, int]] = {}
    for node in claim.leaf.path:
        amounts = {}
        for at in claim.asks:
            over = node.usage[at] + claim.demand[at] - node.guarantee[at]
            amount = min(claim.demand[at], over)
            if amount > 0:
                amounts[at] = amount
        if amounts:
            result[node.id] = amounts
    return result
