"""A pool's state as plain figures: per node what it has, holds, spent, borrows and lends.

Not here: why a claim waits (`streams.kernel`), how it is shown (`streams.cli.questions`).

1. `used` is the profile's usage (§2.3); of joules it is what was spent and what live claims hold.
2. `borrowed` is usage above the guarantee. `lent` attributes what the siblings have borrowed: first
   to what nobody is guaranteed at their parent, the rest to the siblings that lend, in proportion
   to what they leave idle of their guarantee (floors; what is left over, to the first by id). The
   profile borrows from a surplus, not from anybody: `lent` is a picture of it, never a rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.records import ROOT, UJ, ClaimState, Value
from streams.kernel import PoolState
from streams.kernel.claims import Claim
from streams.kernel.tree import Node

Figures = dict[str, Value]


def nodes(state: PoolState) -> Iterator[Figures]:
    """Every node, the root first, then in tree order; amounts by resource."""
    reclaims = _reclaims(state)
    for node in _walk(state.tree.root):
        yield {
            "node": node.id,
            "leaf": node.is_leaf,
            "live": state.live_count if node.id == ROOT else node.live,
            "waiting": len(state.waiting) if node.id == ROOT else node.waiting,
            "resources": _resources(state, node),
            "reclaiming": [
                {"claim": claim.id, "for": claim.reclaimed_for}
                for claim in reclaims.get(node.id, ())
            ],
        }


def overhead_uj(state: PoolState) -> int:
    """What meters read that no claim was charged for."""
    return state.overhead_uj


def claim(one: Claim) -> Figures:
    """One claim's figures as the pool has them now."""
    figures: Figures = {
        "claim": one.id,
        "leaf": one.leaf_id,
        "state": one.state.value,
        "demand": dict(demand(one)),
        "grade": one.grade,
        "class": one.class_,
        "priority": one.priority,
        "preemptible": one.preemptible,
        "submitted_ms": one.submitted_ms,
        "metered_uj": one.metered_uj,
        "completed": one.completed,
    }
    if one.metered_grade is not None:
        figures["metered_grade"] = one.metered_grade
    if one.was_admitted:
        figures["admitted_ms"] = one.admitted_ms
    if one.reclaimed_for is not None and one.is_live:
        figures["reclaimed_for"] = one.reclaimed_for
    if one.state is ClaimState.WAITING:
        figures["reason"] = one.reason
        figures["starved"] = one.starved
    return figures


def demand(one: Claim) -> dict[str, int]:
    """What a claim asks for, by resource."""
    return {name: amount for name, amount in one.demand_map.items() if isinstance(amount, int)}


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in sorted(node.children, key=lambda child: child.id):
        yield from _walk(child)


def _reclaims(state: PoolState) -> dict[str, list[Claim]]:
    """The claims that were told to stop, by every node above them."""
    found: dict[str, list[Claim]] = {}
    for victims in state.claimants.values():
        for victim in victims.values():
            for node in victim.leaf.path:
                found.setdefault(node.id, []).append(victim)
            found.setdefault(ROOT, []).append(victim)
    return found


def _resources(state: PoolState, node: Node) -> Figures:
    shown: Figures = {}
    for at, name in enumerate(state.resources):
        figures: Figures = {
            "guarantee": node.guarantee[at],
            "limit": node.limit[at],
            "used": node.usage[at],
            "borrowed": 0 if node.id == ROOT else max(0, node.usage[at] - node.guarantee[at]),
            "lent": _lent(node, at),
        }
        if name == UJ:
            spent = _spent_uj(node)
            figures |= {"spent": spent, "held": node.usage[at] - spent}
        else:
            figures["held"] = node.usage[at]
        shown[name] = figures
    return shown


def _spent_uj(node: Node) -> int:
    if node.children:
        return sum(_spent_uj(child) for child in node.children)
    return node.spent_uj


def _lent(node: Node, at: int) -> int:
    """Rule 2. What the node's siblings have of it, of one resource."""
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
