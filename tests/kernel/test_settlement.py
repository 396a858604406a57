"""Which figure settles a release (profile §2.8), and what a period is charged (§2.3).

Not here: which releases are refused (`test_releases`).
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
    period,
    reads,
    release,
    renew,
    says,
    tick,
    waits,
)


def run(*readings: Json, end: Json, slack_ms: int = 10_000, mdev: int = 2) -> list[Json]:
    """c reserves 50, is admitted at 1010, commits at 1100; then readings; then `end`."""
    opening = opened(node("a", 8, 1000), policy={"meter_slack_ms": slack_ms})
    return [opening, asks("c", "a", mdev, 50), commit("c", at=1_100), *readings, end]


def read(
    from_ms: int, to_ms: int, uj: int | None, device: str = "g", mdev: int = 2, **rest: Any
) -> Json:
    return reads(device, from_ms, to_ms, uj, on={"c": mdev}, at=to_ms, **rest)


def metered(uj: int, grade: str = "HwShunt", **rest: Any) -> Json:
    return {"spent": {"uj": uj, "grade": grade, "basis": "metered"}, "disputed": None, **rest}


def reported(uj: int, grade: str = "ModelBased") -> Json:
    return {"spent": {"uj": uj, "grade": grade, "basis": "reported"}, "disputed": None}


def reserved(uj: int) -> Json:
    return {"spent": {"uj": uj, "grade": "Estimator", "basis": "reserved"}, "disputed": None}


def ends(uj: int | None = None, at: int = 1_200, grade: str = "ModelBased") -> Json:
    return release("c", uj, grade, at=at)


WHOLE = read(1_100, 1_200, 30)
PARTLY = read(1_100, 1_150, 30)
FIGURES: list[tuple[str, list[Json], Json]] = [
    ("reserved: no meter, no report", run(end=ends()), reserved(50)),
    ("reserved: what was read of it does not cover it", run(PARTLY, end=ends()), reserved(50)),
    ("reserved: the meter's where that is more", run(read(1_100, 1_150, 70), end=ends()),
     reserved(70)),
    ("reported", run(end=ends(20)), reported(20)),
    ("reported: nothing was spent", run(end=ends(0)), reported(0)),
    ("reported: a guess is its grade", run(end=ends(20, grade="Estimator")),
     reported(20, "Estimator")),
    ("reported: above a meter that does not cover it", run(PARTLY, end=ends(31)), reported(31)),
    ("reported: the meter's own figure is no dispute", run(PARTLY, end=ends(30)), reported(30)),
    ("disputed: below a meter that does not cover it", run(PARTLY, end=ends(29)),
     metered(30, disputed=True)),
    ("metered: covered", run(WHOLE, end=ends()), metered(30)),
    ("metered before reported, though that is more", run(WHOLE, end=ends(40)), metered(30)),
    ("metered: the same figure reported is no dispute", run(WHOLE, end=ends(30)), metered(30)),
    ("disputed: below a meter that covers it", run(WHOLE, end=ends(29)),
     metered(30, disputed=True)),
    ("metered: the worst grade of its readings",
     run(read(1_100, 1_150, 10), read(1_150, 1_200, 20, grade="ModelBased"), end=ends()),
     metered(30, "ModelBased")),
    ("metered: guesses that cover it are its meter, and a guess",
     run(read(1_100, 1_200, 30, grade="Estimator"), end=ends(99)), metered(30, "Estimator")),
    ("metered: it spent nothing", run(read(1_100, 1_200, 0), end=ends(99)), metered(0)),
    ("metered: a tenth of its time may be left out", run(read(1_100, 1_190, 30), end=ends(99)),
     metered(30)),
    ("reported: a millisecond more than a tenth", run(read(1_100, 1_189, 30), end=ends(99)),
     reported(99)),
    ("metered: the tenth is floored", run(read(1_100, 1_190, 30), end=ends(99, at=1_199)),
     metered(30)),
    ("reported: the floored tenth of 109 ms is 10", run(read(1_100, 1_198, 30),
     end=ends(99, at=1_209)), reported(99)),
    ("metered: the slack bounds it before the tenth does",
     run(read(1_100, 1_195, 30), end=ends(99), slack_ms=5), metered(30)),
    ("reported: more than the slack", run(read(1_100, 1_194, 30), end=ends(99), slack_ms=5),
     reported(99)),
    ("metered: holes add up to the tenth",
     run(read(1_103, 1_150, 10), read(1_157, 1_200, 20), end=ends(99)), metered(30)),
    ("reported: holes add up to more", run(read(1_104, 1_150, 10), read(1_157, 1_200, 20),
     end=ends(99)), reported(99)),
    ("metered: what was read before its start is not its time, but its energy",
     run(read(1_050, 1_100, 5), read(1_100, 1_200, 30), end=ends(99)), metered(35)),
    ("reported: a reading before its start covers nothing of it",
     run(read(1_000, 1_100, 30), end=ends(99)), reported(99)),
    ("metered: what was read past now is cut",
     run(reads("g", 1_100, 1_300, 30, on={"c": 2}, at=1_150), end=ends(99)), metered(30)),
    ("reported: a meter without an answer covers nothing any more",
     run(read(1_100, 1_190, 30), read(1_190, 1_200, None), end=ends(99)), reported(99)),
    ("reserved: an unknown is no zero", run(read(1_100, 1_200, None), end=ends()), reserved(50)),
    ("reported: its devices are fewer than it holds", run(read(1_100, 1_200, 30, mdev=1),
     end=ends(99)), reported(99)),
    ("metered: two devices together", run(read(1_100, 1_200, 30, mdev=1),
     read(1_100, 1_200, 7, "h", mdev=1), end=ends(99)), metered(37)),
    ("reported: one of two devices was not read all the time",
     run(read(1_100, 1_150, 7, "h", mdev=1), read(1_100, 1_200, 30, mdev=1), end=ends(99)),
     reported(99)),
    ("reported: a device that read it once, though the other is enough",
     run(read(1_100, 1_110, 7, "h", mdev=1), WHOLE, end=ends(99)), reported(99)),
    ("reported: of a device the newest reading says how much",
     run(read(1_100, 1_150, 7), read(1_150, 1_200, 30, mdev=1), end=ends(99)), reported(99)),
    ("reported: no device ever read a claim without devices", run(end=ends(99), mdev=0),
     reported(99)),
    ("metered: a claim without devices that a device read", run(read(1_100, 1_200, 30),
     end=ends(99), mdev=0), metered(30)),
    ("metered: released as it starts, with nothing to leave out",
     run(read(1_050, 1_100, 3), end=ends(99, at=1_100)), metered(3)),
    ("metered: never committed, its start is its admission",
     [*run(end=read(1_010, 1_200, 30))[:2], read(1_010, 1_200, 30), ends(99)], metered(30)),
    ("reported: never committed, and not read from its admission on",
     [*run(end=read(1_010, 1_200, 30))[:2], read(1_100, 1_200, 30), ends(99)], reported(99)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "body"), [one[1:] for one in FIGURES], ids=[one[0] for one in FIGURES]
)
def test_which_figure_settles(events: list[Json], body: Json) -> None:
    """The meter's where readings cover the claim, else the report, else the reservation."""
    then = [says("claim.settled", claim="c", outcome="completed", **body)]
    check(Row(name="figure", given=events[:-1], when=events[-1], then=then))
    bench = Bench(*events)
    assert bench.usage("a") == {"mdev": 0, "uj": body["spent"]["uj"]}


@pytest.mark.parametrize("outcome", ["completed", "failed", "evicted"])
@pytest.mark.parametrize("state", ["held", "running", "uncertain"])
def test_a_live_claim_is_released_from_any_state(state: str, outcome: str) -> None:
    """Held, running or uncertain, with any outcome, everything is returned."""
    bench = Bench(opened(node("a", 2, 1000), mdev=2), asks("c", "a", 2, 50, lease_ms=50))
    bench.send(asks("w", "a", 1))
    if state != "held":
        bench.send(commit("c"))
    if state == "uncertain":
        assert bench.send(tick(1_100))[0]["kind"] == "claim.uncertain"
    found = bench.send(release("c", 20, outcome=outcome))
    assert [one["kind"] for one in found] == ["claim.settled", "claim.admitted"]
    assert found[0]["outcome"] == outcome


# --- periods ------------------------------------------------------------------------------------


def test_a_claim_that_runs_on_is_charged_to_each_period_what_its_meter_showed_there() -> None:
    """At a new period spending starts anew; the hold is what the reservation has left."""
    bench = Bench(opened(node("a", 2, 1000)), asks("c", "a", 2, 50), commit("c"))
    bench.send(reads("g", 1_010, 1_020, 30, on={"c": 1}))
    assert bench.usage("/")["uj"] == 50
    bench.send(period())
    assert bench.usage("/")["uj"] == 20  # 50 - 30 charged to the first
    bench.send(reads("g", 1_020, 1_030, 25, on={"c": 1}))
    assert bench.usage("/")["uj"] == 25  # the meter says 55, over the reservation
    bench.send(period())
    assert bench.usage("/")["uj"] == 0
    found = bench.send(release("c", 60))
    assert found[0]["spent"] == {"uj": 60, "grade": "HwShunt", "basis": "reported", "prior_uj": 55}
    assert bench.usage("/")["uj"] == 5


PRIOR = [
    Row(
        name="prior_uj where an earlier period was charged",
        given=[opened(node("a", 2, 1000)), asks("c", "a", 2, 50), commit("c"),
               reads("g", 1_010, 1_020, 30, on={"c": 1}), period()],
        when=release("c"),
        then=[says("claim.settled", spent={"uj": 50, "grade": "Estimator", "basis": "reserved",
                                           "prior_uj": 30})],
    ),
    Row(
        name="no prior_uj where nothing was",
        given=[opened(node("a", 2, 1000)), asks("c", "a", 2, 50), period()],
        when=release("c"),
        then=[says("claim.settled", spent={"uj": 50, "grade": "Estimator", "basis": "reserved"})],
    ),
    Row(
        name="what was spent before the period is not there in the next",
        given=[opened(node("a", 2, 50), uj=50), asks("c", "a", 1, 50), release("c", 50), period()],
        when=asks("d", "a", 1, 50),
        then=[says("claim.admitted", mode="guaranteed")],
    ),
    Row(
        name="what was spent does not come back in its period",
        given=[opened(node("a", 2, 50), uj=50), asks("c", "a", 1, 50), release("c", 50)],
        when=asks("d", "a", 1, 1),
        # 50 + (50 - 50) is the ceiling of joules.
        then=[waits("d", "share", "a", "uj", 1)],
    ),
    Row(
        name="the actual replaces the reservation, and lets in who waits for the rest",
        given=[opened(node("a", 2, 50), uj=50), asks("c", "a", 1, 50), asks("d", "a", 1, 30)],
        when=release("c", 20),
        then=[says("claim.settled"), says("claim.admitted", claim="d", mode="guaranteed")],
    ),
    Row(
        name="a figure may exceed the guarantee: reality over the reservation",
        given=[opened(node("a", 2, 50), uj=90), asks("c", "a", 1, 50), renew("c")],
        when=release("c", 70),
        then=[says("claim.settled", spent={"uj": 70, "grade": "HwShunt", "basis": "reported"})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(**named(PRIOR))
def test_what_a_settlement_says_and_leaves(row: Row) -> None:
    """The figure is the claim's whole; the period is charged what earlier ones were not."""
    check(row)


ROWS = PRIOR
