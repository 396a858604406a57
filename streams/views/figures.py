"""A pool's tree as plain figures, and what of it somebody may see.

Not here: claims (`answers`), who may look below which node (`access`).

1. A node's own figures are those of `streams.kernel.figures`.
2. Who may look below one node sees that subtree whole, of the nodes above it entitlement and total
   usage, and of everything else one sum: neither names nor counts of others.

Invariant: for the root, figures are those of `pool usage`.
Profile: §2.2, §2.3.
"""

from __future__ import annotations

from typing import Any

from schemas.records import ROOT
from streams.kernel import PoolState
from streams.kernel.figures import resources, walk
from streams.kernel.tree import Node
from streams.views import energy, tables
from streams.views.index import is_below
from streams.views.tables import Tables

Figures = dict[str, Any]


def nodes(state: PoolState, store: Tables, below: str) -> list[Figures]:
    """The nodes that may be seen, the root first, then in tree order; amounts by resource."""
    shown = []
    for node in walk(state.tree.root):
        if is_below(node.id, below):
            shown.append(_whole(state, node, store))
        elif is_below(below, node.id):
            shown.append(_total(state, node))
    return shown


def others(state: PoolState, below: str) -> Figures | None:
    """What everybody else uses together, by resource; None for who sees everything."""
    own = node_of(state, below)
    if below == ROOT or own is None:
        return None
    root = state.tree.root
    return {name: root.usage[at] - own.usage[at] for at, name in enumerate(state.resources)}


def node_of(state: PoolState, node_id: str) -> Node | None:
    """A node by its id, the root too; None if there is none."""
    return state.tree.root if node_id == ROOT else state.tree.nodes.get(node_id)


def leaves_below(state: PoolState, below: str) -> list[Node]:
    """The leaves at or below a node, by id."""
    start = node_of(state, below)
    return [] if start is None else [node for node in walk(start) if node.is_leaf]


def energy_of(state: PoolState, store: Tables, below: str) -> Figures:
    """This period's joules at or below a node: charged by how they are known, and held."""
    leaves = leaves_below(state, below)
    rows = []
    for leaf in leaves:
        data = store[tables.ENERGY].get(tables.key(state.pool, leaf.id))
        rows.append(energy.empty() if data is None else tables.load(data))
    live = (claim for leaf in leaves for claim in leaf.live_claims.values())
    return {"charged_uj": energy.summed(rows), "held_uj": energy.held_by(live)}


def _whole(state: PoolState, node: Node, store: Tables) -> Figures:
    is_root = node.id == ROOT
    return {
        "node": node.id,
        "leaf": node.is_leaf,
        "weight": node.weight,
        "borrow": node.borrow,
        "live": state.live_count if is_root else node.live,
        "waiting": len(state.waiting) if is_root else node.waiting,
        "resources": resources(state, node),
        "energy": energy_of(state, store, node.id),
    }


def _total(state: PoolState, node: Node) -> Figures:
    """A node above one's own: what it has, and what all below it use together."""
    return {
        "node": node.id,
        "leaf": False,
        "weight": node.weight,
        "borrow": node.borrow,
        "resources": {
            name: {
                "guarantee": node.guarantee[at],
                "limit": node.limit[at],
                "used": node.usage[at],
            }
            for at, name in enumerate(state.resources)
        },
    }
