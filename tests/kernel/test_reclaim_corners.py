"""What seldom happens to reclaims and guards: ties, shares met exactly, claims that count no more.

Not here: the rules themselves (`test_preemption.py`, `test_plans.py`, `test_guards.py`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Json,
    Row,
    admitted,
    asks,
    cancel,
    check,
    commit,
    guard_off,
    guard_on,
    named,
    node,
    opened,
    preempts,
    progress,
    reads,
    release,
    says,
    spares,
    tick,
    tree,
    waits,
)

FREE = 10**6
"""Joules that every leaf here is guaranteed, so that devices alone decide."""


def leaf(node_id: str, mdev: int = 0, /, **options: Any) -> Json:
    return node(node_id, mdev, FREE, **options)


def inner(node_id: str, mdev: int = 0, /, **options: Any) -> Json:
    return node(node_id, mdev, 10 * FREE, **options)


def awaits(claim: str, short: int, node_id: str = "/", resource: str = "mdev") -> Json:
    return waits(claim, "awaiting-reclaim", node_id, resource, short)


def queue_of(*sizes: int, **policies: Any) -> list[Json]:
    """b holds the pool of 12 with claims b1, b2, ... of these sizes; a is guaranteed 6."""
    claims = [asks(f"b{n}", "b", size, 1) for n, size in enumerate(sizes, start=1)]
    return [opened(leaf("a", 6), leaf("b", 6), mdev=12, policy=policies), *claims]


# --- 5.2, 5.3 whom a plan takes, and the share ----------------------------------------------------

MEASURED = {"basis": "measured", "cost": {"uj": 4, "completed": 2}}
VCPU = {"mdev": 10, "also": {"vcpu": 4}, "policy": {"disruption_ppm": 100_000}}
WITHOUT_DEVICES = [
    opened(leaf("a"), node("b", 10, FREE, also={"vcpu": 4}), **VCPU),
    asks("a1", "a", 0, 1, also={"vcpu": 3}),
    asks("a2", "a", 4, 1),
    asks("b1", "b", 0, 1, also={"vcpu": 2}),
]
PLANS = [
    Row(
        name="equal cost per unit: lower priority before later admission",
        given=[opened(leaf("a", 6), leaf("b", 6), mdev=12), asks("b1", "b", 6, 1),
               asks("b2", "b", 3, 1, priority=-1), asks("b3", "b", 3, 1), commit("b2"),
               commit("b3"), progress("b2", 2), progress("b3", 3),
               reads("g2", 1_000, 1_010, 4, on={"b2": 3}),
               reads("g3", 1_000, 1_010, 6, on={"b3": 3})],
        when=asks("a1", "a", 3, 1),
        # 4 for 2 units and 6 for 3 are 2 a unit.
        then=[preempts("b2", "a1", **MEASURED), awaits("a1", 3)],
    ),
    Row(
        name="a claim that frees nothing of what its node borrowed is no victim for that",
        given=[opened(node("a", 4, FREE, also={"vcpu": 4}), node("b", 2, FREE, also={"vcpu": 6}),
                      node("c", 2, FREE, also={"vcpu": 2}), mdev=8, also={"vcpu": 12}),
               asks("b1", "b", 8, 1), asks("b2", "b", 0, 1, also={"vcpu": 6}, priority=-9),
               asks("c1", "c", 0, 1, also={"vcpu": 6})],
        when=asks("a1", "a", 4, 1, also={"vcpu": 4}),
        # b is over in devices, of which b2 has none, and within its guarantee in vcpu.
        then=[preempts("c1", "a1"), preempts("b1", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="who awaits puts no node over its guarantee: others' victims are over without it",
        given=[opened(leaf("a", 6), inner("t", 4), leaf("t/x", 2), leaf("t/y"), leaf("c")),
               asks("c1", "c", 4, 1), asks("y1", "t/y", 3, 1, priority=-1),
               asks("y2", "t/y", 3, 1, priority=-2), asks("x1", "t/x", 2, 1)],
        when=asks("a1", "a", 4, 1),
        # y2 goes for x1. Without it t uses y1's 3 of its 4, and with x1's 2 it would be over.
        then=[preempts("c1", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="disruption: exactly the share is within it",
        given=queue_of(6, 2, 2, 2, disruption_ppm=500_000),
        when=asks("a1", "a", 6, 1),
        then=[preempts("b4", "a1"), preempts("b3", "a1"), preempts("b2", "a1"), awaits("a1", 6)],
    ),
    Row(
        name="disruption: the first over the share ends the plan, though the next were within it",
        given=queue_of(6, 1, 4, 1, disruption_ppm=250_000),
        when=asks("a1", "a", 6, 1),
        # 3 of 12: b4, then b3 is over; b2 would not be.
        then=[preempts("b4", "a1"), awaits("a1", 6)],
    ),
    Row(
        name="disruption: a victim without devices is under way too",
        given=WITHOUT_DEVICES,
        when=asks("b2", "b", 8, 1),
        # a1 is ordered for b1 and holds no device; a2's 4 are over the share of 1.
        then=[awaits("b2", 2)],
    ),
    Row(
        name="disruption: with none under way one is always allowed, whatever it holds",
        given=[*WITHOUT_DEVICES, asks("b2", "b", 8, 1)],
        when=release("a1", 0),
        then=[says("claim.settled"), admitted("b1"), preempts("a2", "b2")],
    ),
]  # fmt: skip

# --- 4.2, 5.1 who counts as awaiting --------------------------------------------------------------

TWO_ORDERED = [*queue_of(6, 2, 2, 2), asks("a1", "a", 3, 1)]
GUARDED_AT_ITS_LEAF = [
    opened(leaf("a", 4), leaf("b", 6), leaf("c"), policy={"reserve_after_ms": 50}),
    asks("a0", "a", 1, 1),
    asks("b1", "b", 6, 1),
    asks("b2", "b", 2, 1),
    asks("s", "a", 4, 1, grade="Estimator"),
    asks("a1", "a", 3, 1),
]
COUNTS = [
    Row(
        name="awaiting: what is reclaimed for it is not for a borrower",
        given=[*TWO_ORDERED, release("b4", 1)],
        when=asks("b5", "b", 2, 1),
        then=[waits("b5", "earmarked", "/", "mdev", 1)],
    ),
    Row(
        name="two of a leaf that do not fit its guarantee together do not reclaim together",
        given=[opened(leaf("a", 4), leaf("b", 4), mdev=12), asks("b1", "b", 6, 1),
               *[asks(f"b{n}", "b", 2, 1) for n in (2, 3, 4)], asks("a1", "a", 3, 1)],
        when=asks("a2", "a", 2, 1),
        # b2 could be taken for it, and a1 with its 3 would borrow once a2 were in.
        then=[waits("a2", "capacity", "/", "mdev", 2)],
    ),
    Row(
        name="awaiting ends with the tree, though its victims stay ordered",
        given=[*TWO_ORDERED, tree(leaf("a", 6, max_live=0), leaf("b", 6)), release("b4", 1)],
        when=asks("b5", "b", 2, 1),
        # a1 waits for concurrency now, which reclaims nobody.
        then=[admitted("b5", "borrowed")],
    ),
    Row(
        name="its victims, ordered before the tree, are spared when it leaves",
        given=[*TWO_ORDERED, tree(leaf("a", 6, max_live=0), leaf("b", 6))],
        when=cancel("a1"),
        then=[says("claim.cancelled"), spares("b3", "a1"), spares("b4", "a1")],
    ),
    Row(
        name="they are spared, too, once it borrows under the new tree",
        given=TWO_ORDERED,
        when=tree(leaf("a", 2), leaf("b", 6)),
        then=[says("tree.set"), spares("b3", "a1"), spares("b4", "a1")],
    ),
    Row(
        name="two claimants that borrow by now: spared in the order of the claimants' ids",
        given=[opened(node("a", 4, 50), node("b", 2, 10), node("c", 2, 10), mdev=8, uj=100),
               asks("b0", "b", 0, 2), asks("c0", "c", 0, 2), asks("a1", "a", 4, 1),
               asks("a2", "a", 2, 1), asks("a3", "a", 2, 1), asks("z", "b", 2, 4),
               asks("y", "c", 2, 4), reads("g", 1_000, 1_010, 14, on={"b0": 1, "c0": 1}),
               asks("a4", "a", 4, 1)],
        when=cancel("a4"),
        then=[says("claim.cancelled"), spares("a2", "y"), spares("a3", "z")],
    ),
    Row(
        name="what is reclaimed for one is there for another inside its guarantee",
        given=[opened(leaf("a", 6), leaf("b", 4), leaf("c", 2), mdev=12), asks("b1", "b", 6, 1),
               asks("b2", "b", 2, 1), asks("b3", "b", 2, 1), asks("b4", "b", 2, 1),
               asks("a1", "a", 3, 1), release("b4", 1)],
        when=asks("c1", "c", 2, 1),
        then=[admitted("c1")],
    ),
    Row(
        name="awaiting, and nobody guards its leaf yet",
        given=GUARDED_AT_ITS_LEAF,
        when=asks("c1", "c", 1, 1),
        # One is free: with a1's 3 and without b2's 2 there is none.
        then=[waits("c1", "earmarked", "/", "mdev", 1)],
    ),
    Row(
        name="held by a guard at its own leaf it does not count",
        given=[*GUARDED_AT_ITS_LEAF, tick(1_091)],
        when=asks("c1", "c", 1, 1, at=1_095),
        # s, a guess larger than what a has left, guards a; a1 is inside its guarantee.
        then=[admitted("c1", "borrowed")],
    ),
    Row(
        name="held there from the start, it does not plan",
        given=[*GUARDED_AT_ITS_LEAF[:-1], tick(1_090)],
        when=asks("a1", "a", 3, 1),
        then=[waits("a1", "capacity", "/", "mdev", 2)],
    ),
    Row(
        name="one that awaits but borrows by now yields to those who await inside theirs",
        given=[opened(node("a", 4, 10), node("b", 4, 40), node("c", 6, 40), mdev=14, uj=100),
               asks("a0", "a", 0, 2), asks("b1", "b", 4, 1), asks("b2", "b", 4, 1),
               asks("b3", "b", 6, 1), asks("a1", "a", 4, 8), asks("c1", "c", 6, 1),
               reads("g", 1_000, 1_010, 5, on={"a0": 1})],
        when=release("b1", 1),
        # b3 was ordered for a1, b2 for c1. With 5 + 8 of its 10 uJ a1 borrows, so b3 is spared; 4
        # are free, and c1 with its 6 comes first: without b2, 6 and 6 are in use, 2 are left.
        then=[says("claim.settled"), spares("b3", "a1")],
    ),
]  # fmt: skip

# --- 4.3 guards -----------------------------------------------------------------------------------

# x1 reclaims y1 below a's limit. Then y2 spends over its reservation, and frees nothing any more.
BELOW_A_LIMIT = [
    opened(node("a", 6, 30, limit={"mdev": 6, "uj": 30}), node("a/x", 4, 10), node("a/y", 2, 20),
           node("b", 4, 70), uj=100, policy={"reserve_after_ms": 50}),
    asks("y1", "a/y", 3, 5),
    asks("y2", "a/y", 2, 5),
    asks("x1", "a/x", 4, 10),
]  # fmt: skip
# y, and before it y0, contend with t for what is idle, so that t's ceiling is too low for x.
CONTENDED = [
    opened(inner("t", 8, weight=3), leaf("t/x", 4), leaf("t/z", 4), leaf("q", 6, weight=90),
           leaf("r"), mdev=20, policy={"reserve_after_ms": 50}),
    asks("z1", "t/z", 6, 1),
    asks("z2", "t/z", 6, 1),
    asks("q1", "q", 6, 1),
    asks("y0", "q", 3, 1),
    asks("x", "t/x", 2, 1),
    asks("y", "q", 3, 1, at=1_085),
    cancel("y0", at=1_088),
]  # fmt: skip
TWO_LIVE = [
    opened(inner("t", 8, max_live=2), leaf("t/a", 4), leaf("t/b", 4, max_live=1), leaf("c", 2),
           policy={"reserve_after_ms": 50}),
    asks("b1", "t/b", 1, 1),
    asks("a1", "t/a", 1, 1),
]  # fmt: skip
GUARDS = [
    Row(
        name="a limit above its leaf is reclaimed, and the plan may come to nothing later",
        given=[*BELOW_A_LIMIT, reads("g", 1_000, 1_010, 21, on={"y2": 2})],
        when=tick(1_080),
        # Without y1 the devices suffice; 21 + 10 uJ are over 30, and nobody is left to take. It
        # awaits a reclaim all the same, so the limit is one that a guard may help with.
        then=[says("claim.starved", claim="x1"), guard_on("/", "x1")],
    ),
    Row(
        name="joules that are earmarked for another do not come back by waiting",
        given=[opened(node("a", 4, 10), node("b", 4, 50), mdev=8, uj=100,
                      policy={"reserve_after_ms": 50}),
               asks("b1", "b", 4, 1), asks("b2", "b", 4, 1), asks("a0", "a", 2, 4),
               asks("x", "a", 0, 7), asks("a1", "a", 2, 4, at=1_060), cancel("a0")],
        when=tick(1_090),
        # x waits for its leaf's last joules, 4 of which a1 awaits; a1 is not starved yet.
        then=[says("claim.starved", claim="x")],
    ),
    Row(
        name="a starved claim that a node's guard holds sets none at its own leaf",
        given=[*TWO_LIVE, asks("s", "t/a", 1, 1), asks("y", "t/b", 1, 1)],
        when=tick(1_100),
        # Both fail for concurrency; s, the first, guards t and is inside its guarantee.
        then=[says("claim.starved", claim="s"), guard_on("t", "s"),
              says("claim.starved", claim="y")],
    ),
    Row(
        name="a borrower's guard of a node does not hold those inside their guarantee",
        given=[*TWO_LIVE, asks("s", "t/a", 5, 1), asks("y", "t/b", 1, 1)],
        when=tick(1_100),
        then=[says("claim.starved", claim="s"), guard_on("t", "s"),
              says("claim.starved", claim="y"), guard_on("t/b", "y")],
    ),
    Row(
        name="contended for, a node's ceiling leaves a claim to reclaim and to guard",
        given=CONTENDED,
        when=tick(1_100),
        then=[says("claim.starved", claim="x"), guard_on("/", "x")],
    ),
    Row(
        name="a guard ends within the pass that admits its claim",
        given=[*CONTENDED, tick(1_100), asks("w", "r", 2, 1)],
        when=release("q1", 1),
        # In the first round x guards again, then y is let in, so that nobody contends with weight
        # 90; in the second t may take 6 more, x is let in, and w is held no more.
        then=[says("claim.settled"), admitted("y"), admitted("x"), spares("z2", "x"),
              admitted("w", "borrowed"), guard_off("/")],
    ),
]  # fmt: skip

ROWS = [*PLANS, *COUNTS, *GUARDS]


@pytest.mark.parametrize(**named(PLANS))
def test_ties_and_shares_of_a_plan(row: Row) -> None:
    """A tie of costs goes on to priority; the share holds exactly, and ends the plan."""
    check(row)


@pytest.mark.parametrize(**named(COUNTS))
def test_who_counts_as_awaiting(row: Row) -> None:
    """Earmarks are for those who await, inside their guarantee, under this tree, not held."""
    check(row)


@pytest.mark.parametrize(**named(GUARDS))
def test_guards_that_come_and_go(row: Row) -> None:
    """A guard is set by whom nobody holds, and ends with its claim, in the same pass."""
    check(row)
