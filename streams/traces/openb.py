"""Alibaba's "openb" pods, 2023 (Weng et al., ATC'23) as a pool's plan.

The files, `../shared/data/openb_2023`, have no tenant and no energy. What is made of them:

1. A pod is a claim of one member; `num_gpu * gpu_milli` are its milli-devices (3,078 pods hold a
   fraction of one), `cpu_milli` its `vcpu` (whole ones, rounded up), `memory_mib` its memory.
2. The quality of service is the leaf and the class. A leaf's guarantee is its share of the device
   time of the pods that ran, of `guarantee_ppm` of the capacity, in every resource.
3. The published cluster has 6,212 GPUs, the pods of the file hold 66 at most: contention needs a
   smaller pool. It has `GPUS` devices and their share of the node list's vCPUs and memory.
4. A device reserves the highest draw of a V100 (`energy.V100_DECILES_UW`), a vCPU that of
   `energy.VCPU_RESERVED_UW`, for the time that the pod took; grade ModelBased. One pod in
   `GUESS_ONE_IN` is a guess, given up after waiting `GUESS_MAX_WAIT_MS`. At its end a pod reports
   a decile and the vCPU's median; Failed pods report nothing.
5. A pod that stayed Pending is a claim that is never committed: its owner cancels it at its
   deletion while it waits; if it is admitted, it expires after `COMMIT_WITHIN_MS`. It reserves for
   `PENDING_DECLARED_MS`.
6. A pod Running at the trace's last second is still live at the end: never released. The others
   end `completed` (Running, Succeeded) or `failed` (Failed).
7. Seconds count from `EPOCH_MS`, which is arbitrary. Guaranteed pods are not preemptible.
"""

from __future__ import annotations

from pathlib import Path

from schemas.records import MDEV, UJ, Grade, Value
from streams.traces.energy import (
    GUESS_PERCENT,
    V100_DECILES_UW,
    VCPU_DRAWN_UW,
    VCPU_RESERVED_UW,
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

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
VCPU = "vcpu"
MEMORY = "memory_mib"
RESOURCES = (MDEV, VCPU, MEMORY, UJ)
GPUS = 64
NODES_GPU = 6_212
NODES_CPU_MILLI = 125_514_000
NODES_MEMORY_MIB = 612_028_416
"""Sums of `openb_node_list_all_node.csv`: 1,523 nodes."""
PERIOD_HOURS = 720
EPOCH_MS = 1_672_531_200_000
"""2023-01-01T00:00:00Z; the trace gives only seconds since its start."""
GUESS_ONE_IN = 10
GUESS_MAX_WAIT_MS = 24 * HOUR_MS
COMMIT_WITHIN_MS = 600_000
PENDING_DECLARED_MS = HOUR_MS
OUTCOMES = {"Running": "completed", "Succeeded": "completed", "Failed": "failed", "Pending": ""}
LEAVES = {"LS": "ls", "BE": "be", "Burstable": "burstable", "Guaranteed": "guaranteed"}


def read_openb(path: Path, tuning: Tuning) -> Plan:
    """Read an openb pod list (CSV, or gzip of it) into a plan. Raises TraceError."""
    rows = sorted(read_rows(path, COLUMNS), key=lambda row: row.integer("creation_time"))
    rows = rows[: tuning.rows]
    if not rows:
        raise TraceError(path.name, "has no pods")
    end_s = max(row.integer("deletion_time") for row in rows)
    jobs = tuple(_job(number, row, end_s) for number, row in enumerate(rows))
    period_hours = tuning.period_hours or PERIOD_HOURS
    capacity = _capacity(tuning.gpus or GPUS, period_hours)
    opened: dict[str, Value] = {
        "capacity": dict(capacity),
        "resources": list(RESOURCES),
        "tree": guarantees(_device_time(jobs), capacity, tuning.guarantee_ppm),
    }
    return Plan(
        pool="openb",
        opened_ms=jobs[0].submit_ms,
        opened=opened,
        jobs=jobs,
        period_ms=period_hours * HOUR_MS,
        grace_ms=tuning.grace_ms,
        notes=_notes(jobs, capacity, tuning, period_hours),
    )


def _job(number: int, row: Row, end_s: int) -> Job:
    phase, qos = row.text("pod_phase"), row.text("qos")
    if phase not in OUTCOMES or qos not in LEAVES:
        raise TraceError(row.place, f"unknown pod_phase {phase!r} or qos {qos!r}")
    mdev = row.integer("num_gpu") * row.integer("gpu_milli")
    vcpu = -(-row.integer("cpu_milli") // 1000)
    created_s, deleted_s = row.integer("creation_time"), row.integer("deletion_time")
    pending = phase == "Pending"
    ran_ms = PENDING_DECLARED_MS if pending else _ran_ms(row, deleted_s)
    guess = pick(number, "guess", GUESS_ONE_IN) == 0
    percent = GUESS_PERCENT[pick(number, "percent", len(GUESS_PERCENT))] if guess else 100
    reserved_uw = mdev * V100_DECILES_UW[-1] // 1000 + vcpu * VCPU_RESERVED_UW
    decile_uw = V100_DECILES_UW[pick(number, "draw", len(V100_DECILES_UW))]
    return Job(
        claim=row.text("name"),
        leaf=LEAVES[qos],
        submit_ms=EPOCH_MS + created_s * 1000,
        member={MDEV: mdev, VCPU: vcpu, MEMORY: row.integer("memory_mib")},
        count=1,
        grade=Grade.ESTIMATOR if guess else Grade.MODEL_BASED,
        reserved_uw=reserved_uw * percent // 100,
        declared_ms=ran_ms,
        drawn_uw=mdev * decile_uw // 1000 + vcpu * VCPU_DRAWN_UW,
        run_ms=None if phase == "Running" and deleted_s == end_s else ran_ms,
        outcome=OUTCOMES[phase],
        commits=not pending,
        withdraw_ms=EPOCH_MS + deleted_s * 1000 if pending else None,
        commit_within_ms=COMMIT_WITHIN_MS,
        max_wait_ms=GUESS_MAX_WAIT_MS if guess else 0,
        reports=phase != "Failed",
        preemptible=qos != "Guaranteed",
        class_=qos,
    )


def _ran_ms(row: Row, deleted_s: int) -> int:
    """How long the pod ran; at least a second, since the file rounds to seconds."""
    scheduled_s = row.integer("scheduled_time")
    if deleted_s < scheduled_s:
        raise TraceError(row.place, "deletion_time is before scheduled_time")
    return max(1, deleted_s - scheduled_s) * 1000


def _device_time(jobs: tuple[Job, ...]) -> dict[str, int]:
    """Milli-device milliseconds by leaf, of the pods that ran; every leaf of the file is there."""
    used = {job.leaf: 0 for job in jobs}
    for job in jobs:
        if job.commits:
            used[job.leaf] += job.member[MDEV] * job.declared_ms
    return used


def _capacity(gpus: int, period_hours: int) -> dict[str, int]:
    vcpu = NODES_CPU_MILLI * gpus // (NODES_GPU * 1000)
    power_uw = gpus * V100_DECILES_UW[-1] + vcpu * VCPU_RESERVED_UW
    return {
        MDEV: gpus * 1000,
        VCPU: vcpu,
        MEMORY: NODES_MEMORY_MIB * gpus // NODES_GPU,
        UJ: energy_uj(power_uw, period_hours * HOUR_MS),
    }


def _notes(
    jobs: tuple[Job, ...], capacity: dict[str, int], tuning: Tuning, period_hours: int
) -> tuple[str, ...]:
    pending = sum(not job.commits for job in jobs)
    outlasting = sum(job.run_ms is None for job in jobs)
    return (
        f"{len(jobs)} pods, a claim of one member each; leaf and class are the quality of service",
        describe_capacity(capacity, period_hours)
        + f" (a slice of the published {NODES_GPU} GPUs with their share of vCPUs and memory)",
        f"guarantees: each leaf's share of the device time, of {tuning.guarantee_ppm} ppm of the "
        "capacity, in every resource",
        f"energy: {V100_DECILES_UW[-1] / 1e6:.1f} W a device reserved (V100 at 250 W, zeus_nsdi23) "
        f"and {VCPU_RESERVED_UW / 1e6:.1f} W a vCPU (acme_gpu_power, CPU nodes over 128), a decile "
        "reported, ModelBased; no meter readings",
        f"{pending} pods never ran: cancelled at their deletion, or expired "
        f"{COMMIT_WITHIN_MS // 60_000} min after admission; {outlasting} outlast the trace",
        f"1 pod in {GUESS_ONE_IN} is a guess (Estimator), by the hash of its row, and waits "
        f"{GUESS_MAX_WAIT_MS // HOUR_MS} h at most; Failed pods "
        "report no figure; Guaranteed pods are not preemptible",
        f"a preempted pod stops {tuning.grace_ms // 1000} s after the order; its rest is submitted "
        "again",
    )
