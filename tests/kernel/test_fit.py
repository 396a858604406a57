"""Does it fit now: who may live and borrow (profile §4.2, checks 1 to 3), what an admission says.

Not here: room, what is earmarked, guards (`test_room`); how large a share is (`test_surplus`).
"""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
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

# --- 1 concurrency and 2 limit ----------------------------------------------------------------

COUNTED = [
    opened(
        node("a", 6, 100, max_live=2), node("a/x", 3, 50, max_live=1, limit={"mdev": 3}),
        node("a/y", 3, 50), node("b", 4, 100),
    ),
    asks("c1", "a/x", 2, 1),
]  # fmt: skip
LIMITED = [
    opened(
        node("a", 6, 100, limit={"mdev": 7, "uj": 100}),
        node("a/x", 3, 50, limit={"mdev": 4, "uj": 60}),
        node("a/y", 3, 50), node("b", 4, 100),
    )
]  # fmt: skip

CONCURRENCY_AND_LIMIT = [
    Row(
        name="concurrency at the leaf",
        given=COUNTED,
        when=asks("c2", "a/x", 1, 1),
        then=[waits("c2", "concurrency", "a/x")],
    ),
    Row(
        name="concurrency before limit",
        given=COUNTED,
        when=asks("c2", "a/x", 2, 1),
        then=[waits("c2", "concurrency", "a/x")],
    ),
    Row(
        name="concurrency above the leaf before the leaf's limit",
        given=[
            opened(node("a", 6, max_live=1), node("a/x", 3, limit={"mdev": 3}), node("b", 4)),
            asks("c1", "a/x", 2, 0),
        ],
        when=asks("c2", "a/x", 2, 0),
        then=[waits("c2", "concurrency", "a")],
    ),
    Row(
        name="concurrency at the leaf before the node above",
        given=[*COUNTED, asks("c2", "a/y", 1, 1)],
        when=asks("c3", "a/x", 1, 1),
        then=[waits("c3", "concurrency", "a/x")],
    ),
    Row(
        name="concurrency at the node above",
        given=[*COUNTED, asks("c2", "a/y", 1, 1)],
        when=asks("c3", "a/y", 1, 1),
        then=[waits("c3", "concurrency", "a")],
    ),
    Row(
        name="nobody may live at all",
        given=[opened(node("a", 4, max_live=0))],
        when=asks("c1", "a"),
        then=[waits("c1", "concurrency", "a")],
    ),
    Row(
        name="limit at the leaf",
        given=[*LIMITED, asks("c1", "a/x", 3, 1)],
        when=asks("c2", "a/x", 2, 1),
        then=[waits("c2", "limit", "a/x", "mdev", 1)],
    ),
    Row(
        name="limit in devices before joules",
        given=[*LIMITED, asks("c1", "a/x", 3, 40)],
        when=asks("c2", "a/x", 2, 40),
        then=[waits("c2", "limit", "a/x", "mdev", 1)],
    ),
    Row(
        name="limit at the leaf in joules before the node above in devices",
        given=[*LIMITED, asks("c1", "a/y", 5, 40), asks("c2", "a/x", 1, 40)],
        when=asks("c3", "a/x", 2, 25),
        then=[waits("c3", "limit", "a/x", "uj", 5)],
    ),
    Row(
        name="limit above the leaf",
        given=[*LIMITED, asks("c1", "a/y", 5, 1)],
        # Inside its guarantee it would reclaim; it borrows at its leaf (4 of 3), so it waits.
        when=asks("c2", "a/x", 4, 1),
        then=[waits("c2", "limit", "a", "mdev", 2)],
    ),
    Row(
        name="limit before guess-cannot-borrow",
        given=[*LIMITED, asks("c1", "a/x", 3, 1)],
        when=asks("c2", "a/x", 2, 1, grade="Estimator"),
        then=[waits("c2", "limit", "a/x", "mdev", 1)],
    ),
    Row(
        name="what holds devices spends joules, whatever it says",
        given=[*LIMITED, asks("c1", "a/x", 1, 1), commit("c1"),
               reads("g", 1_000, 1_010, 62, on={"c1": 1})],
        # The meter took the leaf to 62 of its limit of 60 microjoules.
        when=asks("c2", "a/x", 1, 0),
        then=[waits("c2", "limit", "a/x", "uj", 2)],
    ),
    Row(
        name="joules alone are not looked at in devices",
        given=[opened(node("a", 4, 100, limit={"mdev": 4})), asks("c1", "a", 4, 1),
               tree(node("a", 2, 100, limit={"mdev": 2}))],
        when=asks("c2", "a", 0, 5),
        then=[admitted("c2")],
    ),
    Row(
        name="the limit itself is no failure",
        given=[*LIMITED, asks("c1", "a/x", 3, 1)],
        when=asks("c2", "a/x", 1, 59),
        then=[admitted("c2", "borrowed")],
    ),
]  # fmt: skip

# --- 3 who may borrow, and how much -----------------------------------------------------------

SMALL_X = [
    opened(node("a", 6, 100), node("a/x", 2, 50), node("a/y", 4, 50), node("b", 4, 100)),
    asks("c1", "a/x", 1, 40),
]
NO_BORROW = [
    opened(
        node("a", 6, 100, borrow=False), node("a/x", 2, 50), node("a/y", 4, 50),
        node("b", 4, 100), node("b/x", 2, 60, borrow=False),
    )
]  # fmt: skip
# b lends nothing: a may have 2 of its own and the 2 that nobody is guaranteed.
SHARED = [opened(node("a", 2, 100), node("b", 6, 100, lend=False)), asks("c1", "a", 3, 1)]

BORROWING = [
    Row(
        name="guess-cannot-borrow",
        given=SMALL_X,
        when=asks("c2", "a/x", 2, 1, grade="Estimator"),
        then=[waits("c2", "guess-cannot-borrow", "a/x", "mdev", 1)],
    ),
    Row(
        name="guess-cannot-borrow in joules",
        given=SMALL_X,
        when=asks("c2", "a/x", 1, 25, grade="Estimator"),
        then=[waits("c2", "guess-cannot-borrow", "a/x", "uj", 15)],
    ),
    Row(
        name="guess-cannot-borrow before unpreemptible-cannot-borrow",
        given=SMALL_X,
        when=asks("c2", "a/x", 2, 1, grade="Estimator", preemptible=False),
        then=[waits("c2", "guess-cannot-borrow", "a/x", "mdev", 1)],
    ),
    Row(
        name="unpreemptible-cannot-borrow",
        given=SMALL_X,
        when=asks("c2", "a/x", 2, 25, preemptible=False),
        then=[waits("c2", "unpreemptible-cannot-borrow", "a/x", "mdev", 1)],
    ),
    Row(
        name="unpreemptible-cannot-borrow before borrowing-off",
        given=[*NO_BORROW, asks("c1", "b/x", 1, 1)],
        when=asks("c2", "b/x", 2, 1, preemptible=False),
        then=[waits("c2", "unpreemptible-cannot-borrow", "b/x", "mdev", 1)],
    ),
    Row(
        name="guess-cannot-borrow before share",
        given=[opened(node("a", 4, 100), node("b", 6, 100, lend=False)), asks("c1", "a", 3, 1)],
        when=asks("c2", "a", 2, 1, grade="Estimator"),
        then=[waits("c2", "guess-cannot-borrow", "a", "mdev", 1)],
    ),
    Row(
        name="a guess inside its guarantee is admitted",
        given=SMALL_X,
        when=asks("c2", "a/x", 1, 10, grade="Estimator"),
        then=[admitted("c2")],
    ),
    Row(
        name="borrowing-off at the leaf",
        given=[*NO_BORROW, asks("c1", "b/x", 1, 1)],
        when=asks("c2", "b/x", 2, 60),
        then=[waits("c2", "borrowing-off", "b/x", "mdev", 1)],
    ),
    Row(
        name="borrowing-off above the leaf",
        given=[*NO_BORROW, asks("c1", "a/y", 4, 1)],
        when=asks("c2", "a/x", 3, 1),
        # x may borrow 1 of what is idle, but a would then have 7 of its 6.
        then=[waits("c2", "borrowing-off", "a", "mdev", 1)],
    ),
    Row(
        name="borrowing-off above the leaf, where the leaf's share would do",
        given=[opened(node("a", 6, 40, borrow=False), node("a/x", 2, 10), node("b", 4, 100)),
               asks("c1", "a/x", 2, 10), commit("c1"), reads("g", 1000, 1010, 45, on={"c1": 1})],
        # The meter took a 5 over its 40 joules; x's ceiling there is a's: 40 and what is idle.
        when=asks("c2", "a/x", 1, 0),
        then=[waits("c2", "borrowing-off", "a", "uj", 5)],
    ),
    Row(
        name="share",
        given=SHARED,
        when=asks("c2", "a", 2, 1),
        # The ceiling is 2 + (10 - 2 - 6) = 4, and 5 are wanted. (The room is 1: share is first.)
        then=[waits("c2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="share in devices before joules",
        given=[opened(node("a", 2, 100), node("b", 6, 100, lend=False), uj=220),
               asks("c1", "a", 3, 110)],
        when=asks("c2", "a", 2, 20),
        then=[waits("c2", "share", "a", "mdev", 1)],
    ),
    Row(
        name="share in joules",
        given=[opened(node("a", 2, 100), node("b", 6, 100, lend=False), uj=220),
               asks("c1", "a", 1, 110)],
        when=asks("c2", "a", 1, 20),
        # 100 + (220 - 100 - 100) = 120, and 130 are wanted.
        then=[waits("c2", "share", "a", "uj", 10)],
    ),
    Row(
        name="the share itself is no failure",
        given=SHARED,
        when=asks("c2", "a", 1, 1),
        then=[admitted("c2", "borrowed", borrowed={"a": {"mdev": 1}})],
    ),
    Row(
        name="share at the leaf before borrowing-off above it",
        given=[opened(node("a", 4, borrow=False), node("a/x", 1), node("a/y", 3, lend=False),
                      node("b", 6, lend=False)), asks("c1", "a/y", 3, 0), asks("c2", "a/x", 1, 0)],
        when=asks("c3", "a/x", 1, 0),
        then=[waits("c3", "share", "a/x", "mdev", 1)],
    ),
]  # fmt: skip

ROWS = [*CONCURRENCY_AND_LIMIT, *BORROWING]


@pytest.mark.parametrize(**named(ROWS))
def test_the_first_check_to_fail_is_the_reason(row: Row) -> None:
    """A claim waits for the first check that fails, with its node, resource and by how much."""
    check(row)


ADMISSIONS = [
    Row(
        name="inside the guarantee nothing is borrowed",
        given=SMALL_X,
        when=asks("c2", "a/x", 1, 10),
        then=[admitted("c2", leaf="a/x", demand={"mdev": 1, "uj": 10}, grade="ModelBased",
                       borrowed=None)],
    ),
    Row(
        name="borrowed at the leaf only",
        given=SMALL_X,
        when=asks("c2", "a/x", 3, 10),
        then=[admitted("c2", "borrowed", borrowed={"a/x": {"mdev": 2}})],
    ),
    Row(
        name="borrowed on both levels, in both resources, never more than the demand",
        given=[*SMALL_X, asks("c2", "a/x", 4, 30)],
        # x has 5 of 2 and 70 of 50; a has 5 of 6 and 70 of 100.
        when=asks("c3", "a/x", 2, 40),
        then=[admitted("c3", "borrowed",
                       borrowed={"a/x": {"mdev": 2, "uj": 40}, "a": {"mdev": 1, "uj": 10}})],
    ),
    Row(
        name="what the meter took over the guarantee is borrowed by the next, though it adds none",
        given=[opened(node("a", 4, 10), node("b", 4, 90)), asks("c1", "a", 1, 5), commit("c1"),
               reads("g", 1_000, 1_010, 15, on={"c1": 1})],
        when=asks("c2", "a", 1, 0),
        then=[admitted("c2", "borrowed", borrowed={})],
    ),
    Row(
        name="every declared resource is in the demand",
        given=[opened(node("a", 4, 9, also={"vcpu": 2}), also={"vcpu": 8, "gpu.mig": 1})],
        when=asks("c1", "a", gang=[{"mdev": 1}, {"uj": 3, "vcpu": 2}]),
        then=[admitted("c1", demand={"mdev": 1, "vcpu": 2, "gpu.mig": 0, "uj": 3})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(ADMISSIONS))
def test_an_admission_says_what_is_borrowed_where(row: Row) -> None:
    """Mode, demand and, where borrowed, each node's part of the demand stand in the body."""
    found = check(row)
    assert ("borrowed" in found[0]) == (found[0]["mode"] == "borrowed")
