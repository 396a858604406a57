"""Counter dumps: what NVML, RAPL and AMD's SMI count, as CSV, as a sysfs dump or one number a line.

What they can tell: energy since a driver or a machine started, at a known resolution: HwShunt.

1. `nvml`: a running total in mJ (`total_energy_consumption`), a draw in mW (`power_usage`); any
   other unit stands in the column's name.
2. `amdsmi`: raw counts of 2**-16 J, whatever resolution is printed beside them; or the tool's own
   J. Where a dump has both, the counts. What the library itself returns calls its counts `power`
   and its device's clock `timestamp`, in ns.
3. `rapl`: `energy_uj`, with `max_energy_range_uj` where it is given. Packages and memory are
   booked; cores lie inside packages, and a platform contains them (`streams.meters.once`). A zone
   that only has a number is a package if it is `intel-rapl:0`; of others nobody knows. What
   `intel-rapl-mmio` shows is the same package again, through another register.
4. A column of energy in an unknown unit is refused row by row: no unit is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.headers import Column, Header
from streams.meters.mapping import DeviceField, Field, Mapping, MeterField
from streams.meters.options import Options
from streams.meters.records import Item, Obtained, Quantity, Refusal, Scope
from streams.meters.rows import RowReader
from streams.meters.stamps import instant_ms
from streams.meters.tables import read_series, read_table
from streams.meters.text import Line, Source, peeked, torn
from streams.meters.units import energy_unit, power_unit

NVML, AMDSMI, RAPL = "nvml", "amdsmi", "rapl"
COUNT = "count(2^-16J)"
_DEVICE_STAMPS = ("t_ns", "timestamp_ns", "device_timestamp_ns", "device_timestamp")
_BOOTS = ("boot_id", "boot", "driver_load", "driver_id", "epoch_id")
_LIMITS = ("power_limit", "enforced_power_limit", "limit", "power_cap")
_RANGES = ("max_energy_range", "max_energy_range_uj", "range", "energy_range")
_ENERGIES: dict[str, tuple[str, ...]] = {
    NVML: ("total_energy_consumption", "total_energy", "energy", "energy_consumed", "counter",
           "energy_counter", "nvmldevicegettotalenergyconsumption"),
    AMDSMI: ("total_energy_consumption", "total_energy", "energy", "accumulated", "amd_smi",
             "energy_consumed"),
    RAPL: ("energy", "energy_uj", "package_energy", "counter", "value"),
}  # fmt: skip
_POWERS = ("power_usage", "power", "power_draw", "socket_power", "current_socket_power",
           "average_socket_power", "power_average")  # fmt: skip
_COUNTS = ("count", "energy_count", "raw_count", "energy_accumulator", "energy_counter", "counter",
           "accumulator")  # fmt: skip
_LIBRARYS_COUNTS, _LIBRARYS_STAMP = "power", "timestamp"
_RESOLUTIONS = ("counter_resolution", "resolution", "resolution_reported", "energy_resolution")
_KNOWN_UNITS = {
    (NVML, "total_energy_consumption"): "mJ",
    (NVML, "nvmldevicegettotalenergyconsumption"): "mJ",
    (NVML, "power_usage"): "mW",
    (AMDSMI, "total_energy_consumption"): "J",
    (AMDSMI, "socket_power"): "W",
    (AMDSMI, "current_socket_power"): "W",
    (AMDSMI, "average_socket_power"): "W",
    (RAPL, "energy_uj"): "uJ",
}
"""What these names mean where a header says no unit: they are defined so by what prints them."""
_DOMAINS = ("domain", "zone_name", "rapl_domain", "name", "zone")
_ZONE = "zone"
_SYSFS = re.compile(r"(.*?)((?:intel-rapl|amd-rapl)(?:-mmio)?:[0-9:]+)/([\w/]+)[:=\s]+(.*)")
_MMIO = "-mmio:"


def read_nvml(source: Source, options: Options) -> Iterator[Item]:
    """The samples of an NVML dump. Raises MeterError for a header without energy or power."""
    return read_table(source, lambda header: _plan(header, NVML), options)


def read_amdsmi(source: Source, options: Options) -> Iterator[Item]:
    """The samples of an AMD dump. Raises MeterError."""
    return read_table(source, lambda header: _plan(header, AMDSMI), options)


def read_rapl(source: Source, options: Options) -> Iterator[Item]:
    """The samples of a RAPL dump in any of its three shapes. Raises MeterError."""
    ahead, whole = peeked(source, 2)
    text = ahead[0].text if ahead else ""
    if any(_SYSFS.match(line.text) for line in ahead):
        return _sysfs(whole, options)
    if text.strip().replace(".", "", 1).isdigit():
        return read_series(whole, _series_plan(), options)
    return read_table(whole, lambda header: _plan(header, RAPL), options)


def _plan(cells: Sequence[str], form: str) -> Mapping:
    header = Header(cells, form)
    fields = _fields(header, form)
    device_stamp = header.first(_DEVICE_STAMPS)
    stamp = header.stamp()
    if _librarys(header, form) and device_stamp is None:
        device_stamp = header.first((_LIBRARYS_STAMP,))
        stamp = header.stamp(but=_LIBRARYS_STAMP)
    elif device_stamp is not None and stamp == (device_stamp.header,):
        device_stamp = None
    limit, resolution = header.first(_LIMITS), header.first(_RESOLUTIONS)
    boot, counts = header.first(_BOOTS), fields[0].value.unit == COUNT
    return Mapping(
        form=form,
        fields=fields,
        devices=tuple(
            one
            for one in header.devices(*((_ZONE,) if form == RAPL else ()))
            if one.column != fields[0].domain
        ),
        device="host" if form == RAPL else "",
        host=header.host(),
        stamp=stamp,
        device_stamp=None if device_stamp is None else Field(
            columns=(device_stamp.header,), unit=device_stamp.unit or "ns"
        ),
        boot="" if boot is None else boot.header,
        limit=None if limit is None else Field(
            columns=(limit.header,), unit=limit.unit or ("mW" if form == NVML else "")
        ),
        resolution=resolution.header if resolution is not None and counts else "",
    )  # fmt: skip


def _fields(header: Header, form: str) -> tuple[MeterField, ...]:
    """The counter, and the power as its witness; one of them must be there."""
    fields: list[MeterField] = []
    counts = header.first(_COUNTS) if form == AMDSMI else None
    if _librarys(header, form):
        counts = header.first((_LIBRARYS_COUNTS,))
    energies = [counts] if counts is not None else header.every(_ENERGIES[form])
    only = None if energies else header.only(energy_unit)
    energies += [] if only is None else [only]
    if energies:
        unit = COUNT if counts is not None else _unit(energies[0], form)
        fields.append(_counter(header, energies[0], unit, form))
    power = header.first(_POWERS) or header.only(power_unit)
    if power is not None and power is not counts:
        fields.append(
            MeterField(
                quantity=Quantity.POWER,
                value=Field(columns=(power.header,), unit=_unit(power, form)),
                scope=Scope.PACKAGE if form == RAPL else Scope.BOARD,
                obtained=Obtained.VENDOR_POWER,
            )
        )
    if not fields:
        raise header.needs((*_ENERGIES[form][:2], _POWERS[0]))
    return tuple(fields)


def _librarys(header: Header, form: str) -> bool:
    """Whether a dump's names are the AMD library's own: `power` beside its resolution."""
    power = header.first((_LIBRARYS_COUNTS,))
    if form != AMDSMI or power is None or power.unit or header.first(_COUNTS) is not None:
        return False
    return header.first(_RESOLUTIONS) is not None


def _counter(header: Header, energy: Column, unit: str, form: str) -> MeterField:
    domain = header.first(_DOMAINS) if form == RAPL else None
    wide = header.first(_RANGES)
    return MeterField(
        quantity=Quantity.COUNTER,
        value=Field(columns=(energy.header,), unit=unit),
        scope=Scope.PACKAGE if form == RAPL else Scope.BOARD,
        obtained=Obtained.COUNTER,
        domain="" if domain is None else domain.header,
        range=None if wide is None else Field(columns=(wide.header,), unit=wide.unit or unit),
    )


def _unit(column: Column, form: str) -> str:
    plain = column.header.lower()
    return column.unit or _KNOWN_UNITS.get((form, plain), "") or _KNOWN_UNITS.get(
        (form, column.name), ""
    )  # fmt: skip


def _series_plan() -> Mapping:
    counter = MeterField(
        quantity=Quantity.COUNTER,
        value=Field(columns=("value",), unit="uJ"),
        scope=Scope.PACKAGE,
        obtained=Obtained.COUNTER,
        part="package",
    )
    return Mapping(form=RAPL, fields=(counter,), container="series", device="host")


@dataclass(slots=True)
class _Zone:
    """One powercap zone of a dump."""

    place: str
    files: dict[str, str] = field(default_factory=dict)


def _sysfs(source: Source, options: Options) -> Iterator[Item]:
    """Dumps of `.../intel-rapl:N/FILE:VALUE` lines; a file that comes again begins another dump."""
    plan = replace(
        _series_plan(),
        fields=(
            replace(
                _series_plan().fields[0],
                value=Field(columns=("energy_uj",), unit="uJ"),
                part="",
                domain="name",
                range=Field(columns=("max_energy_range_uj",), unit="uJ"),
            ),
        ),
        devices=(DeviceField(column="socket", identity="name"),),
        stamp=("stamp",),
    )
    reader = RowReader(plan, options)
    zones: dict[str, _Zone] = {}
    number, stamp = 0, ""
    for line in source:
        matched = _SYSFS.match(line.text) if isinstance(line, Line) else None
        if isinstance(line, Line) and (matched is None or not line.whole):
            if instant_ms(line.text.lstrip("# ")) is not None:
                yield from _dump(zones, reader, options, number, stamp)
                number, stamp, zones = number + bool(zones), line.text.lstrip("# "), {}
            elif not line.text.startswith("#"):
                yield torn(line)
        elif not isinstance(line, Line):
            yield line
        elif matched is not None:
            if matched[3] in zones.get(matched[2], _Zone(place="")).files:
                yield from _dump(zones, reader, options, number, stamp)
                number, zones = number + 1, {}
            zone = zones.setdefault(matched[2], _Zone(place=line.place))
            zone.files[matched[3]] = matched[4].strip()
    yield from _dump(zones, reader, options, number, stamp)


def _dump(
    zones: dict[str, _Zone], reader: RowReader, options: Options, number: int, stamp: str
) -> Iterator[Item]:
    turn_ms = options.at_ms if options.at_ms is not None else options.turn_ms(number)
    for zone, found in zones.items():
        if _MMIO in zone and zone.replace(_MMIO, ":") in zones:
            yield Refusal(
                code=Code.SAME_TOTAL,
                place=found.place,
                device=zone,
                raw=found.files.get("energy_uj", ""),
                detail="the package's own register is there too",
            )
            continue
        socket = zone.split(":")[1]
        stamped = {"stamp": stamp or str(turn_ms or ""), "socket": f"socket-{socket}"}
        cells = {**stamped, **found.files}
        cells.setdefault("name", "package-0" if zone == "intel-rapl:0" else zone)
        if "energy_uj" in cells:
            yield from reader.read(Row(place=found.place, cells=cells))
