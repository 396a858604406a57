"""Sharing a device (profile §2.5): a reading's split over those who held it.

Not here: what a share does to its claim (`apply`).

1. Faults in the profile's order; a refused reading changes nothing.
2. Floor shares by `mdev`, then one microjoule each to the largest remainders, ties to the smaller
   claim id: the shares sum to the reading exactly.
3. Divided among two or more a counter's total becomes a model; a sole occupant keeps the grade.
4. A live claim whose meter first exceeds its reservation is told so, after the split.

Profile: §2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.records import (
    QUANTITY_LIMIT,
    Body,
    ClaimState,
    Grade,
    Kind,
    MeterRead,
    Occupant,
    Reason,
    Value,
    worst,
)
from streams.kernel.run import Run
from streams.kernel.state import PoolState


def read(run: Run, event: MeterRead) -> None:
    """Decide a `meter.read`."""
    fault = _fault(run.state, event)
    if fault is not None:
        reason, details = fault
        run.refuse(reason, **details)
    elif event.uj is None:
        run.emit(Kind.METER_GAP, {"device": event.device})
    elif not event.occupants:
        run.emit(Kind.METER_SPLIT, {"device": event.device, "shares": [], "overhead_uj": event.uj})
    else:
        _split(run, event, event.uj)


def _fault(state: PoolState, event: MeterRead) -> tuple[Reason, dict[str, Value]] | None:
    if event.to_ms <= event.from_ms:
        return Reason.WINDOW_EMPTY, {}
    if event.to_ms > state.now_ms + state.policy.meter_slack_ms:
        return Reason.WINDOW_FUTURE, {}
    if event.from_ms < state.devices.get(event.device, 0):
        return Reason.WINDOW_OVERLAPS, {}
    names = [occupant.claim for occupant in event.occupants]
    if len(set(names)) != len(names) or any(one.mdev < 1 for one in event.occupants):
        return Reason.OCCUPANTS_INVALID, {}
    for name in names:
        claim = state.claims.get(name)
        if claim is None or not claim.was_admitted:
            return Reason.UNKNOWN_OCCUPANT, {"claim": name}
    if event.uj is not None and _overflows(state, names, event.uj):
        return Reason.OUT_OF_RANGE, {}
    return None


def _overflows(state: PoolState, names: Sequence[str], uj: int) -> bool:
    room = QUANTITY_LIMIT - uj
    return (
        state.overhead_uj >= room
        or state.tree.root.usage[-1] >= room
        or any(state.claims[name].metered_uj >= room for name in names)
    )


def split(uj: int, occupants: Sequence[Occupant]) -> dict[str, int]:
    """Divide microjoules over the occupants by `mdev`: claim id -> share, in claim-id order."""
    total = sum(occupant.mdev for occupant in occupants)
    ordered = sorted(occupants, key=lambda occupant: occupant.claim)
    shares = {one.claim: uj * one.mdev // total for one in ordered}
    left = uj - sum(shares.values())
    if left:
        by_remainder = sorted(ordered, key=lambda one: (-(uj * one.mdev % total), one.claim))
        for one in by_remainder[:left]:
            shares[one.claim] += 1
    return shares


def _split(run: Run, event: MeterRead, uj: int) -> None:
    state = run.state
    grade = event.grade
    assert grade is not None
    if len(event.occupants) > 1:
        grade = worst(grade, Grade.MODEL_BASED.value)
    shares = split(uj, event.occupants)
    overruns: list[str] = []
    listed: list[Value] = []
    for claim_id, share in shares.items():
        claim = state.claims[claim_id]
        entry: Body = {"claim": claim_id, "uj": share}
        if claim.state is ClaimState.ENDED:
            entry["late"] = True
        elif claim.metered_uj <= claim.reserved_uj < claim.metered_uj + share:
            overruns.append(claim_id)
        listed.append(entry)
    run.emit(Kind.METER_SPLIT, {"device": event.device, "grade": grade, "shares": listed})
    for claim_id in overruns:
        claim = state.claims[claim_id]
        run.emit(
            Kind.CLAIM_OVERRUN,
            {
                "claim": claim_id,
                "reserved_uj": claim.reserved_uj,
                "metered_uj": claim.metered_uj,
            },
        )
