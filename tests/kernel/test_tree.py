"""Which trees are taken, and what a new tree does to what runs and waits (profile §2.2)."""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
    Bench,
    Json,
    Row,
    admitted,
    asks,
    cancel,
    check,
    commit,
    named,
    no_claim,
    node,
    opened,
    period,
    reads,
    refused,
    release,
    says,
    tree,
    waits,
)

# The rules in their order: id and unique over all nodes; then parent, weight, limit over all
# nodes; then guarantee-sum. Capacity is 10 mdev. (name, nodes, first offending id, its rule)
FAULTS: list[tuple[str, list[Json], str, str]] = [
    *((f"id {bad!r}", [node(bad)], bad, "id") for bad in (
        "", "/", "A", "a b", "ä", "-a", ".a", "a/", "/a", "a//b", "a/-b", "a\n", "a/B",
    )),
    ("id of a later node before unique further on", [node("a"), node("B"), node("a")], "B", "id"),
    ("unique before an id further on", [node("a"), node("a"), node("B")], "a", "unique"),
    ("unique before the first node's parent", [node("z/x"), node("a"), node("a")], "a", "unique"),
    ("id before the first node's weight", [node("a", weight=0), node("B")], "B", "id"),
    ("parent", [node("a/x")], "a/x", "parent"),
    ("parent of two levels", [node("a"), node("a/x/y")], "a/x/y", "parent"),
    ("parent before its own weight", [node("z/x", weight=0)], "z/x", "parent"),
    ("weight", [node("a", weight=0)], "a", "weight"),
    ("weight of an earlier node before a parent",
     [node("a", weight=0), node("z/x")], "a", "weight"),
    ("weight before its own limit", [node("a", 2, weight=0, limit={"mdev": 1})], "a", "weight"),
    ("limit", [node("a", 2, limit={"mdev": 1})], "a", "limit"),
    ("limit in a later resource", [node("a", 2, 5, limit={"mdev": 2, "uj": 4})], "a", "limit"),
    ("limit of an earlier node before a weight",
     [node("a", 2, limit={"mdev": 1}), node("b", weight=0)], "a", "limit"),
    ("limit of a later node before a guarantee-sum",
     [node("a", 11), node("b", 2, limit={"mdev": 1})], "b", "limit"),
    ("guarantee-sum of the root", [node("a", 6), node("b", 5)], "/", "guarantee-sum"),
    ("guarantee-sum of the root in joules",
     [node("a", 6, 10**9), node("b", 0, 1)], "/", "guarantee-sum"),
    ("guarantee-sum of a node", [node("a", 3), node("a/x", 2), node("a/y", 2)],
     "a", "guarantee-sum"),
    ("guarantee-sum of the root before a node's",
     [node("a", 11), node("a/x", 12)], "/", "guarantee-sum"),
    ("guarantee-sum in list order, not by id",
     [node("b/x", 1), node("b"), node("a/x", 1), node("a")], "b", "guarantee-sum"),
]  # fmt: skip
TAKEN: list[tuple[str, list[Json]]] = [
    ("no nodes at all", []),
    ("every sign that an id may have", [node("0"), node("a.b-c_d"), node("0/1.x")]),
    ("a parent that stands later in the list", [node("a/x"), node("a")]),
    ("children that take all of it", [node("a", 10), node("a/x", 6), node("a/y", 4)]),
    ("a limit equal to the guarantee", [node("a", 4, limit={"mdev": 4})]),
    ("the smallest weight", [node("a", weight=1)]),
]


@pytest.mark.parametrize(
    ("nodes", "node_id", "rule"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
@pytest.mark.parametrize("by", ["pool.opened", "tree.set"])
def test_the_first_offending_node_and_rule_are_told(
    by: str, nodes: list[Json], node_id: str, rule: str
) -> None:
    """A bad tree is refused with its first fault, and one that stands is not touched."""
    expected = refused("tree-invalid", id=node_id, rule=rule)
    if by == "pool.opened":
        check(Row(name=by, when=opened(*nodes), then=[expected]))
        return
    bench = Bench(opened(node("kept")))
    assert bench.send(tree(*nodes)) == [expected]
    assert list(bench.state.tree.nodes) == ["kept"]


@pytest.mark.parametrize("nodes", [one[1] for one in TAKEN], ids=[one[0] for one in TAKEN])
def test_a_tree_at_the_edge_of_a_rule_is_taken(nodes: list[Json]) -> None:
    """What no rule forbids opens a pool, and may replace another tree."""
    check(Row(name="opened", when=opened(*nodes), then=[says("pool.opened")]))
    given = [opened(node("kept"))]
    check(Row(name="set", given=given, when=tree(*nodes), then=[says("tree.set")]))


AB = opened(node("a", 4, 100), node("b", 4, 100))
RUNS_IN_A = [AB, asks("c1", "a", 2, 10), commit("c1")]
# b is full, so c1 waits there: b does not borrow.
WAITS_IN_B = [opened(node("a", 4), node("b", 4, borrow=False)), asks("c0", "b", 4, 0),
              asks("c1", "b", 1, 0)]  # fmt: skip

ROWS = [
    Row(
        name="a leaf with a live claim may not go",
        given=RUNS_IN_A,
        when=tree(node("b")),
        then=[refused("leaf-in-use", id="a")],
    ),
    Row(
        name="a leaf with a live claim may not get a child",
        given=RUNS_IN_A,
        when=tree(node("a", 4, 100), node("a/x")),
        then=[refused("leaf-in-use", id="a")],
    ),
    Row(
        name="a leaf with a waiting claim may not go",
        given=[opened(node("a", 10), node("b")), asks("c0", "a", 10, 0), asks("c1", "b", 1, 0)],
        when=tree(node("a", 10)),
        then=[refused("leaf-in-use", id="b")],
    ),
    Row(
        name="a leaf that has spent in this period may not go",
        given=[*RUNS_IN_A, release("c1", 7)],
        when=tree(node("b")),
        then=[refused("leaf-in-use", id="a")],
    ),
    Row(
        name="a leaf that spent in an earlier period may go",
        given=[*RUNS_IN_A, release("c1", 7), period()],
        when=tree(node("b")),
        then=[says("tree.set")],
    ),
    Row(
        name="a leaf whose claims ended without spending may go",
        given=[*RUNS_IN_A, release("c1", 0)],
        when=tree(node("b")),
        then=[says("tree.set")],
    ),
    Row(
        name="of several leaves in use the smallest id is told, whatever their order",
        given=[opened(node("b", 2), node("a.", 2), node("a", 2), node("a-", 2)),
               asks("c1", "b", 1, 0), asks("c2", "a.", 1, 0), asks("c3", "a-", 1, 0)],
        when=tree(node("z")),
        then=[refused("leaf-in-use", id="a-")],
    ),
    Row(
        name="an invalid tree before a leaf in use",
        given=RUNS_IN_A,
        when=tree(node("b", weight=0)),
        then=[refused("tree-invalid", id="b", rule="weight")],
    ),
    Row(
        name="a guarantee may drop below what is in use, nothing running is touched",
        given=RUNS_IN_A,
        when=tree(node("a"), node("b", 4, 100)),
        then=[says("tree.set")],
    ),
    Row(
        name="what cannot fit any more is refused by arrival, then a pass admits what fits",
        given=[*WAITS_IN_B, asks("c3", "b", 2, 0), asks("c2", "b", 3, 0)],
        when=tree(node("a", 4), node("b", 1, borrow=False, limit={"mdev": 5})),
        # b does not borrow and is guaranteed 1: 2 and 3 can never fit; c0 uses 4, so c1 waits on.
        then=[says("tree.set"),
              no_claim("c3", "never-fits", node="b", resource="mdev", excess=1),
              no_claim("c2", "never-fits", node="b", resource="mdev", excess=2)],
    ),
    Row(
        name="a new tree is followed by a pass",
        given=WAITS_IN_B,
        when=tree(node("a", 4), node("b", 4)),
        then=[says("tree.set"), admitted("c1", "borrowed", borrowed={"b": {"mdev": 1}})],
    ),
    Row(
        name="a leaf whose waiting claim was cancelled may go",
        given=[opened(node("a", 10), node("b")), asks("c0", "a", 10, 0), asks("c1", "b", 1, 0),
               cancel("c1")],
        when=tree(node("a", 10)),
        then=[says("tree.set")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(ROWS))
def test_a_new_tree_under_what_runs_and_waits(row: Row) -> None:
    """A tree is refused while it drops a leaf in use; taken, it is followed by one pass."""
    check(row)


def test_live_claims_and_spending_move_into_the_new_tree() -> None:
    """Usage of every node of the new tree is that of the claims and leaves below it."""
    bench = Bench(*RUNS_IN_A, asks("c2", "a", 1, 5), release("c2", 3))
    bench.send(tree(node("a", 1, 1), node("b", 9, 100), node("c", 0)))
    assert bench.usage("a") == bench.usage("/") == {"mdev": 2, "uj": 13}
    assert bench.usage("b") == bench.usage("c") == {"mdev": 0, "uj": 0}


def test_a_leaf_becomes_a_node_once_nothing_holds_it() -> None:
    """A leaf with children later is no leaf: only its children hold claims."""
    bench = Bench(AB, tree(node("a", 4, 100), node("a/x", 4, 100)))
    assert bench.send(asks("c1", "a")) == [no_claim("c1", "unknown-leaf")]
    assert bench.send(asks("c2", "a/x", 1, 1))[0]["kind"] == "claim.admitted"
    assert bench.usage("a") == {"mdev": 1, "uj": 1}


def test_a_share_for_a_leaf_that_is_gone_is_overhead() -> None:
    """A late share is charged to its leaf, and to the pool's overhead once that leaf is gone."""
    bench = Bench(AB, asks("c1", "a", 1, 9), commit("c1"), release("c1", 4), period())
    bench.send(tree(node("b", 4, 100)))
    bench.send(reads("g", 1_020, 1_030, 10, on={"c1": 1}))
    # It was settled at 4, and its meter says 10 now: the growth of 6 lies with nobody.
    assert bench.state.overhead_uj == 6


def test_waiting_claims_keep_their_reason_but_await_nothing() -> None:
    """After a new tree nobody awaits a reclaim; victims already ordered stay ordered."""
    nodes = node("a", 4), node("b", 6)
    bench = Bench(opened(*nodes), asks("b1", "b", 6, 0), asks("b2", "b", 4, 0))
    ordered = bench.send(asks("a1", "a", 4, 0))
    assert [one["kind"] for one in ordered] == ["claim.preempting", "claim.waiting"]
    assert bench.send(tree(*nodes))[1:] == [
        # It plans anew in the pass: b2 is being reclaimed, so nothing is violated any more.
        {**waits("a1", "awaiting-reclaim", "/", "mdev", 4)}
    ]
    assert bench.state.claims["b2"].reclaimed_for == "a1"
