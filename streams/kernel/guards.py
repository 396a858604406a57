"""Starvation guards (profile §4.3): whom they hold, and when one is set.

Not here: the pass that sets and ends them (`passes`).

1. A guard holds every other claim below its scope that borrows.
2. Set at its own claim's leaf, or at a node by a claim inside its guarantee, it holds the others
   too; scope `/` holds borrowers only. Both are judged at the time of asking.

`state.guards` is what the scopes' last receipts say; `state.active` what stands in the running
pass. Outside a pass they are the same, less guards whose claim left the queue.
Profile: §4.3.
"""

from __future__ import annotations

from schemas.records import ROOT
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.state import PoolState
from streams.kernel.surplus import ceilings, room, tops
from streams.kernel.tree import Node


def holder(state: PoolState, claim: Claim, *, borrows: bool) -> str | None:
    """The id of the first scope, leaf upward, whose guard holds the claim; None if none does."""
    active = state.active
    if not active:
        return None
    for node in claim.leaf.path:
        owner_id = active.get(node.id)
        if owner_id is None or owner_id == claim.id:
            continue
        if borrows or _holds_all(state.claims[owner_id], node):
            return node.id
    if borrows and active.get(ROOT, claim.id) != claim.id:
        return ROOT
    return None


def only(state: PoolState, leaf: Node, *, borrows: bool) -> str | None:
    """The claim that alone may pass the guards on a leaf's path; None if no guard holds its tier.

    Others of that tier are held; so may this one be, by a further guard.
    """
    active = state.active
    for node in leaf.path:
        owner_id = active.get(node.id)
        if owner_id is not None and (borrows or _holds_all(state.claims[owner_id], node)):
            return owner_id
    return active.get(ROOT) if borrows else None


def _holds_all(owner: Claim, scope: Node) -> bool:
    if owner.leaf is scope:
        return True
    return not would_borrow(owner)


def can_help(state: PoolState, claim: Claim) -> bool:
    """Whether holding borrowers can help a starved claim tried in vain (step 2).

    Not if `share` or `capacity` fails in joules now (spent joules do not come back by waiting),
    nor if one would fail in an occupied resource with every node at `min(usage, guarantee)`.
    """
    last = state.uj
    if last in claim.asks and _fails_in_uj(claim, last):
        return False
    borrows = any(
        min(claim.leaf.usage[at], claim.leaf.guarantee[at]) + claim.demand[at]
        > claim.leaf.guarantee[at]
        for at in claim.asks
    )
    return not any(_fails_at_best(claim, at, borrows=borrows) for at in claim.asks if at != last)


def _fails_in_uj(claim: Claim, at: int) -> bool:
    leaf, amount = claim.leaf, claim.demand[at]
    found = ceilings(leaf, at, is_uj=True)
    top = tops(leaf, found, at)
    borrows = would_borrow(claim)
    for index, node in enumerate(leaf.path):
        if amount > room(node, top[index], at):
            return True
        wanted = node.usage[at] + amount
        if borrows and node.borrow and wanted > node.guarantee[at] and wanted > found[index]:
            return True
    return False


def _fails_at_best(claim: Claim, at: int, *, borrows: bool) -> bool:
    """Whether `share` or `capacity` fails were each node's usage `min(usage, guarantee)`."""
    amount = claim.demand[at]
    above = top = claim.leaf.path[-1].parent.guarantee[at]  # type: ignore[union-attr]  # the root
    for node in reversed(claim.leaf.path):
        parent = node.parent
        assert parent is not None
        used = min(node.usage[at], node.guarantee[at])
        own = used if node.lends[at] else node.guarantee[at]
        others = parent.kept[at] - own
        if amount > top - used - others:
            return True
        above = node.guarantee[at] + max(0, above - node.guarantee[at] - others)
        over = used + amount > node.guarantee[at]
        if borrows and node.borrow and over and used + amount > above:
            return True
        top = above if node.borrow else node.guarantee[at]
    return False
