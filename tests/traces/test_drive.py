"""A plan driven against a real kernel: what jobs do, and that nothing else decides it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from schemas.records import MDEV, UJ, Decision, Kind, Value
from streams import topics
from streams.demo import Machines
from streams.traces import Job, Plan, Stamped, drive
from streams.traces.twin import KernelTwin

MINUTE_MS = 60_000


class Recording(KernelTwin):
    """A twin that keeps what it decided, with the instants."""

    def __init__(self, pool: str) -> None:
        super().__init__(pool)
        self.made: list[tuple[int, Decision]] = []

    def decide(self, event: Mapping[str, Value], at_ms: int) -> Sequence[Decision]:
        """Decide, and keep it."""
        decided = super().decide(event, at_ms)
        self.made += [(at_ms, decision) for decision in decided]
        return decided

    def of(self, kind: Kind) -> list[tuple[int, str]]:
        """When, and which claim."""
        return [(at, str(one.body["claim"])) for at, one in self.made if one.kind is kind]


def _job(claim: str, leaf: str, at_min: int, devices: int, run_min: int) -> Job:
    return Job(
        claim=claim,
        leaf=leaf,
        submit_ms=at_min * MINUTE_MS,
        member={MDEV: 1000},
        count=devices,
        grade="ModelBased",
        reserved_uw=1_000_000,
        declared_ms=run_min * MINUTE_MS,
        drawn_uw=devices * 500_000,
        run_ms=run_min * MINUTE_MS,
    )


def _plan(*jobs: Job, devices: int = 4, period_min: int = 10_000) -> Plan:
    half = {MDEV: devices * 500, UJ: 10**15}
    tree: list[Value] = [{"id": leaf, "guarantee": dict(half)} for leaf in ("a", "b")]
    return Plan(
        pool="p",
        opened_ms=0,
        opened={"capacity": {MDEV: devices * 1000, UJ: 2 * 10**15}, "tree": tree},
        jobs=jobs,
        period_ms=period_min * MINUTE_MS,
        grace_ms=2 * MINUTE_MS,
    )


def _driven(plan: Plan) -> tuple[list[Stamped], Recording]:
    twin = Recording(plan.pool)
    return list(drive(plan, twin)), twin


def test_a_waiting_job_runs_its_whole_time_from_its_admission() -> None:
    """The second job waits for the first, starts when it ends, and runs as long as it would."""
    _, twin = _driven(_plan(_job("x", "a", 0, 4, 30), _job("y", "a", 10, 4, 20)))
    assert twin.of(Kind.CLAIM_ADMITTED) == [(0, "x"), (30 * MINUTE_MS, "y")]
    assert twin.of(Kind.CLAIM_SETTLED) == [(30 * MINUTE_MS, "x"), (50 * MINUTE_MS, "y")]


def test_a_victim_stops_after_the_grace_and_its_rest_is_submitted_again() -> None:
    """Ordered at 10, stopped at 12 min; the rest runs what was left, and no longer."""
    _, twin = _driven(_plan(_job("x", "a", 0, 4, 30), _job("y", "b", 10, 2, 20)))
    assert twin.of(Kind.CLAIM_PREEMPTING) == [(10 * MINUTE_MS, "x")]
    settled = {claim: at for at, claim in twin.of(Kind.CLAIM_SETTLED)}
    assert settled["x"] == 12 * MINUTE_MS
    (rest,) = (at for at, claim in twin.of(Kind.CLAIM_ADMITTED) if claim == "x+1")
    assert settled["x+1"] - rest == 18 * MINUTE_MS


def test_a_spared_victim_goes_on() -> None:
    """Its claimant is cancelled before the grace is over: it is not stopped."""
    claimant = replace(_job("y", "b", 10, 2, 20), withdraw_ms=11 * MINUTE_MS)
    _, twin = _driven(_plan(_job("x", "a", 0, 4, 30), claimant))
    assert [claim for _, claim in twin.of(Kind.CLAIM_SPARED)] == ["x"]
    assert twin.of(Kind.CLAIM_SETTLED) == [(30 * MINUTE_MS, "x")]


def test_a_job_that_never_commits_expires() -> None:
    """A tick comes when its time is over, though nothing else happens then."""
    job = replace(_job("x", "a", 0, 1, 30), commits=False, commit_within_ms=MINUTE_MS)
    events, twin = _driven(_plan(job))
    assert twin.of(Kind.CLAIM_EXPIRED) == [(MINUTE_MS, "x")]
    assert events[-1].topic == topics.ADMIN


def test_what_can_never_start_is_cancelled_at_the_end() -> None:
    """A guess that its leaf cannot hold beside what outlasts the trace is not waited for."""
    holds = replace(_job("x", "a", 0, 2, 30), run_ms=None)
    guess = replace(_job("y", "a", 1, 1, 30), grade="Estimator")
    events, twin = _driven(_plan(holds, guess))
    assert [claim for _, claim in twin.of(Kind.CLAIM_CANCELLED)] == ["y"]
    assert events[-1].event["type"] == "claim.cancelled"
    assert "x" in twin.state.claims


def test_periods_open_on_time() -> None:
    """One at every multiple, as long as there is something to account for."""
    events, _ = _driven(_plan(_job("x", "a", 0, 1, 50), period_min=20))
    opened = [one.at_ms for one in events if one.event["type"] == "period.opened"]
    assert opened == [20 * MINUTE_MS, 40 * MINUTE_MS]


def test_machines_read_every_device_without_a_hole() -> None:
    """Windows of a device follow each other; a claim's meter covers it from start to end."""
    plan = _plan(_job("x", "a", 0, 2, 90), _job("y", "b", 30, 1, 90), _job("z", "a", 40, 4, 30))
    twin = Recording(plan.pool)
    machines = Machines(4, opened_ms=0, lost={})
    last: Counter[str] = Counter()
    for stamped in drive(plan, twin, machines):
        if stamped.topic == topics.METERS:
            event = stamped.event
            assert event["from_ms"] == last[str(event["device"])]
            last[str(event["device"])] = int(str(event["to_ms"]))
            held = sum(int(one["mdev"]) for one in event["occupants"])
            assert held <= 1000
    bases = {one.body["spent"]["basis"] for _, one in twin.made if one.kind == "claim.settled"}
    assert bases == {"metered"}
    assert not [one for _, one in twin.made if one.kind == "refused"]


_JOBS = some.lists(
    some.tuples(
        some.sampled_from("ab"),
        some.integers(0, 200),
        some.integers(1, 4),
        some.integers(1, 60),
        some.booleans(),
        some.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(_JOBS)
def test_every_plan_ends_and_does_all_its_work(
    rows: list[tuple[str, int, int, int, bool, bool]],
) -> None:
    """No event is refused, time never goes back, whoever was admitted has ended, twice the same."""
    jobs = tuple(
        replace(
            _job(f"j{number}", leaf, at, devices, run),
            preemptible=preemptible,
            commits=commits,
            commit_within_ms=5 * MINUTE_MS,
        )
        for number, (leaf, at, devices, run, preemptible, commits) in enumerate(
            sorted(rows, key=lambda row: row[1])
        )
    )
    plan = _plan(*jobs)
    events, twin = _driven(plan)
    assert [one.at_ms for one in events] == sorted(one.at_ms for one in events)
    assert not [one for _, one in twin.made if one.kind in (Kind.REFUSED, Kind.DUPLICATE)]
    assert twin.state.live_count == 0
    assert not twin.state.waiting
    assert _driven(plan)[0] == events


@pytest.mark.parametrize("devices", [3, 4])
def test_nothing_is_placed_twice(devices: int) -> None:
    """Fractions share devices, whole jobs get what is left, and no device is overfull."""
    halves = [replace(_job(f"h{n}", "a", n, 1, 50), member={MDEV: 500}) for n in range(4)]
    plan = _plan(*halves, _job("w", "b", 5, 1, 50), devices=devices)
    machines = Machines(devices, opened_ms=0, lost={})
    list(drive(plan, Recording(plan.pool), machines))
    assert all(free == 1000 for free in machines._free.values())
