"""Where a pass need not look (profile §4.3): where nobody can fit, and nothing would be written.

Not here: the order of a pass (`passes`). `hopeful` and `hopeless` are for claims of tier 1 that
have not starved: trying one of them in vain says nothing and changes nothing. `awaits_quietly` is
for claims of tier 0 that await a reclaim: in vain they may plan, so their plan must be empty too.

1. A claim asks for no less than the least demand that waits below a node, so what exceeds a limit,
   the room or a ceiling there with the least demand exceeds it with every demand.
2. For all that count as awaiting below a node, what is violated on projected usage (§5.1) is the
   same question: their demands, their own included, are in the projection.
3. Siblings that borrow and contend share one pot, so their ceilings are compared at once.

Invariant: what is left out fails a check of §4.2 up to `capacity`.
Profile: §4.2, §4.3.
"""

from __future__ import annotations

from streams.kernel import projection, queue
from streams.kernel.claims import exceeds
from streams.kernel.state import PoolState
from streams.kernel.surplus import ceiling, room
from streams.kernel.tree import Node

_FINE = 2**64
_ANY = -(2**200)
"""Less than any ceiling: nothing is asked of it."""


class Rivals:
    """A node's waiting children by what its ceiling in devices must be for a claim below to fit.

    A child that borrows and contends is in `needs`: what it would then borrow, that for its weight
    (`_FINE` parts, floored), and how much more that is than now. Any other is in `others`: what
    must be left of the surplus. `least`: the smallest by weight; `threshold`: what the node's own
    ceiling must reach for any of them.
    """

    __slots__ = ("least", "needs", "others", "threshold")

    def __init__(self) -> None:
        self.needs: dict[Node, tuple[int, int, int]] = {}
        self.others: dict[Node, int] = {}
        self.least = 0
        self.threshold = _ANY

    def place(self, child: Node) -> None:
        """Find a child's place anew."""
        self.needs.pop(child, None)
        self.others.pop(child, None)
        if child.waiting == 0:
            return
        demand = queue.least(child)[0]
        if demand == 0:
            self.others[child] = _ANY
            return
        used, promised = child.usage[0], child.guarantee[0]
        threshold = _ANY if child.is_leaf else _rivals(child).threshold
        wanted = max(used + demand, threshold)
        if wanted <= promised:
            self.others[child] = _ANY
        elif used > promised and child.contenders[0]:
            need = wanted - promised
            self.needs[child] = (need * _FINE // child.weight, need, wanted - used)
        else:
            self.others[child] = wanted - (used if child.lends[0] or used > promised else promised)

    def settle(self, node: Node) -> None:
        """Find the least of them, whose rivals these are."""
        left = min(self.others.values(), default=None)
        if self.needs:
            self.least = min(self.needs.values())[0]
            pot = -(-self.least * node.contend_weight[0] // _FINE)
            rest = pot - node.contend_borrowed[0]
            left = rest if left is None else min(left, rest)
        self.threshold = _ANY
        if left is not None:
            self.threshold = max(_ANY, left + node.kept[0] + node.borrowed[0])


def hopeful(state: PoolState, node: Node) -> list[Node]:
    """The waiting children of a node, without those whose share of devices holds nothing more.

    Children that borrow and contend have the same surplus and pot (§4.2), so their ceilings are
    compared at once: `need > floor(pot * weight / weights)` is `need * weights > pot * weight`.
    """
    if node.hopeful_version != state.version:
        node.hopeful, node.hopeful_version = _hopeful(state, node), state.version
    return node.hopeful


def _hopeful(state: PoolState, node: Node) -> list[Node]:
    rivals = _rivals(node)
    top = _ceilings(state, node)[0]
    if top < rivals.threshold:
        return []
    left = top - node.kept[0] - node.borrowed[0]
    found = [child for child, short in rivals.others.items() if short <= left]
    if rivals.needs:
        pot = left + node.contend_borrowed[0]
        weights = node.contend_weight[0]
        if rivals.least * weights <= pot * _FINE:
            found += [
                child
                for child, (_, need, more) in rivals.needs.items()
                if more <= left and need * weights <= pot * child.weight
            ]
    return found


def _rivals(node: Node) -> Rivals:
    """A node's rivals, those that moved put in their place."""
    rivals = node.rivals
    if rivals is None:
        rivals = node.rivals = Rivals()
        node.moved = dict.fromkeys(node.waiting_children)
    if node.moved:
        for child in node.moved:
            rivals.place(child)
        node.moved.clear()
        rivals.settle(node)
    return rivals


def hopeless(state: PoolState, node: Node) -> bool:
    """Whether no claim of tier 1 below a node can fit, its least demand exceeding a bound."""
    if node.id in state.active or (node.max_live is not None and node.live >= node.max_live):
        return True
    parent = node.parent
    assert parent is not None
    above = _ceilings(state, parent)
    for at, demand in enumerate(queue.least(node)):
        if demand == 0:
            continue
        wanted = node.usage[at] + demand
        top = above[at] if parent.borrow else parent.guarantee[at]
        if demand > room(node, top, at):
            return True
        if wanted > node.guarantee[at] and (
            not node.borrow or wanted > ceiling(node, above[at], at, is_uj=at == len(above) - 1)
        ):
            return True
        limit = node.limit[at]
        if limit is not None and wanted > limit:
            return True
    return False


def allowance(state: PoolState, leaf: Node) -> list[int]:
    """Per resource the most that a claim of tier 1 can ask for at a leaf, other checks aside.

    The least over the path of the room, the limit's rest, and the rest below the ceiling (below
    the guarantee, where a node does not borrow).
    """
    last = len(leaf.guarantee) - 1
    found: list[int] = []
    for at in range(last + 1):
        bound: int | None = None
        for node in leaf.path:
            parent = node.parent
            assert parent is not None
            above = _ceilings(state, parent)[at]
            top = above if parent.borrow else parent.guarantee[at]
            best = node.guarantee[at]
            if node.borrow:
                best = ceiling(node, above, at, is_uj=at == last)
            limit = node.limit[at]
            if limit is not None and limit < best:
                best = limit
            rest = min(room(node, top, at), best - node.usage[at])
            bound = rest if bound is None else min(bound, rest)
        assert bound is not None
        found.append(bound)
    return found


def all_borrow(leaf: Node) -> bool:
    """Whether even the least demands that wait at a leaf exceed its guarantee."""
    least = queue.least(leaf)
    return exceeds(leaf, least, [at for at, demand in enumerate(least) if demand > 0])


def lacks_joules(state: PoolState, leaf: Node) -> bool:
    """Whether every claim of tier 1 at a leaf fails `share` or `capacity` in joules."""
    at = state.uj
    demand = queue.least(leaf)[at]
    if demand == 0:
        return False
    for node in leaf.path:
        parent = node.parent
        assert parent is not None
        above = _ceilings(state, parent)[at]
        if demand > room(node, above if parent.borrow else parent.guarantee[at], at):
            return True
        wanted = node.usage[at] + demand
        over = wanted > node.guarantee[at]
        if over and node.borrow and wanted > ceiling(node, above, at, is_uj=True):
            return True
    return False


def _ceilings(state: PoolState, node: Node) -> list[int]:
    """A node's ceilings in every resource, kept until the next change."""
    parent = node.parent
    if parent is None:
        return node.guarantee
    if node.ceiling_version != state.version:
        last = len(node.guarantee) - 1
        node.ceilings = [
            ceiling(node, above, at, is_uj=at == last)
            for at, above in enumerate(_ceilings(state, parent))
        ]
        node.ceiling_version = state.version
    return node.ceilings


def awaits_quietly(state: PoolState, leaf: Node) -> bool:
    """Whether trying a leaf's tier 0 claims, none starved, can neither admit nor write anything.

    The projection must be fresh. Not judged (False): under guards, or unless all of them await.
    """
    if state.active:
        return False
    top_node = leaf.path[-1]
    asks: dict[int, None] = {}
    for shape in leaf.queue.values():
        if shape.borrows():
            continue
        if not shape.awaiting or not any(
            shape.demand[at] > room(top_node, state.capacity[at], at) for at in shape.asks
        ):
            return False
        if all(leaf.usage[at] + leaf.awaited[at] <= leaf.guarantee[at] for at in shape.asks):
            asks.update(dict.fromkeys(shape.asks))
    return not any(_violated(state, leaf, at) for at in asks)


def _violated(state: PoolState, leaf: Node, at: int) -> bool:
    """Whether projected usage exceeds a limit above the leaf or a room on its path (§5.1)."""
    for node in leaf.path:
        limit = node.limit[at]
        if limit is not None and node is not leaf and projection.projected(node, at) > limit:
            return True
        parent = node.parent
        assert parent is not None
        top = _ceilings(state, parent)[at] if parent.borrow else parent.guarantee[at]
        if projection.projected_room(node, top, at) < 0:
            return True
    return False
