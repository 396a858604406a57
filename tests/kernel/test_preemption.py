"""When a claim reclaims what others borrowed, whom, and in what order (profile §5.1, §5.2).

Not here: how many are taken, and what becomes of them (`test_plans`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Bench,
    Json,
    Row,
    asks,
    check,
    commit,
    named,
    node,
    opened,
    preempts,
    progress,
    reads,
    release,
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


AB = opened(leaf("a", 4), leaf("b", 6))
FULL = [AB, asks("b1", "b", 6, 1), asks("b2", "b", 4, 1)]

# --- 5.1 when -----------------------------------------------------------------------------------

WHEN = [
    Row(
        name="capacity, inside the guarantee",
        given=FULL,
        when=asks("a1", "a", 4, 1),
        then=[preempts("b2", "a1", basis="declared", priority=0), awaits("a1", 4)],
    ),
    Row(
        name="a limit above the leaf, inside the guarantee",
        given=[opened(inner("t", 6, limit={"mdev": 6}), leaf("t/a", 3), leaf("t/b", 3),
                      leaf("c", 4)), asks("b1", "t/b", 3, 1), asks("b2", "t/b", 2, 1)],
        when=asks("a1", "t/a", 2, 1),
        then=[preempts("b2", "a1"), awaits("a1", 1, "t")],
    ),
    Row(
        name="not a limit at its own leaf",
        given=[opened(leaf("a", 4, limit={"mdev": 4}), leaf("b", 6)), asks("a0", "a", 1, 1),
               asks("b1", "b", 9, 1)],
        when=asks("a1", "a", 4, 1),
        then=[waits("a1", "limit", "a", "mdev", 1)],
    ),
    Row(
        name="not concurrency",
        given=[opened(leaf("a", 4, max_live=0), leaf("b", 6)), *FULL[1:]],
        when=asks("a1", "a", 4, 1),
        then=[waits("a1", "concurrency", "a")],
    ),
    Row(
        name="not a borrower, whatever it fails for",
        given=FULL,
        when=asks("a1", "a", 5, 1),
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="a guess may reclaim too, inside its guarantee",
        given=FULL,
        when=asks("a1", "a", 4, 1, grade="Estimator"),
        then=[preempts("b2", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="no plan where leaf, those who await, and it together exceed the guarantee",
        given=[*FULL, asks("a1", "a", 3, 1)],
        when=asks("a2", "a", 2, 1),
        then=[waits("a2", "capacity", "/", "mdev", 2)],
    ),
    Row(
        name="a plan of its own where all of them fit into the guarantee together",
        given=[opened(leaf("a", 4), leaf("b", 6)), asks("b1", "b", 6, 1), asks("b2", "b", 2, 1),
               asks("b3", "b", 2, 1), asks("a1", "a", 2, 1)],
        when=asks("a2", "a", 2, 1),
        # b3 is being reclaimed for a1; that leaves b2 for a2.
        then=[preempts("b2", "a2"), awaits("a2", 2)],
    ),
    Row(
        name="an empty plan where what is under way suffices: it awaits all the same",
        given=[*FULL, asks("a1", "a", 2, 1)],
        when=asks("a2", "a", 2, 1),
        # b2's 4 are a1's 2 and a2's 2.
        then=[awaits("a2", 2)],
    ),
    Row(
        name="nobody left to take: no plan, nobody is preempted",
        given=[AB, asks("b1", "b", 4, 1), asks("b2", "b", 2, 1, preemptible=False),
               tree(leaf("a", 4), leaf("b", 2)), asks("b3", "b", 2, 1), asks("b4", "b", 2, 1),
               tree(leaf("a", 10), leaf("b"))],
        when=asks("a1", "a", 9, 1),
        # Without b2, whom nobody may take, there would be 8.
        then=[waits("a1", "capacity", "/", "mdev", 9)],
    ),
]  # fmt: skip

# --- 5.1 whom -----------------------------------------------------------------------------------

# t has 4 of its 4, though its leaf t/x has 4 of 2; u has 6 of 2, its leaf u/x 5 of 1.
NESTED = [
    opened(leaf("a", 4), inner("t", 4), leaf("t/x", 2), leaf("t/y", 2), inner("u", 2),
           leaf("u/x", 1), leaf("u/y", 1)),
    asks("x1", "t/x", 2, 1),
    asks("x2", "t/x", 2, 1),
    asks("u1", "u/x", 1, 1),
    asks("u2", "u/x", 3, 1),
    asks("u3", "u/y", 1, 1),
    asks("u4", "u/x", 1, 1),
]  # fmt: skip
WHOM = [
    Row(
        name="nobody below a node that is within its guarantee, though the leaf is over its own",
        given=NESTED,
        when=asks("a1", "a", 1, 1),
        # t has 4 of 4 (its x 4 of 2): not taken. u has 6 of 2, u/x 5 of 1, u/y 1 of 1.
        then=[preempts("u4", "a1"), awaits("a1", 1)],
    ),
    Row(
        name="nobody of a leaf that is within its guarantee, though its node is over",
        given=[*NESTED[:1], asks("u3", "u/y", 1, 1), asks("u1", "u/x", 5, 1, priority=1000),
               asks("x1", "t/x", 4, 1)],
        when=asks("a1", "a", 1, 1),
        then=[preempts("u1", "a1"), awaits("a1", 1)],
    ),
    Row(
        name="a sibling leaf, whose node is not over: it lies below their common node",
        given=NESTED,
        when=asks("y1", "t/y", 2, 1),
        # x2 alone gives t/y its 2; u's would not: t has 4 of 4, and would have 6.
        then=[preempts("x2", "y1"), awaits("y1", 2, "t")],
    ),
    Row(
        name="nobody of its own leaf",
        given=[AB, asks("a0", "a", 2, 1), asks("b1", "b", 8, 1, priority=1000)],
        when=asks("a1", "a", 2, 1),
        then=[preempts("b1", "a1"), awaits("a1", 2)],
    ),
    Row(
        name="nobody who is not preemptible",
        given=[opened(leaf("a", 4), leaf("b", 6)), asks("b1", "b", 4, 1),
               asks("b2", "b", 2, 1, preemptible=False), asks("b3", "b", 4, 1)],
        when=asks("a1", "a", 4, 1),
        then=[preempts("b3", "a1"), awaits("a1", 4)],
    ),
    Row(
        name="nobody who is being reclaimed already",
        given=[opened(leaf("a", 2), leaf("c", 2), leaf("b", 6)), asks("b1", "b", 4, 1),
               asks("b2", "b", 4, 1), asks("b3", "b", 2, 1), asks("a1", "a", 2, 1)],
        when=asks("c1", "c", 2, 1),
        then=[preempts("b2", "c1"), awaits("c1", 2)],
    ),
    Row(
        name="nobody who frees nothing of what is missing",
        given=[opened(node("a", 2, FREE, also={"vcpu": 4}), node("b", 2, FREE, also={"vcpu": 4}),
                      also={"vcpu": 8}), asks("b1", "b", 1, 1, also={"vcpu": 8}, priority=1000),
               asks("b2", "b", 3, 1)],
        when=asks("a1", "a", 1, 1, also={"vcpu": 4}),
        then=[preempts("b1", "a1"), awaits("a1", 4, "/", "vcpu")],
    ),
    Row(
        name="joules that are reserved and not spent",
        given=[opened(node("a", 4, 50), node("b", 6, 50), uj=100), asks("b1", "b", 1, 50),
               asks("b2", "b", 1, 40)],
        when=asks("a1", "a", 1, 20),
        then=[preempts("b2", "a1"), awaits("a1", 10, "/", "uj")],
    ),
    Row(
        name="not who has spent all of its joules, but who has not",
        given=[opened(node("a", 4, 50), node("b", 6, 50), uj=100), asks("b1", "b", 1, 50),
               asks("b2", "b", 1, 1), commit("b2"), reads("g", 1_000, 1_010, 40, on={"b2": 1})],
        when=asks("a1", "a", 1, 20),
        # b2 would free nothing. b has 90 of its 50, so b1 may be taken.
        then=[preempts("b1", "a1"), awaits("a1", 10, "/", "uj")],
    ),
    Row(
        name="nobody where all that is over the guarantee is spent",
        given=[opened(node("a", 4, 50), node("b", 6, 50), uj=100), asks("b1", "b", 1, 1),
               commit("b1"), reads("g", 1_000, 1_010, 90, on={"b1": 1})],
        when=asks("a1", "a", 1, 20),
        then=[waits("a1", "capacity", "/", "uj", 10)],
    ),
]  # fmt: skip

# --- 5.2 the order ------------------------------------------------------------------------------


def worked(claim: str, device: str, uj: int, completed: int, grade: str = "HwShunt") -> list[Json]:
    """A claim of one device runs, is read once, and reports its units."""
    read = reads(device, 1_000, 1_010, uj, grade=grade, on={claim: 1})
    return [commit(claim), read, progress(claim, completed)]


def three(*work: Json, **options: Any[str, object]) -> list[Json]:
    """Three claims of b hold the pool; each may be reclaimed for a1, and one is enough."""
    claims = [asks(name, "b", 2, 99, **options.get(name, {})) for name in ("b1", "b2", "b3")]
    return [opened(leaf("a", 2), leaf("b", 4), mdev=6), *claims, *work]


def cost(uj: int, completed: int) -> Json:
    return {"basis": "measured", "cost": {"uj": uj, "completed": completed}, "priority": None}


BY_PRIORITY = {"basis": "declared", "priority": 0, "cost": None}
ORDER = [
    ("nothing measured: the latest admission", three(), "b3", BY_PRIORITY),
    ("lower priority before later admission", three(b2={"priority": -1}), "b2",
     {"basis": "declared", "priority": -1}),
    ("of equal priority the later admission", three(b2={"priority": -1}, b1={"priority": -1}),
     "b2", {"basis": "declared", "priority": -1}),
    ("measured before declared, whatever the priority",
     three(*worked("b1", "g", 10, 5), b1={"priority": 1000}, b3={"priority": -1000}),
     "b1", cost(10, 5)),
    ("the larger cost per unit", three(*worked("b1", "g", 10, 5), *worked("b2", "h", 9, 3)),
     "b2", cost(9, 3)),
    ("cross-multiplied, never divided: 7/3 is more than 9/4",
     three(*worked("b1", "g", 7, 3), *worked("b2", "h", 9, 4)), "b1", cost(7, 3)),
    ("equal costs: lower priority",
     three(*worked("b1", "g", 10, 5), *worked("b2", "h", 20, 10), b1={"priority": -1}),
     "b1", cost(10, 5)),
    ("equal costs and priority: later admission",
     three(*worked("b1", "g", 10, 5), *worked("b2", "h", 20, 10)), "b2", cost(20, 10)),
    ("a meter that showed nothing is measured: the least wasteful",
     three(*worked("b1", "g", 0, 5), *worked("b2", "h", 1, 5)), "b2", cost(1, 5)),
    ("even a cost of zero goes before what is not measured",
     three(*worked("b1", "g", 0, 5)), "b1", cost(0, 5)),
    ("a guess measures nothing", three(*worked("b1", "g", 10, 5, "Estimator")), "b3", BY_PRIORITY),
    ("a model measures", three(*worked("b1", "g", 10, 5, "ModelBased")), "b1", cost(10, 5)),
    ("nothing completed is unmeasured, not wasteful", three(*worked("b1", "g", 10, 0)), "b3",
     BY_PRIORITY),
    ("units without a meter are unmeasured", three(commit("b1"), progress("b1", 5)), "b3",
     BY_PRIORITY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "victim", "told"), [one[1:] for one in ORDER], ids=[one[0] for one in ORDER]
)
def test_the_first_victim_is_the_worst_by_evidence_then_by_declaration(
    given: list[Json], victim: str, told: Json
) -> None:
    """Measured cost per unit first, the largest first; then lower priority, later admission."""
    then = [preempts(victim, "a1", **told), awaits("a1", 2)]
    check(Row(name="order", given=given, when=asks("a1", "a", 2, 1), then=then))


ROWS = [*WHEN, *WHOM]


@pytest.mark.parametrize(**named(WHEN))
def test_who_may_reclaim(row: Row) -> None:
    """A claim inside its guarantee reclaims for capacity, or for a limit above its leaf."""
    check(row)


@pytest.mark.parametrize(**named(WHOM))
def test_who_may_be_reclaimed(row: Row) -> None:
    """A victim borrows all the way up to the node that it shares with the claimant."""
    check(row)


def test_a_claim_that_waits_for_something_else_comes_to_await_later() -> None:
    """Its reason is written again when it first plans, behind the orders, without its demand."""
    bench = Bench(opened(leaf("a", 4, max_live=1), leaf("b", 6)), asks("a0", "a", 1, 1))
    for event in (asks("b1", "b", 6, 1), asks("b2", "b", 3, 1)):
        bench.send(event)
    assert bench.send(asks("a1", "a", 4, 1))[0]["reason"] == "concurrency"
    found = bench.send(release("a0", 0))
    assert [one["kind"] for one in found] == ["claim.settled", "claim.preempting", "claim.waiting"]
    assert "demand" not in found[-1] and found[-1]["reason"] == "awaiting-reclaim"
