"""A pool's state as plain figures: per node what it has, holds, spent, borrows and lends.

Not here: why a claim waits (`streams.kernel`), how it is shown (`streams.cli.questions`).

A node's own figures are those of `streams.kernel.figures`.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.records import ROOT, ClaimState, Value
from streams.kernel import PoolState
from streams.kernel.claims import Claim
from streams.kernel.figures import resources, walk

Figures = dict[str, Value]


def nodes(state: PoolState) -> Iterator[Figures]:
    """Every node, the root first, then in tree order; amounts by resource."""
    reclaims = _reclaims(state)
    for node in walk(state.tree.root):
        yield {
            "node": node.id,
            "leaf": node.is_leaf,
            "live": state.live_count if node.id == ROOT else node.live,
            "waiting": len(state.waiting) if node.id == ROOT else node.waiting,
            "resources": resources(state, node),
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


def _reclaims(state: PoolState) -> dict[str, list[Claim]]:
    """The claims that were told to stop, by every node above them."""
    found: dict[str, list[Claim]] = {}
    for victims in state.claimants.values():
        for victim in victims.values():
            for node in victim.leaf.path:
                found.setdefault(node.id, []).append(victim)
            found.setdefault(ROOT, []).append(victim)
    return found
