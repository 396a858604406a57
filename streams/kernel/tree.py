"""The entitlement tree (profile §2.2): its nodes, what makes a tree valid, and how it is built.

Not here: usage (`usage`), admission (`fit`), and whether a leaf may go (`admin`).

1. `tree_fault` judges a tree in the profile's order and gives the first offending id and rule.
2. `build` makes the linked nodes that every other module walks, resources as list positions.

Invariant: a `Node`'s sums over its children change only in `usage` and `contention`.
Profile: §2.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schemas import records
from schemas.records import ROOT

if TYPE_CHECKING:
    from streams.kernel.bounds import Rivals
    from streams.kernel.claims import Claim
    from streams.kernel.queue import Multiset, Shape, ShapeKey

_ID = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")

TreeFault = tuple[str, str]
"""(id, rule) of the first offending node."""


class Node:
    """One node with its entitlement and the figures kept along its path.

    Lists are indexed by resource position. `kept`, `borrowed`, `occupied`, `contend_weight` and
    `contend_borrowed` are sums over the node's children (profile §4.2); `freed` and `awaited` are
    what projection takes off and adds (§5.1), `shift` is what projection changes in the room that
    this node takes of its parent, `shifted` the sum of its children's. `unlent` sums what the
    children do not lend. `victims` are a leaf's live claims in the order of §5.2 (None: to be
    sorted), `candidates` the first to be reclaimed below the node, per resource (None: to be
    found). `starved` are a leaf's starved claims by arrival, `starved_bound` those that may not
    borrow. `constrained`: something on the path has a limit, a bound on live claims, or does not
    borrow. `rivals` are its waiting children by what they need (`bounds`), `moved` those of its
    children whose place there is to be found anew. `path` runs from here up to below the root.
    """

    __slots__ = (
        "amounts",
        "awaited",
        "awaiting",
        "borrow",
        "borrowed",
        "candidates",
        "ceiling_version",
        "ceilings",
        "children",
        "constrained",
        "contend_borrowed",
        "contend_weight",
        "contenders",
        "freed",
        "guarantee",
        "has_limit",
        "hopeful",
        "hopeful_version",
        "id",
        "is_leaf",
        "kept",
        "least",
        "lends",
        "limit",
        "live",
        "live_claims",
        "max_live",
        "max_waiting",
        "moved",
        "occupied",
        "over",
        "parent",
        "path",
        "projections",
        "queue",
        "ratio",
        "rivals",
        "shift",
        "shifted",
        "spent_uj",
        "starved",
        "starved_bound",
        "unlent",
        "usage",
        "victims",
        "waiting",
        "waiting_children",
        "weight",
    )

    def __init__(self, node_id: str, parent: Node | None, guarantee: list[int]) -> None:
        size = len(guarantee)
        self.id = node_id
        self.parent = parent
        self.children: list[Node] = []
        self.path: tuple[Node, ...] = ()
        self.is_leaf = False
        self.guarantee = guarantee
        self.limit: list[int | None] = [None] * size
        self.has_limit = False
        self.weight = 1
        self.borrow = True
        self.lends: list[bool] = [True] * size
        self.max_live: int | None = None
        self.max_waiting: int | None = None
        self.usage = [0] * size
        self.live = 0
        self.waiting = 0
        self.spent_uj = 0
        self.ratio = -1
        self.kept = [0] * size
        self.borrowed = [0] * size
        self.occupied = [0] * size
        self.contenders = [0] * size
        self.contend_weight = [0] * size
        self.contend_borrowed = [0] * size
        self.over: list[dict[Node, None]] = [{} for _ in range(size)]
        self.freed = [0] * size
        self.awaited = [0] * size
        self.projections = 0
        self.rivals: Rivals | None = None
        self.moved: dict[Node, None] = {}
        self.hopeful: list[Node] = []
        self.hopeful_version = -1
        self.constrained = False
        self.amounts: list[Multiset] = []
        self.ceilings = [0] * size
        self.ceiling_version = -1
        self.shift = [0] * size
        self.shifted = [0] * size
        self.waiting_children: dict[Node, None] = {}
        self.least: list[int] | None = None
        self.queue: dict[ShapeKey, Shape] = {}
        self.starved: list[tuple[int, Claim]] = []
        self.starved_bound: list[tuple[int, Claim]] = []
        self.awaiting: dict[str, Claim] = {}
        self.live_claims: dict[str, Claim] = {}
        self.victims: list[Claim] | None = None
        self.candidates: dict[int, Claim | None] | None = None
        self.unlent = [0] * size


def resort(leaf: Node) -> None:
    """A leaf's live claims changed, or what orders them (§5.2)."""
    leaf.victims = None
    for node in leaf.path:
        node.candidates = None


class Tree:
    """The root, and every node below it by id."""

    __slots__ = ("nodes", "root")

    def __init__(self, root: Node, nodes: dict[str, Node]) -> None:
        self.root = root
        self.nodes = nodes

    def leaf(self, leaf_id: str) -> Node | None:
        """The leaf of that id, or None if there is no such leaf."""
        node = self.nodes.get(leaf_id)
        return node if node is not None and node.is_leaf else None


def parent_id(node_id: str) -> str:
    """`a` of `a/b`; `/` of `a`."""
    return node_id.rpartition("/")[0] or ROOT


def undeclared(nodes: Sequence[records.Node], resources: Sequence[str]) -> bool:
    """Whether a node names a resource that the pool did not declare (which is `malformed`)."""
    known = set(resources)
    return any(
        not known.issuperset(node.guarantee)
        or not known.issuperset(node.limit)
        or (not isinstance(node.lend, bool) and not known.issuperset(node.lend))
        for node in nodes
    )


def tree_fault(
    nodes: Sequence[records.Node], capacity: dict[str, int], resources: Sequence[str]
) -> TreeFault | None:
    """The first fault of a tree in the profile's order, or None."""
    return (
        _id_fault(nodes)
        or _node_fault(nodes)
        or _sum_fault(nodes, capacity=capacity, resources=resources)
    )


def _id_fault(nodes: Sequence[records.Node]) -> TreeFault | None:
    seen: set[str] = set()
    for node in nodes:
        if not _ID.fullmatch(node.id):
            return node.id, "id"
        if node.id in seen:
            return node.id, "unique"
        seen.add(node.id)
    return None


def _node_fault(nodes: Sequence[records.Node]) -> TreeFault | None:
    ids = {node.id for node in nodes} | {ROOT}
    for node in nodes:
        if parent_id(node.id) not in ids:
            return node.id, "parent"
        if node.weight < 1:
            return node.id, "weight"
        if any(limit < node.guarantee.get(name, 0) for name, limit in node.limit.items()):
            return node.id, "limit"
    return None


def _sum_fault(
    nodes: Sequence[records.Node], *, capacity: dict[str, int], resources: Sequence[str]
) -> TreeFault | None:
    promised: dict[str, dict[str, int]] = {}
    for node in nodes:
        sums = promised.setdefault(parent_id(node.id), {})
        for name, amount in node.guarantee.items():
            sums[name] = sums.get(name, 0) + amount
    own = [(ROOT, capacity), *((node.id, dict(node.guarantee)) for node in nodes)]
    for node_id, guarantee in own:
        sums = promised.get(node_id, {})
        if any(sums.get(name, 0) > guarantee.get(name, 0) for name in resources):
            return node_id, "guarantee-sum"
    return None


def build(nodes: Sequence[records.Node], capacity: Sequence[int], resources: Sequence[str]) -> Tree:
    """A valid tree's linked nodes, with nothing used yet. `capacity` is by resource position."""
    root = Node(ROOT, None, list(capacity))
    built: dict[str, Node] = {}
    for spec in sorted(nodes, key=lambda node: node.id.count("/")):
        above = parent_id(spec.id)
        parent = root if above == ROOT else built[above]
        node = Node(spec.id, parent, [spec.guarantee.get(name, 0) for name in resources])
        node.limit = [spec.limit.get(name) for name in resources]
        node.has_limit = bool(spec.limit)
        node.weight = spec.weight
        node.borrow = spec.borrow
        node.lends = [
            spec.lend if isinstance(spec.lend, bool) else name in spec.lend for name in resources
        ]
        node.max_live = spec.max_live
        node.max_waiting = spec.max_waiting
        node.path = (node, *parent.path)
        parent.children.append(node)
        built[spec.id] = node
    for node in built.values():
        node.is_leaf = not node.children
        node.constrained = any(
            one.has_limit or one.max_live is not None or not one.borrow for one in node.path
        )
    for node in (root, *built.values()):
        for child in node.children:
            for position, lends in enumerate(child.lends):
                if not lends:
                    node.unlent[position] += child.guarantee[position]
                    node.kept[position] += child.guarantee[position]
                    node.occupied[position] += child.guarantee[position]
    return Tree(root, built)


def most(node: Node, position: int) -> int:
    """What a claim below `node` could have of a resource if nobody else used anything (§4.1)."""
    parent = node.parent
    if parent is None or not node.borrow:
        return node.guarantee[position]
    reserved = parent.unlent[position]
    if node.lends[position]:
        reserved += node.guarantee[position]
    return node.guarantee[position] + max(0, most(parent, position) - reserved)
