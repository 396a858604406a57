"""A row to samples, by a mapping: device, instant, and each number with its unit.

Not here: splitting a line into cells (`streams.meters.tables`), judging samples (`rules`).

1. The device is the first named column that answers, then the fixed name, then the operator's; a
   partition's own UUID is no device. A name that the mapping gives another meter becomes that one,
   and the name its instance.
2. A row without an instant takes its device's turn, where the operator said when turns are. A
   window that has a length ends that long after it began, or began that long before it ended.
3. A number is exact; its unit is the field's, the unit column's, or the cell's own, and where two
   of them are given they must be of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from streams.meters.answers import Silence, exactly, number
from streams.meters.codes import Code
from streams.meters.mapping import Field, Filter, Mapping, MeterField
from streams.meters.once import domain_fault, domain_scope
from streams.meters.options import Options
from streams.meters.records import Origin, Quantity, Refusal, Sample, Scope
from streams.meters.stamps import instant_ms
from streams.meters.units import AMD_RESOLUTIONS, energy_unit, power_unit, time_unit, unit_name

PARTITION = "MIG-"
NAMELESS = frozenset({"", "-", "n/a", "[n/a]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row's cells by column."""

    place: str
    cells: dict[str, str]

    def cell(self, column: str) -> str:
        """A cell's text; empty where there is none."""
        return self.cells.get(column, "").strip()


@dataclass(slots=True)
class RowReader:
    """Reads rows by a mapping; it counts turns, nothing else."""

    mapping: Mapping
    options: Options
    turns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What the mapping says of time goes where the operator said nothing."""
        given = self.mapping
        self.options = replace(
            self.options,
            start_ms=given.start_ms if self.options.start_ms is None else self.options.start_ms,
            every_ms=given.every_ms if self.options.every_ms is None else self.options.every_ms,
            zone_min=self.options.zone_min if given.zone_min is None else given.zone_min,
        )

    def read(self, row: Row) -> Iterator[Sample | Refusal]:
        """The row's samples, and what is refused of it."""
        if not _passes(row, self.mapping.where):
            return
        named = self._device(row)
        if isinstance(named, Refusal):
            yield named
            return
        fields = [
            one
            for one in self.mapping.fields
            if _passes(row, one.when) and not row.cells.keys().isdisjoint(one.value.columns)
        ]
        if not fields:
            yield Refusal(code=Code.NOT_ENERGY, place=row.place, device=named[0], raw=_text(row))
            return
        sample = self._frame(row, *named)
        for one in fields:
            made = self._sample(row, sample, one)
            if made is not None:
                yield made

    def _device(self, row: Row) -> tuple[str, str] | Refusal:
        """The device as the row names it, and by what kind of name."""
        for named in self.mapping.devices:
            text = row.cell(named.column)
            if text.lower() not in NAMELESS:
                if text.startswith(PARTITION):
                    return Refusal(code=Code.NOT_PHYSICAL, place=row.place, raw=text)
                uuid = named.identity == "uuid" and text.startswith("GPU-")
                index = "index" if named.identity == "uuid" else named.identity
                return text, "uuid" if uuid else index
        given = self.options.device or self.mapping.device
        if given:
            return given, "given"
        return Refusal(code=Code.NO_DEVICE, place=row.place, raw=_text(row))

    def _frame(self, row: Row, device: str, identity: str) -> Sample:
        """What all of the row's samples share."""
        given = self.mapping
        meter = given.meters.get(device, device)
        instance = device if meter != device else row.cell(given.instance)
        domains = "/".join(row.cell(one.domain) for one in given.fields if one.domain)
        from_ms, stamp_ms = self._window(row, f"{device}/{instance}/{domains}")
        origin = Origin(
            form=given.form, field="", unit="", scope=Scope.BOARD, identity=identity,
            obtained=given.fields[0].obtained,
        )  # fmt: skip
        return Sample(
            place=row.place,
            device=self.options.named(meter, identity),
            origin=origin,
            quantity=Quantity.POWER,
            raw="",
            stamp_ms=stamp_ms,
            from_ms=from_ms,
            device_ms=_span_ms(row, given.device_stamp),
            boot=row.cell(given.boot),
            limit_uw=_limit_uw(row, given.limit),
            instance=instance,
        )

    def _window(self, row: Row, turn: str) -> tuple[int | None, int | None]:
        """Where the row's window begins, if it has one, and its instant, which is its end."""
        given = self.mapping
        lasts_ms = given.lasts_ms or _span_ms(row, given.lasts)
        since_ms = self._instant_ms(row, given.since)
        stamp_ms = self._instant_ms(row, given.stamp)
        if not given.stamp and not given.since:
            stamp_ms = self._turn_ms(turn)
            if lasts_ms is not None:
                since_ms = stamp_ms
        elif since_ms is None and stamp_ms is not None and lasts_ms is not None:
            since_ms = stamp_ms - int(lasts_ms)
        if since_ms is not None and lasts_ms is not None and not given.stamp:
            stamp_ms = since_ms + int(lasts_ms)
        return since_ms, stamp_ms

    def _instant_ms(self, row: Row, columns: tuple[str, ...]) -> int | None:
        if not columns:
            return None
        unit_ms = time_unit(self.mapping.stamp_unit) if self.mapping.stamp_unit else None
        text = " ".join(row.cell(column) for column in columns)
        return instant_ms(text, unit_ms=unit_ms, zone_min=self.options.zone_min)

    def _turn_ms(self, turn: str) -> int | None:
        """The instant of what has none: the live scrape's, or its device's turn."""
        if self.options.at_ms is not None:
            return self.options.at_ms
        taken = self.turns.get(turn, 0)
        self.turns[turn] = taken + 1
        return self.options.turn_ms(taken)

    def _sample(self, row: Row, frame: Sample, one: MeterField) -> Sample | Refusal | None:
        column, answer = _first(row, one.value, power=one.quantity is Quantity.POWER)
        domain = row.cell(one.domain) if one.domain else ""
        part = "/".join(word for word in (one.part, domain.lower()) if word)
        notes = one.notes + _fallback(one.value.columns, column)
        sample = replace(
            frame,
            device=f"{frame.device}/{part}" if part else frame.device,
            quantity=one.quantity,
            raw=row.cell(column),
            range_uj=one.range_uj,
            limit_uw=one.limit_uw or frame.limit_uw,
            floor_uw=one.floor_uw,
        )
        if one.inside and isinstance(answer, Silence):
            return None
        if one.inside:
            return _refused(sample, Code.NESTED, f"{column}: {one.inside}")
        fault = domain_fault(domain, self.options.domains) if one.domain else None
        if fault is not None:
            return _refused(sample, *fault)
        unit = _unit_of(row, one.value, column, one.quantity)
        scope = domain_scope(domain) if one.domain else one.scope
        origin = replace(
            frame.origin, field=column, unit=unit[0], scope=scope, obtained=one.obtained,
            notes=notes,
        )  # fmt: skip
        sample = replace(sample, origin=origin)
        if isinstance(answer, Silence):
            return replace(sample, silent=answer.code, detail=answer.detail)
        if unit[1] is None:
            code = Code.UNIT_UNKNOWN if unit[0] else Code.NO_UNIT
            return replace(sample, silent=code, detail=unit[0] or column)
        if self.mapping.resolution and not _is_amd(row.cell(self.mapping.resolution)):
            detail = f"resolution {row.cell(self.mapping.resolution)}"
            return replace(sample, silent=Code.UNIT_UNKNOWN, detail=detail)
        return _with_rest(row, replace(sample, amount=answer * unit[1]), one)


def _with_rest(row: Row, sample: Sample, one: MeterField) -> Sample:
    """The sample with its start, its range and the other figure of the same energy."""
    if one.start is not None:
        start = _energy(row, one.start)
        if isinstance(start, Silence):
            return replace(sample, amount=None, silent=start.code, detail=f"start {start.detail}")
        sample = replace(sample, start=start)
    if one.range is not None:
        wide = _energy(row, one.range)
        sample = replace(sample, range_uj=None if isinstance(wide, Silence) else wide)
    if one.cross is not None:
        cross = _energy(row, one.cross)
        sample = replace(sample, cross_uj=None if isinstance(cross, Silence) else cross)
    return sample


def _first(row: Row, value: Field, *, power: bool) -> tuple[str, Fraction | Silence]:
    """The first column that answers; if none does, the first with what it says instead."""
    first: tuple[str, Fraction | Silence] | None = None
    for column in value.columns:
        answer = number(_split(row.cell(column))[0], power=power)
        if not isinstance(answer, Silence):
            return column, answer
        first = first or (column, answer)
    assert first is not None
    return first


def _energy(row: Row, value: Field) -> Fraction | Silence:
    column, answer = _first(row, value, power=False)
    if isinstance(answer, Silence):
        return answer
    name, one = _unit_of(row, value, column, Quantity.FIGURE)
    if one is None:
        return Silence(code=Code.UNIT_UNKNOWN if name else Code.NO_UNIT, detail=name or column)
    return answer * one


def _unit_of(
    row: Row, value: Field, column: str, quantity: Quantity
) -> tuple[str, Fraction | None]:
    """The unit's name and how many uJ or uW one of it is; None: there is none, or of another kind.

    The cell's own unit goes first; with the field's it must be of one kind.
    """
    own = _split(row.cell(column))[1]
    said = row.cell(value.unit_column) if value.unit_column else value.unit
    said = value.units.get(said, said)
    kind = power_unit if quantity is Quantity.POWER else energy_unit
    if own and said and kind(said) is None:
        return said, None
    name = own or said
    return name, kind(name) if name else None


def _split(cell: str) -> tuple[str, str]:
    """A cell's number and the unit after it; a cell that does not end in a unit is all number."""
    head, _, tail = cell.rpartition(" ")
    if head and exactly(head.strip()) is not None and unit_name(tail) is not None:
        return head.strip(), tail
    return cell, ""


def _span_ms(row: Row, span: Field | None) -> Fraction | None:
    """A device's clock or a length of time, in ms; None: it is not given."""
    if span is None:
        return None
    text, own = _split(row.cell(span.columns[0]))
    exact, unit_ms = exactly(text), time_unit(own or span.unit)
    return None if exact is None or unit_ms is None or exact < 0 else exact * unit_ms


def _limit_uw(row: Row, limit: Field | None) -> Fraction | None:
    """The power limit that the row names; a limit that is no number is none."""
    if limit is None:
        return None
    column, answer = _first(row, limit, power=True)
    if isinstance(answer, Silence):
        return None
    one = _unit_of(row, limit, column, Quantity.POWER)[1]
    return None if one is None else answer * one


def _is_amd(text: str) -> bool:
    """Whether a printed resolution is the known one, however it was rounded."""
    exact = exactly(text)
    return exact is not None and AMD_RESOLUTIONS[0] <= exact <= AMD_RESOLUTIONS[1]


def _fallback(columns: tuple[str, ...], taken: str) -> tuple[str, ...]:
    passed = columns[: columns.index(taken)]
    return (f"{', '.join(passed)} gave no answer",) if passed else ()


def _passes(row: Row, conditions: Filter) -> bool:
    return all(row.cell(column) in allowed for column, allowed in conditions.items())


def _refused(sample: Sample, code: Code, detail: str) -> Refusal:
    return Refusal(
        code=code, place=sample.place, device=sample.device, raw=sample.raw, detail=detail
    )


def _text(row: Row) -> str:
    return ",".join(row.cells.values())[:200]
