"""What a submission is refused for, in the profile's order (§4.1)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.kernel.scenes import (
    BIG,
    Json,
    Row,
    admitted,
    archive,
    asks,
    check,
    named,
    no_claim,
    node,
    opened,
    policy,
    release,
    waits,
)

# acme has two leaves; b is a leaf of the root. Ten whole devices' worth of mdev.
POOL = [
    opened(
        node("acme", 6, 1000), node("acme/x", 2, 500), node("acme/y", 4, 500), node("b", 4, 1000),
        policy={"min_samples": 2},
    )
]  # fmt: skip
MEASURED = [
    asks("k1", "b", 1, 5, class_="k"),
    release("k1", 7),
    asks("k2", "b", 1, 5, class_="k"),
    release("k2", 3, "Estimator"),
]
OBSERVED = {"estimate": "observed", "gang": [{"mdev": 1}]}

ORDER = [
    Row(
        name="archived",
        given=[*POOL, archive()],
        when=asks("c", "b"),
        then=[no_claim("c", "archived")],
    ),
    Row(
        name="archived before unknown-leaf",
        given=[*POOL, archive()],
        when=asks("c", "nowhere"),
        then=[no_claim("c", "archived")],
    ),
    Row(
        name="unknown-leaf: absent",
        given=POOL,
        when=asks("c", "nowhere"),
        then=[no_claim("c", "unknown-leaf")],
    ),
    Row(
        name="unknown-leaf: a node with children",
        given=POOL,
        when=asks("c", "acme"),
        then=[no_claim("c", "unknown-leaf")],
    ),
    Row(
        name="unknown-leaf: the root",
        given=POOL,
        when=asks("c", "/"),
        then=[no_claim("c", "unknown-leaf")],
    ),
    Row(
        name="unknown-leaf before gang-empty",
        given=POOL,
        when=asks("c", "acme", gang=[]),
        then=[no_claim("c", "unknown-leaf")],
    ),
    Row(
        name="gang-empty: no members",
        given=POOL,
        when=asks("c", "b", gang=[]),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="gang-empty: a member that asks for nothing",
        given=POOL,
        when=asks("c", "b", gang=[{}]),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="gang-empty: zeros",
        given=POOL,
        when=asks("c", "b", gang=[{"mdev": 0, "uj": 0}, {"mdev": 0}]),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="gang-empty: another resource alone",
        given=[opened(node("b", 4), also={"vcpu": 8})],
        when=asks("c", "b", gang=[{"vcpu": 4}]),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="gang-empty before never-fits",
        given=[opened(node("b", 4), also={"vcpu": 8})],
        when=asks("c", "b", gang=[{"vcpu": 99}]),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="gang-empty before class-empty",
        given=POOL,
        when=asks("c", "b", gang=[], estimate="observed"),
        then=[no_claim("c", "gang-empty")],
    ),
    Row(
        name="no gang-empty for an observed estimate without devices",
        given=POOL,
        when=asks("c", "b", gang=[{}], estimate="observed"),
        then=[no_claim("c", "class-empty")],
    ),
    Row(
        name="class-empty",
        given=POOL,
        when=asks("c", "b", **OBSERVED),
        then=[no_claim("c", "class-empty")],
    ),
    Row(
        name="class-empty before never-fits",
        given=POOL,
        when=asks("c", "b", gang=[{"mdev": 99}], estimate="observed", class_=""),
        then=[no_claim("c", "class-empty")],
    ),
    Row(
        name="history-insufficient: nothing yet",
        given=POOL,
        when=asks("c", "b", **OBSERVED, class_="k"),
        then=[no_claim("c", "history-insufficient", measured=0, guesses=0, required=2)],
    ),
    Row(
        name="history-insufficient: a guess is counted, not kept",
        given=[*POOL, *MEASURED],
        when=asks("c", "b", **OBSERVED, class_="k"),
        then=[no_claim("c", "history-insufficient", measured=1, guesses=1, required=2)],
    ),
    Row(
        name="history-insufficient before never-fits",
        given=POOL,
        when=asks("c", "b", gang=[{"mdev": 99}], estimate="observed", class_="k"),
        then=[no_claim("c", "history-insufficient", measured=0, guesses=0, required=2)],
    ),
    Row(
        name="never-fits with the observed figure",
        given=[*POOL, policy(min_samples=1), *MEASURED],
        when=asks("c", "acme/x", gang=[{"mdev": 99}], estimate="observed", class_="k"),
        # acme/x could have 10 of mdev at best, the whole pool.
        then=[no_claim("c", "never-fits", node="acme/x", resource="mdev", excess=89)],
    ),
    Row(
        name="never-fits before queue-full",
        given=[opened(node("a", 4, max_waiting=0))],
        when=asks("c", "a", 11, 0),
        then=[no_claim("c", "never-fits", node="a", resource="mdev", excess=1)],
    ),
]

FULL = [opened(node("a", 4, max_waiting=1), node("a/x", 4, max_waiting=1), node("a/y"),
               node("b", 6)), asks("c1", "b", 10, 0)]  # fmt: skip
QUEUE = [
    Row(
        name="it waits while the queue has a place",
        given=FULL,
        when=asks("c2", "a/y", 1, 0),
        # a lends y its unused 4, but b uses what the root would need to give.
        then=[waits("c2", "capacity", "/", "mdev", 1)],
    ),
    Row(
        name="queue-full: the leaf before the node above it",
        given=[*FULL, asks("c2", "a/x", 5, 0)],
        when=asks("c3", "a/x", 5, 0),
        then=[no_claim("c3", "queue-full", node="a/x")],
    ),
    Row(
        name="queue-full: the node above the leaf",
        given=[*FULL, asks("c2", "a/x", 5, 0)],
        when=asks("c3", "a/y", 1, 0),
        then=[no_claim("c3", "queue-full", node="a")],
    ),
    Row(
        name="queue-full: no place at all",
        given=[opened(node("a", max_waiting=0), node("b", 10)), asks("c1", "b", 10, 0)],
        when=asks("c2", "a", 1, 0),
        then=[no_claim("c2", "queue-full", node="a")],
    ),
    Row(
        name="queue-full before anybody is reclaimed",
        given=[*FULL, asks("c2", "a/x", 5, 0)],
        when=asks("c3", "a/x", 4, 0),
        then=[no_claim("c3", "queue-full", node="a/x")],
    ),
    Row(
        name="what fits is admitted past a full queue",
        given=[opened(node("a", 4, max_waiting=1), node("b", 6)), asks("c1", "b", 6, 0),
               asks("c2", "a", 5, 0)],
        when=asks("c3", "a", 4, 0),
        then=[admitted("c3")],
    ),
]  # fmt: skip

# One pool a row: (name, nodes, the submission's (leaf, mdev, uj, options), node, resource, excess)
NEVER: list[tuple[str, list[Json], Json, str, str, int]] = [
    ("more than the pool has", [node("a", 4)], asks("c", "a", 11, 0), "a", "mdev", 1),
    ("the leaf's limit", [node("a", 4, limit={"mdev": 6})], asks("c", "a", 9, 0), "a", "mdev", 3),
    # 4 of its own and 10 - 4 - 4: what b is guaranteed and does not lend is never a's.
    ("past a sibling that lends nothing", [node("a", 4), node("b", 4, lend=False)],
     asks("c", "a", 7, 0), "a", "mdev", 1),
    ("past a sibling that does not lend this", [node("a", 4), node("b", 4, lend=["uj"])],
     asks("c", "a", 7, 0), "a", "mdev", 1),
    ("a leaf that does not borrow", [node("a", 4, borrow=False)],
     asks("c", "a", 5, 0), "a", "mdev", 1),
    ("a guess past its leaf's guarantee", [node("a", 4)],
     asks("c", "a", 6, 0, grade="Estimator"), "a", "mdev", 2),
    ("an unpreemptible claim past its leaf's guarantee", [node("a", 4)],
     asks("c", "a", 6, 0, preemptible=False), "a", "mdev", 2),
    ("a guess in joules alone", [node("a", 4, 9)],
     asks("c", "a", 0, 10, grade="Estimator"), "a", "uj", 1),
    # acme may have all 10, but its limit is 7; the leaf below it may have what acme may.
    ("the limit of a node above", [node("acme", 6, limit={"mdev": 7}), node("acme/x", 2)],
     asks("c", "acme/x", 8, 0), "acme", "mdev", 1),
    # acme does not borrow: 6 at most; x has 2 of its own and 6 - 2 beside them.
    ("below a node that does not borrow", [node("acme", 6, borrow=False), node("acme/x", 2)],
     asks("c", "acme/x", 7, 0), "acme/x", "mdev", 1),
    ("below a node whose other leaf does not lend",
     [node("acme", 6, borrow=False), node("acme/x", 2), node("acme/y", 3, lend=False)],
     asks("c", "acme/x", 4, 0), "acme/x", "mdev", 1),
    ("devices before joules", [node("a", 4, 5, borrow=False)],
     asks("c", "a", 5, 9), "a", "mdev", 1),
    ("the leaf in joules before the node above in devices",
     [node("acme", 6, 50, limit={"mdev": 7}), node("acme/x", 2, 5, limit={"uj": 8})],
     asks("c", "acme/x", 8, 9), "acme/x", "uj", 1),
    ("the sum of a gang", [node("a", 4, borrow=False)],
     asks("c", "a", gang=[{"mdev": 2}, {"mdev": 2, "uj": 1}, {"mdev": 1}]), "a", "mdev", 1),
]  # fmt: skip
FITS_SOME_DAY: list[tuple[str, list[Json], Json]] = [
    ("all that the pool has", [node("a"), node("b", 10)], asks("c", "a", 10, BIG)),
    ("what a sibling lends", [node("a", 4), node("b", 4, lend=["mdev"])], asks("c", "a", 10, 0)),
    ("a guess up to its guarantee", [node("a", 4, 9)], asks("c", "a", 4, 9, grade="Estimator")),
    ("the limit itself", [node("a", 4, limit={"mdev": 6})], asks("c", "a", 6, 0)),
    ("nothing of a resource that has none", [node("a", 4, borrow=False)], asks("c", "a", 4, 0)),
]


@pytest.mark.parametrize(**named(ORDER))
def test_the_first_refusal_that_applies_is_told(row: Row) -> None:
    """A submission with several faults is refused for the first of the profile's order."""
    check(row)


@pytest.mark.parametrize(**named(QUEUE))
def test_a_full_queue_refuses_only_what_does_not_fit(row: Row) -> None:
    """`max_waiting` is asked leaf to root, after everything else and only of what must wait."""
    check(row)


@pytest.mark.parametrize(
    ("nodes", "when", "node_id", "resource", "excess"),
    [one[1:] for one in NEVER],
    ids=[one[0] for one in NEVER],
)
def test_what_can_never_fit_is_refused_at_once(
    nodes: list[Json], when: Json, node_id: str, resource: str, excess: int
) -> None:
    """A demand above the least that some node on the path could ever give is refused there."""
    expected = no_claim("c", "never-fits", node=node_id, resource=resource, excess=excess)
    check(Row(name="never", given=[opened(*nodes)], when=when, then=[expected]))


@pytest.mark.parametrize(
    ("nodes", "when"), [one[1:] for one in FITS_SOME_DAY], ids=[one[0] for one in FITS_SOME_DAY]
)
def test_what_fits_an_empty_pool_is_admitted_there(nodes: list[Json], when: Json) -> None:
    """A demand at the very edge of what a node could have is admitted if nobody else is there."""
    check(
        Row(name="some day", given=[opened(*nodes)], when=when, then=[{"kind": "claim.admitted"}])
    )


def test_the_order_has_a_row_with_two_faults_for_every_two_neighbours() -> None:
    """The table goes through the profile's order and says for each step which of two wins."""
    reasons = [row.then[0]["reason"] for row in ORDER if " before " in row.name]
    told = list(dict.fromkeys(reasons))
    order = ["archived", "unknown-leaf", "gang-empty", "class-empty", "history-insufficient"]
    assert told == [*order, "never-fits"]
    assert all(order.index(one) < order.index(two) for one, two in pairwise(told[:-1]))


ROWS = [*ORDER, *QUEUE]
