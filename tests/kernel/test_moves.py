"""A state machine of small moves on a small pool, each move audited.

Here Hypothesis chooses and shrinks every move, so that what it finds is short. What is held after
every move is in `test_auditor`.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

from tests.kernel.scenes import (
    Json,
    archive,
    asks,
    cancel,
    commit,
    node,
    opened,
    period,
    policy,
    progress,
    reads,
    release,
    renew,
    review,
    tick,
    tree,
)
from tests.kernel.test_auditor import Watched

LEAVES = ("a/x", "a/y", "b", "c")
DEVICES = ("g0", "g1")
OUTCOMES = ("completed", "failed", "evicted")
GRADES = ("Estimator", "ModelBased", "HwShunt")
TREES: tuple[tuple[Json, ...], ...] = (
    (node("a", 4, 40), node("a/x", 2, 20), node("a/y", 2, 20), node("b", 3, 30), node("c")),
    (
        node("a", 4, 40, limit={"mdev": 6, "uj": 60}),
        node("a/x", 1, 10, weight=2, lend=False),
        node("a/y", 3, 20, borrow=False),
        node("b", 2, 30, weight=3, lend=["uj"], max_live=2),
        node("c", 1, 10, max_waiting=2),
    ),
    (node("a", 2), node("a/x", 2), node("a/y"), node("b", 5, 90, limit={"mdev": 6}), node("c")),
)
POLICIES: tuple[Json, ...] = (
    {"min_samples": 1},
    {"reserve_after_ms": 40, "aging_ms": 5, "disruption_ppm": 250_000},
    {"max_wait_ms": 60, "meter_slack_ms": 5, "power_limit_uw": 10**7, "history": 2},
    {"idle": {"threshold_uw": 400_000, "window_ms": 10}, "reserve_after_ms": 0},
)
SMALL = st.integers(0, 6)
TREE = st.sampled_from(TREES)
POLICY = st.sampled_from(POLICIES)
CHANCE = st.sampled_from((0, 0, 0, 8, 30))
TERMS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "grade": st.sampled_from(GRADES),
        "preemptible": st.booleans(),
        "priority": st.integers(-2, 2),
        "class_": st.sampled_from(("", "k")),
        "commit_within_ms": CHANCE,
        "lease_ms": CHANCE,
        "max_wait_ms": CHANCE,
        "id": st.sampled_from(("e0", "e1")),
    },
)


class Pool(RuleBasedStateMachine):
    """One pool; `claims` are the ids ever submitted."""

    claims: Bundle[str] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.watched = Watched()
        self.now_ms = 1000
        self.count = 0
        self.last: Json = {}
        self.ends: dict[str, int] = {}

    def send(self, event: Json, *, later_ms: int = 1) -> None:
        self.now_ms += later_ms
        self.last = {**event, "at_ms": self.now_ms}
        self.watched.send(self.last)

    @initialize(nodes=TREE, keys=POLICY)
    def open(self, nodes: tuple[Json, ...], keys: Json) -> None:
        self.send(opened(*copy.deepcopy(nodes), mdev=10, uj=150, policy=keys))

    @rule(target=claims, leaf=st.sampled_from(LEAVES), mdev=SMALL, uj=SMALL, terms=TERMS)
    def submit(self, leaf: str, mdev: int, uj: int, terms: Json) -> str:
        self.count += 1
        name = f"c{self.count}"
        self.send(asks(name, leaf, mdev, uj * 5, **terms))
        return name

    @rule(target=claims, leaf=st.sampled_from(LEAVES), mdev=st.lists(SMALL, max_size=3))
    def submit_observed(self, leaf: str, mdev: list[int]) -> str:
        self.count += 1
        name = f"o{self.count}"
        gang = [{"mdev": one} for one in mdev]
        self.send(asks(name, leaf, gang=gang, estimate="observed", class_="k"))
        return name

    @rule(target=claims, leaf=st.sampled_from(LEAVES), mdev=st.sampled_from((2, 3, 4)))
    def submit_several(self, leaf: str, mdev: int) -> Any:
        names = []
        for _ in range(3):
            self.count += 1
            names.append(f"s{self.count}")
            self.send(asks(names[-1], leaf, mdev, 5))
        return multiple(*names)

    @rule(claim=claims)
    def commit(self, claim: str) -> None:
        self.send(commit(claim))

    @rule(claim=claims)
    def renew(self, claim: str) -> None:
        self.send(renew(claim))

    @rule(claim=claims, completed=SMALL)
    def progress(self, claim: str, completed: int) -> None:
        self.send(commit(claim))
        self.send(progress(claim, completed))

    @rule(claim=claims)
    def cancel(self, claim: str) -> None:
        self.send(cancel(claim))

    @rule(
        claim=claims,
        outcome=st.sampled_from(OUTCOMES),
        uj=st.none() | st.integers(0, 40),
        grade=st.sampled_from(GRADES),
    )
    def release(self, claim: str, outcome: str, uj: int | None, grade: str) -> None:
        self.send(release(claim, uj, grade, outcome=outcome))

    @rule(
        device=st.sampled_from(DEVICES),
        hole_ms=st.sampled_from((-1, 0, 0, 0, 3)),
        window_ms=st.sampled_from((0, 1, 5, 20)),
        uj=st.none() | st.integers(0, 40),
        grade=st.sampled_from(GRADES),
        on=st.dictionaries(claims, st.integers(0, 4), max_size=3),
    )
    def read(
        self,
        device: str,
        hole_ms: int,
        window_ms: int,
        uj: int | None,
        grade: str,
        on: dict[str, int],
    ) -> None:
        start_ms = max(0, self.ends.get(device, self.now_ms - window_ms) + hole_ms)
        self.ends[device] = start_ms + window_ms
        self.send(reads(device, start_ms, start_ms + window_ms, uj, grade, on=on))

    @rule(claim=claims, uj=st.integers(0, 60))
    def overrun(self, claim: str, uj: int) -> None:
        """A meter of the claim's own shows what it may."""
        self.send(reads(claim, self.now_ms, self.now_ms + 1, uj, on={claim: 1}))

    @rule(later_ms=st.sampled_from((1, 10, 50)))
    def wait(self, later_ms: int) -> None:
        self.send(tick(0), later_ms=later_ms)

    @rule(nodes=TREE)
    def plant(self, nodes: tuple[Json, ...]) -> None:
        self.send(tree(*copy.deepcopy(nodes)))

    @rule(keys=POLICY)
    def rule_anew(self, keys: Json) -> None:
        self.send(policy(**keys))

    @rule(one=st.sampled_from((period(), review(), archive())), chance=st.integers(0, 9))
    def administer(self, one: Json, chance: int) -> None:
        if one["type"] != "pool.archived" or chance == 0:
            self.send(one)

    @rule()
    def repeat(self) -> None:
        self.send(self.last)

    @rule(field=st.sampled_from(("claim", "tree", "zz", "occupants")))
    def spoil(self, field: str) -> None:
        self.send({**self.last, field: 1})


Pool.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestMoves = Pool.TestCase
TestMoves.__doc__ = "Any sequence of small moves is decided as the auditor's books have it."
