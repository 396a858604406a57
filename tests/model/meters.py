"""Readings (§2.5), what work of a class cost (§2.6), idleness (§2.7) and settlement (§2.8).

Not handled here: what a settlement lets others do (§4.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .books import Claim, Pool, Reading, by_id, usage
from .integers import INTEGER_END, in_bytes
from .parse import GRADES


def worst(grades: Iterable[str]) -> str:
    return min(grades, key=GRADES.index)


def read_meter(pool: Pool, event: dict[str, Any]) -> None:
    refusal = reading_refusal(pool, event)
    if refusal is not None:
        pool.emit("refused", **refusal)
        return
    pool.devices[event["device"]] = event["to_ms"]
    if event["uj"] is None:
        for occupant in event["occupants"]:
            pool.claims[occupant["claim"]].gap = True
        pool.emit("meter.gap", device=event["device"])
    elif not event["occupants"]:
        pool.overhead_uj += event["uj"]
        pool.emit("meter.split", device=event["device"], shares=[], overhead_uj=event["uj"])
    else:
        split_reading(pool, event)


def reading_refusal(pool: Pool, event: dict[str, Any]) -> dict[str, Any] | None:
    """§2.5's refusals, in their order."""
    occupants = event["occupants"]
    named = [occupant["claim"] for occupant in occupants]
    if event["to_ms"] <= event["from_ms"]:
        return {"reason": "window-empty"}
    if event["to_ms"] > pool.now_ms + pool.setting("meter_slack_ms", 10_000):
        return {"reason": "window-future"}
    if event["from_ms"] < pool.devices.get(event["device"], 0):
        return {"reason": "window-overlaps"}
    if any(one["mdev"] < 1 for one in occupants) or len(set(named)) < len(named):
        return {"reason": "occupants-invalid"}
    for claim_id in named:
        if claim_id not in pool.claims or not pool.claims[claim_id].was_admitted:
            return {"reason": "unknown-occupant", "claim": claim_id}
    if event["uj"] is not None:
        figures = [pool.overhead_uj, usage(pool)["/"]["uj"]]
        figures += [pool.claims[claim_id].metered_uj for claim_id in named]
        if any(figure + event["uj"] >= INTEGER_END for figure in figures):
            return {"reason": "out-of-range"}
    return None


def shares_of(total_uj: int, occupants: list[dict[str, Any]]) -> dict[str, int]:
    """Floor shares, then one microjoule each to the largest remainders, ties to the smaller id."""
    parts = sum(one["mdev"] for one in occupants)
    shares = {one["claim"]: total_uj * one["mdev"] // parts for one in occupants}
    remainders = {one["claim"]: total_uj * one["mdev"] % parts for one in occupants}
    left = total_uj - sum(shares.values())
    for claim_id in sorted(shares, key=lambda one: (-remainders[one], in_bytes(one)))[:left]:
        shares[claim_id] += 1
    return shares


def split_reading(pool: Pool, event: dict[str, Any]) -> None:
    occupants = event["occupants"]
    grade = event["grade"] if len(occupants) == 1 else worst([event["grade"], "ModelBased"])
    shares = shares_of(event["uj"], occupants)
    mdev = {one["claim"]: one["mdev"] for one in occupants}
    written: list[dict[str, Any]] = []
    overruns: list[Claim] = []
    for claim in by_id(pool.claims[claim_id] for claim_id in shares):
        before_uj = claim.metered_uj
        uj = shares[claim.id]
        claim.metered_uj += uj
        claim.metered_grade = worst([claim.metered_grade or grade, grade])
        claim.readings.append(
            Reading(
                device=event["device"],
                from_ms=event["from_ms"],
                to_ms=event["to_ms"],
                uj=uj,
                mdev=mdev[claim.id],
                grade=grade,
            )
        )
        if claim.is_live:
            written.append({"claim": claim.id, "uj": uj})
            if before_uj <= claim.reserved_uj < claim.metered_uj:
                overruns.append(claim)
        else:
            written.append({"claim": claim.id, "uj": uj, "late": True})
            charge_late(pool, claim, before_uj)
    pool.emit("meter.split", device=event["device"], grade=grade, shares=written)
    for claim in overruns:
        pool.emit(
            "claim.overrun",
            claim=claim.id,
            reserved_uj=claim.reserved_uj,
            metered_uj=claim.metered_uj,
        )


def charge_late(pool: Pool, claim: Claim, before_uj: int) -> None:
    growth = max(claim.figure_uj, claim.metered_uj) - max(claim.figure_uj, before_uj)
    if pool.is_leaf(claim.leaf):
        pool.spent_uj[claim.leaf] = pool.spent_uj.get(claim.leaf, 0) + growth
    else:
        pool.overhead_uj += growth


def by_device(claim: Claim) -> dict[str, list[Reading]]:
    """A claim's readings by device, oldest first."""
    found: dict[str, list[Reading]] = {}
    for reading in claim.readings:
        found.setdefault(reading.device, []).append(reading)
    return found


def is_covered(pool: Pool, claim: Claim) -> bool:
    """§2.8, 1: whether readings cover the claim."""
    devices = by_device(claim)
    newest_mdev = sum(readings[-1].mdev for readings in devices.values())
    if claim.gap or not devices or newest_mdev < claim.demand["mdev"]:
        return False
    start, now = claim.start_ms, pool.now_ms
    span = now - start
    allowed = min(pool.setting("meter_slack_ms", 10_000), span // 10)
    for readings in devices.values():
        seen = sum(max(0, min(one.to_ms, now) - max(one.from_ms, start)) for one in readings)
        if span - seen > allowed:
            return False
    return True


def settle(pool: Pool, claim: Claim, outcome: str, actual: dict[str, Any] | None) -> None:
    disputed = actual is not None and actual["uj"] < claim.metered_uj
    if disputed or is_covered(pool, claim):
        figure, grade, basis = claim.metered_uj, str(claim.metered_grade), "metered"
    elif actual is not None:
        figure, grade, basis = actual["uj"], actual["grade"], "reported"
    else:
        figure = max(claim.reserved_uj, claim.metered_uj)
        grade, basis = "Estimator", "reserved"
    spent: dict[str, Any] = {"uj": figure, "grade": grade, "basis": basis}
    if claim.charged_uj != 0:
        spent["prior_uj"] = claim.charged_uj
    end_live(pool, claim, figure)
    body: dict[str, Any] = {"claim": claim.id, "outcome": outcome, "spent": spent}
    if disputed:
        body["disputed"] = True
    pool.emit("claim.settled", **body)
    if outcome == "completed" and claim.work_class != "":
        observe(pool, claim.work_class, figure, grade)


def end_live(pool: Pool, claim: Claim, figure: int) -> None:
    claim.state = "ended"
    claim.ended_period = pool.period
    claim.figure_uj = figure
    claim.reclaimed_for = None
    charge = max(0, figure - claim.charged_uj)
    pool.spent_uj[claim.leaf] = pool.spent_uj.get(claim.leaf, 0) + charge


def observe(pool: Pool, work_class: str, figure: int, grade: str) -> None:
    """§2.6: one observation of a class."""
    if grade == "Estimator":
        pool.guesses[work_class] = pool.guesses.get(work_class, 0) + 1
    else:
        kept = [*pool.kept.get(work_class, []), (figure, grade)]
        pool.kept[work_class] = kept[-pool.setting("history", 128) :]


def observed_estimate(pool: Pool, work_class: str) -> dict[str, Any]:
    """§2.6: a refusal's `reason` and details, or `uj` and `grade`."""
    kept = pool.kept.get(work_class, [])
    required = pool.setting("min_samples", 5)
    if work_class == "":
        return {"reason": "class-empty"}
    if len(kept) < required:
        guesses = pool.guesses.get(work_class, 0)
        counts = {"measured": len(kept), "guesses": guesses, "required": required}
        return {"reason": "history-insufficient", **counts}
    grade = worst(["ModelBased", *(grade for _, grade in kept)])
    return {"uj": max(figure for figure, _ in kept), "grade": grade}


def power_limit_uj(pool: Pool, claim: Claim) -> int | None:
    """§2.8: above this a report is implausible; None where nothing is said."""
    limit = pool.policy.get("power_limit_uw")
    if limit is None or claim.demand["mdev"] == 0:
        return None
    span = pool.now_ms - claim.start_ms + pool.setting("meter_slack_ms", 10_000)
    return int(limit * claim.demand["mdev"] * span // 10**6)


def review_idle(pool: Pool) -> None:
    idle = pool.policy.get("idle")
    verdicts: list[dict[str, Any]] = []
    found: list[tuple[Fraction, int, int, str]] = []
    if idle is None:
        pool.emit("idle.reviewed", verdicts=[], order=[])
        return
    for claim in by_id(pool.live()):
        verdict, rate = verdict_of(pool, claim, idle)
        verdicts.append({"claim": claim.id, **verdict})
        if rate is not None and verdict["verdict"] == "idle":
            mdev = claim.demand["mdev"]
            found.append((rate / mdev, -mdev, claim.admission, claim.id))
    order = [entry[3] for entry in sorted(found)]
    pool.emit("idle.reviewed", verdicts=verdicts, order=order)


def verdict_of(
    pool: Pool, claim: Claim, idle: dict[str, int]
) -> tuple[dict[str, Any], Fraction | None]:
    """§2.7: the verdict, and the exact mean rate where one was judged."""
    mdev = claim.demand["mdev"]
    if mdev == 0:
        return {"verdict": "not-held"}, None
    runs = [
        newest_run(readings, idle["window_ms"])
        for readings in by_device(claim).values()
        if pool.now_ms - readings[-1].to_ms <= idle["window_ms"]
    ]
    spans = [run[-1].to_ms - run[0].from_ms for run in runs]
    too_short = any(span < idle["window_ms"] for span in spans)
    if too_short or sum(run[-1].mdev for run in runs) < mdev:
        return {"verdict": "unknown", "reason": "window-too-short"}, None
    if worst(one.grade for run in runs for one in run) == "Estimator":
        return {"verdict": "unknown", "reason": "guess"}, None
    rate = Fraction(0)
    for run, span in zip(runs, spans, strict=True):
        rate += Fraction(sum(one.uj for one in run) * 1000, span)
    verdict = "idle" if rate * 1000 < idle["threshold_uw"] * mdev else "working"
    return {"verdict": verdict, "mean_uw": min(int(rate), INTEGER_END - 1)}, rate


def newest_run(readings: list[Reading], window_ms: int) -> list[Reading]:
    """The newest readings without a hole, no more of them than it takes to span the window."""
    run = [readings[-1]]
    for older in reversed(readings[:-1]):
        spans = run[-1].to_ms - run[0].from_ms >= window_ms
        if spans or older.to_ms != run[0].from_ms:
            break
        run.insert(0, older)
    return run
