"""One step of a counter, judged: how much it counted, or why nobody can say. Pure functions.

Not here: what follows from a fault (`streams.meters.rules`).

The first that applies:
1. Another boot: `reset`. Certain: no later reading is needed to confirm it.
2. A device clock that went back is a device that began again: `reset`, certain too.
3. Device and reader's clock that passed different times: `clocks-disagree`.
4. A known range, and time enough to pass through all of it: `wrap-unknown`, whatever the numbers.
5. Less than before: with a known range the range is added once, and the sum judged as a growth;
   else, and if that sum is too much, `fell`.
6. More than limit x time x 1.05: `quarantined`.

Invariant: what is returned as energy is positive, and at most what the limit allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from streams.meters.codes import Code
from streams.meters.records import LIMIT_W, WATT_UW, Quantity, Sample
from streams.meters.units import area_uj, whole_uj

TOLERANCE = Fraction(105, 100)
"""A power limit is kept on average, not at every instant."""
CLOCKS_SLACK_MS = 2_000
CLOCKS_SLACK_PART = 10
"""Two clocks may differ by this much over a window, or by a tenth of it."""
DISAGREE_PERCENT = 10
"""A counter and the integral of the same device's power that differ by more lower the grade."""
INSTANCES_PERCENT = 20
INSTANCES_MS = 2_000
"""Instances of one total are read within this time of each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a counter counted, in whole uJ, and whether it passed its range once."""

    uj: int
    wrapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why it cannot be said. `certain`: the next reading cannot change that.

    `at_least_uj`: what a counter that began again shows was spent since, a lower bound.
    """

    code: Code
    detail: str = ""
    certain: bool = False
    at_least_uj: int | None = None


def limit_of(sample: Sample, given_uw: Fraction | None = None) -> Fraction:
    """The power limit of all it is about, uW: the operator's, the data's, or its scope's."""
    one_uw = given_uw or sample.limit_uw or Fraction(LIMIT_W[sample.origin.scope] * WATT_UW)
    return one_uw * max(1, len(sample.parts))


def allowed_uj(limit_uw: Fraction, duration_ms: int) -> Fraction:
    """The most that is believed of a window."""
    return area_uj(limit_uw, duration_ms) * TOLERANCE


def step(before: Sample, after: Sample, limit_uw: Fraction) -> Counted | Fault:
    """Judge a counter's step between two placed samples, `after` later than `before`."""
    assert before.stamp_ms is not None and after.stamp_ms is not None
    elapsed_ms = after.stamp_ms - before.stamp_ms
    fault = _clocks(before, after, elapsed_ms)
    if fault is not None:
        return fault
    assert before.amount is not None and after.amount is not None
    return grown(
        before.amount,
        after.amount,
        range_uj=after.range_uj,
        allowed=allowed_uj(limit_uw, elapsed_ms),
    )


def grown(
    before: Fraction, after: Fraction, *, range_uj: Fraction | None, allowed: Fraction
) -> Counted | Fault:
    """Rules 4 to 6 on two values of a counter, uJ."""
    if range_uj is not None and allowed >= range_uj:
        return Fault(code=Code.WRAP_UNKNOWN, detail=f"range {whole_uj(range_uj)} uJ")
    wrapped, floor_uj = after < before, whole_uj(after) if after <= allowed else None
    if wrapped and range_uj is None:
        detail = f"{whole_uj(before)} -> {whole_uj(after)} uJ, and its range is not known"
        return Fault(code=Code.FELL, detail=detail, at_least_uj=floor_uj)
    if wrapped and range_uj is not None:
        after += range_uj
    uj = whole_uj(after) - whole_uj(before)
    if uj > allowed or uj < 0:
        detail = f"{uj} uJ where at most {whole_uj(allowed)} are possible"
        if wrapped:
            detail += ", were it a wrap"
            return Fault(code=Code.FELL, detail=detail, at_least_uj=floor_uj)
        return Fault(code=Code.QUARANTINED, detail=detail)
    return Counted(uj=uj, wrapped=wrapped)


def _clocks(before: Sample, after: Sample, elapsed_ms: int) -> Fault | None:
    if before.boot != after.boot:
        detail = f"{before.boot or 'none'} -> {after.boot or 'none'}"
        return Fault(
            code=Code.RESET, detail=f"boot {detail}", certain=True, at_least_uj=_whole(after)
        )
    if before.device_ms is None or after.device_ms is None:
        return None
    device_ms = after.device_ms - before.device_ms
    if device_ms < 0:
        return Fault(
            code=Code.RESET,
            detail="the device's clock went back",
            certain=True,
            at_least_uj=_whole(after),
        )
    if abs(device_ms - elapsed_ms) > max(CLOCKS_SLACK_MS, elapsed_ms // CLOCKS_SLACK_PART):
        detail = f"the device's {int(device_ms)} ms, the reader's {elapsed_ms} ms"
        return Fault(code=Code.CLOCKS_DISAGREE, detail=detail)
    return None


def disagree(one_uj: Fraction, other_uj: Fraction) -> bool:
    """Whether two figures of the same energy are further apart than `DISAGREE_PERCENT`."""
    return abs(one_uj - other_uj) * 100 > DISAGREE_PERCENT * max(one_uj, other_uj)


def instances_agree(amounts: list[Fraction], quantity: Quantity, limit_uw: Fraction) -> bool:
    """Whether what several instances show can be one total, read within a moment."""
    spread, largest = max(amounts) - min(amounts), max(amounts)
    if quantity is Quantity.COUNTER:
        return spread <= allowed_uj(limit_uw, INSTANCES_MS)
    return spread * 100 <= INSTANCES_PERCENT * largest


def _whole(sample: Sample) -> int | None:
    return None if sample.amount is None else whole_uj(sample.amount)
