"""A guess earns its way out (profile §2.6): reservations from what a class really spent.

Not here: when an observation is made (`apply`).

1. An empty class is no class; fewer kept figures than `min_samples` derive nothing.
2. The reservation is the largest kept figure; its grade is never better than a model.

Profile: §2.6.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.records import Grade, Reason, Value, worst
from streams.kernel.state import History, PoolState


@dataclass(frozen=True, slots=True)
class Estimate:
    """A derived reservation in microjoules and its grade."""

    uj: int
    grade: str


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """Why nothing is derived."""

    reason: Reason
    details: dict[str, Value]


def observed(state: PoolState, class_: str) -> Estimate | NoEstimate:
    """The observed estimate of a class, or why there is none."""
    if not class_:
        return NoEstimate(Reason.CLASS_EMPTY, {})
    history = state.classes.get(class_) or History()
    if len(history.kept) < state.policy.min_samples:
        return NoEstimate(
            Reason.HISTORY_INSUFFICIENT,
            {
                "measured": len(history.kept),
                "guesses": history.guesses,
                "required": state.policy.min_samples,
            },
        )
    grade = Grade.MODEL_BASED.value
    for _, kept in history.kept:
        grade = worst(grade, kept)
    return Estimate(max(uj for uj, _ in history.kept), grade)
