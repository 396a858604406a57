"""When a pass runs, and in what order it takes who waits (profile §4.3).

Not here: guards (`test_guards`), plans (`test_plans`), the plain loop (`test_naive_pass`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    STEWARD,
    Bench,
    Json,
    Row,
    archive,
    asks,
    cancel,
    check,
    commit,
    event,
    guard_off,
    guard_on,
    named,
    no_claim,
    node,
    opened,
    period,
    policy,
    preempts,
    progress,
    reads,
    release,
    review,
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


def starved(claim: str) -> Json:
    return says("claim.starved", claim=claim)


# --- when a pass runs -------------------------------------------------------------------------

# a2 waits since a had 2 + 14 * 10 // 20 = 9 and wanted 10. Then c2 came to contend, which takes c's
# borrowed 4 into the pot: 2 + 18 * 10 // 21 = 10. So a2 fits now, and waits for the next pass.
SHIFTED = [
    opened(leaf("a", 2, weight=10), leaf("b", 2, weight=10), leaf("c"), mdev=20),
    asks("a1", "a", 8, 1),
    asks("c1", "c", 4, 1, commit_within_ms=500),
    asks("b1", "b", 9, 1, max_wait_ms=500),
    asks("a2", "a", 2, 1),
    asks("c2", "c", 1, 1),
]
ROTATION = event("steward.rotate", steward=STEWARD)
PASSES: list[tuple[str, Json, list[Json]]] = [
    ("a release", release("a1", 1), [says("claim.settled", claim="a1")]),
    ("an expiry", tick(1_520), [says("claim.expired", claim="c1")]),
    ("a cancellation", cancel("b1"), [says("claim.cancelled", claim="b1")]),
    ("a new tree", tree(leaf("a", 2, weight=10), leaf("b", 2, weight=10), leaf("c")),
     [says("tree.set")]),
    ("a new policy", policy(), [says("policy.set")]),
    ("a new period", period(), [says("period.opened")]),
]  # fmt: skip
NO_PASSES: list[tuple[str, Json, list[Json]]] = [
    ("an arrival that waits", asks("b2", "b", 9, 1),
     [waits("b2", "share", "b", "mdev", 1)]),
    ("an arrival that is refused", asks("b2", "b", 21, 1),
     [no_claim("b2", "never-fits")]),
    ("a commit", commit("a1"), [says("claim.committed", claim="a1")]),
    ("a reading", reads("g", 1_000, 1_010, 1, on={"a1": 1}), [says("meter.split")]),
    ("a reading without an answer", reads("g", 1_000, 1_010, None, on={"a1": 1}),
     [says("meter.gap")]),
    ("a refused event", progress("a1", 1), [says("refused", reason="wrong-state")]),
    ("a review", review(), [says("idle.reviewed")]),
    ("a rotation", ROTATION, [says("steward.rotated")]),
    ("a repeat", SHIFTED[1], [says("duplicate")]),
    ("a tick", tick(1_100), []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("when", "then"), [one[1:] for one in PASSES], ids=[one[0] for one in PASSES]
)
def test_what_can_free_or_shift_capacity_runs_a_pass(when: Json, then: list[Json]) -> None:
    """After such an event the waiting claim that fits is admitted."""
    found = Bench(*SHIFTED).send(when)
    assert [one["kind"] for one in found[: len(then)]] == [one["kind"] for one in then]
    assert "a2" in [one["claim"] for one in found if one["kind"] == "claim.admitted"]


@pytest.mark.parametrize(
    ("when", "then"), [one[1:] for one in NO_PASSES], ids=[one[0] for one in NO_PASSES]
)
def test_nothing_else_runs_a_pass(when: Json, then: list[Json]) -> None:
    """What an arrival or a reading shifts in others' favour, the next pass takes up."""
    check(Row(name="none", given=SHIFTED, when=when, then=then))


def test_a_refusal_of_a_waiting_claim_runs_a_pass() -> None:
    """When a wait has lasted too long its refusal frees the share that it contended for."""
    found = Bench(*SHIFTED, commit("c1")).send(tick(1_530))
    assert found[0] == no_claim("b1", "wait-expired")
    assert [one["claim"] for one in found[1:]] == ["a2", "c2"]


def test_a_claim_that_comes_to_be_starved_runs_a_pass() -> None:
    """A pass alone sets a guard, and holds a2 by it, which would fit."""
    given = [{**SHIFTED[0], "policy": {"reserve_after_ms": 100}}, *SHIFTED[1:]]
    assert Bench(*given).send(tick(1_130)) == [starved("b1"), guard_on("/", "b1")]


def test_an_archive_refuses_what_waits_before_its_pass() -> None:
    """Waiting claims are refused in the order they arrived; nobody is left for the pass."""
    order = [no_claim(claim, "archived") for claim in ("b1", "a2", "c2")]
    check(Row(name="archive", given=SHIFTED, when=archive(), then=[says("pool.archived"), *order]))


def test_alike_claims_tried_in_vain_wait_for_the_next_round() -> None:
    """s1 and s2 were tried in vain before `big` came in and made them borrowers: s1 is first again.

    `big` awaits a reclaim, so until it is in what it reclaims is earmarked for it.
    """
    bench = Bench(
        opened(leaf("a", 2), leaf("b"), mdev=5),
        asks("b1", "b", 3, 1),
        asks("b2", "b", 2, 1),
        asks("big", "a", 2, 1, priority=-5),
        asks("s1", "a", 1, 1),
        asks("s2", "a", 1, 1),
    )
    found = bench.send(release("b1", 1))
    admitted = [one["claim"] for one in found if one["kind"] == "claim.admitted"]
    assert admitted == ["big", "s1"]


def test_a_tree_as_deep_as_an_event_may_be_has_its_passes() -> None:
    """A chain of 600 nodes; nothing gives up for its depth."""
    chain = ["/".join("a" * depth) for depth in range(1, 601)]
    bench = Bench(
        opened(*(inner(one, 1) for one in chain), leaf("b"), mdev=2),
        asks("c1", chain[-1], 2, 1),
        asks("c2", chain[-1], 1, 1),
        asks("c3", "b", 1, 1),
    )
    found = bench.send(release("c1", 1))
    assert [one["claim"] for one in found] == ["c1", "c2", "c3"]


# --- the order of a round ---------------------------------------------------------------------


def gate(*leaves: Json, live: int = 0, **rest: Any) -> Json:
    """An opening whose leaves lie below `t`, which lets so many live."""
    return opened(inner("t", 12, max_live=live), *leaves, mdev=12, **rest)


def lifted(*leaves: Json) -> Json:
    """The new tree that lets everybody live."""
    return tree(inner("t", 12), *leaves)


AB = leaf("t/a", 2), leaf("t/b", 2)
HEAVY = leaf("t/a", 2, weight=3), leaf("t/b", 2)
TENANTS = (
    inner("p", 4, max_live=1), leaf("p/x", 2), leaf("p/y", 2),
    inner("q", 4, max_live=1), leaf("q/x", 2), leaf("q/y", 2),
)  # fmt: skip
OLD, YOUNG = asks("old", "t/a", 1, 1, at=1_010), asks("young", "t/a", 1, 1, priority=1, at=1_030)


def order(
    name: str, given: list[Json], when: Json, *claims: str, after: tuple[Json, ...] = ()
) -> Row:
    """A row whose pass admits these claims in this order."""
    done = [{"kind": "claim.admitted", "claim": claim} for claim in claims]
    return Row(name=name, given=given, when=when, then=[says("tree.set"), *done, *after])


ORDERS = [
    order(
        "tier before priority and arrival",
        [gate(*AB), asks("b1", "t/b", 3, 1, priority=9), asks("a1", "t/a", 2, 1)],
        lifted(*AB), "a1", "b1",
    ),
    order(
        "tier before the path's ratio",
        [gate(*AB, live=1), asks("a0", "t/a", 1, 1), asks("b1", "t/b", 3, 1),
         asks("a1", "t/a", 1, 1)],
        lifted(*AB), "a1", "b1",
    ),
    order(
        "the tier is judged anew after each admission",
        [gate(*AB), asks("a1", "t/a", 2, 1), asks("a2", "t/a", 1, 1), asks("b1", "t/b", 1, 1)],
        lifted(*AB), "a1", "b1", "a2",
    ),
    order(
        "the tier before starvation",
        [gate(*AB, policy={"reserve_after_ms": 50}), asks("b1", "t/b", 3, 1),
         asks("a1", "t/a", 1, 1, at=1_070)],
        {**lifted(*AB), "at_ms": 1_080}, "a1", "b1", after=(guard_off("t"),),
    ),
    order(
        "starved claims of a tier first, by arrival, whatever priority and ratio",
        [gate(*AB, live=1, policy={"reserve_after_ms": 50}), asks("a0", "t/a", 1, 1),
         asks("b1", "t/b", 3, 1), asks("a1", "t/a", 3, 1, priority=9),
         asks("b2", "t/b", 3, 1, at=1_090, priority=10)],
        {**lifted(*AB), "at_ms": 1_100}, "b1", "a1", "b2", after=(guard_off("t"),),
    ),
    order(
        "the least used path before arrival",
        [gate(*AB, live=1), asks("a0", "t/a", 1, 1), asks("a1", "t/a", 1, 1),
         asks("b1", "t/b", 1, 1)],
        lifted(*AB), "b1", "a1",
    ),
    order(
        "the least used path before priority",
        [gate(*AB, live=1), asks("a0", "t/a", 1, 1), asks("a1", "t/a", 1, 1, priority=1000),
         asks("b1", "t/b", 1, 1)],
        lifted(*AB), "b1", "a1",
    ),
    order(
        "used for its weight: 2 of 3 is less than 1 of 1",
        [gate(*HEAVY, live=2), asks("a0", "t/a", 2, 1), asks("b0", "t/b", 1, 1),
         asks("b1", "t/b", 2, 1), asks("a1", "t/a", 1, 1)],
        lifted(*HEAVY), "a1", "b1",
    ),
    order(
        "the largest ratio of all resources counts, joules too",
        [gate(*AB, live=2, uj=12 * FREE), asks("a0", "t/a", 0, FREE), asks("b0", "t/b", 0, 1),
         asks("a1", "t/a", 1, 0), asks("b1", "t/b", 1, 0)],
        lifted(*AB), "b1", "a1",
    ),
    order(
        "equal ratios by id, compared by its bytes",
        [gate(leaf("t/a_"), leaf("t/a0"), leaf("t/a-")), asks("c1", "t/a_", 1, 1),
         asks("c2", "t/a0", 1, 1), asks("c3", "t/a-", 1, 1)],
        lifted(leaf("t/a_"), leaf("t/a0"), leaf("t/a-")), "c3", "c2", "c1",
    ),
    order(
        "ratios are recomputed after each admission",
        [gate(*AB), asks("a1", "t/a", 1, 1), asks("a2", "t/a", 1, 1), asks("b1", "t/b", 1, 1),
         asks("b2", "t/b", 1, 1)],
        lifted(*AB), "a1", "b1", "a2", "b2",
    ),
    order(
        "paths are compared level by level: the tenant before the leaf",
        [opened(*TENANTS, mdev=12), asks("p0", "p/x", 1, 1), asks("q0", "q/x", 2, 1),
         asks("q1", "q/y", 1, 1), asks("p1", "p/x", 1, 1)],
        tree(*({**one, "max_live": None} for one in TENANTS)), "p1", "q1",
    ),
    order(
        "the same path: priority before arrival",
        [gate(*AB), OLD, YOUNG], lifted(*AB), "young", "old",
    ),
    order(
        "the same path and priority: by arrival",
        [gate(*AB), asks("z", "t/a", 1, 1), asks("y", "t/a", 1, 1)], lifted(*AB), "z", "y",
    ),
    order(
        "aging: a step of priority is worth so much waiting, and old waited longer",
        [gate(*AB, policy={"aging_ms": 19}), OLD, YOUNG], lifted(*AB), "old", "young",
    ),
    order(
        "aging: worth exactly the difference, so by arrival",
        [gate(*AB, policy={"aging_ms": 20}), OLD, YOUNG], lifted(*AB), "old", "young",
    ),
    order(
        "aging: worth more than the difference",
        [gate(*AB, policy={"aging_ms": 21}), OLD, YOUNG], lifted(*AB), "young", "old",
    ),
    order(
        "aging of a policy set later orders those that wait already",
        [gate(*AB), OLD, YOUNG, policy(aging_ms=19)], lifted(*AB), "old", "young",
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(ORDERS))
def test_a_round_takes_the_first_by_the_key(row: Row) -> None:
    """Tier, starvation, the path's ratios, then priority or age, then arrival."""
    check(row)


def test_rounds_go_on_until_one_admits_nothing() -> None:
    """A claim tried in vain is tried again in the next round, where a contender has gone."""
    bench = Bench(
        opened(node("a", 2, 30), node("b", 2, 30, weight=2), node("c", 0, 30), mdev=12, uj=100),
        asks("a1", "a", 5, 1),
        asks("b0", "b", 1, 70),
        asks("c0", "c", 5, 1),
    )
    # b: 2 + (12 - 2 - 2 - 0) - 3 - 5 = 2, wants 6. a: 2 + (9 - 5) * 1 // 3 = 3, wants 6.
    assert bench.send(asks("b1", "b", 5, 1))[0]["reason"] == "share"
    assert bench.send(asks("a2", "a", 1, 1))[0]["reason"] == "share"
    # a is tried first (5/12 is less than 70/100 for a weight of 2), in vain: 2 + 9 // 3 = 5. Then
    # b1 fits (2 + 8 - 3 = 7), and contends no more: a may have 2 + 8 - 4 = 6.
    found = bench.send(release("c0", 0))
    assert [one.get("claim") for one in found] == ["c0", "b1", "a2"]


def test_victims_of_who_is_not_inside_its_guarantee_any_more_are_spared_first() -> None:
    """A pass begins by sparing the victims of claimants that borrow now, claimants in id order."""
    bench = Bench(
        opened(node("a", 4, 10), node("b", 6, 90)),
        asks("a0", "a", 1, 1),
        commit("a0"),
        asks("b1", "b", 6, 1),
        asks("b2", "b", 3, 1),
    )
    ordered = bench.send(asks("a1", "a", 3, 5))
    assert ordered[0] == {**preempts("b2", "a1"), "basis": "declared", "priority": 0}
    # The meter of a0 took the leaf to 8 of its 10: with a1's 5 it would borrow.
    bench.send(reads("g", 1_000, 1_010, 8, on={"a0": 1}))
    assert bench.send(policy()) == [says("policy.set"), spares("b2", "a1")]


ROWS = ORDERS
