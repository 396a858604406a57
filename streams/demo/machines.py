"""The demo's machines: which devices a claim runs on, and what their meters say.

Not here: when a claim starts and stops (`streams.traces.drive` asks).

1. A claim takes devices that are wholly free first, then what is left on shared ones.
2. Every device has a meter. A window ends whenever the device's occupants change, and in every
   round; it says what the occupants drew in it, to the microjoule. An empty device draws its idle
   power: overhead.
3. In a round a claim with a unit reports its progress and one with a lease renews it.
4. A claim in `lost` falls silent: it renews nothing, reports nothing, and its devices' meters give
   no answer (`uj: null`).

Invariant: a device's windows follow each other without a hole and never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.records import MDEV, EventType, Grade, Value
from streams.traces.plan import Job

ROUND_MS = 3_600_000
IDLE_UW = 60_000_000
"""An idle A100, uW: 1st percentile of gpu_power_seren, `acme_gpu_power/power_cdf.csv`."""

Fields = dict[str, Value]


class Machines:
    """An `Executor` with `count` devices of 1000 mdev. `lost` maps a claim to its last instant."""

    round_ms = ROUND_MS

    def __init__(self, count: int, *, opened_ms: int, lost: Mapping[str, int]) -> None:
        self._free = {f"gpu-{number:02}": 1000 for number in range(count)}
        self._read_ms = dict.fromkeys(self._free, opened_ms)
        self._on: dict[str, dict[str, int]] = {device: {} for device in self._free}
        self._jobs: dict[str, tuple[Job, int]] = {}
        self._lost = lost

    def starts(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """Place the job; the devices' windows until now end."""
        parts = self._place(job.count * job.member.get(MDEV, 0))
        said = [reading for device in parts for reading in self._close(device, now_ms)]
        for device, mdev in parts.items():
            self._on[device][job.claim] = mdev
            self._free[device] -= mdev
        self._jobs[job.claim] = (job, now_ms)
        return said

    def stops(self, job: Job, now_ms: int) -> Sequence[Fields]:
        """Read the job's devices and free them. A job that never started has none."""
        said: list[Fields] = []
        if self._jobs.pop(job.claim, None) is None:
            return said
        for device, occupants in self._on.items():
            if job.claim in occupants:
                said += self._close(device, now_ms, job)
                self._free[device] += occupants.pop(job.claim)
        return said

    def round(self, now_ms: int) -> Sequence[Fields]:
        """Read every device; progress and renewals of what still answers."""
        said = [reading for device in self._on for reading in self._close(device, now_ms)]
        for claim, (job, started_ms) in self._jobs.items():
            if self._silent(claim, now_ms):
                continue
            if job.unit:
                said.append(_progress(job, now_ms - started_ms))
            elif job.lease_ms:
                said.append({"type": EventType.CLAIM_RENEWED.value, "claim": claim})
        return said

    def _place(self, mdev: int) -> dict[str, int]:
        """Devices, each with its part, for so many milli-devices; the pool keeps enough free."""
        parts: dict[str, int] = {}
        whole_first = sorted(self._free, key=lambda device: (-self._free[device], device))
        if mdev < 1000:
            # A fraction goes where it leaves the least over, so that whole devices stay free.
            fitting = [device for device in whole_first if self._free[device] >= mdev]
            whole_first = fitting[::-1] or whole_first
        for device in whole_first:
            part = min(mdev, self._free[device])
            if part:
                parts[device] = part
                mdev -= part
        return parts

    def _silent(self, claim: str, now_ms: int) -> bool:
        return now_ms >= self._lost.get(claim, now_ms + 1)

    def _close(self, device: str, now_ms: int, leaving: Job | None = None) -> list[Fields]:
        """The device's window until now, as a reading; none if it is empty."""
        from_ms, occupants = self._read_ms[device], self._on[device]
        if now_ms <= from_ms:
            return []
        self._read_ms[device] = now_ms
        event: Fields = {
            "type": EventType.METER_READ.value,
            "device": device,
            "from_ms": from_ms,
            "to_ms": now_ms,
            "occupants": [{"claim": claim, MDEV: mdev} for claim, mdev in occupants.items()],
        }
        if any(self._silent(claim, now_ms) for claim in occupants):
            return [event | {"uj": None}]
        drawn_uw = sum(self._drawn_uw(claim, mdev, leaving) for claim, mdev in occupants.items())
        uj = (drawn_uw or IDLE_UW) * (now_ms - from_ms) // 1000
        return [event | {"uj": uj, "grade": Grade.HW_SHUNT.value}]

    def _drawn_uw(self, claim: str, mdev: int, leaving: Job | None) -> int:
        """What a claim draws on one device, by its part of it."""
        job = leaving if leaving is not None and leaving.claim == claim else self._jobs[claim][0]
        return job.drawn_uw * mdev // (job.count * job.member[MDEV])


def _progress(job: Job, ran_ms: int) -> Fields:
    """A unit is a minute of one member, so a job's cost per unit is what a member draws.

    What draws most for the same progress is what a reclaim by evidence takes first.
    """
    completed = ran_ms * job.count // 60_000
    return {"type": EventType.CLAIM_PROGRESSED.value, "claim": job.claim, "completed": completed}
