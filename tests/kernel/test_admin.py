"""The operator's events, pools that are not open, and every reason code (profile §3)."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from schemas.records import Kind, Malformed, Reason
from streams.kernel import PoolState, decide
from tests.kernel.scenes import (
    STEWARD,
    Bench,
    Json,
    Row,
    admitted,
    archive,
    asks,
    cancel,
    check,
    commit,
    event,
    named,
    no_claim,
    node,
    opened,
    period,
    policy,
    progress,
    reads,
    reasons_of,
    refused,
    release,
    review,
    says,
    tick,
    timed,
    tree,
)

A, B = node("a", 4, 1000), node("b", 4, 1000)
POOL = [opened(A, B), asks("c", "a", 1, 5)]
ARCHIVED = [*POOL, archive()]

OPENINGS = [
    Row(name="opened", when=opened(A), then=[says("pool.opened")]),
    Row(name="opened with more resources, in their order", when=opened(A, also={"vcpu": 4}),
        then=[says("pool.opened")]),
    Row(name="opened with a resource of which there is none",
        when=event("pool.opened", capacity={}, tree=[]), then=[says("pool.opened")]),
    Row(name="opened again: already-open", given=POOL, when=opened(A, B, id="x"),
        then=[refused("already-open")]),
    Row(name="already-open before archived", given=ARCHIVED, when=opened(A, B, id="x"),
        then=[refused("already-open")]),
    Row(name="already-open before resources-invalid", given=POOL,
        when=opened(A, resources=["uj", "mdev"]), then=[refused("already-open")]),
    Row(name="resources-invalid: none", when=opened(resources=[], capacity={}),
        then=[refused("resources-invalid")]),
    Row(name="resources-invalid: mdev is not the first",
        when=opened(A, resources=["vcpu", "mdev", "uj"]), then=[refused("resources-invalid")]),
    Row(name="resources-invalid: uj is not the last",
        when=opened(A, resources=["mdev", "uj", "vcpu"]), then=[refused("resources-invalid")]),
    Row(name="resources-invalid: mdev alone", when=opened(resources=["mdev"], capacity={}),
        then=[refused("resources-invalid")]),
    Row(name="resources-invalid: one twice", when=opened(A, resources=["mdev", "x", "x", "uj"]),
        then=[refused("resources-invalid")]),
    Row(name="resources-invalid before tree-invalid",
        when=opened(node("A"), resources=["mdev", "uj", "uj"]),
        then=[refused("resources-invalid")]),
    Row(name="out-of-range before resources-invalid", when=opened(A, mdev=2**63, resources=["uj"],
        capacity={"uj": 2**63}, tree=[]), then=[refused("out-of-range")]),
    Row(name="malformed before resources-invalid: an undeclared capacity",
        when=opened(A, resources=["mdev", "x"]), then=[refused("malformed", field="capacity")]),
    Row(name="malformed: an undeclared resource in the tree",
        when=opened(node("a", also={"vcpu": 1})), then=[refused("malformed", field="tree")]),
    Row(name="tree-invalid", when=opened(node("A")),
        then=[refused("tree-invalid", id="A", rule="id")]),
]  # fmt: skip

# A pool that is not open answers every event with one refusal, and stays closed.
CLOSED = [
    Row(name=f"unknown-pool: {one['type']}", when=one, then=[refused("unknown-pool")])
    for one in (
        asks("c", "a"), commit("c"), progress("c", 1), cancel("c"), release("c"), tree(A),
        policy(), period(), archive(), review(), tick(1_000), reads("g", 1, 2, 3),
        event("claim.renewed", claim="c"), event("steward.rotate", steward=STEWARD),
    )
] + [
    Row(name="malformed before unknown-pool", when=commit("c", zz=1),
        then=[refused("malformed", field="zz")]),
    Row(name="unknown-pool before out-of-range", when=asks("c", "a", priority=1001),
        then=[refused("unknown-pool")]),
]  # fmt: skip

ADMIN = [
    Row(name="a new period", given=POOL, when=period("w2"),
        then=[says("period.opened", period="w2")]),
    Row(name="a period of any label, twice the same", given=[*POOL, period("")], when=period(""),
        then=[says("period.opened", period="")]),
    Row(name="a rotation", given=POOL, when=event("steward.rotate", steward=STEWARD),
        then=[says("steward.rotated", steward=STEWARD)]),
    Row(name="a key that is none is malformed", given=POOL,
        when=event("steward.rotate", steward="did:key:z6Mk"),
        then=[refused("malformed", field="steward")]),
    Row(name="archived: no submission", given=ARCHIVED, when=asks("d", "a"),
        then=[no_claim("d", "archived")]),
    Row(name="archived: no tree, valid or not", given=ARCHIVED, when=tree(node("A")),
        then=[refused("archived")]),
    Row(name="archived: no policy, valid or not", given=ARCHIVED, when=policy(zz=1),
        then=[refused("archived")]),
    Row(name="archived: not a second time", given=ARCHIVED, when=archive(id="x"),
        then=[refused("archived")]),
    Row(name="archived: a period goes on", given=ARCHIVED, when=period(),
        then=[says("period.opened")]),
    Row(name="archived: a rotation goes on", given=ARCHIVED,
        when=event("steward.rotate", steward=STEWARD), then=[says("steward.rotated")]),
    Row(name="archived: live claims run to their end", given=[*ARCHIVED, commit("c"),
        progress("c", 1), reads("g", 1_000, 1_010, 1, on={"c": 1})], when=release("c", 5),
        then=[says("claim.settled")]),
    Row(name="archived: a review goes on", given=ARCHIVED, when=review(),
        then=[says("idle.reviewed", verdicts=[], order=[])]),
    Row(name="archived: the same submission again is a repeat still", given=ARCHIVED,
        when=POOL[1], then=[says("duplicate", of=1)]),
    Row(name="tree-invalid before leaf-in-use", given=POOL, when=tree(node("b", weight=0)),
        then=[refused("tree-invalid", id="b", rule="weight")]),
    Row(name="leaf-in-use", given=POOL, when=tree(B), then=[refused("leaf-in-use", id="a")]),
]  # fmt: skip
ROWS = [*OPENINGS, *CLOSED, *ADMIN]


@pytest.mark.parametrize(**named(OPENINGS))
def test_a_pool_opens_once(row: Row) -> None:
    """already-open, resources-invalid, policy-invalid, tree-invalid; else it is open."""
    check(row)
    bench = Bench(*row.given)
    bench.send(row.when)
    assert bench.state.is_open == (bool(row.given) or row.then[0]["kind"] == "pool.opened")


@pytest.mark.parametrize(**named(CLOSED))
def test_a_pool_that_is_not_open_knows_nothing(row: Row) -> None:
    """Whatever arrives for it is refused, and the state stays as it was."""
    check(row)
    state = PoolState("p")
    plain = state.to_plain()
    bench = Bench(row.when)
    assert bench.state.to_plain() == plain


@pytest.mark.parametrize(**named(ADMIN))
def test_what_an_operator_may_do_and_when(row: Row) -> None:
    """Period and rotation always; tree and policy until the archive; the archive once."""
    check(row)


def test_what_no_field_can_be_told_of_is_malformed_alone() -> None:
    """Bytes that were no event at all are refused without a field, open or not."""
    broken = Malformed(pool="p", field=None, detail="not JSON")
    told = {"reason": "malformed"}
    assert [one.body for one in decide(PoolState("p"), broken, 5)] == [told]
    assert [one.body for one in decide(Bench(*POOL).state, broken, 5)] == [told]


def test_an_opening_refused_leaves_room_for_another() -> None:
    """A refused opening opens nothing: the next may do it."""
    bench = Bench(opened(node("A")))
    assert not bench.state.is_open
    assert bench.send(opened(A)) == [says("pool.opened")]
    assert bench.send(asks("c", "a", 1, 1))[0].items() >= admitted("c").items()


def tables() -> dict[str, list[Row]]:
    """The `ROWS` of every module beside this one that has some."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    found = {name: importlib.import_module(f"tests.kernel.{name}") for name in names}
    return {name: module.ROWS for name, module in found.items() if hasattr(module, "ROWS")}


def test_every_reason_code_has_a_row() -> None:
    """The tables together state every reason of the wire contract, and no other."""
    stated = {reason for rows in tables().values() for reason in reasons_of(rows)}
    assert stated == {reason.value for reason in Reason}


def test_every_kind_of_decision_has_a_row() -> None:
    """The tables together state every kind of decision."""
    stated = {one["kind"] for rows in tables().values() for row in rows for one in row.then}
    assert stated == {kind.value for kind in Kind}


def test_every_rules_table_has_rows_with_two_faults() -> None:
    """Each module of a section that refuses in an order has rows that say which fault wins."""
    ordered = ("admission_refusals", "admin", "fit", "policy", "readings", "releases", "repeats")
    for name in ordered:
        rows = tables()[f"test_{name}"]
        assert sum(" before " in row.name for row in rows) >= 3, name


def test_timed_events_are_ten_milliseconds_apart() -> None:
    """An event without a time comes 10 ms after the one before it."""
    events: list[Json] = [tick(1_500), review(), review(at=1_600), review()]
    assert [one["at_ms"] for one in timed(events)] == [1_500, 1_510, 1_600, 1_610]
