"""Column headers, compared by what they say: `power.draw [W]` and `power_draw` are one name.

1. A header's unit stands in brackets, in parentheses or as its last word: `energy_uj`, `power_mW`,
   `Power (W)`. It is taken off the name.
2. Names are compared in lower case, with one underscore for whatever parts their words.
3. What a header says nothing of is not guessed: a format finds its columns by name, or the only one
   with a unit of energy or of power, or says which it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from streams.meters.mapping import DeviceField
from streams.meters.records import MeterError
from streams.meters.units import time_unit, unit_name

_BRACKETED = re.compile(r"(.*?)\s*[\[(]\s*([^\[\]()]*)\s*[\])]\s*")
_LAST_WORD = re.compile(r"(.+?)[ _./-]([A-Za-zµμ]+)")

_BOUND = re.compile(r"limit|max|min|cap|default|range|threshold")
_PART = re.compile(r"(?:^|_)(?:delta|diff|difference|interval|increment|per|yesterday)(?:_|$)")
"""What such a column holds is no running total: each row has its own energy."""

UUIDS = ("uuid", "gpu_uuid", "gpu_id_uuid", "device_uuid")
SERIALS = ("serial", "gpu_serial", "board_serial")
BUSES = ("pci_bus_id", "gpu_bus_id", "bus_id", "bdf", "gpu_bdf", "pci_bdf", "pci")
INDEXES = ("index", "gpu_index", "gpu", "gpu_id", "device", "dev", "device_id", "card", "minor")
NAMES = ("meter", "socket", "name", "gpu_name")
HOSTS = ("node", "host", "hostname", "node_name", "nodename", "server", "pdu")
STAMPS = (
    "timestamp", "time", "time_ms", "timestamp_ms", "epoch", "date_time", "datetime", "wall_utc",
    "wall_time", "local_time", "utc", "unix_time", "time_utc", "ts",
)  # fmt: skip

_KINDS = (
    ("uuid", UUIDS),
    ("serial", SERIALS),
    ("bus", BUSES),
    ("index", INDEXES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its header as it stands, the name it is compared by, the unit it says."""

    header: str
    name: str
    unit: str


class Header:
    """A header's columns, found by name."""

    def __init__(self, cells: Sequence[str], form: str) -> None:
        self.cells = tuple(cells)
        self.columns = [column_of(cell) for cell in cells]
        self._form = form

    def first(self, names: Sequence[str]) -> Column | None:
        """The first of the names that is there."""
        for name in names:
            for column in self.columns:
                if name in (column.name, _plain(column.header)):
                    return column
        return None

    def only(self, kind: Callable[[str], Fraction | None]) -> Column | None:
        """The only column with a unit of that kind that is no limit and no row's own part.

        None: there is none, or there are several.
        """
        found = [
            column
            for column in self.columns
            if column.unit
            and kind(column.unit) is not None
            and not _BOUND.search(column.name)
            and not _PART.search(column.name)
            and not column.name[:1].isdigit()
        ]
        return found[0] if len(found) == 1 else None

    def every(self, names: Sequence[str]) -> list[Column]:
        """All of the names that are there, in the names' order."""
        found = [self.first([name]) for name in names]
        return [column for column in found if column is not None]

    def devices(self, *more: str) -> tuple[DeviceField, ...]:
        """What may name the device, the most physical first; `more` are a format's own names."""
        return tuple(
            DeviceField(column=column.header, identity=identity)
            for identity, names in (*_KINDS, ("name", more), ("name", NAMES), ("name", HOSTS))
            for column in self.every(names)
        )

    def host(self) -> str:
        """The column that names the host; empty where there is none."""
        column = self.first(HOSTS)
        return "" if column is None else column.header

    def stamp(self, *, but: str = "") -> tuple[str, ...]:
        """The column of instants, not the one named `but`; none where the source has none."""
        column = self.first([name for name in STAMPS if name != but])
        return () if column is None else (column.header,)

    def needs(self, names: Sequence[str]) -> MeterError:
        """The error where none of the columns is there that the format needs."""
        return MeterError(
            f"{self._form} header {', '.join(self.cells)[:120]!r}",
            f"no column {' or '.join(names)}: is the format right? another header needs --map",
        )


def column_of(header: str) -> Column:
    """A header taken apart, by rules 1 and 2."""
    matched = _BRACKETED.fullmatch(header)
    if matched is not None and unit_name(matched[2]) is not None:
        return Column(header=header, name=_plain(matched[1]), unit=unit_name(matched[2]) or "")
    matched = _LAST_WORD.fullmatch(header)
    if matched is not None and unit_name(matched[2]) is not None:
        return Column(header=header, name=_plain(matched[1]), unit=unit_name(matched[2]) or "")
    own = unit_name(header) or ""
    return Column(header=header, name=_plain(header), unit="" if time_unit(own) else own)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
