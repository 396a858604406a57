"""What time alone brings about (profile §3): before any event, oldest first, as of now."""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
    Bench,
    Json,
    Row,
    admitted,
    asks,
    check,
    commit,
    event,
    guard_on,
    named,
    no_claim,
    node,
    opened,
    policy,
    progress,
    reads,
    refused,
    release,
    renew,
    review,
    says,
    tick,
    waits,
)


def expired(claim: str) -> Json:
    return says("claim.expired", claim=claim)


def lapsed(claim: str) -> Json:
    return says("claim.uncertain", claim=claim)


def starved(claim: str) -> Json:
    return says("claim.starved", claim=claim)


# a has two devices. h must be committed within 50 ms of 1010, r was committed at 1030 with a
# lease of 50 ms.
OPEN = opened(node("a", 2, 1000), mdev=2)
HELD = [OPEN, asks("h", "a", 1, 20, commit_within_ms=50)]
LEASED = [OPEN, asks("r", "a", 1, 20, lease_ms=50), asks("z", "a", 0, 1), commit("r")]
WAITING = [OPEN, asks("h", "a", 2, 20), asks("w", "a", 1, 1, max_wait_ms=50)]
STARVING = [{**OPEN, "policy": {"reserve_after_ms": 50}}, *WAITING[1:2], asks("s", "a", 1, 1)]

WHEN = [
    Row(name="expiry: not a millisecond early", given=HELD, when=tick(1_059), then=[]),
    Row(name="expiry", given=HELD, when=tick(1_060), then=[expired("h")]),
    Row(name="expiry: once", given=[*HELD, tick(1_060)], when=tick(9_999), then=[]),
    Row(name="expiry: not once committed", given=[*HELD, commit("h")], when=tick(9_999), then=[]),
    Row(name="expiry: not without a bound", given=[OPEN, asks("h", "a")], when=tick(10**9),
        then=[]),
    Row(name="expiry from the admission, not the submission",
        given=[OPEN, asks("x", "a", 2, 1), asks("h", "a", 1, 1, commit_within_ms=50),
               release("x", 0, at=1_100)], when=tick(1_149), then=[]),
    Row(name="expiry from the admission: then", given=[OPEN, asks("x", "a", 2, 1),
        asks("h", "a", 1, 1, commit_within_ms=50), release("x", 0, at=1_100)], when=tick(1_150),
        then=[expired("h")]),
    Row(name="expiry returns everything, and a pass admits who waits for it",
        given=[*HELD, asks("w", "a", 2, 1)], when=tick(1_060), then=[expired("h"), admitted("w")]),
    Row(name="lapse: not a millisecond early", given=LEASED, when=tick(1_079), then=[]),
    Row(name="lapse", given=LEASED, when=tick(1_080), then=[lapsed("r")]),
    Row(name="lapse: once", given=[*LEASED, tick(1_080)], when=tick(9_999), then=[]),
    Row(name="lapse: a held claim has no lease yet",
        given=[OPEN, asks("r", "a", 1, 1, lease_ms=50)], when=tick(9_999), then=[]),
    Row(name="lapse: from the last renewal", given=[*LEASED, renew("r", at=1_070)],
        when=tick(1_119), then=[]),
    Row(name="lapse: from the last renewal, then", given=[*LEASED, renew("r", at=1_070)],
        when=tick(1_120), then=[lapsed("r")]),
    Row(name="lapse: from the last progress", given=[*LEASED, progress("r", 0, at=1_070)],
        when=tick(1_120), then=[lapsed("r")]),
    Row(name="lapse: a reading renews nothing",
        given=[*LEASED, reads("g", 1_060, 1_070, 1, on={"r": 1}, at=1_070)], when=tick(1_080),
        then=[lapsed("r")]),
    Row(name="lapse: it keeps its capacity", given=[*LEASED, tick(1_080)],
        when=asks("w", "a", 2, 1), then=[waits("w", "share", "a", "mdev", 1)]),
    Row(name="lapse: a renewal brings it back", given=[*LEASED, tick(1_080), renew("r", at=1_090)],
        when=tick(1_140), then=[lapsed("r")]),
    Row(name="lapse: and so does progress", given=[*LEASED, tick(1_080)],
        when=progress("r", 3), then=[says("claim.progressed", claim="r", completed=3)]),
    Row(name="wait: not a millisecond early", given=WAITING, when=tick(1_069), then=[]),
    Row(name="wait", given=WAITING, when=tick(1_070), then=[no_claim("w", "wait-expired")]),
    Row(name="wait: the policy's where it is smaller",
        given=[{**OPEN, "policy": {"max_wait_ms": 40}}, *WAITING[1:]], when=tick(1_060),
        then=[no_claim("w", "wait-expired")]),
    Row(name="wait: the claim's where it is smaller",
        given=[{**OPEN, "policy": {"max_wait_ms": 60}}, *WAITING[1:]], when=tick(1_070),
        then=[no_claim("w", "wait-expired")]),
    Row(name="wait: the policy's where the claim has none",
        given=[{**OPEN, "policy": {"max_wait_ms": 40}}, asks("h", "a", 2, 20), asks("w", "a")],
        when=tick(1_060), then=[no_claim("w", "wait-expired")]),
    Row(name="wait: of the policy at its submission, not of a later one",
        given=[*WAITING, policy(max_wait_ms=1)], when=tick(1_069), then=[]),
    Row(name="wait: not once admitted",
        given=[OPEN, asks("h", "a", 1, 1), asks("w", "a", 2, 1, max_wait_ms=50),
               asks("v", "a", 2, 1), release("h", 0)], when=tick(1_070), then=[]),
    Row(name="starvation: not a millisecond early", given=STARVING, when=tick(1_069), then=[]),
    Row(name="starvation", given=STARVING, when=tick(1_070),
        then=[starved("s")]),
    Row(name="starvation: once a claim", given=[*STARVING, tick(1_070)], when=tick(9_999),
        then=[]),
    Row(name="starvation: an hour by default", given=[*WAITING[:2], asks("s", "a", 1, 1)],
        when=tick(1_020 + 3_600_000), then=[starved("s")]),
    Row(name="starvation: never where it is off",
        given=[{**OPEN, "policy": {"reserve_after_ms": 0}}, *STARVING[1:]], when=tick(10**12),
        then=[]),
    Row(name="starvation: by the policy as it stands",
        given=[*WAITING[:2], asks("s", "a", 1, 1), policy(reserve_after_ms=60)], when=tick(1_080),
        then=[starved("s")]),
    Row(name="starvation: what is overdue by a new policy comes with the next event",
        given=[*WAITING[:2], asks("s", "a", 1, 1), {**policy(reserve_after_ms=5), "at_ms": 2_000}],
        when=tick(2_000), then=[starved("s")]),
]  # fmt: skip

# Four deadlines of four claims, all at 1100: ties go by claim id, then in the table's order.
TIED = [
    opened(node("a", 3, 1000), mdev=3, policy={"reserve_after_ms": 60}),
    asks("d", "a", 1, 1, commit_within_ms=90, at=1_010),
    asks("b", "a", 1, 1, lease_ms=50, at=1_020),
    asks("f", "a", 1, 1, at=1_030),
    asks("c", "a", 1, 1, max_wait_ms=60, at=1_040),
    asks("a", "a", 1, 1, at=1_040),
    commit("b", at=1_050),
]
ORDER = [
    Row(
        name="oldest first, whatever the ids",
        given=[OPEN, asks("b", "a", 1, 1, commit_within_ms=40), asks("a", "a", 1, 1,
               commit_within_ms=50)],
        when=tick(9_999),
        then=[expired("b"), expired("a")],
    ),
    Row(
        name="ties by claim id, then wait before starvation",
        given=TIED,
        when=tick(1_100),
        # a starves and guards nothing that helps it (three are in use by others, guaranteed);
        # b lapses; c's wait ends, so it does not starve; d's expiry lets a in.
        then=[starved("a"), lapsed("b"), no_claim("c", "wait-expired"), expired("d"),
              admitted("a")],
    ),
    Row(
        name="of one claim the expiry comes before what its pass admits could do",
        given=[OPEN, asks("h", "a", 2, 1, commit_within_ms=50),
               asks("w", "a", 2, 1, commit_within_ms=10)],
        when=tick(9_999),
        # w is admitted as of now, so its own deadline is still to come.
        then=[expired("h"), admitted("w")],
    ),
    Row(
        name="settled as of now: a lease that lapsed long ago is uncertain now",
        given=LEASED,
        when=release("r", 5, at=9_999),
        then=[lapsed("r"), says("claim.settled", claim="r")],
    ),
]  # fmt: skip

# What happens to the event that finds a deadline due: it is judged after it, whatever it is.
JUDGED: list[tuple[str, Json, list[Json]]] = [
    ("a well-formed event", asks("n", "a", 1, 1), [admitted("n")]),
    ("an event about the claim itself", commit("h"), [refused("wrong-state", state="ended")]),
    ("a refused one", commit("nobody"), [refused("unknown-claim")]),
    ("a malformed one", event("claim.committed", clam="h"), [refused("malformed", field="claim")]),
    ("a repeat", asks("k", "a", 0, 1), [says("duplicate", of=1)]),
    ("a review", review(), [says("idle.reviewed")]),
]


@pytest.mark.parametrize(**named(WHEN))
def test_when_a_deadline_is_due(row: Row) -> None:
    """A deadline is due once its time has passed in full, counted from what the table says."""
    check(row)


@pytest.mark.parametrize(**named(ORDER))
def test_deadlines_are_settled_oldest_first(row: Row) -> None:
    """Oldest first; ties by claim id, then expiry, lapse, wait, starvation."""
    check(row)


@pytest.mark.parametrize(
    ("when", "then"), [one[1:] for one in JUDGED], ids=[one[0] for one in JUDGED]
)
def test_deadlines_come_before_any_event(when: Json, then: list[Json]) -> None:
    """Even before one that turns out malformed or a repeat, with the same cause."""
    given = [OPEN, asks("k", "a", 0, 1), asks("h", "a", 2, 1, commit_within_ms=50)]
    row = Row(name="due", given=given, when={**when, "at_ms": 2_000}, then=[expired("h"), *then])
    check(row)


def test_time_never_runs_backward() -> None:
    """`now` is made monotone: an older timestamp is judged as of the newest seen."""
    bench = Bench(*HELD)
    assert bench.send(tick(1_059)) == []
    assert bench.send(tick(5)) == []
    assert bench.state.now_ms == 1_059
    assert bench.send(asks("n", "a", 1, 1, at=500)) == [
        {
            "kind": "claim.admitted",
            "claim": "n",
            "leaf": "a",
            "demand": {"mdev": 1, "uj": 1},
            "mode": "guaranteed",
            "grade": "ModelBased",
        }
    ]
    assert bench.state.claims["n"].admitted_ms == 1_059


def test_an_expired_claim_is_charged_what_its_meter_showed() -> None:
    """The figure of an expiry is the meter's: nothing where it showed nothing."""
    for readings, spent_uj in (([], 0), ([reads("g", 1_000, 1_010, 7, on={"h": 1})], 7)):
        bench = Bench(*HELD, *readings)
        bench.send(tick(1_060))
        assert bench.usage("a") == {"mdev": 0, "uj": spent_uj}


def test_a_tick_does_nothing_else() -> None:
    """A tick without a deadline yields no decision, takes no id, and moves `now` alone."""
    bench = Bench(*HELD)
    before = bench.state.to_plain()
    assert bench.send(tick(1_050)) == []
    assert bench.state.to_plain() == {**before, "now_ms": 1_050}
    assert bench.send(event("tick", id="t", at=1_055)) == [refused("malformed", field="id")]


def test_a_starved_claims_guard_is_written_behind_it() -> None:
    """The pass of a starvation is its own: each claim's comes before the next deadline."""
    given = [
        opened(node("a", 4, 1000, max_live=1), node("b", 4, 1000, max_live=1),
               policy={"reserve_after_ms": 50}),
        asks("a1", "a"), asks("b1", "b"), asks("s", "a"), asks("t", "b"),
    ]  # fmt: skip
    told = [starved("s"), guard_on("a", "s"), starved("t"), guard_on("b", "t")]
    check(Row(name="two", given=given, when=tick(1_200), then=told))


ROWS = [*WHEN, *ORDER]
