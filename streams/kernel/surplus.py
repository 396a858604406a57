"""Weighted surplus (profile §4.2): what a node may have in all, and the room below its parent.

Not here: which check fails first (`fit`), projected usage (`projection`).

1. `ceiling(/) = capacity`; a child's is its guarantee and its part of the parent's surplus.
2. For joules, and while the child borrows nothing, that part is what the siblings left.
3. Else it is at most the child's weight among the siblings that contend.

Everything comes from sums that are kept (`usage`), so a path costs its depth.
Profile: §4.2.
"""

from __future__ import annotations

from streams.kernel.tree import Node


def ceilings(leaf: Node, position: int, *, is_uj: bool) -> list[int]:
    """The ceilings of the leaf's path, leaf first, in one resource."""
    path = leaf.path
    top = path[-1].parent
    assert top is not None
    above = top.guarantee[position]
    found: list[int] = []
    for node in reversed(path):
        above = ceiling(node, above, position, is_uj=is_uj)
        found.append(above)
    found.reverse()
    return found


def ceiling(node: Node, above: int, position: int, *, is_uj: bool) -> int:
    """A node's ceiling where its parent's is `above`."""
    parent = node.parent
    assert parent is not None
    promised = node.guarantee[position]
    used = node.usage[position]
    own_kept = min(used, promised) if node.lends[position] else promised
    own_borrowed = used - promised if used > promised else 0
    surplus = above - promised - parent.kept[position] + own_kept
    borrowed = parent.borrowed[position] - own_borrowed
    left = surplus - borrowed
    if left <= 0:
        return promised
    if is_uj or own_borrowed == 0:
        return promised + left
    weights = parent.contend_weight[position]
    contend_borrowed = parent.contend_borrowed[position]
    if node.contenders[position]:
        weights -= node.weight
        contend_borrowed -= own_borrowed
    pot = surplus - (borrowed - contend_borrowed)
    return promised + min(left, pot * node.weight // (node.weight + weights))


def occupied(node: Node, position: int, used: int) -> int:
    """What a child takes of its parent's room at a usage: no less than what it does not lend."""
    promised = node.guarantee[position]
    return used if node.lends[position] or used > promised else promised


def room(node: Node, top: int, position: int) -> int:
    """`room(parent, node)` of §4.2 on actual usage, `top` being the parent's."""
    parent = node.parent
    assert parent is not None
    used = node.usage[position]
    return top - used - parent.occupied[position] + occupied(node, position, used)


def tops(leaf: Node, found: list[int], position: int) -> list[int]:
    """`top(p)` of each path node's parent p, leaf first: `found` are the path's ceilings."""
    path = leaf.path
    result: list[int] = []
    for index, node in enumerate(path):
        parent = node.parent
        assert parent is not None
        if index + 1 == len(path) or not parent.borrow:
            result.append(parent.guarantee[position])
        else:
            result.append(found[index + 1])
    return result
