"""One policy's run: the plan driven against a kernel of its own, heard by measures.

1. Nothing is written and nothing signed: decisions are the kernel's, what they come to is counted.
2. The bucket is a whole number of hours, such that a trace has at most `BUCKETS_MAX` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from schemas.records import MDEV, Decision, EventType, Value
from streams.simulate.measures import Fairness, Measures, fairness
from streams.steward.garbage import settle
from streams.traces.drive import drive
from streams.traces.plan import HOUR_MS, Plan
from streams.traces.twin import KernelTwin

BUCKETS_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A policy's run: its measures, its fairness by bucket, what it took."""

    name: str
    plan: Plan
    capacity_mdev: int
    measures: Measures
    fairness: Sequence[Fairness]
    events: int
    decisions: int


class _Heard(KernelTwin):
    """A twin whose decisions are measured."""

    def __init__(self, pool: str, measures: Measures, progress: Callable[[], object]) -> None:
        super().__init__(pool)
        self.events = 0
        self._measures = measures
        self._progress = progress

    def decide(self, event: Mapping[str, Value], at_ms: int) -> Sequence[Decision]:
        """Decide, and measure."""
        self.events += 1
        if event["type"] == EventType.CLAIM_SUBMITTED:
            self._measures.submitted(event, at_ms)
            self._progress()
        made = super().decide(event, at_ms)
        self._measures.heard(made, at_ms)
        return made


def simulate(name: str, plan: Plan, progress: Callable[[], object] = lambda: None) -> Outcome:
    """Run a plan to its end."""
    tree = cast("list[dict[str, Any]]", plan.opened["tree"])
    guarantees = {node["id"]: node["guarantee"].get(MDEV, 0) for node in tree}
    measures = Measures(guarantees, plan.opened_ms, bucket_of(plan))
    twin = _Heard(plan.pool, measures, progress)
    settle()
    for _ in drive(plan, twin):
        pass
    measures.finish()
    capacity = cast("Mapping[str, int]", plan.opened["capacity"])
    return Outcome(
        name=name,
        plan=plan,
        capacity_mdev=capacity[MDEV],
        measures=measures,
        fairness=fairness(measures),
        events=twin.events,
        decisions=twin.decisions,
    )


def bucket_of(plan: Plan) -> int:
    """The bucket's length in ms, by the jobs' submissions (rule 2)."""
    span_ms = plan.jobs[-1].submit_ms - plan.opened_ms
    return max(1, -(-span_ms // (BUCKETS_MAX * HOUR_MS // 2))) * HOUR_MS
