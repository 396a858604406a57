"""Who held how much of a device, and when: an operator's file, or the executor's (TOML or JSON).

    [[occupant]]
    device = "GPU-6bf47ca9-..."      # or a beginning: "node-7/*"
    claim = "train-1"
    mdev = 1000
    from = "2024-05-16T16:30:12.530Z"    # left out: from ever
    to = "2024-05-16T16:32:09.391Z"      # left out: until further notice

    [claims]                             # what a source calls a claim, where it names one
    "4242" = "train-1"

1. A window's occupants are all that held the device at any time in it, each with its `mdev`. Energy
   between two counter readings cannot be cut; integrated power is cut where occupants change.
2. Of several entries of one claim the largest `mdev` counts. A name in `[claims]` is replaced.
3. No entry: nobody held it, its energy is the pool's overhead.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.records import INSTANT_LIMIT_MS, QUANTITY_LIMIT, Occupant
from streams.meters.records import MeterError
from streams.meters.stamps import instant_ms

ENTRIES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One claim on one device; `to_ms` is the first instant at which it is gone."""

    device: str
    claim: str
    mdev: int
    from_ms: int = 0
    to_ms: int = INSTANT_LIMIT_MS


class Occupancy:
    """All entries, by device."""

    def __init__(
        self, entries: Sequence[Entry] = (), names: Mapping[str, str] | None = None
    ) -> None:
        self._names = dict(names or {})
        self._exact: dict[str, list[Entry]] = {}
        self._begins: list[tuple[str, Entry]] = []
        for entry in entries:
            if entry.device.endswith("*"):
                self._begins.append((entry.device[:-1], entry))
            else:
                self._exact.setdefault(entry.device, []).append(entry)

    def of(self, device: str, from_ms: int, to_ms: int) -> tuple[Occupant, ...]:
        """The occupants of a window, by claim id."""
        held: dict[str, int] = {}
        for entry in self._entries(device):
            if entry.from_ms < to_ms and entry.to_ms > from_ms:
                held[entry.claim] = max(entry.mdev, held.get(entry.claim, 0))
        return tuple(Occupant(claim=claim, mdev=mdev) for claim, mdev in sorted(held.items()))

    def cuts(self, device: str, from_ms: int, to_ms: int) -> Sequence[int]:
        """The instants strictly inside a window at which somebody came or went."""
        edges = {edge for entry in self._entries(device) for edge in (entry.from_ms, entry.to_ms)}
        return sorted(edge for edge in edges if from_ms < edge < to_ms)

    def named(self, occupants: Sequence[Occupant]) -> tuple[Occupant, ...]:
        """A source's own occupants under the claims' names, each once."""
        held: dict[str, int] = {}
        for one in occupants:
            name = self._names.get(one.claim, one.claim)
            held[name] = max(one.mdev, held.get(name, 0))
        return tuple(Occupant(claim=claim, mdev=mdev) for claim, mdev in sorted(held.items()))

    def _entries(self, device: str) -> list[Entry]:
        found = self._exact.get(device)
        if found is not None:
            return found
        fitting = [entry for begin, entry in self._begins if device.startswith(begin)]
        self._exact[device] = fitting
        return fitting


def parse_occupants(text: str, name: str) -> Occupancy:
    """An occupants file's text. Raises MeterError with the entry at fault."""
    try:
        whole = json.loads(text) if name.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise MeterError(name, f"neither TOML nor, by its name, JSON: {error}") from None
    rows, names = _checked(whole, name)
    entries = [_entry(row, f"{name}, occupant {at}") for at, row in enumerate(rows)]
    return Occupancy(entries, names)


def _checked(whole: Any, name: str) -> tuple[list[Any], dict[str, str]]:
    if not isinstance(whole, dict) or not whole.keys() <= {"occupant", "claims"}:
        raise MeterError(name, "holds [[occupant]] entries and perhaps [claims], nothing else")
    rows, names = whole.get("occupant", []), whole.get("claims", {})
    if not isinstance(rows, list) or len(rows) > ENTRIES_MAX:
        raise MeterError(name, f"occupant is a list of at most {ENTRIES_MAX}")
    if not isinstance(names, dict) or not all(isinstance(one, str) for one in names.values()):
        raise MeterError(name, "[claims] says which claim a name stands for")
    return rows, names


def _entry(row: Any, place: str) -> Entry:
    if not isinstance(row, dict):
        raise MeterError(place, "is no table")
    unknown = row.keys() - {"device", "claim", "mdev", "from", "to"}
    if unknown:
        raise MeterError(f"{place}: {min(unknown)}", "no such key")
    for key in ("device", "claim"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise MeterError(f"{place}: {key}", "is missing or no text")
    mdev = row.get("mdev", 1000)
    if type(mdev) is not int or not 1 <= mdev < QUANTITY_LIMIT:
        raise MeterError(f"{place}: mdev", f"{mdev!r} is no number of milli-devices")
    from_ms, to_ms = _instant(row, "from", place), _instant(row, "to", place)
    return Entry(
        device=row["device"],
        claim=row["claim"],
        mdev=mdev,
        from_ms=0 if from_ms is None else from_ms,
        to_ms=INSTANT_LIMIT_MS if to_ms is None else to_ms,
    )


def _instant(row: dict[str, Any], key: str, place: str) -> int | None:
    if key not in row:
        return None
    moment = instant_ms(str(row[key]))
    if moment is None:
        raise MeterError(f"{place}: {key}", f"{row[key]!r} is no instant")
    return moment
