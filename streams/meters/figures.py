"""A figure that brings its own window: a job's energy, or a counter at its begin and its end.

Rule 7 of `streams.meters.rules`.
"""

from __future__ import annotations

from fractions import Fraction

from streams.meters.codes import Code
from streams.meters.judging import Counted, Fault, allowed_uj, disagree, grown, limit_of
from streams.meters.records import GRADE_OF, Sample, lowered
from streams.meters.tuning import Tuning
from streams.meters.units import whole_uj
from streams.meters.windows import Booked, Windows


def figure(windows: Windows, sample: Sample, tuning: Tuning) -> None:
    """Book it, or refuse it; where its window is known and free, that is unknown then."""
    from_ms, to_ms = sample.from_ms, sample.stamp_ms
    silent = sample.silent and Fault(code=sample.silent, detail=sample.detail)
    if from_ms is None or to_ms is None:
        windows.refuse(sample, silent or _without_window(sample, tuning))
    elif to_ms <= from_ms:
        windows.refuse(sample, Fault(code=Code.WINDOW_EMPTY))
    elif windows.to_ms is not None and from_ms < windows.to_ms:
        windows.refuse(sample, Fault(code=Code.OVERLAPS))
    else:
        windows.to_ms = from_ms
        windows.seen_ms = to_ms
        verdict = silent or _judged(sample, tuning, to_ms - from_ms)
        if isinstance(verdict, Fault):
            windows.refuse(sample, verdict)
            windows.unknown(to_ms, verdict, sample)
        else:
            windows.book(_booked(sample, verdict, from_ms, to_ms))


def _without_window(sample: Sample, tuning: Tuning) -> Fault:
    """What can be said without knowing when: that a counter fell; else that no instant is given."""
    if sample.amount is not None and sample.start is not None and sample.amount < sample.start:
        return Fault(code=Code.FELL, detail="and no instants are given")
    return Fault(code=Code.NO_STAMP)


def _judged(sample: Sample, tuning: Tuning, duration_ms: int) -> Counted | Fault:
    assert sample.amount is not None
    start = Fraction(0) if sample.start is None else sample.start
    allowed = allowed_uj(limit_of(sample, tuning.limit_uw), duration_ms)
    verdict = grown(start, sample.amount, range_uj=sample.range_uj, allowed=allowed)
    if isinstance(verdict, Counted) and verdict.uj == 0:
        return Fault(code=Code.UNMOVED)
    return verdict


def _booked(sample: Sample, counted: Counted, from_ms: int, to_ms: int) -> Booked:
    grade, notes = GRADE_OF[sample.origin.obtained], sample.origin.notes
    if sample.cross_uj is not None:
        other = f"another figure says {whole_uj(sample.cross_uj)} uJ"
        if disagree(Fraction(counted.uj), sample.cross_uj):
            grade, other = lowered(grade), other + ": grade lowered"
        notes = (*notes, other)
    if counted.wrapped:
        notes = (*notes, "the counter's range was added once")
    return Booked(
        from_ms=from_ms,
        to_ms=to_ms,
        uj=counted.uj,
        grade=grade,
        notes=notes,
        before=sample,
        after=sample,
    )
