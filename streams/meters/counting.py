"""A counter: believed step by step, held where it jumps, still where it does not move.

Rules 3, 4 and 6 of `streams.meters.rules`; a step's own judgement is in `streams.meters.judging`.

Invariant: the base is a believed sample, and the open window begins at its stamp.
"""

from __future__ import annotations

from fractions import Fraction

from streams.meters.codes import Code
from streams.meters.judging import Counted, Fault, disagree, limit_of, step
from streams.meters.powers import Powers
from streams.meters.records import GRADE_OF, Sample, lowered
from streams.meters.tuning import Tuning
from streams.meters.units import whole_uj
from streams.meters.windows import Booked, Windows


class Counting:
    """A device's counter. `answered`: it has given a number at least once."""

    def __init__(self, windows: Windows, powers: Powers, tuning: Tuning) -> None:
        self.answered = False
        self._windows = windows
        self._powers = powers
        self._tuning = tuning
        self._base: Sample | None = None
        self._held: tuple[Sample, Fault] | None = None
        self._frozen: Sample | None = None
        """What it showed when it was given up as stale; as long as it does, it is."""

    def push(self, sample: Sample) -> None:
        """Take a sample that has a number and an instant not before any other."""
        self.answered = True
        if self._base is not None and self._base.stamp_ms != self._windows.to_ms:
            # A figure with a window of its own came in between.
            self._drop_held()
            self._base = None
        base, held = self._base, self._held
        if base is None:
            if self._frozen is not None and self._frozen.same_reading(sample):
                self._windows.refuse(sample, Fault(code=Code.STALE))
            else:
                self._rebase(sample)
        elif sample.stamp_ms == base.stamp_ms or (held and held[0].stamp_ms == sample.stamp_ms):
            stale = sample.device_ms is not None and base.same_reading(sample)
            code = Code.STALE if stale else Code.DUPLICATE_STAMP
            self._windows.refuse(sample, Fault(code=code))
        elif held is not None and held[0].amount == sample.amount:
            self._windows.refuse(sample, Fault(code=Code.STALE))
        elif base.boot == sample.boot and base.amount == sample.amount:
            self._still(base, sample)
        else:
            self._step(base, sample)

    def stop(self) -> None:
        """Nothing more comes, or nothing can be measured from here: what is held is in doubt."""
        if self._held is not None:
            self._confirm(self._held)
        self._base = self._held = self._frozen = None

    def _still(self, base: Sample, sample: Sample) -> None:
        """It did not move: the window stays open, for as long as `stale_ms` allows."""
        assert sample.stamp_ms is not None and base.stamp_ms is not None
        self._glitch()
        live = sample.device_ms is not None and sample.device_ms != base.device_ms
        fault = Fault(code=Code.UNMOVED if live else Code.STALE)
        self._windows.refuse(sample, fault)
        self._windows.suspect(fault)
        if sample.stamp_ms - base.stamp_ms > self._tuning.stale_ms:
            self._windows.unknown(sample.stamp_ms, fault)
            self._windows.suspect(fault)
            self._base, self._frozen = None, sample

    def _step(self, base: Sample, sample: Sample) -> None:
        limit_uw = limit_of(sample, self._tuning.limit_uw)
        verdict = step(base, sample, limit_uw)
        if isinstance(verdict, Counted):
            self._glitch()
            self._book(base, sample, verdict)
        elif verdict.certain:
            self._drop_held()
            self._windows.refuse(sample, verdict)
            self._rebase(sample, verdict)
        elif self._held is None:
            self._held = (sample, verdict)
            self._windows.suspect(verdict)
        else:
            self._after_held(self._held, sample, limit_uw)

    def _after_held(self, held: tuple[Sample, Fault], sample: Sample, limit_uw: Fraction) -> None:
        """The sample does not fit the base: a new epoch began at what is held, or is in doubt."""
        verdict = step(held[0], sample, limit_uw)
        self._confirm(held)
        if isinstance(verdict, Counted):
            self._book(held[0], sample, verdict)
        else:
            self._held = (sample, verdict)
            self._windows.suspect(verdict)

    def _glitch(self) -> None:
        """What was held lies apart from what stood before and what came after."""
        if self._held is not None:
            fault = Fault(code=Code.GLITCH, detail=self._held[1].detail)
            self._windows.refuse(self._held[0], fault)
            self._held = None

    def _drop_held(self) -> None:
        if self._held is not None:
            self._windows.refuse(*self._held)
            self._held = None

    def _confirm(self, held: tuple[Sample, Fault]) -> None:
        """What is held begins a new epoch; the window before it is unknown."""
        self._windows.refuse(*held)
        self._rebase(*held)

    def _rebase(self, sample: Sample, fault: Fault | None = None) -> None:
        """From here on it is measured anew; the window up to here is unknown, if there is one."""
        assert sample.stamp_ms is not None
        self._windows.unknown(sample.stamp_ms, fault)
        self._base, self._held, self._frozen = sample, None, None
        self._powers.restart()

    def _book(self, base: Sample, sample: Sample, counted: Counted) -> None:
        assert base.stamp_ms is not None and sample.stamp_ms is not None
        if counted.uj == 0:
            self._still(base, sample)
            return
        grade, notes = GRADE_OF[sample.origin.obtained], sample.origin.notes
        if counted.wrapped:
            notes = (*notes, "the counter's range was added once")
        witness = self._powers.over(base.stamp_ms, sample.stamp_ms)
        if witness is not None and disagree(Fraction(counted.uj), witness):
            grade = lowered(grade)
            notes = (*notes, f"its power integrates to {whole_uj(witness)} uJ: grade lowered")
        self._windows.book(
            Booked(
                from_ms=base.stamp_ms,
                to_ms=sample.stamp_ms,
                uj=counted.uj,
                grade=grade,
                notes=notes,
                before=base,
                after=sample,
            )
        )
        self._rebase(sample)
