"""What the operator's decisions, and guards, do to the state.

Not here: whether they may be made (`admin`, `passes`).

Profile: §2.2, §2.3 (a new period), §3, §4.3 (guards).
"""

from __future__ import annotations

from schemas.records import (
    Body,
    PolicySet,
    PoolOpened,
    TreeSet,
)
from streams.kernel import projection, relink, repeats, usage
from streams.kernel.bodies import text, touched
from streams.kernel.policy import policy_of
from streams.kernel.state import PoolState


def pool_opened(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, PoolOpened) and not state.is_open
    state.is_open = True
    state.resources = event.resources
    state.capacity = tuple(event.capacity.get(name, 0) for name in event.resources)
    state.policy = policy_of(event.policy)
    relink.plant(state, event.tree)


def tree_set(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, TreeSet)
    relink.replant(state, event.tree)


def policy_set(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, PolicySet)
    before = state.policy.aging_ms
    state.policy = policy_of(event.policy)
    if state.policy.aging_ms != before:
        relink.requeue(state, before)


def period_opened(state: PoolState, body: Body) -> None:
    """Spending starts anew; a claim that runs on has been charged what its meter showed."""
    last = state.uj
    for claim in state.claims.values():
        if claim.is_live:
            held = claim.hold_uj
            claim.charged_uj = claim.metered_uj
            usage.add(claim.leaf, last, claim.hold_uj - held)
    for leaf in state.tree.nodes.values():
        if leaf.is_leaf:
            usage.add(leaf, last, -leaf.spent_uj)
            leaf.spent_uj = 0
            touched(state, leaf)
    state.period_index += 1
    repeats.forget(state)


def pool_archived(state: PoolState, body: Body) -> None:
    state.archived = True


def guard_on(state: PoolState, body: Body) -> None:
    scope, owner = text(body["scope"]), text(body["for"])
    state.guards[scope] = owner
    state.active[scope] = owner
    projection.stale_everywhere(state)


def guard_off(state: PoolState, body: Body) -> None:
    scope = text(body["scope"])
    del state.guards[scope]
    state.active.pop(scope, None)
    projection.stale_everywhere(state)
