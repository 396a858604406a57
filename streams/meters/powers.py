"""A device's power: a line through its samples, integrated exactly, with its holes left open.

Rules 5 and 6 of `streams.meters.rules`.

1. A hole is a line longer than the gap allowed, or one in which a reading failed at another
   instant than the line's ends.
2. An area is exact; whole microjoules are booked, and what is left over is carried into the next
   window, so that windows sum to the rounding of their exact sum.
3. A line is cut where the device's occupants change: its parts are exact too.
4. A draw that is the same to a digit below the watt for longer than `stale_ms` is an old one,
   served again and again. Of whole watts that cannot be said.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from streams.meters.codes import Code
from streams.meters.judging import TOLERANCE, Fault, limit_of
from streams.meters.records import GRADE_OF, WATT_UW, Obtained, Sample
from streams.meters.tuning import Cuts, Tuning
from streams.meters.units import area_uj, whole_uj
from streams.meters.windows import Booked, Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """From one believed sample to the next; `fault` where it crosses a hole."""

    before: Sample
    after: Sample
    from_ms: int
    to_ms: int
    fault: Fault | None

    def area(self, from_ms: int, to_ms: int) -> Fraction:
        """The exact area under a part of it, uJ: the mean draw there times its length."""
        assert self.before.amount is not None and self.after.amount is not None
        slope = (self.after.amount - self.before.amount) / (self.to_ms - self.from_ms)
        middle_ms = Fraction(from_ms + to_ms, 2) - self.from_ms
        return area_uj(self.before.amount + slope * middle_ms, to_ms - from_ms)


class Powers:
    """The last believed sample, what failed since, and the area since the counter's last step."""

    def __init__(self, windows: Windows, tuning: Tuning, cuts: Cuts) -> None:
        self._windows = windows
        self._tuning = tuning
        self._cuts = cuts
        self._last: Sample | None = None
        self._failed: tuple[int, Fault] | None = None
        self._same: Fraction | None = None
        self._same_since_ms = 0
        self._carried = Fraction(0)
        self._area: Fraction | None = None
        self._area_from_ms: int | None = None

    def push(self, sample: Sample, *, witness: bool) -> None:
        """Take a sample that has a number; a `witness` books nothing."""
        assert sample.stamp_ms is not None
        fault = _draw_fault(sample, self._tuning)
        if fault is not None:
            self._windows.refuse(sample, fault)
            self.fail(sample.stamp_ms, fault)
            return
        if self._frozen(sample):
            stale = Fault(
                code=Code.STALE, detail="no draw is the same to its last digit for so long"
            )
            self._windows.refuse(sample, stale)
            self.fail(sample.stamp_ms, stale)
            return
        repeated = self._repeats(sample)
        if repeated is not None:
            self._windows.refuse(sample, repeated)
            return
        line = self._line_to(sample)
        if witness:
            return
        if line is None or line.from_ms != self._windows.to_ms:
            self._windows.unknown(sample.stamp_ms, None)
        elif line.fault is None or line.to_ms - line.from_ms <= self._tuning.fill_ms:
            self._integrate(line)
        else:
            self._windows.unknown(sample.stamp_ms, line.fault)

    def fail(self, stamp_ms: int, fault: Fault) -> None:
        """No draw at that instant. The first valid sample of an instant stands against it."""
        if self._last is None or self._last.stamp_ms != stamp_ms:
            self._failed = self._failed or (stamp_ms, fault)
            self._windows.suspect(fault)

    def stop(self) -> None:
        """Nothing is measured across here."""
        self._last = self._failed = self._area = None

    def restart(self) -> None:
        """The counter's next window begins at the last sample."""
        self._area = Fraction(0)
        self._area_from_ms = None if self._last is None else self._last.stamp_ms

    def over(self, from_ms: int, to_ms: int) -> Fraction | None:
        """The area over a counter's window; None: there is a hole in it, or it is another's."""
        last_ms = None if self._last is None else self._last.stamp_ms
        return self._area if (self._area_from_ms, last_ms) == (from_ms, to_ms) else None

    def _repeats(self, sample: Sample) -> Fault | None:
        """Why a sample says nothing new: its instant was read, or the device says it is old."""
        last = self._last
        if last is None:
            return None
        if last.stamp_ms == sample.stamp_ms:
            return Fault(code=Code.DUPLICATE_STAMP)
        if sample.device_ms is not None and last.same_reading(sample):
            return Fault(code=Code.STALE)
        return None

    def _frozen(self, sample: Sample) -> bool:
        """Whether a draw with digits below a watt has been the very same for too long."""
        assert sample.amount is not None and sample.stamp_ms is not None
        if sample.amount != self._same:
            self._same, self._same_since_ms = sample.amount, sample.stamp_ms
        still_ms = sample.stamp_ms - self._same_since_ms
        return still_ms > self._tuning.stale_ms and sample.amount % WATT_UW != 0

    def _line_to(self, sample: Sample) -> Line | None:
        """The line to this sample, which is the last now; None: it is the first."""
        last, self._last = self._last, sample
        failed, self._failed = self._failed, None
        if last is None:
            return None
        assert last.stamp_ms is not None and sample.stamp_ms is not None
        duration_ms = sample.stamp_ms - last.stamp_ms
        fault = None
        if failed is not None and failed[0] != sample.stamp_ms:
            fault = failed[1]
        elif duration_ms > self._tuning.gap_ms:
            fault = Fault(code=Code.GAP, detail=f"{duration_ms} ms without a reading")
        line = Line(
            before=last, after=sample, from_ms=last.stamp_ms, to_ms=sample.stamp_ms, fault=fault
        )
        if fault is not None:
            self._area = None
        elif self._area is not None:
            self._area += line.area(line.from_ms, line.to_ms)
        return line

    def _integrate(self, line: Line) -> None:
        grade, notes = GRADE_OF[line.after.origin.obtained], line.after.origin.notes
        if line.fault is not None:
            grade = GRADE_OF[Obtained.GUESS]
            notes = (*notes, f"filled with a straight line: {line.fault.code}")
        from_ms = line.from_ms
        for to_ms in (*self._cuts(self._windows.device, from_ms, line.to_ms), line.to_ms):
            exact = self._carried + line.area(from_ms, to_ms)
            uj = whole_uj(exact)
            self._carried = exact - uj
            self._windows.book(
                Booked(
                    from_ms=from_ms,
                    to_ms=to_ms,
                    uj=uj,
                    grade=grade,
                    notes=notes,
                    before=line.before,
                    after=line.after,
                )
            )
            from_ms = to_ms


def _draw_fault(sample: Sample, tuning: Tuning) -> Fault | None:
    """Why a draw is not believed, by its size alone."""
    assert sample.amount is not None
    limit_uw = limit_of(sample, tuning.limit_uw)
    if sample.amount > limit_uw * TOLERANCE:
        return Fault(code=Code.QUARANTINED, detail=f"limit {whole_uj(limit_uw)} uW")
    floor_uw = tuning.floor_uw or sample.floor_uw
    if floor_uw is not None and sample.amount < floor_uw:
        return Fault(code=Code.BELOW_FLOOR, detail=f"floor {whole_uj(floor_uw)} uW")
    return None
