"""Wall meters: SPEC PTDaemon's log, or a CSV of instants with watts or with energy.

What it can tell: what a whole host took at its plug, by an instrument of its own: HwShunt. Not who
in the host took it.

1. A PTDaemon line is `Time,STAMP,Watts,W,Volts,...`; channels behind it (`Ch1,...`) add up to it
   and are not read. Its negative numbers stand for "no reading".
2. In a CSV the power or the energy column says its unit. Energy of a meter is a running total.
3. Local times are UTC unless the operator names the zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.headers import Header
from streams.meters.mapping import Field, Mapping, MeterField
from streams.meters.options import Options
from streams.meters.records import Item, Obtained, Quantity, Refusal, Scope
from streams.meters.rows import RowReader
from streams.meters.stamps import instant_ms
from streams.meters.tables import cells, read_table
from streams.meters.text import Line, Source, peeked, torn
from streams.meters.units import energy_unit, power_unit

FORM = "wall"
_POWERS = ("watts", "power", "power_w", "active_power", "real_power", "ac_power", "dc_power",
           "total_power", "power_watts", "w")  # fmt: skip
_ENERGIES = ("energy", "total_energy", "active_energy", "energy_total", "meter", "kwh", "wh")
_OUTLETS = ("outlet", "plug", "socket_id", "channel", "port", "feed", "circuit", "phase", "sensor",
            "entity_id", "device_name", "meter_id")  # fmt: skip
_PTD_FIELDS = 4


def read(source: Source, options: Options) -> Iterator[Item]:
    """The samples of a wall meter's log. Raises MeterError for a header without either."""
    ahead, whole = peeked(source, 1)
    if ahead and _is_ptdaemon(cells(ahead[0].text, ",")):
        return _ptdaemon(whole, options)
    return read_table(whole, plan, options)


def _is_ptdaemon(found: Sequence[str]) -> bool:
    """A row that begins with the word `Time` and an instant; a header has names behind it."""
    watts = found[2:3] == ["Watts"]
    return found[:1] == ["Time"] and (watts or instant_ms(" ".join(found[1:2])) is not None)


def plan(names: Sequence[str]) -> Mapping:
    """What a wall meter's header means."""
    header = Header(names, FORM)
    fields: list[MeterField] = []
    energy = header.first(_ENERGIES) or header.only(energy_unit)
    power = header.first(_POWERS) or header.only(power_unit)
    if energy is not None:
        fields.append(_field(Quantity.COUNTER, energy.header, energy.unit))
    if power is not None:
        fields.append(_field(Quantity.POWER, power.header, power.unit))
    if not fields:
        raise header.needs(("watts", "power_W", "energy_kWh"))
    devices = header.devices(*_OUTLETS)
    return Mapping(
        form=FORM,
        fields=tuple(fields),
        devices=devices,
        device="" if devices else "wall",
        host=header.host(),
        stamp=header.stamp(),
    )


def _field(quantity: Quantity, column: str, unit: str) -> MeterField:
    return MeterField(
        quantity=quantity,
        value=Field(columns=(column,), unit=unit),
        scope=Scope.HOST,
        obtained=Obtained.COUNTER if quantity is Quantity.COUNTER else Obtained.INSTRUMENT,
    )


def _ptdaemon(source: Source, options: Options) -> Iterator[Item]:
    mapping = Mapping(
        form=FORM,
        fields=(_field(Quantity.POWER, "Watts", "W"),),
        device=options.device or "wall",
        stamp=("Time",),
    )
    reader = RowReader(mapping, options)
    for line in source:
        if not isinstance(line, Line):
            yield line
        elif not line.text.startswith("#"):
            found = cells(line.text, ",")
            if not line.whole or len(found) < _PTD_FIELDS:
                yield torn(line)
            elif (found[0], found[2]) != ("Time", "Watts"):
                yield Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200])
            else:
                row = Row(place=line.place, cells={"Time": found[1], "Watts": found[3]})
                yield from reader.read(row)
