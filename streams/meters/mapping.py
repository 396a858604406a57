"""What a source's fields mean: which is the device, the instant, the energy, and in what unit.

Not here: the file that says so (`streams.meters.mapfile`), and reading rows by it
(`streams.meters.rows`). The formats that this project knows make a `Mapping` from a header.

1. A field is named as the source names it. Of several names the first that answers is taken, and
   the reading says which.
2. A number without a unit is refused: the unit is the mapping's, a column's, or stands in the cell.
3. A field that `inside` names another lies inside it, or contains it: read, and never booked.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from streams.meters.records import Obtained, Quantity, Scope

Container = Literal["csv", "json", "pairs", "series", "prometheus"]
Filter = Map[str, tuple[str, ...]]
"""Column -> the texts that it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column with its unit; `unit` is fixed, `unit_column` names one, `units` reads its words."""

    columns: tuple[str, ...]
    unit: str = ""
    unit_column: str = ""
    units: Map[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterField:
    """One number of a row: what it measures. `start` is the same counter when its window began.

    `part` is added to the device's name; `domain` is a column that names a power domain; `when`
    says in which rows the number stands; `range_uj` is where the counter begins again.
    """

    quantity: Quantity
    value: Field
    scope: Scope
    obtained: Obtained
    start: Field | None = None
    part: str = ""
    domain: str = ""
    inside: str = ""
    when: Filter = field(default_factory=dict)
    range_uj: Fraction | None = None
    range: Field | None = None
    limit_uw: Fraction | None = None
    floor_uw: Fraction | None = None
    cross: Field | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceField:
    """A column that names the device, and what kind of name it is."""

    column: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """A whole source. `meters` maps names of devices to the one meter that several of them share;
    `host` is a column that names what a device belongs to which is known by less than its UUID.

    `stamp` are columns that are read as one instant, `since` is the beginning of a window, `lasts`
    its length. `where` picks the rows that count; others are passed over. An empty `separator` is
    the one that the header shows.
    """

    form: str
    fields: tuple[MeterField, ...]
    container: Container = "csv"
    separator: str = ""
    header: tuple[str, ...] = ()
    where: Filter = field(default_factory=dict)
    devices: tuple[DeviceField, ...] = ()
    device: str = ""
    host: str = ""
    meters: Map[str, str] = field(default_factory=dict)
    stamp: tuple[str, ...] = ()
    stamp_unit: str = ""
    since: tuple[str, ...] = ()
    lasts: Field | None = None
    lasts_ms: Fraction | None = None
    device_stamp: Field | None = None
    boot: str = ""
    instance: str = ""
    limit: Field | None = None
    resolution: str = ""
    start_ms: int | None = None
    every_ms: int | None = None
    zone_min: int | None = None
