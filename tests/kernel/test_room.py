"""Does it fit now: room, what is earmarked, who is ahead (profile §4.2, checks 4 to 6)."""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
    Bench,
    Row,
    admitted,
    asks,
    check,
    guard_on,
    named,
    node,
    opened,
    preempts,
    release,
    tick,
    tree,
    waits,
)

# --- 4 capacity -------------------------------------------------------------------------------

# b was guaranteed all 8 that its claim holds, and is not any more; the claim is not preemptible.
STUCK = [
    opened(node("b", 8, 100), node("a")),
    asks("b1", "b", 8, 10, preemptible=False),
    tree(node("b", 4, 100), node("a", 4, 100)),
]
CAPACITY = [
    Row(
        name="capacity at the root",
        given=STUCK,
        when=asks("a1", "a", 3, 1),
        # a is promised 4 of 10 and b holds 8: room 2. Nobody can be reclaimed.
        then=[waits("a1", "capacity", "/", "mdev", 1)],
    ),
    Row(
        name="capacity: the room itself is enough",
        given=STUCK,
        when=asks("a1", "a", 2, 1),
        then=[admitted("a1")],
    ),
    Row(
        name="capacity at a node that does not borrow, for what another leaf does not lend",
        given=[opened(node("p", 6, borrow=False), node("p/x", 2), node("p/y", 4, lend=False),
                      node("b", 4)), asks("c1", "p/x", 2, 0)],
        # p could have all 10, so x's share would be 6; but what p gives is its guarantee of 6,
        # of which x uses 2 and y keeps 4.
        when=asks("c2", "p/x", 2, 0),
        then=[waits("c2", "capacity", "p", "mdev", 2)],
    ),
    Row(
        name="capacity in another resource than the one that is borrowed",
        given=[opened(node("a", 2, 10, also={"vcpu": 4}), node("b", 2, 10, also={"vcpu": 4}),
                      also={"vcpu": 8}), asks("b1", "b", 2, 10, also={"vcpu": 7})],
        # It borrows devices (tier 1, so it reclaims nothing); its vcpu are its guarantee's.
        when=asks("a1", "a", 3, 1, also={"vcpu": 4}),
        then=[waits("a1", "capacity", "/", "vcpu", 3)],
    ),
    Row(
        name="share before capacity",
        given=[opened(node("a", 2, 10, also={"vcpu": 4}), node("b", 6, 10, also={"vcpu": 4}),
                      also={"vcpu": 8}), asks("b1", "b", 9, 10, also={"vcpu": 7})],
        when=asks("a1", "a", 3, 1, also={"vcpu": 4}),
        # 2 + (10 - 2 - 6) - 3 borrowed: at least nothing, so the ceiling is 2.
        then=[waits("a1", "share", "a", "mdev", 1)],
    ),
    Row(
        name="what a leaf does not lend is there for it",
        given=[opened(node("a", 4, lend=False), node("b", 6)), asks("b1", "b", 6, 0)],
        when=asks("a1", "a", 4, 0),
        then=[admitted("a1")],
    ),
]  # fmt: skip

# --- 5 earmarked, 6 starved-ahead -------------------------------------------------------------

# b borrowed 3 over its 6; a1 gets its guaranteed 4 back from b2 and the free 1.
RECLAIMED = [
    opened(node("a", 4, 100), node("b", 6, 100), node("c")),
    asks("b1", "b", 6, 1),
    asks("b2", "b", 3, 1),
    asks("a1", "a", 4, 1),
]
EARMARKED = [
    Row(
        name="the claim that reclaims",
        given=RECLAIMED[:-1],
        when=RECLAIMED[-1],
        then=[preempts("b2", "a1"), waits("a1", "awaiting-reclaim", "/", "mdev", 3)],
    ),
    Row(
        name="earmarked at the leaf: the free device is a1's",
        given=RECLAIMED,
        when=asks("a2", "a", 1, 1),
        then=[waits("a2", "earmarked", "a", "mdev", 1)],
    ),
    Row(
        name="earmarked at the leaf is not asked in a resource that is borrowed there",
        given=[opened(node("a", 4, 10), node("b", 6, 10), uj=100), *RECLAIMED[1:3],
               asks("a1", "a", 4, 9)],
        # It borrows joules (2 + 10 > 10 with them); in devices 1 + 4 are wanted of 4.
        when=asks("a2", "a", 1, 11),
        then=[waits("a2", "earmarked", "a", "mdev", 1)],
    ),
    Row(
        name="capacity before earmarked",
        given=RECLAIMED,
        when=asks("a2", "a", 2, 1),
        # One is free; and a2 may not reclaim what does not fit into the guarantee beside a1.
        then=[waits("a2", "capacity", "/", "mdev", 1)],
    ),
    Row(
        name="earmarked for a borrower by the projected room",
        given=RECLAIMED,
        when=asks("c1", "c", 1, 1),
        # Projected, b uses 6 and a 4 of the 10.
        then=[waits("c1", "earmarked", "/", "mdev", 1)],
    ),
    Row(
        name="earmarked for a borrower by a limit above its leaf on projected usage",
        given=[opened(node("t", 7, 100, limit={"mdev": 7}), node("t/a", 4, 100), node("t/b", 2),
                      node("t/c"), node("z", 3, 10)),
               asks("b1", "t/b", 2, 1), asks("b2", "t/b", 3, 1), asks("a1", "t/a", 4, 1)],
        # t uses 5 of 7: a1's limit failure by 2 reclaims b2. Projected: 5 - 3 + 4 = 6.
        when=asks("c1", "t/c", 2, 1),
        then=[waits("c1", "earmarked", "t", "mdev", 1)],
    ),
    Row(
        name="what is inside its guarantee is not held by another leaf's reclaim",
        given=[*RECLAIMED[:1], asks("b1", "b", 5, 1), asks("b2", "b", 4, 1), RECLAIMED[-1],
               release("b1", 1)],
        when=asks("b3", "b", 2, 1),
        then=[admitted("b3")],
    ),
]  # fmt: skip

# The gang waits for a device too many, starves after 50 ms, and guards the pool's surplus.
GUARDED = [
    opened(node("a", 4, 100), node("b", 4, 100), node("c", 2, 100),
           policy={"reserve_after_ms": 50}),
    asks("c1", "c", 3, 1),
    asks("big", "a", 8, 1),
    tick(1_100),
]  # fmt: skip
STARVED_AHEAD = [
    Row(
        name="starved-ahead: it would fit, but the guard holds it",
        given=GUARDED,
        when=asks("b1", "b", 5, 1),
        then=[waits("b1", "starved-ahead", "/")],
    ),
    Row(
        name="what does not fit says so before starved-ahead",
        given=GUARDED,
        when=asks("b1", "b", 8, 1),
        # 4 + (10 - 4 - 0 - 2) - 1 = 7
        then=[waits("b1", "share", "b", "mdev", 1)],
    ),
    Row(
        name="the guard of the root holds no claim inside its guarantee",
        given=GUARDED,
        when=asks("b1", "b", 4, 1),
        then=[admitted("b1")],
    ),
    Row(
        name="the first scope from the leaf upward is told",
        # a2 guards its leaf (its limit), big the root: the small one would fit but for both.
        given=[opened(node("a", limit={"mdev": 4}), node("b", 4), node("c", 6),
                      policy={"reserve_after_ms": 50}),
               asks("a1", "a", 2, 0), asks("a2", "a", 3, 0), asks("big", "b", 9, 0), tick(1_100)],
        when=asks("a3", "a", 1, 0),
        then=[waits("a3", "starved-ahead", "a")],
    ),
]  # fmt: skip

ROWS = [*CAPACITY, *EARMARKED, *STARVED_AHEAD]


@pytest.mark.parametrize(**named(ROWS))
def test_the_first_check_to_fail_is_the_reason(row: Row) -> None:
    """A claim waits for the first check that fails, with its node, resource and by how much."""
    check(row)


def test_the_guard_of_the_last_table_stands() -> None:
    """The starved gang of the last table has set the guard that its rows speak of."""
    bench = Bench(*GUARDED[:-1])
    starved = {"kind": "claim.starved", "claim": "big"}
    assert bench.send(GUARDED[-1]) == [starved, guard_on("/", "big")]


def test_a_waiting_claim_says_its_demand_and_grade_once() -> None:
    """When it starts to wait a claim's body has demand and grade; later reasons have neither."""
    bench = Bench(
        opened(node("a", 4, max_live=1), node("b", 6)),
        asks("a0", "a", 1, 0),
        asks("b1", "b", 6, 0),
        asks("b2", "b", 3, 0),
    )
    assert bench.send(asks("a1", "a", 4, 0)) == [
        {
            "kind": "claim.waiting",
            "claim": "a1",
            "reason": "concurrency",
            "node": "a",
            "demand": {"mdev": 4, "uj": 0},
            "grade": "ModelBased",
        }
    ]
    assert bench.send(release("a0", 0))[-1] == {
        "kind": "claim.waiting",
        "claim": "a1",
        "reason": "awaiting-reclaim",
        "node": "/",
        "resource": "mdev",
        "short": 3,
    }
