"""A plan as a discrete-event simulation: what the pool decides says when jobs start, end and stop.

Not here: deciding (a `Twin` of the kernel is given), and putting the events on a log
(`streams.traces.publish`).

1. A job is submitted at the trace's time. Admitted, it commits after `COMMIT_AFTER_MS` and is
   released when it has run its time since its admission. A waiting job starts later.
2. Ordered away (`claim.preempting`), it is released `evicted` after the plan's grace, unless it
   ends or is spared before. Its rest is submitted again at once, as `<claim>+1`, `+2`, ...
3. `period.opened` comes at every multiple of the plan's period after the opening.
4. An `Executor`, where given, adds what it has to say before each commit and each release and in
   rounds: meter readings, progress, renewals.
5. Events of one instant keep the order in which they were scheduled; what was scheduled comes
   before what is submitted.
6. The end: nothing is scheduled and nothing submitted any more. Should claims still wait, a period
   is opened for them; if that admits none, they are cancelled, in the order they came to wait.

Invariant: the events are a pure function of the plan and of the twin's decisions, and each is given
to the twin before the next is made: so is the order of events, whatever batches they travel in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

from schemas.records import UJ, Decision, EventType, Grade, Kind, Value
from streams.steward.fold import TOPIC_OF
from streams.traces.energy import energy_uj
from streams.traces.plan import Job, Plan, Stamped

COMMIT_AFTER_MS = 1_000
"""From admission to commit: what an executor needs to start the work."""

Fields = dict[str, Value]
Action = Callable[[], "Sequence[Fields]"]


class Twin(Protocol):
    """Whoever decides an event at once: the kernel on a state of its own."""

    def decide(self, event: Mapping[str, Value], at_ms: int) -> Sequence[Decision]:
        """The decisions of one event at its instant, deadlines included."""
        ...


class Executor(Protocol):
    """Who runs the jobs and reads the meters. Its events come without `pool`."""

    @property
    def round_ms(self) -> int:
        """How often `round` is asked while something else is due; 0: never."""
        ...

    def starts(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """What to say right before the job's commit."""
        ...

    def stops(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """What to say right before the job's release, whatever its outcome."""
        ...

    def round(self, now_ms: int) -> Sequence[Fields]:
        """What to say about all that runs."""
        ...


class NoExecutor:
    """Jobs that run out of sight: a trace without meters."""

    round_ms = 0

    def starts(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """Nothing."""
        return ()

    def stops(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """Nothing."""
        return ()

    def round(self, now_ms: int) -> Sequence[Fields]:
        """Nothing."""
        return ()


def drive(plan: Plan, twin: Twin, executor: Executor | None = None) -> Iterator[Stamped]:
    """The input events of a replay, in order; the twin has decided each that was yielded."""
    return _Simulation(plan, twin, executor or NoExecutor()).run()


class _Simulation:
    """Jobs by claim, and a heap of what is due: (instant, order, action)."""

    def __init__(self, plan: Plan, twin: Twin, executor: Executor) -> None:
        self._plan = plan
        self._twin = twin
        self._executor = executor
        self._rounds = False
        self._due: list[tuple[int, int, Action]] = []
        self._scheduled = 0
        self._now_ms = plan.opened_ms
        self._periods = 0
        self._waiting: dict[str, Job] = {}
        self._live: dict[str, tuple[Job, int]] = {}
        self._ordered: dict[str, int] = {}
        self._feedback: Mapping[Kind, Callable[[str], None]] = {
            Kind.CLAIM_ADMITTED: self._admitted,
            Kind.CLAIM_REFUSED: self._left,
            Kind.CLAIM_CANCELLED: self._left,
            Kind.CLAIM_EXPIRED: self._left,
            Kind.CLAIM_SETTLED: self._left,
            Kind.CLAIM_PREEMPTING: self._preempting,
            Kind.CLAIM_SPARED: self._spared,
        }

    def run(self) -> Iterator[Stamped]:
        """Rules 1 to 6; each event is decided before it is yielded."""
        yield self._decided({"type": EventType.POOL_OPENED.value, **self._plan.opened})
        for at_ms, fields in self._plan.also:
            self._at(at_ms, partial(_one, dict(fields)))
        for job in self._plan.jobs:
            yield from self._until(job.submit_ms)
            self._now_ms = max(self._now_ms, job.submit_ms)
            yield self._decided(self._submitted(job))
        yield from self._until(None)
        while self._waiting:
            yield self._next_period()
            if self._due:
                yield from self._until(None)
            else:
                for claim in tuple(self._waiting):
                    yield self._decided({"type": EventType.CLAIM_CANCELLED.value, "claim": claim})

    def _until(self, limit_ms: int | None) -> Iterator[Stamped]:
        """What is due up to an instant, periods included; without one, until nothing is due."""
        while self._due and (limit_ms is None or self._due[0][0] <= limit_ms):
            if self._period_ms() <= self._due[0][0]:
                yield self._next_period()
                continue
            self._now_ms, _, action = heapq.heappop(self._due)
            for event in action():
                yield self._decided(event)
        while limit_ms is not None and self._period_ms() <= limit_ms:
            yield self._next_period()

    def _period_ms(self) -> int:
        """When the next accounting period opens."""
        return self._plan.opened_ms + (self._periods + 1) * self._plan.period_ms

    def _next_period(self) -> Stamped:
        self._now_ms = max(self._now_ms, self._period_ms())
        self._periods += 1
        label = f"period-{self._periods + 1}"
        return self._decided({"type": EventType.PERIOD_OPENED.value, "period": label})

    def _decided(self, fields: Fields) -> Stamped:
        """Give the event to the twin, and schedule what its decisions bring about."""
        event: Fields = {"pool": self._plan.pool, **fields}
        for decision in self._twin.decide(event, self._now_ms):
            react = self._feedback.get(decision.kind)
            if react is not None:
                react(cast(str, decision.body["claim"]))
        return Stamped(
            at_ms=self._now_ms, topic=TOPIC_OF[EventType(str(fields["type"]))], event=event
        )

    def _at(self, at_ms: int, action: Action) -> None:
        heapq.heappush(self._due, (at_ms, self._scheduled, action))
        self._scheduled += 1

    # What decisions bring about.

    def _admitted(self, claim: str) -> None:
        job = self._waiting.pop(claim)
        self._live[claim] = (job, self._now_ms)
        if not job.commits:
            # Its expiry is a deadline: some event must come for it to be settled.
            tick: Fields = {"type": EventType.TICK.value}
            self._at(self._now_ms + job.commit_within_ms, partial(_one, tick))
            return
        starts_ms = COMMIT_AFTER_MS if job.run_ms is None else min(COMMIT_AFTER_MS, job.run_ms)
        self._at(self._now_ms + starts_ms, partial(self._commit, claim))
        if job.run_ms is not None:
            self._at(self._now_ms + job.run_ms, partial(self._release, claim))
        if self._executor.round_ms and not self._rounds:
            self._rounds = True
            self._at(self._now_ms + self._executor.round_ms, self._round)

    def _left(self, claim: str) -> None:
        self._waiting.pop(claim, None)
        self._live.pop(claim, None)
        self._ordered.pop(claim, None)

    def _preempting(self, claim: str) -> None:
        order = self._scheduled
        self._ordered[claim] = order
        self._at(self._now_ms + self._plan.grace_ms, partial(self._evict, claim, order))

    def _spared(self, claim: str) -> None:
        self._ordered.pop(claim, None)

    # What is due: the events that an action stands for; none if it no longer applies.

    def _submitted(self, job: Job) -> Fields:
        self._waiting[job.claim] = job
        if job.withdraw_ms is not None:
            self._at(max(self._now_ms, job.withdraw_ms), partial(self._withdraw, job.claim))
        return submission(job)

    def _submit(self, job: Job) -> Sequence[Fields]:
        return (self._submitted(job),)

    def _commit(self, claim: str) -> Sequence[Fields]:
        if claim not in self._live:
            return ()
        said = self._executor.starts(self._live[claim][0], self._now_ms)
        return (*said, {"type": EventType.CLAIM_COMMITTED.value, "claim": claim})

    def _release(self, claim: str) -> Sequence[Fields]:
        if claim not in self._live:
            return ()
        return self._released(claim, self._live[claim][0].outcome)

    def _evict(self, claim: str, order: int) -> Sequence[Fields]:
        if self._ordered.get(claim) != order:
            return ()
        job, admitted_ms = self._live[claim]
        rest = _rest(job, self._now_ms - admitted_ms)
        self._at(self._now_ms, partial(self._submit, rest))
        return self._released(claim, "evicted")

    def _withdraw(self, claim: str) -> Sequence[Fields]:
        if claim not in self._waiting:
            return ()
        return ({"type": EventType.CLAIM_CANCELLED.value, "claim": claim},)

    def _round(self) -> Sequence[Fields]:
        self._rounds = bool(self._due)
        if self._rounds:
            self._at(self._now_ms + self._executor.round_ms, self._round)
        return self._executor.round(self._now_ms)

    def _released(self, claim: str, outcome: str) -> Sequence[Fields]:
        job, admitted_ms = self._live[claim]
        event: Fields = {
            "type": EventType.CLAIM_RELEASED.value,
            "claim": claim,
            "outcome": outcome,
        }
        if job.reports:
            spent_uj = energy_uj(job.drawn_uw, self._now_ms - admitted_ms)
            event["actual"] = {"uj": spent_uj, "grade": Grade.MODEL_BASED.value}
        return (*self._executor.stops(job, self._now_ms), event)


def submission(job: Job) -> Fields:
    """The fields of a job's `claim.submitted`; what has its default is left out."""
    member: Fields = dict(job.member)
    event: Fields = {
        "type": EventType.CLAIM_SUBMITTED.value,
        "claim": job.claim,
        "leaf": job.leaf,
        "gang": [member] * job.count,
    }
    if job.observed:
        event["estimate"] = "observed"
    else:
        member[UJ] = energy_uj(job.reserved_uw, job.declared_ms)
        event["grade"] = str(job.grade)
    if not job.preemptible:
        event["preemptible"] = False
    optional: Fields = {
        "class": job.class_,
        "unit": job.unit,
        "priority": job.priority,
        "commit_within_ms": job.commit_within_ms,
        "lease_ms": job.lease_ms,
        "max_wait_ms": job.max_wait_ms,
    }
    return event | {name: value for name, value in optional.items() if value}


def _one(fields: Fields) -> Sequence[Fields]:
    return (fields,)


def _rest(job: Job, ran_ms: int) -> Job:
    """What an evicted job still has to do; it had not run its time, or it would have ended.

    A job that outlasts the trace asks for what it declared, less what it ran, and at least for
    `COMMIT_AFTER_MS`.
    """
    name, _, count = job.claim.partition("+")
    return replace(
        job,
        claim=f"{name}+{int(count or 0) + 1}",
        declared_ms=max(COMMIT_AFTER_MS, job.declared_ms - ran_ms),
        run_ms=None if job.run_ms is None else job.run_ms - ran_ms,
    )
