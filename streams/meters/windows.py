"""A device's windows: each begins where the last one ended, and what is not booked is unknown.

Not here: what is believed (`streams.meters.counting`, `streams.meters.powers`).

Invariant: windows never overlap, never go back and are never empty.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.records import Grade
from streams.meters.codes import Code
from streams.meters.judging import Fault
from streams.meters.records import Finding, Reading, Refusal, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """Energy in a window, from the sample before it to the one at its end."""

    from_ms: int
    to_ms: int
    uj: int
    grade: Grade
    notes: tuple[str, ...]
    before: Sample
    after: Sample


class Windows:
    """What has come out for one device. `to_ms`: the end of the last window, or the first stamp."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.to_ms: int | None = None
        self.seen_ms = 0
        """The latest instant of any sample."""
        self.why: Fault | None = None
        """What is wrong in the window since `to_ms`, should it come out unknown."""
        self._rested = False
        self._out: list[Finding] = []

    def see(self, stamp_ms: int) -> None:
        """A sample of that instant, not before any other. Nobody read between two recordings."""
        if self.to_ms is None or self._rested:
            self.to_ms = stamp_ms
        self.seen_ms, self._rested = stamp_ms, False

    def rest(self) -> None:
        """The recording ends: what is open is unknown, what follows is another's."""
        self.unknown(self.seen_ms, None)
        self._rested = True

    def taken(self) -> list[Finding]:
        """What came out since the last call."""
        out, self._out = self._out, []
        return out

    def suspect(self, fault: Fault) -> None:
        """Something is wrong in the open window; the first fault says why."""
        self.why = self.why or fault

    def book(self, booked: Booked) -> None:
        """Energy, in the window that is open."""
        assert self.to_ms == booked.from_ms < booked.to_ms
        self._out.append(
            Reading(
                device=self.device,
                from_ms=booked.from_ms,
                to_ms=booked.to_ms,
                uj=booked.uj,
                grade=booked.grade,
                origin=booked.after.origin,
                notes=booked.notes,
                raw=(booked.before.raw, booked.after.raw),
                places=(booked.before.place, booked.after.place),
                occupants=booked.after.occupants,
            )
        )
        self.to_ms, self.why = booked.to_ms, None

    def unknown(self, to_ms: int, fault: Fault | None, sample: Sample | None = None) -> None:
        """The open window, up to there, is unknown; nothing if it is empty."""
        fault = fault or self.why or Fault(code=Code.GAP, detail="nothing was read in it")
        if self.to_ms is not None and to_ms > self.to_ms:
            self._out.append(
                Reading(
                    device=self.device,
                    from_ms=self.to_ms,
                    to_ms=to_ms,
                    uj=None,
                    code=fault.code,
                    detail=fault.detail,
                    occupants=() if sample is None else sample.occupants,
                )
            )
            self.to_ms = to_ms
        self.why = None

    def refuse(self, sample: Sample, fault: Fault) -> None:
        """A sample that is not believed."""
        self._out.append(
            Refusal(
                code=fault.code,
                place=sample.place,
                device=self.device,
                raw=sample.raw,
                detail=fault.detail,
                at_least_uj=fault.at_least_uj,
            )
        )
