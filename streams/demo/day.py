"""A day of three tenants on 32 accelerators, the same every time: what the demo decides.

Shaped by what the traces in `../shared/data` show; none of their rows is here:
1. Sizes as in `philly_vc` (two weeks of October 2017): 95 in 100 jobs ask for one device, the rest
   for 2 to 16; beside them fractions of a device, which 38 in 100 pods of `openb_2023` ask for.
2. Durations are drawn from Philly's twenty quantiles (median 19 min, one in twenty above 8 h), the
   longest left out of a day; gangs of 4 and more run for hours, as there.
3. Arrivals by hour are Philly's: bursts at 02, 07, 16, 20 and 22 h, quiet at noon and at 19 h.
4. A device draws one of the deciles of `acme_gpu_power` (A100, series gpu_power_seren), and
   reserves its limit of 400 W: most releases return energy.
5. Written by hand, so that each kind of decision is there: see `_scripted`.

Not here: where jobs run and what meters say (`streams.demo.machines`).
"""

from __future__ import annotations

from dataclasses import replace

from schemas.records import MDEV, UJ, EventType, Grade, Value
from streams.traces.energy import energy_uj, pick
from streams.traces.plan import HOUR_MS, Job, Plan

POOL = "demo"
DEVICES = 32
OPENED_MS = 1_748_822_400_000
"""2025-06-02T00:00:00Z, a Monday."""
END_MS = OPENED_MS + 24 * HOUR_MS
MINUTE_MS = 60_000
JOBS = 220

LIMIT_UW = 400_000_000
DECILES_UW = (63, 65, 70, 91, 97, 118, 213, 338, 395)
"""Watts here, the 10th to the 90th percentile of series gpu_power_seren; see rule 4."""
BY_HOUR = (
    812, 585, 1493, 903, 551, 1123, 1684, 2631, 1062, 1040, 762, 445,
    456, 498, 349, 389, 1413, 775, 577, 247, 1359, 730, 1413, 636,
)  # fmt: skip
"""Jobs submitted in each hour of the day, over the two weeks of the Philly file."""
QUANTILES_S = (54, 67, 81, 159, 419, 611, 742, 886, 1015, 1160, 1291, 1442, 1635, 1871, 2185, 3528)
LONG_S = (6080, 12462)
"""Every twentieth of the durations of that file, from the 5th to the 90th percentile, seconds."""
SIZES = (*(1000,) * 50, *(500,) * 20, *(250,) * 8, *(2000,) * 5, *(4000,) * 4, *(8000,) * 2)
LEAVES = ("atlas/train", "atlas/train", "atlas/serve", "borealis", "borealis", "cygnus")
NEVER_COMMIT_ONE_IN = 40
GUESS_ONE_IN = 12


def plan_of_the_day() -> tuple[Plan, dict[str, int]]:
    """The day's plan, and the claims whose machine falls silent, with the instant."""
    jobs = sorted((*_background(), *_scripted()), key=lambda job: job.submit_ms)
    lost = {"atlas-train-lost": _clock(10, 20)}
    return (
        Plan(
            pool=POOL,
            opened_ms=OPENED_MS,
            opened=_opened(),
            jobs=tuple(jobs),
            period_ms=24 * HOUR_MS,
            grace_ms=2 * MINUTE_MS,
            also=(
                (_clock(12), {"type": EventType.IDLE_REVIEW.value}),
                (_clock(18), {"type": EventType.IDLE_REVIEW.value}),
            ),
        ),
        lost,
    )


def _opened() -> dict[str, Value]:
    budget_uj = energy_uj(DEVICES * LIMIT_UW, 24 * HOUR_MS)
    guaranteed: dict[str, tuple[int, dict[str, Value]]] = {
        "atlas": (14, {"weight": 2}),
        "atlas/train": (8, {}),
        "atlas/serve": (6, {"max_waiting": 40}),
        "borealis": (10, {"limit": {MDEV: 24_000}}),
        "cygnus": (8, {"lend": [MDEV]}),
    }
    tree: list[Value] = [
        {
            "id": node,
            "guarantee": {MDEV: devices * 1000, UJ: budget_uj * devices // DEVICES},
            **options,
        }
        for node, (devices, options) in guaranteed.items()
    ]
    return {
        "capacity": {MDEV: DEVICES * 1000, UJ: budget_uj},
        "tree": tree,
        "policy": {
            "power_limit_uw": LIMIT_UW,
            "reserve_after_ms": 3 * HOUR_MS,
            "idle": {"threshold_uw": 75_000_000, "window_ms": HOUR_MS},
        },
        "meta": {"about": "pool demo: a made-up day, shaped by published traces"},
    }


def _background() -> list[Job]:
    """The day's ordinary jobs, by the hash of their number."""
    hours = [hour for hour, count in enumerate(BY_HOUR) for _ in range(count)]
    return [_ordinary(number, hours[pick(number, "hour", len(hours))]) for number in range(JOBS)]


def _ordinary(number: int, hour: int) -> Job:
    mdev = SIZES[pick(number, "size", len(SIZES))]
    leaf = LEAVES[pick(number, "leaf", len(LEAVES))]
    quantiles = LONG_S if mdev >= 4000 else (*QUANTILES_S, *LONG_S)
    run_ms = quantiles[pick(number, "duration", len(quantiles))] * 1000
    guess = pick(number, "guess", GUESS_ONE_IN) == 0
    return _job(
        f"{leaf.replace('/', '-')}-{number:03}",
        leaf,
        _clock(hour, pick(number, "minute", 60)),
        mdev,
        run_ms + pick(number, "seconds", 60) * 1000,
        watts=DECILES_UW[pick(number, "draw", len(DECILES_UW))],
        guess=guess,
        commits=pick(number, "commit", NEVER_COMMIT_ONE_IN) != 0,
        class_=leaf if mdev >= 1000 else f"{leaf}/shared",
    )


def _scripted() -> list[Job]:
    """What the day must show, at hours where it can be seen."""
    # From 01:00 the night's sweep borrows what nobody uses. It reports steps, so that when the
    # others come for their guarantees, what draws most for a step is told to stop first.
    sweep = [
        replace(
            _job(f"sweep-{number}", "atlas/train", _clock(1, number), 4000, 8 * HOUR_MS,
                 watts=DECILES_UW[4 + number], class_="sweep"),
            unit="step",
        )
        for number in range(4)
    ]  # fmt: skip
    morning = _job("morning-train", "borealis", _clock(8), 8000, 4 * HOUR_MS, watts=338)
    # Five metered runs of a class earn an observed estimate; asked for before, it is refused.
    nightly = [
        _job(f"eval-{number}", "borealis", _clock(number, 30), 1000, 20 * MINUTE_MS + number * 997,
             watts=118, class_="eval")
        for number in range(5)
    ]  # fmt: skip
    observed = [
        replace(
            _job(f"eval-observed-{hour}", "borealis", _clock(hour), 1000, 20 * MINUTE_MS,
                 watts=118, class_="eval"),
            observed=True,
        )
        for hour in (1, 7)
    ]  # fmt: skip
    return [
        *sweep,
        morning,
        *nightly,
        *observed,
        # More than its leaf is guaranteed, on a guess: refused, since a guess may not borrow.
        _job("cygnus-guess", "cygnus", _clock(9, 5), 10000, HOUR_MS, watts=213, guess=True),
        # Its machine dies at 10:20: the lease lapses, an operator releases it at 13:10.
        replace(
            _job("atlas-train-lost", "atlas/train", _clock(9, 10), 1000, 4 * HOUR_MS, watts=213),
            lease_ms=90 * MINUTE_MS,
            outcome="failed",
            reports=False,
        ),
        # Held by somebody who went home: what the idle reviews find.
        _job("cygnus-notebook", "cygnus", _clock(9, 30), 1000, 12 * HOUR_MS, watts=62),
        *_evening(),
    ]


def _evening() -> list[Job]:
    """What is still there at midnight, and waits, so that one can ask why."""
    night = [
        _job(f"night-{number}", "atlas/train", _clock(22, 10 + number), 6000, 9 * HOUR_MS,
             watts=DECILES_UW[5 + number], class_="night")
        for number in range(4)
    ]  # fmt: skip
    return [
        *night,
        _job("night-cygnus", "cygnus", _clock(22, 30), 6000, 9 * HOUR_MS, watts=395),
        _job("night-big", "atlas/train", _clock(23, 5), 16000, 6 * HOUR_MS, watts=395),
        _job("night-guess", "cygnus", _clock(23, 20), 4000, HOUR_MS, watts=97, guess=True),
        # A minute before midnight: what it is guaranteed has to be reclaimed from the night's work.
        _job("night-borealis", "borealis", _clock(23, 59), 8000, 9 * HOUR_MS, watts=338),
    ]


def _job(
    claim: str,
    leaf: str,
    submit_ms: int,
    mdev: int,
    run_ms: int,
    *,
    watts: int,
    guess: bool = False,
    commits: bool = True,
    class_: str = "",
) -> Job:
    """A job of whole devices as a gang of them, or one member with a fraction."""
    count = max(1, mdev // 1000)
    return Job(
        claim=claim,
        leaf=leaf,
        submit_ms=submit_ms,
        member={MDEV: mdev // count},
        count=count,
        grade=Grade.ESTIMATOR if guess else Grade.MODEL_BASED,
        reserved_uw=LIMIT_UW * (mdev // count) // 1000,
        declared_ms=run_ms + run_ms // 4,
        drawn_uw=watts * 1000 * mdev,
        run_ms=run_ms,
        # Who shares a device cannot know what it drew.
        reports=mdev >= 1000,
        commits=commits,
        commit_within_ms=10 * MINUTE_MS,
        class_=class_,
    )


def _clock(hour: int, minute: int = 0) -> int:
    return OPENED_MS + hour * HOUR_MS + minute * MINUTE_MS
