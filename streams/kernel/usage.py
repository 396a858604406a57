"""Usage along a path (profile §2.3), and the sums over siblings that admission needs (§4.2).

Not here: why usage changes (`apply`), and how the sums are read (`surplus`, `projection`).

1. `add` changes one resource's usage at a leaf and every node above it.
2. With it change the parent's sums: `kept` (min of usage and guarantee where lent, else the
   guarantee), `borrowed` (usage over the guarantee), `occupied` (usage where lent, else at least
   the guarantee), and `contend_borrowed` (borrowed, of children that contend).
3. `contend` counts waiting claims that contend for a resource below each node.

Invariant: every sum equals the sum over the children, recomputed.
Profile: §2.3, §4.2, §4.3 (ratio).
"""

from __future__ import annotations

from collections.abc import Sequence

from streams.kernel.tree import Node

PARTS_PER_BILLION = 10**9


def add(leaf: Node, position: int, amount: int) -> None:
    """Add `amount` (may be negative) of one resource to the leaf's usage and all above it."""
    node = leaf
    while True:
        old = node.usage[position]
        new = old + amount
        node.usage[position] = new
        node.ratio = -1
        node.candidates = None
        parent = node.parent
        if parent is None:
            return
        parent.moved[node] = None
        promised = node.guarantee[position]
        if old <= promised and new <= promised:
            if node.lends[position]:
                parent.kept[position] += amount
                parent.occupied[position] += amount
        else:
            _cross(node, parent, position=position, old=old, new=new)
        if node.projections:
            reshift(node, parent, position)
        node = parent


def reshift(node: Node, parent: Node, position: int) -> None:
    """What projection changes in the room that a node takes of its parent (§5.1)."""
    used = node.usage[position]
    expected = used - node.freed[position] + node.awaited[position]
    if not node.lends[position]:
        promised = node.guarantee[position]
        used = max(used, promised)
        expected = max(expected, promised)
    shift = expected - used
    parent.shifted[position] += shift - node.shift[position]
    node.shift[position] = shift


def _cross(node: Node, parent: Node, *, position: int, old: int, new: int) -> None:
    """The parent's sums where the node is, was or comes to be over its guarantee."""
    promised = node.guarantee[position]
    if node.lends[position]:
        parent.kept[position] += min(new, promised) - min(old, promised)
        parent.occupied[position] += new - old
    else:
        parent.occupied[position] += max(new, promised) - max(old, promised)
    borrowed = max(0, new - promised) - max(0, old - promised)
    parent.borrowed[position] += borrowed
    if node.contenders[position]:
        parent.contend_borrowed[position] += borrowed
    if new > promised:
        parent.over[position][node] = None
    else:
        parent.over[position].pop(node, None)


def contend(leaf: Node, positions: Sequence[int], step: int) -> None:
    """Count one claim more (`step` 1) or less (-1) that contends for these resources."""
    for node in leaf.path:
        parent = node.parent
        assert parent is not None
        parent.moved[node] = None
        for position in positions:
            before = node.contenders[position]
            node.contenders[position] = before + step
            if before == 0 or before + step == 0:
                parent.contend_weight[position] += step * node.weight
                borrowed = max(0, node.usage[position] - node.guarantee[position])
                parent.contend_borrowed[position] += step * borrowed


def ratio(node: Node, capacity: Sequence[int]) -> int:
    """Parts per billion of the capacity that the node uses for its weight (§4.3), floored."""
    if node.ratio < 0:
        node.ratio = max(
            (
                used * PARTS_PER_BILLION // (total * node.weight)
                for used, total in zip(node.usage, capacity, strict=True)
                if total > 0
            ),
            default=0,
        )
    return node.ratio
