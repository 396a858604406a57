"""Weighted surplus (profile §4.2): what a borrower may have in all, beside its siblings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Json,
    Row,
    admitted,
    asks,
    check,
    commit,
    named,
    node,
    opened,
    reads,
    tree,
    waits,
)

FREE = 10**6
"""Joules that every leaf here is guaranteed, so that devices alone decide."""


def leaf(node_id: str, mdev: int, /, **options: Any) -> Json:
    return node(node_id, mdev, FREE, **options)


def inner(node_id: str, mdev: int, /, **options: Any) -> Json:
    """A node of two leaves."""
    return node(node_id, mdev, 2 * FREE, **options)


# Where `n` borrows nothing yet, or in joules: its guarantee and all that is left. Capacity 12.
LEFT = [
    Row(
        name="nobody contends: all that is idle, whatever the weights",
        given=[opened(leaf("a", 2), leaf("b", 2, weight=9), leaf("c", 2, weight=9), mdev=12)],
        when=asks("a1", "a", 12, 1),
        then=[admitted("a1", "borrowed", borrowed={"a": {"mdev": 10}})],
    ),
    Row(
        name="less what a sibling uses of its guarantee",
        given=[opened(leaf("a", 2), leaf("b", 4), mdev=12), asks("b1", "b", 3, 1)],
        when=asks("a1", "a", 10, 1),
        # 2 + (12 - 2 - 3)
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="less what a sibling has borrowed",
        given=[opened(leaf("a", 2), leaf("b", 2), mdev=12), asks("b1", "b", 6, 1)],
        when=asks("a1", "a", 7, 1),
        # 2 + (12 - 2 - 2) - 4
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="less the whole guarantee of a sibling that does not lend, though it uses nothing",
        given=[opened(leaf("a", 2), leaf("b", 4, lend=["uj"]), leaf("c", 2, lend=["mdev"]),
                      mdev=12), asks("a1", "a", 8, 1)],
        when=asks("a2", "a", 1, 1),
        # 2 + (12 - 2 - 4 - 0), and a has 8 already.
        then=[waits("a2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="what a sibling that does not lend borrows counts beside its guarantee",
        given=[opened(leaf("a", 2), leaf("b", 4, lend=False), mdev=12), asks("b1", "b", 7, 1)],
        when=asks("a1", "a", 6, 1),
        # 2 + (12 - 2 - 4) - 3
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="never less than the guarantee, though more is in use than there is",
        given=[opened(leaf("a", 0), leaf("b", 12), mdev=12), asks("b1", "b", 12, 1),
               tree(leaf("a", 2), leaf("b", 2))],
        when=asks("a1", "a", 3, 1),
        # 2 + max(0, 12 - 2 - 2 - 10) = 2
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="below a node: of what that node may have",
        given=[opened(inner("t", 6), leaf("t/a", 2), leaf("t/b", 2, lend=False), leaf("c", 4),
                      mdev=12), asks("c1", "c", 5, 1)],
        when=asks("a1", "t/a", 6, 1),
        # t: 6 + (12 - 6 - 4) - 1 = 7; of these t/a has 2 + (7 - 2 - 2) = 5.
        then=[waits("a1", "share", "t/a", "mdev", 1)],
    ),
    Row(
        name="the leaf's own share before its node's",
        given=[opened(inner("t", 4), leaf("t/a", 2), leaf("t/b", 2), leaf("c", 4), mdev=12),
               asks("c1", "c", 5, 1), asks("b1", "t/b", 6, 1)],
        when=asks("a1", "t/a", 3, 1),
        # t: 4 + (12 - 4 - 4) - 1 = 7, of which t/b uses 6: t/a has 2 + (7 - 2 - 2 - 4) = 2 (not
        # less); and t would have 9 of 7.
        then=[waits("a1", "share", "t/a", "mdev", 1)],
    ),
    Row(
        name="joules: all that is left, whoever contends for devices",
        given=[opened(node("a", 2, 100), node("b", 2, 100, weight=9), mdev=12, uj=300),
               asks("a1", "a", 8, 150), asks("b1", "b", 6, 1)],
        when=asks("a2", "a", 0, 50),
        # b1 waits for its share of devices; in joules a may have 100 + (300 - 100 - 0) = 300.
        then=[admitted("a2", "borrowed", borrowed={"a": {"uj": 50}})],
    ),
]  # fmt: skip

# a has borrowed 6 of the 8 that are nobody's; b1 wants 6 and there are 2 + 2: it contends.
CONTENDED = [
    opened(leaf("a", 2), leaf("b", 2, weight=3), leaf("c", 0), mdev=12),
    asks("a1", "a", 8, 1),
    asks("b1", "b", 6, 1),
]
SHARED = [
    Row(
        name="the contender itself",
        given=CONTENDED[:-1],
        when=CONTENDED[-1],
        then=[waits("b1", "share", "b", "mdev", 2)],
    ),
    Row(
        name="a borrower's part of the surplus by weight",
        given=CONTENDED,
        when=asks("a2", "a", 1, 1),
        # pot = 12 - 2 - 0 = 10; 2 + min(10, 10 * 1 // (1 + 3)) = 4, and 9 are wanted.
        then=[waits("a2", "share", "a", "mdev", 5)],
    ),
    Row(
        name="a heavier borrower has a larger part",
        given=[opened(leaf("a", 2, weight=5), leaf("b", 2, weight=3), mdev=12), *CONTENDED[1:]],
        when=asks("a2", "a", 1, 1),
        # 10 * 5 // 8 = 6, so 8: it has them already.
        then=[waits("a2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="the part is floored",
        given=[opened(leaf("a", 2, weight=2), leaf("b", 2), mdev=12), *CONTENDED[1:]],
        when=asks("a2", "a", 1, 1),
        # 10 * 2 // 3 = 6
        then=[waits("a2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="what does not contend and has borrowed makes the pot smaller",
        given=[opened(leaf("a", 2), leaf("b", 2), leaf("c", 0), mdev=12), asks("c1", "c", 2, 1),
               asks("a1", "a", 6, 1), asks("b1", "b", 6, 1)],
        when=asks("a2", "a", 1, 1),
        # surplus 12 - 2 - 0 - 0 = 10, of which c has 2: 8 * 1 // 2 = 4, so 6.
        then=[waits("a2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="what contends and has borrowed does not",
        given=[opened(leaf("a", 2), leaf("b", 2), leaf("c", 0), mdev=12), asks("c1", "c", 1, 1),
               asks("a1", "a", 6, 1), asks("c2", "c", 6, 1)],
        when=asks("a2", "a", 2, 1),
        # pot 12 - 2 - 0 - 0 = 10 (c's 1 is in it): 2 + min(10 - 1, 10 * 1 // 2) = 7; 8 are wanted.
        then=[waits("a2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="two contenders beside it",
        given=[opened(leaf("a", 2), leaf("b", 2), leaf("c", 0, weight=2), mdev=12),
               asks("a1", "a", 8, 1), asks("b1", "b", 6, 1), asks("c1", "c", 5, 1)],
        when=asks("a2", "a", 1, 1),
        # 10 * 1 // (1 + 1 + 2) = 2, so 4.
        then=[waits("a2", "share", "a", "mdev", 5)],
    ),
    Row(
        name="while it borrows nothing a gang takes its turn, larger than its part or not",
        given=CONTENDED,
        when=asks("c1", "c", 4, 1),
        # Beside b's weight of 3 its part would be 12 // 4 = 3, but it may take all 4 that are left.
        then=[admitted("c1", "borrowed", borrowed={"c": {"mdev": 4}})],
    ),
    Row(
        name="its own waiting claims are no contenders",
        given=[opened(leaf("a", 2), leaf("b", 2), mdev=12), asks("a1", "a", 8, 1),
               asks("a2", "a", 5, 1)],
        when=asks("a3", "a", 4, 1),
        then=[admitted("a3", "borrowed", borrowed={"a": {"mdev": 4}})],
    ),
    Row(
        name="below a sibling node any leaf's claim contends",
        given=[opened(leaf("a", 2), inner("b", 2, weight=3), leaf("b/x", 0), leaf("b/y", 2),
                      mdev=12), asks("a1", "a", 8, 1), asks("b1", "b/x", 6, 1)],
        when=asks("a2", "a", 1, 1),
        then=[waits("a2", "share", "a", "mdev", 5)],
    ),
]  # fmt: skip


# What b's claim waits for decides whether it contends: a has 5 of 12 (4 free), wants 1 more, and
# has 2 + 10 // 2 = 7 at most beside a contender of weight 9: 2 + 10 // 10 = 3.
def beside(reason: Json, *before: Json, **of_b: Any) -> list[Json]:
    nodes = leaf("a", 2), node("b", 2, 100, weight=9, **of_b), leaf("c", 0)
    return [opened(*nodes, mdev=12), asks("a1", "a", 5, 1), *before, reason]


CONTENDS = [
    Row(
        name="share",
        given=beside(asks("b1", "b", 8, 1)),
        when=asks("a2", "a", 1, 1),
        then=[waits("a2", "share", "a", "mdev", 3)],
    ),
    Row(
        name="not for joules when it asks for none of its devices",
        given=beside(asks("b1", "b", 0, 10**9)),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not what waits for its share of joules",
        given=beside(asks("b1", "b", 1, 10**9)),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not what waits for concurrency",
        given=beside(asks("b1", "b", 8, 1), max_live=0),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not what waits for a limit",
        given=beside(asks("b2", "b", 3, 1), asks("b1", "b", 2, 1), limit={"mdev": 4}),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not a guess that may not borrow",
        given=beside(asks("b2", "b", 2, 1, grade="Estimator"), asks("b1", "b", 2, 1)),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not an unpreemptible claim that may not borrow",
        given=beside(asks("b2", "b", 2, 1, preemptible=False), asks("b1", "b", 2, 1)),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="not what its own leaf may not borrow",
        given=beside(asks("b2", "b", 2, 1), asks("b1", "b", 2, 1), borrow=False),
        when=asks("a2", "a", 1, 1),
        then=[admitted("a2", "borrowed")],
    ),
]  # fmt: skip

OTHERS = [
    Row(
        name="not what awaits a reclaim",
        given=[opened(leaf("a", 0), leaf("b", 4, weight=9), mdev=12), asks("a1", "a", 6, 1),
               asks("a0", "a", 4, 1), asks("b1", "b", 4, 1)],
        when=asks("a2", "a", 1, 1),
        # b1 reclaims a0 for the 2 that it lacks. Beside a contender a would have 12 // 10 = 1.
        then=[admitted("a2", "borrowed")],
    ),
    Row(
        name="earmarked",
        given=[opened(leaf("a", 4), leaf("b", 6), leaf("c", 0, weight=9)), asks("b1", "b", 6, 1),
               asks("b2", "b", 3, 1), asks("a1", "a", 4, 1), asks("c1", "c", 1, 1)],
        when=asks("b3", "b", 1, 1),
        # b2 is being reclaimed; c1 is kept off by that. b: 6 + min(4, 4 * 1 // 10) = 6.
        then=[waits("b3", "share", "b", "mdev", 4)],
    ),
    Row(
        name="starved-ahead",
        given=[opened(leaf("a", 4), leaf("b", 4), leaf("c", 2), policy={"reserve_after_ms": 50}),
               asks("c1", "c", 3, 1), asks("big", "a", 8, 1), asks("b1", "b", 5, 1, at=1_100)],
        when=asks("c2", "c", 2, 1),
        # big and b1 contend: 2 + 8 * 1 // 3 = 4; beside big alone it would be 6.
        then=[waits("c2", "share", "c", "mdev", 1)],
    ),
    Row(
        name="capacity",
        given=[opened(node("a", 2, FREE, also={"vcpu": 4}),
                      node("b", 2, FREE, also={"vcpu": 4}, weight=9), mdev=12, also={"vcpu": 8}),
               asks("a1", "a", 5, 1, also={"vcpu": 6}),
               # It borrows devices, which there are; of its guaranteed 4 vcpu a holds 2.
               asks("b1", "b", 3, 1, also={"vcpu": 4})],
        when=asks("a2", "a", 1, 1),
        # b1 asks for devices too: 2 + 10 * 1 // 10 = 3.
        then=[waits("a2", "share", "a", "mdev", 3)],
    ),
    Row(
        name="a resource that the waiting claim does not ask for is not contended",
        given=[opened(node("a", 2, FREE, also={"vcpu": 2}),
                      node("b", 2, FREE, also={"vcpu": 2}, weight=9), mdev=12, also={"vcpu": 8}),
               asks("a1", "a", 5, 1, also={"vcpu": 4}), asks("b1", "b", 8, 1)],
        when=asks("a2", "a", 0, 1, also={"vcpu": 2}),
        then=[admitted("a2", "borrowed", borrowed={"a": {"vcpu": 2}})],
    ),
    Row(
        name="the meter's overrun borrows too",
        given=[opened(node("a", 2, 10), node("b", 2, 10), uj=30), asks("a1", "a", 1, 5),
               commit("a1"), reads("g", 1_000, 1_010, 18, on={"a1": 1})],
        when=asks("b1", "b", 1, 13),
        # b: 10 + (30 - 10 - 10) - 8 = 12
        then=[waits("b1", "share", "b", "uj", 1)],
    ),
]  # fmt: skip

ROWS = [*LEFT, *SHARED, *CONTENDS, *OTHERS]


@pytest.mark.parametrize(**named(LEFT))
def test_an_uncontended_borrower_may_have_all_that_is_left(row: Row) -> None:
    """A ceiling is the guarantee and what siblings neither keep, use, nor have borrowed."""
    check(row)


@pytest.mark.parametrize(**named(SHARED))
def test_contenders_split_the_surplus_by_weight(row: Row) -> None:
    """A borrower beside contenders has at most its weight's part of what all of them may have."""
    check(row)


@pytest.mark.parametrize(**named(CONTENDS))
def test_only_who_waits_for_capacity_contends(row: Row) -> None:
    """The last written reason of a waiting claim says whether its node contends."""
    check(row)


@pytest.mark.parametrize(**named(OTHERS))
def test_contention_and_overrun_in_other_resources(row: Row) -> None:
    """Contention is judged per resource, and overrun counts as borrowed."""
    check(row)
