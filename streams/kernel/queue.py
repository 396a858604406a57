"""Who waits, grouped so that a pass looks at each question once.

Waiting claims of one leaf with the same demand, grade class, preemptibility and awaiting mark form
a *shape*: whether one of them fits is the same answer for all of them at any moment. Starved claims
form none: they are tried one by one.

Not here: the order in which shapes are tried (`passes`), and when a claim joins (`apply`).

1. Inside a shape claims stand in the order of key 3 (profile §4.3); starved ones by arrival.
2. `least` of a node is, per resource, the smallest demand that waits below it: what exceeds a
   bound at the node with its least demand exceeds it with every demand.

Invariant: a node's `least` is None (to be computed) or what its waiting shapes make it.
Profile: §4.3.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

from streams.kernel.claims import Claim, asked, exceeds
from streams.kernel.tree import Node

ShapeKey = tuple[tuple[int, ...], bool, bool, bool]
"""(demand, is a guess, preemptible, awaits a reclaim)."""
Entry = tuple[int, int, Claim]
"""(key 3, arrival, claim); arrivals differ, so two entries never compare their claims."""
Place = tuple[int, int]
"""(key 3, arrival): a place in the order inside a shape."""


class Multiset:
    """Amounts with their counts, and the least of them."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, amount: int) -> None:
        """Count one more of an amount."""
        count = self._counts.get(amount)
        if count is None:
            heappush(self._heap, amount)
        self._counts[amount] = (count or 0) + 1

    def remove(self, amount: int) -> None:
        """Count one less; amounts that nobody has are dropped when they come to the front."""
        self._counts[amount] -= 1
        while self._heap and self._counts[self._heap[0]] == 0:
            del self._counts[heappop(self._heap)]

    def least(self) -> int:
        """The least amount; there must be one."""
        return self._heap[0]


class Shape:
    """Alike waiting claims of one leaf, in order.

    `tried_round` and `tried_upto`: in that round every entry up to that place counts as tried.
    """

    __slots__ = (
        "asks",
        "demand",
        "entries",
        "key",
        "leaf",
        "may_borrow",
        "tried_round",
        "tried_upto",
    )

    def __init__(self, leaf: Node, key: ShapeKey) -> None:
        self.leaf = leaf
        self.key = key
        self.demand = key[0]
        self.may_borrow = key[2] and not key[1]
        self.asks = asked(key[0])
        self.entries: list[Entry] = []
        self.tried_round = 0
        self.tried_upto: Place = (0, 0)

    @property
    def awaiting(self) -> bool:
        """Whether its claims await a reclaim (§5.1)."""
        return self.key[3]

    def borrows(self) -> bool:
        """Whether its claims, started now, would exceed their leaf's guarantee: tier 1 (§4.2)."""
        return exceeds(self.leaf, self.demand, self.asks)

    def next_untried(self, round_number: int) -> Entry | None:
        """The first entry not yet tried in this round."""
        start = 0
        if self.tried_round == round_number:
            start = bisect_left(self.entries, (self.tried_upto[0], self.tried_upto[1] + 1))
        for index in range(start, len(self.entries)):
            if self.entries[index][2].tried != round_number:
                return self.entries[index]
        return None

    def mark(self, round_number: int, place: Place) -> None:
        """Count every entry up to `place` as tried in this round."""
        if self.tried_round != round_number or place > self.tried_upto:
            self.tried_upto = place
        self.tried_round = round_number


def shape_key(claim: Claim) -> ShapeKey:
    """The key of the shape that a waiting claim belongs to."""
    return (claim.demand, claim.guess, claim.preemptible, claim.awaiting)


def place_of(claim: Claim, aging_ms: int) -> Place:
    """Key 3 of the admission order, smallest first."""
    if aging_ms > 0:
        return claim.submitted_ms - claim.priority * aging_ms, claim.arrival
    return -claim.priority, claim.arrival


def join(claim: Claim, aging_ms: int) -> None:
    """Put a waiting claim into its leaf's queue."""
    leaf = claim.leaf
    if claim.starved:
        insort(leaf.starved, (claim.arrival, claim))
        if claim.may_not_borrow:
            insort(leaf.starved_bound, (claim.arrival, claim))
        _wants(leaf, claim.demand)
        return
    key = shape_key(claim)
    shape = leaf.queue.get(key)
    if shape is None:
        shape = leaf.queue[key] = Shape(leaf, key)
        _wants(leaf, claim.demand)
    insort(shape.entries, (*place_of(claim, aging_ms), claim))


def leave(claim: Claim, aging_ms: int) -> None:
    """Take a waiting claim out of its leaf's queue."""
    leaf = claim.leaf
    if claim.starved:
        del leaf.starved[bisect_left(leaf.starved, (claim.arrival,))]
        if claim.may_not_borrow:
            del leaf.starved_bound[bisect_left(leaf.starved_bound, (claim.arrival,))]
        _wants_no_more(leaf, claim.demand)
        return
    key = shape_key(claim)
    shape = leaf.queue[key]
    index = bisect_left(shape.entries, place_of(claim, aging_ms))
    assert shape.entries[index][2] is claim
    del shape.entries[index]
    if not shape.entries:
        del leaf.queue[key]
        _wants_no_more(leaf, claim.demand)


def _wants(leaf: Node, demand: tuple[int, ...]) -> None:
    if not leaf.amounts:
        leaf.amounts = [Multiset() for _ in leaf.guarantee]
    for amounts, amount in zip(leaf.amounts, demand, strict=True):
        amounts.add(amount)
    _find_least(leaf)


def _wants_no_more(leaf: Node, demand: tuple[int, ...]) -> None:
    for amounts, amount in zip(leaf.amounts, demand, strict=True):
        amounts.remove(amount)
    _find_least(leaf)


def count(leaf: Node, step: int) -> None:
    """One waiting claim more (1) or less (-1) at the leaf and all above it."""
    node = leaf
    while True:
        node.waiting += step
        parent = node.parent
        if parent is None:
            return
        if node.waiting == 0:
            del parent.waiting_children[node]
            parent.moved[node] = None
        elif node not in parent.waiting_children:
            parent.waiting_children[node] = None
            parent.moved[node] = None
        node = parent


def _find_least(leaf: Node) -> None:
    """A demand came or went: find the leaf's least ones, and forget those above if they moved."""
    before = leaf.least
    leaf.least = None
    if leaf.queue or leaf.starved:
        leaf.least = [amounts.least() for amounts in leaf.amounts]
    if leaf.least == before:
        return
    for node in leaf.path:
        parent = node.parent
        assert parent is not None
        parent.least = None
        parent.moved[node] = None


def least(node: Node) -> list[int]:
    """Per resource the smallest demand waiting below a node that has waiting claims."""
    if node.least is None:
        demands = [least(child) for child in node.waiting_children]
        node.least = [min(column) for column in zip(*demands, strict=True)]
    return node.least
