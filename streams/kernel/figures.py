"""A node in plain figures, for whoever shows a pool: what it has, holds, spends, borrows and lends.

Not here: any decision; nothing in the kernel reads these.

1. `used` is the profile's usage (§2.3); of joules it is what was spent and what live claims hold.
2. `borrowed` is usage above the guarantee. `lent` attributes what the siblings have borrowed: first
   to what nobody is guaranteed at their parent, the rest to the siblings that lend, in proportion
   to what they leave idle of their guarantee (floors; what is left over, to the first by id). The
   profile borrows from a surplus, not from anybody: `lent` is a picture of it, never a rule.

Profile: §2.2, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.records import ROOT, UJ, Value
from streams.kernel.state import PoolState
from streams.kernel.tree import Node

Figures = dict[str, Value]


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, children by id."""
    yield node
    for child in sorted(node.children, key=lambda child: child.id):
        yield from walk(child)


def resources(state: PoolState, node: Node) -> Figures:
    """Per resource: guarantee, limit, used, borrowed, lent, held; of joules also what was spent."""
    shown: Figures = {}
    for at, name in enumerate(state.resources):
        used = node.usage[at]
        figures: Figures = {
            "guarantee": node.guarantee[at],
            "limit": node.limit[at],
            "used": used,
            "borrowed": 0 if node.id == ROOT else max(0, used - node.guarantee[at]),
            "lent": _lent(node, at),
            "held": used,
        }
        if name == UJ:
            spent = sum(leaf.spent_uj for leaf in walk(node) if leaf.is_leaf)
            figures |= {"spent": spent, "held": used - spent}
        shown[name] = figures
    return shown


def _lent(node: Node, at: int) -> int:
    """Rule 2: what the node's siblings have of it, of one resource."""
    if node.parent is None:
        return 0
    siblings = sorted(node.parent.children, key=lambda child: child.id)
    borrowed = sum(max(0, child.usage[at] - child.guarantee[at]) for child in siblings)
    nobodys = max(node.parent.guarantee[at], node.parent.usage[at]) - sum(
        child.guarantee[at] for child in siblings
    )
    lent = borrowed - max(0, nobodys)
    idle = {
        child.id: max(0, child.guarantee[at] - child.usage[at])
        for child in siblings
        if child.lends[at]
    }
    total = sum(idle.values())
    if lent <= 0 or not total or not idle.get(node.id):
        return 0
    shares = {name: lent * part // total for name, part in idle.items()}
    shares[min(name for name in idle if idle[name])] += lent - sum(shares.values())
    return shares[node.id]
