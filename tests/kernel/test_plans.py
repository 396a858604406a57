"""What a plan takes, drops and is cut to, and what becomes of its victims (profile §5.3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Json,
    Row,
    admitted,
    archive,
    asks,
    cancel,
    check,
    commit,
    named,
    no_claim,
    node,
    opened,
    period,
    policy,
    preempts,
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


def awaits(claim: str, short: int, node_id: str = "/", resource: str = "mdev") -> Json:
    return waits(claim, "awaiting-reclaim", node_id, resource, short)


# --- 5.3 the plan -------------------------------------------------------------------------------


def queue_of(*sizes: int, **policies: Any) -> list[Json]:
    """b holds the pool of 12 with claims b1, b2, ... of these sizes; a is guaranteed 6."""
    claims = [asks(f"b{n}", "b", size, 1) for n, size in enumerate(sizes, start=1)]
    return [opened(leaf("a", 6), leaf("b", 6), mdev=12, policy=policies), *claims]


PLAN = [
    Row(
        name="one by one until nothing is violated",
        given=queue_of(6, 2, 2, 2),
        when=asks("a1", "a", 3, 1),
        then=[preempts("b4", "a1"), preempts("b3", "a1"), awaits("a1", 3)],
    ),
    Row(
        name="newest pick first, whoever the plan holds without is dropped",
        given=queue_of(6, 4, 1, 1),
        when=asks("a1", "a", 4, 1),
        # Picked: b4, b3, b2, that is 6. Without b2 they are too few; without b3 and b4 enough.
        then=[preempts("b2", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="dropped in that order, and only while the plan holds",
        given=queue_of(6, 3, 2, 1),
        when=asks("a1", "a", 4, 1),
        # b4, b3, b2: 6. b2 is needed; then b3 is (3 + 1 hold 4: it is not), b4 is.
        then=[preempts("b4", "a1"), preempts("b2", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="a victim that brings its node within its guarantee ends the taking there",
        given=[opened(leaf("a", 4), leaf("b", 4), leaf("c", 4), mdev=12), asks("b1", "b", 4, 1),
               asks("b2", "b", 2, 1), asks("c1", "c", 4, 1), asks("c2", "c", 2, 1)],
        when=asks("a1", "a", 4, 1),
        then=[preempts("c2", "a1"), preempts("b2", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="what is being reclaimed already is not counted twice",
        given=[*queue_of(6, 3, 3), asks("a1", "a", 2, 1)],
        when=asks("a2", "a", 4, 1),
        # b3's 3 are under way, of which a1 takes 2: 3 more are needed.
        then=[preempts("b2", "a2"), awaits("a2", 4)],
    ),
    Row(
        name="disruption: victims are ordered while they stay within the share",
        given=queue_of(6, 2, 2, 2, disruption_ppm=333_334),
        when=asks("a1", "a", 6, 1),
        # A third of 12 is 4: two of the three.
        then=[preempts("b4", "a1"), preempts("b3", "a1"), awaits("a1", 6)],
    ),
    Row(
        name="disruption: never above the share, by a millionth",
        given=queue_of(6, 2, 2, 2, disruption_ppm=333_333),
        when=asks("a1", "a", 6, 1),
        then=[preempts("b4", "a1"), awaits("a1", 6)],
    ),
    Row(
        name="disruption: one victim is always allowed while none is under way",
        given=queue_of(6, 6, disruption_ppm=0),
        when=asks("a1", "a", 6, 1),
        then=[preempts("b2", "a1"), awaits("a1", 6)],
    ),
    Row(
        name="disruption: a plan cut to nothing awaits all the same",
        given=[*queue_of(6, 3, 3, disruption_ppm=0), asks("a1", "a", 3, 1)],
        when=asks("a2", "a", 3, 1),
        then=[awaits("a2", 3)],
    ),
    Row(
        name="disruption: the rest is for a later pass, once the first have gone",
        given=[*queue_of(6, 3, 3, disruption_ppm=0), asks("a1", "a", 6, 1)],
        when=release("b3", 1),
        then=[says("claim.settled"), preempts("b2", "a1")],
    ),
    Row(
        name="disruption: cut in the order of the picks",
        given=[opened(leaf("a", 6), leaf("b", 6), mdev=12, policy={"disruption_ppm": 250_000}),
               asks("b1", "b", 6, 1), asks("b2", "b", 3, 1), asks("b3", "b", 2, 1),
               asks("b4", "b", 1, 1)],
        when=asks("a1", "a", 6, 1),
        # 3 of 12: b4 and b3; b2 is over, and nothing behind it is looked at.
        then=[preempts("b4", "a1"), preempts("b3", "a1"), awaits("a1", 6)],
    ),
]  # fmt: skip

# --- 5.3 afterwards -----------------------------------------------------------------------------

ORDERED = [*queue_of(6, 2, 2, 2), asks("a1", "a", 3, 1)]
AFTER = [
    Row(
        name="a victim keeps its capacity until its release arrives",
        given=ORDERED,
        when=release("b4", 1),
        # 2 are free and 3 are wanted; b3 is still there, and enough.
        then=[says("claim.settled", claim="b4")],
    ),
    Row(
        name="its release lets the claimant in",
        given=[*ORDERED, release("b4", 1)],
        when=release("b3", 1),
        then=[says("claim.settled", claim="b3"), admitted("a1")],
    ),
    Row(
        name="admitted early: its victims that still live are spared, right behind it",
        given=ORDERED,
        when=release("b1", 1),
        then=[says("claim.settled"), admitted("a1"), spares("b3", "a1"), spares("b4", "a1")],
    ),
    Row(
        name="cancelled: spared in id order",
        given=ORDERED,
        when=cancel("a1"),
        then=[says("claim.cancelled", claim="a1"), spares("b3", "a1"), spares("b4", "a1")],
    ),
    Row(
        name="refused after its wait: spared",
        given=[*ORDERED[:-1], asks("a1", "a", 3, 1, max_wait_ms=30)],
        when=tick(1_100),
        then=[no_claim("a1", "wait-expired"), spares("b3", "a1"), spares("b4", "a1")],
    ),
    Row(
        name="refused by the archive: spared before the next is refused",
        given=[*ORDERED, asks("a2", "a", 9, 1)],
        when=archive(),
        then=[says("pool.archived"), no_claim("a1", "archived"), spares("b3", "a1"),
              spares("b4", "a1"), no_claim("a2", "archived")],
    ),
    Row(
        name="refused by a new tree: spared",
        given=ORDERED,
        when=tree(leaf("a", borrow=False), leaf("b", 6)),
        then=[says("tree.set"), no_claim("a1", "never-fits"), spares("b3", "a1"),
              spares("b4", "a1")],
    ),
    Row(
        name="a victim that expired is not spared",
        given=[*queue_of(6, 2), asks("b3", "b", 4, 1, commit_within_ms=60), asks("a1", "a", 3, 1)],
        when=tick(1_090),
        then=[says("claim.expired", claim="b3"), admitted("a1")],
    ),
    Row(
        name="a new tree leaves the order, and the claimant plans anew",
        given=ORDERED,
        when=tree(leaf("a", 6), leaf("b", 6)),
        then=[says("tree.set"), awaits("a1", 3)],
    ),
    Row(
        name="no reason is written again while it awaits",
        given=ORDERED,
        when=policy(),
        then=[says("policy.set")],
    ),
    Row(
        name="a victim's meter frees less than was planned: it plans for what is still missing",
        given=[opened(node("a", 4, 50), node("b", 4, 50), uj=100), asks("b1", "b", 1, 50),
               asks("b2", "b", 1, 50, priority=-1), asks("a1", "a", 1, 50), commit("b2"),
               reads("g", 1_030, 1_040, 5, on={"b2": 1})],
        when=policy(),
        # b2 frees 45 now. Without it b has 55 of its 50, so b1 may be taken too.
        then=[says("policy.set"), preempts("b1", "a1")],
    ),
    Row(
        name="period: what was spent is forgotten, and the pass lets the claimant in",
        given=[opened(node("a", 4, 50), node("b", 4, 50), uj=100), asks("b1", "b", 1, 90),
               commit("b1"), release("b1", 80), asks("b2", "b", 1, 10), asks("a1", "a", 1, 50)],
        when=period(),
        # Before, 80 were spent for good: b2's 10 would not have been enough, so none was ordered.
        then=[says("period.opened"), admitted("a1")],
    ),
]  # fmt: skip

ROWS = [*PLAN, *AFTER]


@pytest.mark.parametrize(**named(PLAN))
def test_what_a_plan_takes(row: Row) -> None:
    """A plan takes the first candidate until nothing is missing, drops whom it can, and is cut."""
    check(row)


@pytest.mark.parametrize(**named(AFTER))
def test_what_becomes_of_a_reclaim(row: Row) -> None:
    """Victims keep what they hold until they release; nobody is reclaimed for who has left."""
    check(row)
