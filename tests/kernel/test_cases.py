"""Every golden case holds for the kernel: decided, replayed, and from a snapshot at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.decide import decide_lines, timed_event
from streams.kernel import PoolState, decide
from tests.kernel.scenes import pins
from tests.kernel.twins import Twins

CASES = sorted((Path(__file__).parents[2] / "schemas" / "cases").glob("*.json"))
Case = dict[str, Any]


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> Case:
    """One golden case."""
    read: Case = json.loads(request.param.read_text())
    return read


def test_there_are_cases() -> None:
    """The folder of cases is found, and a case's name is its file's."""
    assert len(CASES) >= 36
    assert all(json.loads(path.read_text())["name"] == path.stem for path in CASES)


def test_each_event_is_answered_with_the_pinned_decisions(case: Case) -> None:
    """An event's decisions have the kinds, in order, and the body fields that the case pins."""
    found: list[list[dict[str, Any]]] = [[] for _ in case["events"]]
    for number, decision in decide_lines(case["events"]):
        found[number].append(decision)
    for expected, decisions in zip(case["decisions"], found, strict=True):
        assert [one["kind"] for one in decisions] == [one["kind"] for one in expected], decisions
        for pinned, decision in zip(expected, decisions, strict=True):
            assert pins(pinned, decision), (pinned, decision)


def test_replay_and_restored_states_equal_the_live_one(case: Case) -> None:
    """After every event replay gives the live state, and so does one restored before it."""
    twins: dict[str, Twins] = {}
    for value in case["events"]:
        event, at_ms = timed_event(value)
        assert event.pool is not None and at_ms is not None
        twins.setdefault(event.pool, Twins(event.pool)).send(event, at_ms)


def test_a_snapshot_of_any_moment_decides_the_rest_alike(case: Case) -> None:
    """A state restored once, after any event, decides all the events that follow alike."""
    events = [timed_event(value) for value in case["events"]]
    pool = events[0][0].pool
    assert pool is not None
    mine = [(event, at_ms) for event, at_ms in events if event.pool == pool]
    live = PoolState(pool)
    plains, decided = [], []
    for event, at_ms in mine:
        assert at_ms is not None
        decided.append(decide(live, event, at_ms))
        plains.append(live.to_plain() if live.is_open else None)
    for number, plain in enumerate(plains):
        if plain is None:
            continue
        restored = PoolState.from_plain(plain)
        for (event, at_ms), expected in zip(mine[number + 1 :], decided[number + 1 :], strict=True):
            assert at_ms is not None
            assert decide(restored, event, at_ms) == expected
