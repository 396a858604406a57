"""A reading as the profile's `meter.read`, and as the record that stands beside it.

1. The event has the profile's fields and no other: where a figure came from stands beside it, in
   `source`, since a field that the profile does not name makes an event malformed (§3).
2. An unknown window is an event too: `uj: null`, so that its claims are known to have a gap.
3. Its occupants are the source's own, where it names any, else the occupants file's.

Profile: §2.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from schemas.records import MDEV, EventType, Grade, Value, worst
from streams.meters.codes import WORDS
from streams.meters.occupants import Occupancy
from streams.meters.records import Reading, Refusal

Fields = dict[str, Value]


def occupied(reading: Reading, occupancy: Occupancy) -> Reading:
    """The reading with the occupants of its window.

    Where they changed within it the energy is shared as if all had been there: a model at best.
    """
    device, from_ms, to_ms = reading.device, reading.from_ms, reading.to_ms
    if reading.occupants:
        return replace(reading, occupants=occupancy.named(reading.occupants))
    found = occupancy.of(device, from_ms, to_ms)
    if reading.grade is not None and occupancy.cuts(device, from_ms, to_ms):
        grade = Grade(worst(reading.grade, Grade.MODEL_BASED))
        notes = (*reading.notes, "its occupants changed in it")
        reading = replace(reading, grade=grade, notes=notes)
    return replace(reading, occupants=found)


def event_of(reading: Reading, pool: str) -> Fields:
    """The event; without a pool's name it is for whoever sends it to add."""
    fields: Fields = {"pool": pool} if pool else {}
    fields |= {
        "type": EventType.METER_READ.value,
        "device": reading.device,
        "from_ms": reading.from_ms,
        "to_ms": reading.to_ms,
        "uj": reading.uj,
        "occupants": [{"claim": one.claim, MDEV: one.mdev} for one in reading.occupants],
    }
    if reading.grade is not None:
        fields["grade"] = reading.grade.value
    return fields


def source_of(reading: Reading) -> Fields:
    """Where the figure came from and how it got its grade, or why there is none."""
    if reading.code is not None:
        return {"unknown": reading.code.value, "why": why(reading)}
    origin = reading.origin
    assert origin is not None
    return {
        "format": origin.form,
        "field": origin.field,
        "unit": origin.unit,
        "scope": origin.scope.value,
        "identity": origin.identity,
        "obtained": origin.obtained.value,
        "raw": list(reading.raw),
        "places": list(reading.places),
        "notes": list(reading.notes),
    }


def refusal_of(refusal: Refusal) -> Fields:
    """A refusal as a record."""
    fields: Fields = {
        "code": refusal.code.value,
        "place": refusal.place,
        "device": refusal.device,
        "raw": refusal.raw,
        "why": why(refusal),
    }
    if refusal.at_least_uj is not None:
        fields["at_least_uj"] = refusal.at_least_uj
    return fields


def why(finding: Reading | Refusal) -> str:
    """The reason of a refusal or of an unknown window, in words."""
    assert finding.code is not None
    words: Mapping[str, str] = WORDS
    return words[finding.code] + (f" ({finding.detail})" if finding.detail else "")


class Joined:
    """Consecutive readings of a device as one, up to a length: fewer receipts, the same energy.

    Joined are windows that touch, of one grade, with the same occupants; unknown ones with unknown.
    """

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._open: dict[str, Reading] = {}

    def push(self, reading: Reading) -> list[Reading]:
        """The readings that are complete now."""
        done: list[Reading] = []
        before = self._open.get(reading.device)
        if before is not None and self._fits(before, reading):
            reading = _joined(before, reading)
        elif before is not None:
            done = [before]
        if reading.to_ms - reading.from_ms >= self._window_ms:
            self._open.pop(reading.device, None)
            return [*done, reading]
        self._open[reading.device] = reading
        return done

    def rest(self) -> list[Reading]:
        """What is still open, by device."""
        rest = [self._open[device] for device in sorted(self._open)]
        self._open.clear()
        return rest

    def _fits(self, before: Reading, after: Reading) -> bool:
        alike = (before.grade, before.code, before.occupants, before.notes) == (
            after.grade, after.code, after.occupants, after.notes
        )  # fmt: skip
        length_ms = after.to_ms - before.from_ms
        return alike and before.to_ms == after.from_ms and length_ms <= self._window_ms


def _joined(before: Reading, after: Reading) -> Reading:
    uj = None if before.uj is None or after.uj is None else before.uj + after.uj
    return replace(
        after,
        from_ms=before.from_ms,
        uj=uj,
        raw=(*before.raw[:1], *after.raw[-1:]),
        places=(*before.places[:1], *after.places[-1:]),
    )
