"""Microsoft's Philly jobs by virtual cluster (Jeon et al., ATC'19) as a pool's plan.

The file, `../shared/data/philly_vc`, has no job id, no energy and no outcome. What is made of it:

1. A tenant is a virtual cluster, a leaf of the tree; its guarantee is its share of the file's GPU
   time (duration times GPUs), of `guarantee_ppm` of the capacity, in devices and in joules.
2. Capacity is `GPUS` accelerators unless told otherwise. If every job of the two weeks started when
   it was submitted, the load's median would be 569 GPUs, its 90th percentile 793, its peak 1,150.
   The energy of a period is what the accelerators can spend in it at the draw that is reserved.
3. A job of n GPUs is a gang of n members of one device. Its time runs from its admission.
4. A member reserves the highest draw of a P100 (`energy.P100_DECILES_UW`) for the job's duration,
   grade ModelBased; one job in `GUESS_ONE_IN` is a guess, grade Estimator, and given up after
   waiting `GUESS_MAX_WAIT_MS`. What a job reports at its end is one of the deciles times the
   duration, ModelBased; one in `SILENT_ONE_IN` reports nothing.
5. One job in `PINNED_ONE_IN` is not preemptible. All of this goes by the hash of the row's number
   in submission order, so it is the same every time.
6. Local times are read as UTC. Jobs of one second keep the file's order.
"""

from __future__ import annotations

from pathlib import Path

from schemas.records import MDEV, UJ, Grade, Value
from streams.traces.energy import (
    GPU_LIMIT_UW,
    GUESS_PERCENT,
    P100_DECILES_UW,
    energy_uj,
    pick,
)
from streams.traces.plan import (
    HOUR_MS,
    Job,
    Plan,
    TraceError,
    Tuning,
    describe_capacity,
    guarantees,
)
from streams.traces.rows import Row, read_rows

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
GPUS = 800
PERIOD_HOURS = 336
GUESS_ONE_IN = 10
SILENT_ONE_IN = 50
PINNED_ONE_IN = 20
GUESS_MAX_WAIT_MS = 24 * HOUR_MS
COMMIT_WITHIN_MS = 600_000
GANG_MAX = 1024
RESERVED_UW = P100_DECILES_UW[-1]


def read_philly(path: Path, tuning: Tuning) -> Plan:
    """Read a Philly file (CSV, or gzip of it) into a plan. Raises TraceError."""
    rows = sorted(read_rows(path, COLUMNS), key=lambda row: row.instant_ms("timestamp"))
    rows = rows[: tuning.rows]
    if not rows:
        raise TraceError(path.name, "has no jobs")
    jobs = tuple(_job(number, row) for number, row in enumerate(rows))
    period_hours = tuning.period_hours or PERIOD_HOURS
    capacity = _capacity(tuning.gpus or GPUS, period_hours)
    opened: dict[str, Value] = {
        "capacity": dict(capacity),
        "tree": guarantees(_gpu_time(jobs), capacity, tuning.guarantee_ppm),
        "policy": {"power_limit_uw": GPU_LIMIT_UW},
    }
    return Plan(
        pool="philly",
        opened_ms=jobs[0].submit_ms,
        opened=opened,
        jobs=jobs,
        period_ms=period_hours * HOUR_MS,
        grace_ms=tuning.grace_ms,
        notes=_notes(jobs, capacity, tuning, period_hours),
    )


def _job(number: int, row: Row) -> Job:
    gpus = row.integer("num_gpus")
    duration_ms = row.milliseconds("duration")
    if not 1 <= gpus <= GANG_MAX or duration_ms < 1:
        raise TraceError(row.place, f"a job has 1 to {GANG_MAX} GPUs and some duration")
    guess = pick(number, "guess", GUESS_ONE_IN) == 0
    percent = GUESS_PERCENT[pick(number, "percent", len(GUESS_PERCENT))] if guess else 100
    return Job(
        claim=f"job-{number:06}",
        leaf=row.text("cluster"),
        submit_ms=row.instant_ms("timestamp"),
        member={MDEV: 1000},
        count=gpus,
        grade=Grade.ESTIMATOR if guess else Grade.MODEL_BASED,
        reserved_uw=RESERVED_UW * percent // 100,
        declared_ms=duration_ms,
        drawn_uw=gpus * P100_DECILES_UW[pick(number, "draw", len(P100_DECILES_UW))],
        run_ms=duration_ms,
        commit_within_ms=COMMIT_WITHIN_MS,
        max_wait_ms=GUESS_MAX_WAIT_MS if guess else 0,
        reports=pick(number, "silent", SILENT_ONE_IN) != 0,
        preemptible=pick(number, "pinned", PINNED_ONE_IN) != 0,
        class_=f"{row.text('cluster')}/{gpus}gpu",
    )


def _gpu_time(jobs: tuple[Job, ...]) -> dict[str, int]:
    """GPU milliseconds by tenant."""
    used: dict[str, int] = {}
    for job in jobs:
        used[job.leaf] = used.get(job.leaf, 0) + job.count * job.declared_ms
    return used


def _capacity(gpus: int, period_hours: int) -> dict[str, int]:
    return {MDEV: gpus * 1000, UJ: energy_uj(gpus * RESERVED_UW, period_hours * HOUR_MS)}


def _notes(
    jobs: tuple[Job, ...], capacity: dict[str, int], tuning: Tuning, period_hours: int
) -> tuple[str, ...]:
    tenants = len({job.leaf for job in jobs})
    return (
        f"{len(jobs)} jobs; {tenants} tenants, one a virtual cluster; times read as UTC",
        describe_capacity(capacity, period_hours),
        f"guarantees: each tenant's share of the GPU time, of {tuning.guarantee_ppm} ppm of the "
        "capacity, in devices and in joules",
        "a job of n GPUs is a gang of n; it runs for the trace's duration from its admission",
        f"energy: {RESERVED_UW / 1e6:.1f} W a GPU reserved (P100 at 250 W, zeus_nsdi23), one of "
        "that measurement's deciles reported, ModelBased; no meter readings",
        f"1 job in {GUESS_ONE_IN} is a guess (Estimator) and waits "
        f"{GUESS_MAX_WAIT_MS // HOUR_MS} h at most, 1 in {SILENT_ONE_IN} reports no figure, "
        f"1 in {PINNED_ONE_IN} is not preemptible: by the hash of its row",
        f"a preempted job stops {tuning.grace_ms // 1000} s after the order; its rest is submitted "
        "again",
    )
