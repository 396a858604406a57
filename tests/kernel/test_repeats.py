"""The order in which an event is judged, and the same again (profile §3)."""

from __future__ import annotations

import cbor2
import pytest

from schemas.events import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, decode_event
from schemas.jsonform import dumps_line
from schemas.records import Event
from streams.kernel import PoolState, decide
from tests.kernel.scenes import (
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
    reads,
    refused,
    release,
    review,
    says,
    tick,
    tree,
)


def of(seq: int) -> list[Json]:
    return [says("duplicate", of=seq)]


REUSED = [refused("event-id-reused")]
CLAIM_REUSED = [no_claim("c", "claim-id-reused")]
POOL = opened(node("a", 4, 1000), node("b", 2, 1000), mdev=6)
# Receipts: 0 opens, 1 admits c, 2 reviews.
GIVEN = [POOL, asks("c", "a", 1, 5, id="e1"), review(id="e2")]
SAME = asks("c", "a", 1, 5, id="e1")

REPEATS = [
    Row(name="an event id with the same content", given=GIVEN, when=SAME, then=of(1)),
    Row(name="of an event without a claim", given=GIVEN, when=review(id="e2"), then=of(2)),
    Row(name="a claim id with the same content, without an event id", given=GIVEN,
        when=asks("c", "a", 1, 5), then=of(1)),
    Row(name="a claim id with the same content, under another event id", given=GIVEN,
        when=asks("c", "a", 1, 5, id="e9"), then=of(1)),
    Row(name="an event id with other content", given=GIVEN, when=commit("c", id="e2"),
        then=REUSED),
    Row(name="a claim id with other content", given=GIVEN, when=asks("c", "a", 1, 6),
        then=CLAIM_REUSED),
    Row(name="a claim id in another leaf", given=GIVEN, when=asks("c", "b", 1, 5),
        then=CLAIM_REUSED),
    Row(name="the event id is judged first: same content", given=GIVEN, when=SAME, then=of(1)),
    Row(name="the event id is judged first: both reused", given=GIVEN,
        when=asks("c", "a", 1, 6, id="e2"), then=REUSED),
    Row(name="the event id is judged first: reused, though the claim is the same", given=GIVEN,
        when=asks("c", "a", 1, 5, id="e2"), then=REUSED),
    Row(name="a default that is filled in is other content", given=GIVEN,
        when=asks("c", "a", 1, 5, priority=0), then=CLAIM_REUSED),
    Row(name="the order of fields is no content", given=GIVEN,
        when=dict(reversed(asks("c", "a", 1, 5).items())), then=of(1)),
    Row(name="the time is no content", given=GIVEN, when=asks("c", "a", 1, 5, id="e1", at=9_999),
        then=of(1)),
    Row(name="a repeat changes nothing: not the state of its claim",
        given=[*GIVEN, release("c", 3)], when=asks("c", "a", 1, 5), then=of(1)),
    Row(name="of a refused event too",
        given=[POOL, commit("nobody", id="e1")], when=commit("nobody", id="e1"), then=of(1)),
    Row(name="of a claim that waits: its first receipt",
        given=[POOL, asks("b1", "b", 6, 0), asks("c", "a", 5, 0), review()],
        when=asks("c", "a", 5, 0), then=of(2)),
    Row(name="of a claim that reclaimed: the first order, not the receipt that it waits",
        given=[POOL, asks("b1", "b", 2, 0), asks("b2", "b", 2, 0), asks("b3", "b", 2, 0),
               asks("c", "a", 3, 0)],
        when=asks("c", "a", 3, 0), then=of(4)),
    Row(name="of an answer behind settled deadlines: they do not count",
        given=[POOL, asks("h", "a", 1, 0, commit_within_ms=5), asks("h2", "a", 1, 0,
               commit_within_ms=1_000), review(id="e1", at=5_000)],
        when=review(id="e1"), then=of(5)),
    Row(name="of a submission behind deadlines: they do not count",
        given=[POOL, asks("h", "a", 1, 0, commit_within_ms=5), asks("c", "a", 1, 0, at=5_000)],
        when=asks("c", "a", 1, 0), then=of(3)),
    Row(name="a claim refused on arrival is no claim: another event may try it again",
        given=[POOL, asks("c", "nowhere", 1, 5)], when=asks("c", "a", 1, 5),
        then=[admitted("c")]),
    Row(name="a claim refused on arrival: the same event id is a repeat all the same",
        given=[POOL, asks("c", "nowhere", 1, 5, id="e1")],
        when=asks("c", "nowhere", 1, 5, id="e1"), then=of(1)),
    Row(name="a claim refused on arrival: later events find unknown-claim",
        given=[POOL, asks("c", "nowhere", 1, 5)], when=cancel("c"),
        then=[refused("unknown-claim")]),
    Row(name="a cancelled claim is one still", given=[POOL, asks("b1", "b", 6, 0),
        asks("c", "a", 5, 0), cancel("c")], when=asks("c", "a", 5, 0), then=of(2)),
    Row(name="an id is seen with a refusal for its range",
        given=[POOL, asks("x", "a", 1, 5, priority=1001, id="e1")],
        when=asks("x", "a", 1, 5, priority=1001, id="e1"), then=of(1)),
    Row(name="an id is not seen with what was malformed",
        given=[POOL, event("claim.committed", id="e1", zz=1)], when=review(id="e1"),
        then=[says("idle.reviewed")]),
    Row(name="an id is not seen with an undeclared resource, which is malformed",
        given=[POOL, asks("x", "a", 1, 5, also={"vcpu": 1}, id="e1")], when=review(id="e1"),
        then=[says("idle.reviewed")]),
    Row(name="an id is not seen with event-id-reused: the first content stands",
        given=[*GIVEN, commit("c", id="e2")], when=commit("c", id="e2"), then=REUSED),
    Row(name="an id is not seen with a duplicate under another id",
        given=[*GIVEN, asks("c", "a", 1, 5, id="e9")], when=review(id="e9"),
        then=[says("idle.reviewed")]),
    Row(name="an id is seen with claim-id-reused",
        given=[*GIVEN, asks("c", "a", 1, 6, id="e9")], when=asks("c", "a", 1, 6, id="e9"),
        then=of(3)),
    Row(name="the opening's id too", given=[{**POOL, "id": "e0"}], when={**POOL, "id": "e0"},
        then=of(0)),
]  # fmt: skip

FORGOTTEN = [
    Row(name="an event id in the period after", given=[*GIVEN, period()], when=review(id="e2"),
        then=of(2)),
    Row(name="an event id in the period after that", given=[*GIVEN, period(), period()],
        when=review(id="e2"), then=[says("idle.reviewed")]),
    Row(name="the period's own id, in the next", given=[POOL, period(id="e1"), period()],
        when=period(id="e1"), then=of(1)),
    Row(name="the period's own id was seen in the period that it opens",
        given=[POOL, period(id="e1"), period(), period()], when=period(id="e1"),
        then=[says("period.opened")]),
    Row(name="a live claim's id as long as the claim", given=[*GIVEN, period(), period()],
        when=asks("c", "a", 1, 5), then=of(1)),
    Row(name="an ended claim in the period after it ended", given=[*GIVEN, release("c", 3),
        period()], when=asks("c", "a", 1, 6), then=CLAIM_REUSED),
    Row(name="an ended claim in the period after that", given=[*GIVEN, release("c", 3), period(),
        period()], when=asks("c", "a", 1, 6), then=[admitted("c")]),
    Row(name="by when it ended, not by when it began",
        given=[*GIVEN, period(), release("c", 3), period()], when=asks("c", "a", 1, 6),
        then=CLAIM_REUSED),
    Row(name="a forgotten claim is unknown", given=[*GIVEN, release("c", 3), period(), period()],
        when=commit("c"), then=[refused("unknown-claim")]),
    Row(name="a remembered one has ended", given=[*GIVEN, release("c", 3), period()],
        when=commit("c"), then=[refused("wrong-state", state="ended")]),
    Row(name="a remembered one takes late shares", given=[*GIVEN, release("c", 3), period()],
        when=reads("g", 1_000, 1_010, 9, on={"c": 1}), then=[says("meter.split")]),
    Row(name="a forgotten one is an unknown occupant",
        given=[*GIVEN, release("c", 3), period(), period()],
        when=reads("g", 1_000, 1_010, 9, on={"c": 1}),
        then=[refused("unknown-occupant", claim="c")]),
]  # fmt: skip

# malformed; repeats; out-of-range on the event alone; then the rest.
BIG_GANG = [{"mdev": 2**62, "uj": 1}, {"mdev": 2**62}]
JUDGED = [
    Row(name="malformed before a repeat", given=GIVEN, when={**SAME, "zz": 1},
        then=[refused("malformed", field="zz")]),
    Row(name="malformed before event-id-reused", given=GIVEN, when=commit("c", id="e2", zz=1),
        then=[refused("malformed", field="zz")]),
    Row(name="malformed before out-of-range", given=GIVEN,
        when=asks("x", "a", 1, 5, priority=1001, lease_ms="x"),
        then=[refused("malformed", field="lease_ms")]),
    Row(name="malformed by an undeclared resource before out-of-range", given=GIVEN,
        when=asks("x", "a", 1, 5, priority=1001, also={"vcpu": 1}),
        then=[refused("malformed", field="gang")]),
    Row(name="malformed by an undeclared resource before a later field", given=GIVEN,
        when=asks("x", "a", 1, 5, grade="gold", also={"vcpu": 1}),
        then=[refused("malformed", field="gang")]),
    Row(name="malformed by an earlier field before an undeclared resource", given=GIVEN,
        when=asks("x", 7, 1, 5, also={"vcpu": 1}), then=[refused("malformed", field="leaf")]),
    Row(name="malformed by a declared resource beside an unknown field", given=GIVEN,
        when=asks("x", "a", 1, 5, zz=1), then=[refused("malformed", field="zz")]),
    Row(name="malformed by an undeclared resource of a tree before an unknown field", given=GIVEN,
        when={**tree(node("a", lend=["vcpu"])), "aa": 1},
        then=[refused("malformed", field="tree")]),
    Row(name="malformed by an undeclared resource of a tree before tree-invalid", given=GIVEN,
        when=tree(node("A", also={"vcpu": 1})), then=[refused("malformed", field="tree")]),
    Row(name="malformed by a limit of an undeclared resource", given=GIVEN,
        when=tree(node("a", limit={"vcpu": 1})), then=[refused("malformed", field="tree")]),
    Row(name="malformed by lending an undeclared resource", given=GIVEN,
        when=tree(node("a", lend=["vcpu"])), then=[refused("malformed", field="tree")]),
    Row(name="event-id-reused before out-of-range", given=GIVEN,
        when=asks("x", "a", 1, 5, priority=1001, id="e2"), then=REUSED),
    Row(name="claim-id-reused before out-of-range", given=GIVEN,
        when=asks("c", "a", 1, 5, priority=1001), then=CLAIM_REUSED),
    Row(name="claim-id-reused before archived", given=[*GIVEN, archive()],
        when=asks("c", "a", 1, 6), then=CLAIM_REUSED),
    Row(name="duplicate before archived", given=[*GIVEN, archive()], when=SAME, then=of(1)),
    Row(name="out-of-range: a number", given=GIVEN, when=asks("x", "a", 2**63, 5),
        then=[refused("out-of-range")]),
    Row(name="out-of-range: a gang's sum", given=GIVEN, when=asks("x", "a", gang=BIG_GANG),
        then=[refused("out-of-range")]),
    Row(name="out-of-range before archived", given=[*GIVEN, archive()],
        when=asks("x", "a", gang=BIG_GANG), then=[refused("out-of-range")]),
    Row(name="out-of-range before unknown-leaf", given=GIVEN,
        when=asks("x", "nowhere", 1, 5, priority=-1001), then=[refused("out-of-range")]),
    Row(name="out-of-range before unknown-claim", given=GIVEN,
        when=event("claim.progressed", claim="nobody", completed=-1),
        then=[refused("out-of-range")]),
    Row(name="out-of-range before tree-invalid", given=GIVEN, when=tree(node("A", 2**63)),
        then=[refused("out-of-range")]),
    Row(name="a policy's numbers are its own rules", given=GIVEN, when=policy(aging_ms=2**63),
        then=[refused("policy-invalid", key="aging_ms")]),
]  # fmt: skip

STATES = [
    Row(name="commit of a held claim", given=GIVEN, when=commit("c"),
        then=[says("claim.committed", claim="c")]),
    Row(name="renewal of a running claim", given=[*GIVEN, commit("c")],
        when=event("claim.renewed", claim="c"), then=[says("claim.renewed", claim="c")]),
    Row(name="commit of a waiting claim", given=[POOL, asks("b1", "b", 6, 0), asks("c", "a", 5, 0)],
        when=commit("c"), then=[refused("wrong-state", state="waiting")]),
    Row(name="commit of a running claim", given=[*GIVEN, commit("c")], when=commit("c"),
        then=[refused("wrong-state", state="running")]),
    Row(name="renewal of a held claim", given=GIVEN, when=event("claim.renewed", claim="c"),
        then=[refused("wrong-state", state="held")]),
    Row(name="progress of a held claim", given=GIVEN,
        when=event("claim.progressed", claim="c", completed=1),
        then=[refused("wrong-state", state="held")]),
    Row(name="progress that falls", given=[*GIVEN, commit("c"),
        event("claim.progressed", claim="c", completed=3)],
        when=event("claim.progressed", claim="c", completed=2), then=[refused("progress-fell")]),
    Row(name="wrong-state before progress-fell", given=[*GIVEN, commit("c"),
        event("claim.progressed", claim="c", completed=3), release("c", 1)],
        when=event("claim.progressed", claim="c", completed=2),
        then=[refused("wrong-state", state="ended")]),
    Row(name="cancellation of a held claim", given=GIVEN, when=cancel("c"),
        then=[refused("wrong-state", state="held")]),
    Row(name="cancellation of an uncertain claim",
        given=[POOL, asks("c", "a", 1, 0, lease_ms=5), commit("c"), tick(2_000)],
        when=cancel("c"), then=[refused("wrong-state", state="uncertain")]),
    Row(name="commit of an uncertain claim",
        given=[POOL, asks("c", "a", 1, 0, lease_ms=5), commit("c"), tick(2_000)],
        when=commit("c"), then=[refused("wrong-state", state="uncertain")]),
    Row(name="cancellation of who waits", given=[POOL, asks("b1", "b", 6, 0),
        asks("c", "a", 5, 0)], when=cancel("c"), then=[says("claim.cancelled", claim="c")]),
    Row(name="cancellation of an unknown claim", given=GIVEN, when=cancel("x"),
        then=[refused("unknown-claim")]),
]  # fmt: skip

ROWS = [*REPEATS, *FORGOTTEN, *JUDGED, *STATES]


@pytest.mark.parametrize(**named(REPEATS))
def test_the_same_again_is_answered_with_the_first_answer(row: Row) -> None:
    """The same content is a duplicate of the first answer's first receipt; other, reused."""
    check(row)


@pytest.mark.parametrize(**named(FORGOTTEN))
def test_how_long_ids_are_remembered(row: Row) -> None:
    """For the period that they were seen, or ended, in, and the next."""
    check(row)


@pytest.mark.parametrize(**named(JUDGED))
def test_the_order_in_which_an_event_is_judged(row: Row) -> None:
    """malformed; repeats; out-of-range on the event alone; then the rest."""
    check(row)


@pytest.mark.parametrize(**named(STATES))
def test_an_event_about_a_claim_in_another_state_is_refused(row: Row) -> None:
    """Each event about a claim has the states that it may find it in."""
    check(row)


def test_a_duplicate_changes_nothing() -> None:
    """But for its receipt and the time, the state is what it was."""
    bench = Bench(*GIVEN)
    before = bench.state.to_plain()
    bench.send(SAME)
    after = bench.state.to_plain()
    assert {**after, "seq_next": 0, "now_ms": 0} == {**before, "seq_next": 0, "now_ms": 0}


def test_json_and_cbor_are_one_content() -> None:
    """The same event as JSON with decimal strings, and as CBOR, is a repeat of itself."""
    fields = asks("c", "a", 1, 5, id="e1", lease_ms=2**60)
    as_cbor = decode_event(cbor2.dumps(fields), CONTENT_TYPE_CBOR)
    as_json = decode_event(dumps_line(fields).encode(), CONTENT_TYPE_JSON)
    assert isinstance(as_cbor, Event) and isinstance(as_json, Event)
    assert as_cbor == as_json
    bench = Bench(POOL)
    state: PoolState = bench.state
    assert [str(one.kind) for one in decide(state, as_json, 2_000)] == ["claim.admitted"]
    assert [str(one.kind) for one in decide(state, as_cbor, 2_000)] == ["duplicate"]


def test_a_waiting_claim_that_is_submitted_again_waits_on() -> None:
    """A repeat neither renews its wait nor moves it in the queue."""
    given = [POOL, asks("b1", "b", 6, 0), asks("c", "a", 5, 0, max_wait_ms=50)]
    bench = Bench(*given)
    bench.send(asks("c", "a", 5, 0, max_wait_ms=50, at=1_060))
    assert bench.send(tick(1_070)) == [no_claim("c", "wait-expired")]
