"""The rules of the meters, once: samples of one device in; readings, gaps and refusals out.

A pure fold: no clock, no I/O. Each rule stands in one place:

1. Unknown is never zero (`answers`): a silence is refused, and a window in which nothing was
   believed is unknown.
2. Samples are taken in their order (here). A stamp before the latest one cannot be placed: it is
   refused, and what is measured across it is unknown. Of one stamp the first valid sample stands.
3. A counter's window lasts from one believed sample to the next (`counting`); silences in between
   do no harm, since the counter went on. It is booked when the counter moved. The same value with
   the same device stamp is stale; stale for longer than `stale_ms` it is unknown, until it moves.
4. A counter's step that is at fault (`judging`: a wrap, a fall, too much, another clock) is held
   until the next sample (`counting`). Does that one fit what stood before, the held one was a
   glitch; does it fit the held one, a new epoch began there and the window before it is unknown;
   else the window is unknown too, and the later one is held.
5. A power is integrated as a straight line between two samples (`powers`), if they are at most
   `gap_ms` apart and nothing failed in between. Else it is unknown, or, where `fill_ms` allows
   it, the same line as a guess.
6. A device that has a counter is booked by it. Its power is a witness: integrated over the same
   window and a tenth away, it lowers the grade; nothing is averaged.
7. A figure that brings its own window is booked if it is possible and the window free (`figures`).
8. One physical total that is seen through several instances counts once, and levels that contain
   each other are not summed (`once`).
9. Conversions are exact rationals, rounded once, down, on a running total (`units`).

Invariant: a device's windows never overlap and never go back; energy is an integer, not negative,
and at most limit x time x 1.05 (rounded up); a gap is a window without energy, never one of zero.
"""

from __future__ import annotations

from streams.meters.codes import Code
from streams.meters.counting import Counting
from streams.meters.figures import figure
from streams.meters.judging import Fault
from streams.meters.powers import Powers
from streams.meters.records import Finding, Quantity, Sample
from streams.meters.tuning import Cuts, Tuning, never_cut
from streams.meters.windows import Windows


class DeviceRules:
    """One device, from its first sample on."""

    def __init__(self, device: str, tuning: Tuning, cuts: Cuts = never_cut) -> None:
        self._windows = Windows(device)
        self._powers = Powers(self._windows, tuning, cuts)
        self._counting = Counting(self._windows, self._powers, tuning)
        self._tuning = tuning
        self._last: Sample | None = None
        self._went_back = False

    def push(self, sample: Sample) -> list[Finding]:
        """Take the device's next sample."""
        if sample.quantity is Quantity.FIGURE:
            figure(self._windows, sample, self._tuning)
        elif self._placed(sample):
            if sample.amount is None:
                self._silent(sample)
            elif sample.quantity is Quantity.COUNTER:
                self._counting.push(sample)
            else:
                self._powers.push(sample, witness=self._counting.answered)
        return self._windows.taken()

    def rest(self) -> list[Finding]:
        """The recording ends: what is held stays in doubt, what is open is unknown."""
        self._counting.stop()
        self._powers.stop()
        self._windows.rest()
        self._last = None
        return self._windows.taken()

    def _placed(self, sample: Sample) -> bool:
        """Rule 2. A sample without an instant can still be seen to be stale."""
        windows = self._windows
        if sample.stamp_ms is None:
            windows.refuse(sample, self._without_instant(sample))
            return False
        back_ms = windows.seen_ms - sample.stamp_ms
        if back_ms > 0 or (back_ms == 0 and self._went_back):
            self._went_back = True
            fault = Fault(code=Code.CLOCK_BACK, detail=f"{back_ms} ms back")
            windows.refuse(sample, fault)
            self._counting.stop()
            self._powers.stop()
            windows.suspect(fault)
            return False
        self._went_back = False
        windows.see(sample.stamp_ms)
        return True

    def _without_instant(self, sample: Sample) -> Fault:
        """What can be said of it all the same: that it is stale, or that it fell."""
        last, code = self._last, Code.NO_STAMP
        if sample.silent is not None:
            return Fault(code=sample.silent, detail=sample.detail)
        if sample.quantity is Quantity.COUNTER:
            self._last = sample
            if last is not None and last.amount is not None and sample.amount is not None:
                stale = last.device_ms is not None and last.same_reading(sample)
                fell = sample.amount < last.amount
                code = Code.STALE if stale else Code.FELL if fell else code
        return Fault(code=code)

    def _silent(self, sample: Sample) -> None:
        assert sample.silent is not None and sample.stamp_ms is not None
        fault = Fault(code=sample.silent, detail=sample.detail)
        self._windows.refuse(sample, fault)
        if sample.quantity is Quantity.POWER:
            self._powers.fail(sample.stamp_ms, fault)
        else:
            self._windows.suspect(fault)
