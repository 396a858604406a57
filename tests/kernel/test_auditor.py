"""Any sequence of events is decided as an auditor with its own books would have it.

What is held after every event: see `auditor`; that replayed and restored states equal the live one;
that every figure kept along a path equals its definition; and that after a pass nobody waits who
fits and is held by no guard.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schemas.records import Decision, Kind
from streams.decide import timed_event
from streams.kernel import PoolState, explain
from tests.kernel.auditor import Auditor
from tests.kernel.crowds import crowd
from tests.kernel.recompute import check_kept_figures
from tests.kernel.scenes import Json
from tests.kernel.twins import Twins
from tests.model.generate import PROFILES, generate

# A smaller seed is no smaller sequence, so nothing is gained by shrinking one.
BY_SEED = settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
)
PASSING = frozenset(
    {
        Kind.CLAIM_SETTLED,
        Kind.CLAIM_CANCELLED,
        Kind.TREE_SET,
        Kind.POLICY_SET,
        Kind.PERIOD_OPENED,
        Kind.POOL_ARCHIVED,
    }
)
"""Kinds that answer an event and are followed by a pass, the last thing that the event does."""


def check_pass(state: PoolState, decisions: Sequence[Decision]) -> None:
    """After a pass each waiting claim has something that it waits for."""
    if any(decision.kind in PASSING for decision in decisions):
        for claim in state.waiting:
            why = explain(state, claim)
            assert why is not None and why.reason is not None, claim


class Watched:
    """The pools of one sequence, each with its twins and its auditor."""

    def __init__(self) -> None:
        self.pools: dict[str, tuple[Twins, Auditor]] = {}

    def send(self, value: Json) -> list[Decision]:
        """Decide an event in its JSON form, with everything held that can be."""
        event, at_ms = timed_event(copy.deepcopy(value))
        if event.pool is None or at_ms is None:
            return []
        twins, auditor = self.pools.setdefault(event.pool, (Twins(event.pool), Auditor()))
        decisions = twins.send(event, at_ms)
        state = twins.live
        if not state.is_open:
            return decisions
        auditor.follow(event, decisions, at_ms)
        auditor.compare(state)
        check_kept_figures(state)
        check_pass(state, decisions)
        return decisions


@pytest.mark.parametrize("profile", PROFILES)
@BY_SEED
@given(seed=st.integers(0, 2**32))
def test_generated_sequences_pass_the_audit(profile: str, seed: int) -> None:
    """Random events of every type, well-formed or not, are decided as the books have it."""
    watched = Watched()
    for value in generate(seed, 60, profile):
        if isinstance(value, dict):
            watched.send(value)


@BY_SEED
@given(seed=st.integers(0, 2**32))
def test_crowded_pools_pass_the_audit(seed: int) -> None:
    """Pools of many leaves with long queues are decided as the books have it."""
    watched = Watched()
    for value in crowd(seed, 100):
        watched.send(value)
