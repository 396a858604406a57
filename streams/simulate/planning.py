"""A trace's plan under a policy file, and with other energies paired to its jobs.

1. The tree is the trace's, one leaf a tenant; the file changes what its nodes may do.
2. A limit is a share of the capacity in every resource but energy, and at least the guarantee.
3. Seed 0 is the trace's own pairing of jobs with what they draw, report and guess. Another seed
   deals these out anew among jobs of the same shape: who runs when stays the trace's.

Invariant: the plan depends on the trace, the file and the seed, and on nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from schemas.records import UJ, Value
from streams.simulate.policyfile import PPM, PolicyError, PolicyFile
from streams.traces.plan import Job, Plan, Tuning

_FATE = ("grade", "reserved_uw", "drawn_uw", "max_wait_ms", "reports", "preemptible")
"""What of a job a seed deals out anew."""


def tuning_of(file: PolicyFile, rows: int | None) -> Tuning:
    """What the trace's reader is to be told."""
    return Tuning(
        gpus=file.gpus,
        guarantee_ppm=file.guarantee_ppm,
        period_hours=file.period_hours,
        rows=rows,
        grace_ms=60_000 if file.grace_s is None else file.grace_s * 1000,
    )


def planned(plan: Plan, file: PolicyFile, seed: int) -> Plan:
    """The plan under the file. Raises PolicyError for a tenant that the trace does not have."""
    opened = dict(plan.opened)
    tree = cast("list[dict[str, Value]]", opened["tree"])
    tenants = {str(node["id"]) for node in tree}
    for key in (*file.weights, *file.limits_ppm):
        if key not in tenants:
            known = ", ".join(sorted(tenants))
            raise PolicyError(f"{file.name}: {key}", f"no such tenant; there are {known}")
    capacity = cast("Mapping[str, int]", opened["capacity"])
    opened["tree"] = [_node(node, capacity, file) for node in tree]
    kept = cast("Mapping[str, Value]", opened.get("policy", {}))
    opened["policy"] = {**kept, **file.policy}
    jobs = tuple(_job(job, file) for job in dealt(plan.jobs, seed))
    return replace(plan, opened=opened, jobs=jobs)


def _node(node: Mapping[str, Value], capacity: Mapping[str, int], file: PolicyFile) -> Value:
    tenant = str(node["id"])
    changed: dict[str, Value] = {**node, "weight": file.weights.get(tenant, 1)}
    changed |= {
        "borrow": file.borrow,
        "lend": list(file.lend) if isinstance(file.lend, tuple) else file.lend,
        "max_live": file.max_live,
        "max_waiting": file.max_waiting,
    }
    share = file.limits_ppm.get(tenant)
    if share is not None:
        guarantee = cast("Mapping[str, int]", node["guarantee"])
        changed["limit"] = {
            resource: max(amount * share // PPM, guarantee.get(resource, 0))
            for resource, amount in capacity.items()
            if resource != UJ
        }
    return changed


def _job(job: Job, file: PolicyFile) -> Job:
    if file.preemptible is not None:
        job = replace(job, preemptible=file.preemptible)
    if file.max_wait_ms is not None:
        job = replace(job, max_wait_ms=file.max_wait_ms)
    return job


def dealt(jobs: Sequence[Job], seed: int) -> list[Job]:
    """The jobs with their fates dealt out anew among those of one shape (rule 3)."""
    if seed == 0:
        return list(jobs)
    shapes: dict[tuple[object, ...], list[int]] = {}
    for at, job in enumerate(jobs):
        shapes.setdefault((job.count, tuple(sorted(job.member.items()))), []).append(at)
    rng = random.Random(seed)
    result = list(jobs)
    for places in shapes.values():
        sources = list(places)
        rng.shuffle(sources)
        for place, source in zip(places, sources, strict=True):
            fate = {name: getattr(jobs[source], name) for name in _FATE}
            result[place] = replace(jobs[place], **fate)
    return result
