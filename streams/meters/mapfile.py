"""A mapping file (TOML): what the columns of any source are, so that it can be read.

Not here: reading rows by it (`streams.meters.rows`). `README.md` shows files.

1. Keys that are not named here are refused, and so is a unit that is none: a mapping that is not
   understood whole maps nothing.
2. Every number of a source that is energy or power is a `[[meter]]`, with its unit.
3. Numbers with a unit are texts, `"700 W"`, `"65536 J"`; times end in their unit, `"120.5 s"`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from streams.meters.answers import exactly
from streams.meters.mapping import Container, DeviceField, Field, Filter, Mapping, MeterField
from streams.meters.records import MeterError, Obtained, Quantity, Scope
from streams.meters.stamps import instant_ms
from streams.meters.units import energy_unit, power_unit, time_unit

CONTAINERS = ("csv", "json", "pairs", "series", "prometheus")
IDENTITIES = ("uuid", "serial", "bus", "index", "name")
_OBTAINED = {
    Quantity.COUNTER: Obtained.COUNTER,
    Quantity.POWER: Obtained.VENDOR_POWER,
    Quantity.FIGURE: Obtained.MODEL,
}
"""How a number came about where the file does not say."""
_KINDS = {
    "counter": Quantity.COUNTER,
    "power": Quantity.POWER,
    "energy": Quantity.FIGURE,
}


@dataclass(slots=True)
class _Table:
    """A TOML table that is taken apart key by key; what is left over is an error."""

    place: str
    values: dict[str, Any]

    def take(self, key: str, kind: type, default: Any) -> Any:
        value = self.values.pop(key, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise self.fault(key, f"{value!r} is no {kind.__name__}")
        return value

    def text(self, key: str, allowed: Sequence[str] = ()) -> str:
        value = cast(str, self.take(key, str, ""))
        if value and allowed and value not in allowed:
            raise self.fault(key, f"{value!r} is none of {', '.join(allowed)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        value = self.values.pop(key, [])
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise self.fault(key, f"{value!r} is neither a text nor a list of texts")
        return tuple(values)

    def table(self, key: str) -> _Table:
        return _Table(f"{self.place}, [{key}]", self.take(key, dict, {}))

    def amount(self, key: str, unit: Callable[[str], Fraction | None]) -> Fraction | None:
        """A number with its unit as a text, exactly."""
        text = self.text(key)
        head, _, name = text.partition(" ")
        exact, one = exactly(head), unit(name)
        if text and (exact is None or one is None or exact <= 0):
            raise self.fault(key, f"{text!r} is no amount: a number, a space, a unit")
        return None if exact is None or one is None else exact * one

    def fault(self, key: str, detail: str) -> MeterError:
        return MeterError(f"{self.place}: {key}", detail)

    def end(self) -> None:
        if self.values:
            raise self.fault(next(iter(self.values)), "no such key")


def parse_mapping(text: str, name: str) -> Mapping:
    """A mapping file's text. Raises MeterError with the place and the key."""
    try:
        whole = _Table(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise MeterError(name, f"not TOML: {error}") from None
    rows = whole.take("meter", list, [])
    if not rows:
        raise whole.fault("meter", "at least one [[meter]] says what is measured")
    fields = [_meter(_Table(f"{name}, meter {at}", row)) for at, row in enumerate(rows)]
    mapping = _mapping(whole, tuple(fields))
    whole.end()
    return mapping


def _mapping(whole: _Table, fields: tuple[MeterField, ...]) -> Mapping:
    identity = whole.text("identity", IDENTITIES) or "name"
    window, clock = whole.table("window"), whole.table("clock")
    mapping = Mapping(
        form=whole.text("form") or "map",
        fields=fields,
        container=cast(Container, whole.text("container", CONTAINERS) or "csv"),
        separator=whole.text("separator"),
        header=whole.texts("header"),
        where=_filter(whole.table("where")),
        devices=tuple(DeviceField(column=one, identity=identity) for one in whole.texts("device")),
        device=whole.text("device_name"),
        meters=_words(whole.table("meters")),
        stamp=whole.texts("stamp"),
        stamp_unit=_time(whole, "stamp_unit"),
        since=window.texts("since"),
        lasts=_span(window, "lasts", "unit"),
        lasts_ms=window.amount("lasts_for", time_unit),
        device_stamp=_span(whole, "device_stamp", "device_stamp_unit"),
        boot=whole.text("boot"),
        instance=whole.text("instance"),
        limit=_plain(whole, "limit", power_unit),
        start_ms=_instant(clock, "start"),
        every_ms=_whole_ms(clock, "every"),
        zone_min=clock.take("zone_minutes", int, None),
    )
    window.end()
    clock.end()
    return mapping


def _meter(row: _Table) -> MeterField:
    quantity = _KINDS[row.text("kind", tuple(_KINDS)) or "counter"]
    kind = power_unit if quantity is Quantity.POWER else energy_unit
    obtained = row.text("obtained", [one.value for one in Obtained])
    scope = row.text("scope", [one.value for one in Scope])
    field = MeterField(
        quantity=quantity,
        value=_value(row, "column", kind),
        scope=Scope(scope or Scope.BOARD),
        obtained=Obtained(obtained) if obtained else _OBTAINED[quantity],
        start=_beside(row, "start", kind),
        part=row.text("part"),
        domain=row.text("domain"),
        inside=row.text("inside"),
        when=_filter(row.table("when")),
        range_uj=row.amount("range", energy_unit),
        range=_plain(row, "range_column", energy_unit),
        limit_uw=row.amount("limit", power_unit),
        floor_uw=row.amount("floor", power_unit),
        cross=_plain(row, "cross", energy_unit),
    )
    if field.start is not None and quantity is not Quantity.FIGURE:
        raise row.fault("start", "only an `energy` has a start: its own window's")
    row.values.pop("unit", None), row.values.pop("unit_column", None), row.values.pop("units", None)
    row.end()
    return field


def _value(row: _Table, key: str, kind: Callable[[str], Fraction | None]) -> Field:
    """The meter's own column, with `unit`, or `unit_column` and perhaps `units`."""
    columns = row.texts(key)
    if not columns:
        raise row.fault(key, "is missing: which column is it?")
    unit, units = row.values.get("unit", ""), row.values.get("units", {})
    for one in (unit, *(units.values() if isinstance(units, dict) else (units,))):
        if one != "" and (not isinstance(one, str) or kind(one) is None):
            raise row.fault("unit", f"{one!r} is no unit of this kind")
    return Field(
        columns=columns, unit=unit, unit_column=row.values.get("unit_column", ""), units=units
    )


def _beside(row: _Table, key: str, kind: Callable[[str], Fraction | None]) -> Field | None:
    """A column with the same unit as the meter's own."""
    column = row.text(key)
    if not column:
        return None
    own = _value(_Table(row.place, {**row.values, "column": column}), "column", kind)
    return own


def _plain(table: _Table, key: str, kind: Callable[[str], Fraction | None]) -> Field | None:
    """A column with a unit of its own, as `"column [unit]"`; without one the cells must have it."""
    text = table.text(key)
    if not text:
        return None
    column, bracket, unit = text.partition(" [")
    if bracket and kind(unit.rstrip("]")) is None:
        raise table.fault(key, f"{text!r}: no unit of this kind")
    return Field(columns=(column,), unit=unit.rstrip("]"))


def _span(table: _Table, key: str, unit_key: str) -> Field | None:
    column, unit = table.text(key), _time(table, unit_key)
    if column and not unit:
        raise table.fault(unit_key, "is missing: ns, us, ms, s")
    return Field(columns=(column,), unit=unit) if column else None


def _time(table: _Table, key: str) -> str:
    unit = table.text(key)
    if unit and time_unit(unit) is None:
        raise table.fault(key, f"{unit!r} is no unit of time")
    return unit


def _instant(table: _Table, key: str) -> int | None:
    text = table.text(key)
    moment = instant_ms(text) if text else None
    if text and moment is None:
        raise table.fault(key, f"{text!r} is no instant")
    return moment


def _whole_ms(table: _Table, key: str) -> int | None:
    exact = table.amount(key, time_unit)
    if exact is not None and (exact.denominator != 1 or exact < 1):
        raise table.fault(key, "is a whole number of milliseconds")
    return None if exact is None else int(exact)


def _filter(table: _Table) -> Filter:
    return {key: table.texts(key) for key in tuple(table.values)}


def _words(table: _Table) -> dict[str, str]:
    return {key: table.text(key) for key in tuple(table.values)}
