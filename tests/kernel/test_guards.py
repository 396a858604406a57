"""Whom a starved claim holds, and what is written of it (profile §4.3, starvation guards)."""

from __future__ import annotations

from typing import Any

import pytest

from streams.kernel.guards import holder
from tests.kernel.scenes import (
    Bench,
    Json,
    Row,
    admitted,
    asks,
    cancel,
    check,
    guard_off,
    guard_on,
    named,
    node,
    opened,
    policy,
    preempts,
    release,
    says,
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


def starved(claim: str) -> Json:
    return says("claim.starved", claim=claim)


EARLY: Json = {"policy": {"reserve_after_ms": 50}}
# The claim `s` is submitted last, at 1000 + 10 n; it starves at the tick.
SETS = [
    Row(
        name="concurrency at its leaf",
        given=[opened(leaf("a", 4, max_live=1), **EARLY), asks("a1", "a", 1, 1),
               asks("s", "a", 1, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("a", "s")],
    ),
    Row(
        name="concurrency above its leaf",
        given=[opened(inner("t", 4, max_live=1), leaf("t/a", 4), leaf("t/b"), **EARLY),
               asks("b1", "t/b", 1, 1), asks("s", "t/a", 1, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("t", "s")],
    ),
    Row(
        name="limit at its leaf",
        given=[opened(leaf("a", 2, limit={"mdev": 4}), **EARLY), asks("a1", "a", 2, 1),
               asks("s", "a", 3, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("a", "s")],
    ),
    Row(
        name="no guard for a limit of joules",
        given=[opened(node("a", 2, 10, limit={"uj": 10}), **EARLY), asks("a1", "a", 1, 6),
               asks("s", "a", 1, 6)],
        when=tick(1_070),
        then=[starved("s")],
    ),
    Row(
        name="limit above its leaf, borrowing",
        given=[opened(inner("t", 4, limit={"mdev": 4}), leaf("t/a", 2), leaf("t/b", 2), **EARLY),
               asks("b1", "t/b", 2, 1), asks("s", "t/a", 3, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("t", "s")],
    ),
    Row(
        name="no guard at the node for a limit above its leaf, inside its guarantee: it reclaims",
        given=[opened(inner("t", 4, limit={"mdev": 4}), leaf("t/a", 2), leaf("t/b", 2), **EARLY),
               asks("b1", "t/b", 2, 1), asks("b2", "t/b", 1, 1), asks("s", "t/a", 2, 1)],
        when=tick(1_080),
        # It awaits b2's release; of the pool's borrowers it holds the others.
        then=[starved("s"), guard_on("/", "s")],
    ),
    Row(
        name="guess-cannot-borrow",
        given=[opened(leaf("a", 2), **EARLY), asks("a1", "a", 1, 1),
               asks("s", "a", 2, 1, grade="Estimator")],
        when=tick(1_070),
        then=[starved("s"), guard_on("a", "s")],
    ),
    Row(
        name="no guard for a guess that would borrow joules",
        given=[opened(node("a", 2, 10), **EARLY), asks("a1", "a", 1, 6),
               asks("s", "a", 1, 6, grade="Estimator")],
        when=tick(1_070),
        then=[starved("s")],
    ),
    Row(
        name="unpreemptible-cannot-borrow",
        given=[opened(leaf("a", 2), **EARLY), asks("a1", "a", 1, 1),
               asks("s", "a", 2, 1, preemptible=False)],
        when=tick(1_070),
        then=[starved("s"), guard_on("a", "s")],
    ),
    Row(
        name="borrowing-off at the node that does not borrow",
        given=[opened(inner("t", 4, borrow=False), leaf("t/a", 2), leaf("t/b", 2), leaf("c", 6),
                      **EARLY), asks("b1", "t/b", 2, 1), asks("s", "t/a", 3, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("t", "s")],
    ),
    Row(
        name="share",
        given=[opened(leaf("a", 4), leaf("b", 4), **EARLY), asks("b1", "b", 5, 1),
               asks("s", "a", 6, 1)],
        when=tick(1_070),
        then=[starved("s"), guard_on("/", "s")],
    ),
    Row(
        name="no guard for a share of joules",
        given=[opened(node("a", 4, 40), node("b", 4, 40), uj=100, **EARLY),
               asks("b1", "b", 1, 55), asks("s", "a", 1, 50)],
        when=tick(1_070),
        then=[starved("s")],
    ),
    Row(
        name="no guard for a share of devices while joules would fail too",
        given=[opened(node("a", 4, 40), node("b", 4, 40), uj=100, **EARLY),
               asks("b1", "b", 5, 55), asks("s", "a", 6, 50)],
        when=tick(1_070),
        then=[starved("s")],
    ),
    Row(
        name="no guard where it would not fit among guarantees alone",
        given=[opened(leaf("a", 4), leaf("b", 4), **EARLY), asks("b1", "b", 4, 1),
               asks("s", "a", 7, 1)],
        when=tick(1_070),
        then=[starved("s")],
    ),
    Row(
        name="a guard where guarantees alone would leave it room",
        given=[opened(leaf("a", 4), leaf("b", 4), **EARLY), asks("b1", "b", 3, 1),
               asks("b2", "b", 2, 1), asks("s", "a", 6, 1)],
        when=tick(1_080),
        # b at min(5, 4) leaves 10 - 4 = 6 of 6.
        then=[starved("s"), guard_on("/", "s")],
    ),
    Row(
        name="capacity, for a claim that has nobody to reclaim",
        given=[opened(leaf("b", 8), leaf("a"), **EARLY), asks("b1", "b", 8, 1, preemptible=False),
               tree(leaf("b", 4), leaf("a", 4)), asks("s", "a", 3, 1)],
        when=tick(1_080),
        then=[starved("s"), guard_on("/", "s")],
    ),
    Row(
        name="awaiting-reclaim",
        given=[opened(leaf("a", 4), leaf("b", 6), **EARLY), asks("b1", "b", 6, 1),
               asks("b2", "b", 4, 1), asks("s", "a", 4, 1)],
        when=tick(1_080),
        then=[starved("s"), guard_on("/", "s")],
    ),
    Row(
        name="earmarked",
        given=[opened(leaf("a", 4), leaf("b", 6), leaf("c"), **EARLY), asks("b1", "b", 6, 1),
               asks("b2", "b", 1, 1), asks("b3", "b", 3, 1), asks("s", "c", 1, 1),
               asks("a1", "a", 4, 1), release("b2", 1)],
        when=tick(1_090),
        # b2's device is free, but b3 and it are what a1 is to have; a1 itself is younger.
        then=[starved("s"), guard_on("/", "s")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(SETS))
def test_a_starved_claim_sets_a_guard_where_waiting_can_help(row: Row) -> None:
    """Where it fails for a scope's own rule it guards the scope, else the pool's surplus."""
    check(row)


# The guard of the leaf a, by s, which a limit there keeps out.
AT_LEAF = [
    opened(leaf("a", 4, limit={"mdev": 4}), leaf("b", 4), **EARLY),
    asks("a1", "a", 2, 1),
    asks("s", "a", 3, 1),
    tick(1_070),
]
# The guard of the node t, set by a claim that borrows (s wants 3 of 2).
AT_NODE = [
    opened(inner("t", 4, limit={"mdev": 5}), leaf("t/a", 2), leaf("t/b", 2), leaf("c", 4), **EARLY),
    asks("b1", "t/b", 3, 1),
    asks("s", "t/a", 3, 1),
    tick(1_070),
]
HOLDS = [
    Row(
        name="at its own leaf: one inside its guarantee",
        given=AT_LEAF,
        when=asks("a2", "a", 1, 1),
        then=[waits("a2", "starved-ahead", "a")],
    ),
    Row(
        name="at its own leaf: not one of another leaf",
        given=AT_LEAF,
        when=asks("b1", "b", 5, 1),
        then=[admitted("b1", "borrowed")],
    ),
    Row(
        name="at a node, set by a borrower: another borrower",
        given=AT_NODE,
        when=asks("b2", "t/b", 1, 1),
        then=[waits("b2", "starved-ahead", "t")],
    ),
    Row(
        name="at a node, set by a borrower: nobody inside its guarantee",
        given=AT_NODE,
        when=asks("a2", "t/a", 2, 1),
        then=[admitted("a2")],
    ),
    Row(
        name="at a node: nobody outside it",
        given=AT_NODE,
        when=asks("c1", "c", 5, 1),
        then=[admitted("c1", "borrowed")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(HOLDS))
def test_a_guard_holds_the_others_of_its_scope(row: Row) -> None:
    """A guard holds every other borrower below its scope, and at some scopes everybody."""
    check(row)


def test_a_guard_of_a_node_by_one_inside_its_guarantee_holds_everybody_there() -> None:
    """Set by a borrower it holds borrowers alone; its owner's tier is judged when it is asked."""
    nodes = inner("t", 4, max_live=1), leaf("t/a", 2), leaf("t/b", 2), leaf("c", 4)
    bench = Bench(opened(*nodes, **EARLY), asks("b1", "t/b", 1, 1), asks("s", "t/a", 2, 1))
    for claim, leaf_id in (("x", "t/b"), ("y", "t/a"), ("z", "c")):
        bench.send(asks(claim, leaf_id, 1, 1))
    assert bench.send(tick(1_075)) == [starved("s"), guard_on("t", "s")]
    claims = bench.state.claims
    held = {name: holder(bench.state, claims[name], borrows=False) for name in "sxyz"}
    assert held == {"s": None, "x": "t", "y": "t", "z": None}
    # Its leaf is guaranteed less: the guard stands, but s would borrow from now on.
    smaller = tree(nodes[0], leaf("t/a", 1), *nodes[2:], at=1_076)
    assert bench.send(smaller) == [says("tree.set")]
    assert holder(bench.state, claims["x"], borrows=False) is None
    assert holder(bench.state, claims["x"], borrows=True) == "t"


WRITES = [
    Row(
        name="not again while the same claim holds it",
        given=AT_LEAF,
        when=policy(reserve_after_ms=50),
        then=[says("policy.set")],
    ),
    Row(
        name="not for a second starved claim while the first stands",
        given=[*AT_LEAF, asks("s2", "a", 4, 1)],
        when=tick(1_200),
        then=[starved("s2")],
    ),
    Row(
        name="anew for the next claim, without an off between",
        given=[*AT_LEAF, asks("s2", "a", 4, 1), tick(1_200)],
        when=cancel("s"),
        then=[says("claim.cancelled", claim="s"), guard_on("a", "s2")],
    ),
    Row(
        name="off at the end of the pass, once its claim is gone",
        given=AT_LEAF,
        when=cancel("s"),
        then=[says("claim.cancelled", claim="s"), guard_off("a")],
    ),
    Row(
        name="off behind the admissions that its end lets through",
        given=[*AT_LEAF, asks("a2", "a", 1, 1)],
        when=cancel("s"),
        then=[says("claim.cancelled", claim="s"), admitted("a2"), guard_off("a")],
    ),
    Row(
        name="off when the pass finds that it fits",
        given=AT_LEAF,
        when=release("a1", 0),
        then=[says("claim.settled"), admitted("s"), guard_off("a")],
    ),
    Row(
        name="off in id order",
        given=[opened(inner("t", 4, max_live=1), leaf("t/a", 4), leaf("b", 4, max_live=1), **EARLY),
               asks("a1", "t/a", 1, 1), asks("b1", "b", 1, 1), asks("s1", "t/a", 1, 1),
               asks("s2", "b", 1, 1), tick(1_100)],
        when=tree(inner("t", 4), leaf("t/a", 4), leaf("b", 4)),
        then=[says("tree.set"), admitted("s1"), admitted("s2"), guard_off("b"), guard_off("t")],
    ),
    Row(
        name="on again after an off, for the same claim",
        # In between it waits for joules, which no guard helps.
        given=[*AT_LEAF, tree(node("a", 4, 1, limit={"uj": 1}), leaf("b", 4))],
        when=tree(leaf("a", 4, limit={"mdev": 4}), leaf("b", 4)),
        then=[says("tree.set"), guard_on("a", "s")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(WRITES))
def test_a_guard_is_written_when_it_changes_hands(row: Row) -> None:
    """`guard.on` names a new claim, or follows an off; `guard.off` ends the pass, in id order."""
    check(row)


def test_a_held_claim_does_not_plan() -> None:
    """What a guard holds reclaims nobody, though it is inside its guarantee."""
    given = [
        opened(leaf("a", 4, limit={"mdev": 4}), leaf("b", 6), **EARLY),
        asks("a1", "a", 2, 1),
        asks("b1", "b", 8, 1),
    ]
    waiting = waits("a2", "capacity", "/", "mdev", 2)
    told = [preempts("b1", "a2"), {**waiting, "reason": "awaiting-reclaim"}]
    check(Row(name="free", given=given, when=asks("a2", "a", 2, 1), then=told))
    guarded = [*given, asks("s", "a", 3, 1), tick(1_100)]
    check(Row(name="held", given=guarded, when=asks("a2", "a", 2, 1), then=[waiting]))


def test_a_held_claim_does_not_count_as_awaiting() -> None:
    """Once a guard holds it, what is being reclaimed for it is earmarked no more."""
    bench = Bench(
        opened(leaf("a", 4), leaf("b", 6), leaf("c"), **EARLY),
        asks("a0", "a", 1, 1),
        asks("b1", "b", 6, 1),
        asks("b2", "b", 2, 1),
        asks("s", "a", 4, 1, grade="Estimator"),
        asks("a1", "a", 3, 1),
    )
    # One device is free; with a1's 3 and without b2's 2 there would be none.
    assert bench.send(asks("c1", "c", 1, 1))[0]["reason"] == "earmarked"
    found = bench.send(tick(1_095))
    assert found[:2] == [starved("s"), guard_on("a", "s")]
    assert [(one["kind"], one["claim"]) for one in found[2:]] == [("claim.admitted", "c1")]


ROWS = [*SETS, *HOLDS, *WRITES]
