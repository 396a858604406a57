"""Reading text and raw files in tests: what was booked, what is unknown, what was refused."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.records import Grade
from streams.meters import Code, Occupancy, Options, Reading, Refusal, Tuning, read
from streams.meters.mapfile import parse_mapping
from streams.meters.records import Finding
from tests.shared import shared

MAPS = Path(__file__).parent / "maps"


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings of a source, sorted into three kinds."""

    every: list[Finding]

    @property
    def booked(self) -> list[tuple[str, int, int, int, Grade]]:
        """Device, window, energy, grade."""
        return [
            (one.device, one.from_ms, one.to_ms, one.uj, one.grade)
            for one in self.readings
            if one.uj is not None and one.grade is not None
        ]

    @property
    def unknown(self) -> list[tuple[str, int, Code | None]]:
        """Device, length of the window, why."""
        return [
            (one.device, one.to_ms - one.from_ms, one.code)
            for one in self.readings
            if one.uj is None
        ]

    @property
    def refused(self) -> list[tuple[int, Code]]:
        """Line and why, in the order of the lines."""
        found = [(int(one.place.rpartition(":")[2]), one.code) for one in self.refusals]
        return sorted(found)

    @property
    def readings(self) -> list[Reading]:
        return [one for one in self.every if isinstance(one, Reading)]

    @property
    def refusals(self) -> list[Refusal]:
        return [one for one in self.every if isinstance(one, Refusal)]

    @property
    def total_uj(self) -> int:
        """All energy that was booked."""
        return sum(uj for *_, uj, _ in self.booked)


def told(found: Findings) -> set[Code]:
    """Every code that was given, to a line or to a window."""
    codes = {one.code for one in found.refusals}
    return codes | {code for _, _, code in found.unknown if code is not None}


def raw(name: str) -> str:
    """A raw file of the shared data, by the number that it begins with."""
    (path,) = shared("data", "meters").glob(f"{name}_*")
    return path.read_text()


def findings(
    text: str | bytes,
    form: str,
    *,
    map_name: str = "",
    tuning: Tuning | None = None,
    occupancy: Occupancy | None = None,
    window_ms: int = 0,
    **options: Any,
) -> Findings:
    """What a text comes to; `map_name` is one of `maps`."""
    if map_name:
        options["mapping"] = parse_mapping((MAPS / f"{map_name}.toml").read_text(), map_name)
    found = read(
        io.BytesIO(text.encode() if isinstance(text, str) else text),
        "raw",
        form=form,
        options=Options(**options),
        tuning=tuning,
        occupancy=occupancy,
        window_ms=window_ms,
    )
    return Findings(list(found))
