"""Reclaiming what is not working (profile §2.7): four verdicts, and an order of the idle only.

Not here: any reclaiming; a review orders nothing away.

1. `not-held`: it holds no devices.
2. `unknown` / `window-too-short`: its newest readings without a hole do not span the window on
   every device, or not all its devices were read. An empty window has no rate.
3. `unknown` / `guess`: the worst grade of those readings, before any threshold is looked at.
4. `idle` if the mean power is below the threshold for what it holds, else `working`.

The check order is normative: a later check never rescues an earlier one.
Profile: §2.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from schemas.records import QUANTITY_LIMIT, Body, Grade, Kind, Value
from streams.kernel.claims import Claim, Reading
from streams.kernel.policy import Idle
from streams.kernel.run import Run
from streams.kernel.state import PoolState


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim's verdict; `mean_uw` exact, None where no rate was judged."""

    verdict: str
    reason: str | None = None
    mean_uw: Fraction | None = None


def review(run: Run) -> None:
    """Decide an `idle.review`."""
    state = run.state
    policy = state.policy.idle
    verdicts: list[Value] = []
    idle: list[tuple[Fraction, int, int, str]] = []
    if policy is not None:
        for claim in _live(state):
            verdict = judge(claim, policy, state.now_ms)
            verdicts.append(_listed(claim, verdict))
            if verdict.verdict == "idle" and verdict.mean_uw is not None:
                held = claim.demand[0]
                idle.append((verdict.mean_uw / held, -held, claim.admission, claim.id))
    order: list[Value] = [entry[3] for entry in sorted(idle)]
    run.emit(Kind.IDLE_REVIEWED, {"verdicts": verdicts, "order": order})


def _live(state: PoolState) -> list[Claim]:
    claims = [
        claim
        for leaf in state.tree.nodes.values()
        if leaf.is_leaf
        for claim in leaf.live_claims.values()
    ]
    return sorted(claims, key=lambda claim: claim.id)


def _listed(claim: Claim, verdict: Verdict) -> Body:
    entry: Body = {"claim": claim.id, "verdict": verdict.verdict}
    if verdict.reason is not None:
        entry["reason"] = verdict.reason
    if verdict.mean_uw is not None:
        entry["mean_uw"] = min(floor(verdict.mean_uw), QUANTITY_LIMIT - 1)
    return entry


def judge(claim: Claim, policy: Idle, now_ms: int) -> Verdict:
    """The verdict on one live claim, at `now_ms`."""
    held = claim.demand[0]
    if held == 0:
        return Verdict("not-held")
    runs: list[list[Reading]] = []
    read_mdev = 0
    for use in claim.devices.values():
        if now_ms - use.run[-1][1] <= policy.window_ms:
            runs.append(_cut(use.run, policy.window_ms))
            read_mdev += use.mdev
    if read_mdev < held or any(_span_ms(run) < policy.window_ms for run in runs):
        return Verdict("unknown", "window-too-short")
    if any(reading[3] == Grade.ESTIMATOR for run in runs for reading in run):
        return Verdict("unknown", "guess")
    mean_uw = sum(
        (Fraction(sum(reading[2] for reading in run) * 1000, _span_ms(run)) for run in runs),
        Fraction(0),
    )
    working = mean_uw * 1000 >= policy.threshold_uw * held
    return Verdict("working" if working else "idle", None, mean_uw)


def _span_ms(run: list[Reading]) -> int:
    return run[-1][1] - run[0][0]


def _cut(run: list[Reading], window_ms: int) -> list[Reading]:
    """The fewest newest readings that span the window; all of them if they do not."""
    last_ms = run[-1][1]
    for start in range(len(run) - 1, -1, -1):
        if last_ms - run[start][0] >= window_ms:
            return run[start:]
    return run
