"""The kernel's pass decides what the plain loop of the profile's text decides."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest

from streams.decide import decide_lines
from tests.kernel.crowds import crowd
from tests.kernel.naive_pass import plain_passes
from tests.kernel.scenes import Json
from tests.model.generate import generate

Answers = list[tuple[int, Json]]


def decisions(events: Sequence[Json]) -> Answers:
    """Every decision with the number of its event."""
    return list(decide_lines(copy.deepcopy(list(events))))


def both(events: Sequence[Json]) -> tuple[Answers, Answers]:
    """The decisions with the kernel's pass, and with the plain one."""
    fast = decisions(events)
    with plain_passes():
        return fast, decisions(events)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("profile", ["starve", "reclaim"])
def test_random_sequences_are_decided_alike(profile: str, seed: int) -> None:
    """With either pass a random sequence has the same decisions, field by field."""
    fast, plain = both(generate(seed, 100, profile))
    assert fast == plain


@pytest.mark.parametrize("seed", range(30))
def test_crowds_are_decided_alike(seed: int) -> None:
    """With either pass a crowded pool of many leaves has the same decisions, field by field."""
    fast, plain = both(crowd(seed, 200))
    assert fast == plain


def test_crowds_reach_what_a_pass_can_do() -> None:
    """The crowded pools wait, starve, guard, reclaim, spare, and admit from the queue."""
    kinds: set[str] = set()
    for seed in range(8):
        kinds.update(decision["kind"] for _, decision in decisions(crowd(seed, 200)))
    wanted = {"claim.waiting", "claim.starved", "guard.on", "guard.off", "claim.preempting"}
    assert wanted | {"claim.spared", "claim.admitted"} <= kinds
