"""A row to samples, by a mapping: device, instant, and each number with its unit.

Not here: splitting a line into cells (`streams.meters.tables`), what a cell's number is
(`streams.meters.cells`), judging samples (`rules`).

1. The device is the first named column that answers, then the operator's name for it, then the
   mapping's; a partition's own UUID is no device. A name that the mapping gives another meter
   becomes that one, and the name its instance. A bare number is a board's index: `gpu-0`. What is
   known by less than a UUID or a serial belongs to the host that its row names.
2. A row without an instant takes its device's turn, where the operator said when turns are. A
   window that has a length ends that long after it began, or began that long before it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from streams.meters.answers import Silence
from streams.meters.cells import Row, energy, first, is_amd, limit_uw, span_ms, unit_of
from streams.meters.codes import Code
from streams.meters.mapping import Filter, Mapping, MeterField
from streams.meters.once import domain_fault, domain_scope
from streams.meters.options import Options
from streams.meters.records import Origin, Quantity, Refusal, Sample, Scope
from streams.meters.stamps import instant_ms
from streams.meters.units import time_unit

PARTITION = "MIG-"
BOARDS = (Scope.DIE, Scope.BOARD, Scope.MODULE)
NAMELESS = frozenset(
    {"", "-", "n/a", "[n/a]", "[not supported]", "none", "null", "(null)", "none assigned"}
)


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
        if identity == "index" and meter.isdigit() and given.fields[0].scope in BOARDS:
            meter = f"gpu-{meter}"
        host = row.cell(given.host) if given.host and identity not in ("uuid", "serial") else ""
        if host.lower() not in NAMELESS and host != meter:
            meter = f"{host}/{meter}"
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
            device_ms=span_ms(row, given.device_stamp),
            boot=row.cell(given.boot),
            limit_uw=limit_uw(row, given.limit),
            instance=instance,
        )

    def _window(self, row: Row, turn: str) -> tuple[int | None, int | None]:
        """Where the row's window begins, if it has one, and its instant, which is its end."""
        given = self.mapping
        lasts_ms = given.lasts_ms or span_ms(row, given.lasts)
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
        column, answer = first(row, one.value, power=one.quantity is Quantity.POWER)
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
        unit = unit_of(row, one.value, column, one.quantity)
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
        if self.mapping.resolution and not is_amd(row.cell(self.mapping.resolution)):
            detail = f"resolution {row.cell(self.mapping.resolution)}"
            return replace(sample, silent=Code.UNIT_UNKNOWN, detail=detail)
        return _with_rest(row, replace(sample, amount=answer * unit[1]), one)


def _with_rest(row: Row, sample: Sample, one: MeterField) -> Sample:
    """The sample with its start, its range and the other figure of the same energy."""
    if one.start is not None:
        start = energy(row, one.start)
        if isinstance(start, Silence):
            return replace(sample, amount=None, silent=start.code, detail=f"start {start.detail}")
        sample = replace(sample, start=start)
    if one.range is not None:
        wide = energy(row, one.range)
        sample = replace(sample, range_uj=None if isinstance(wide, Silence) else wide)
    if one.cross is not None:
        cross = energy(row, one.cross)
        sample = replace(sample, cross_uj=None if isinstance(cross, Silence) else cross)
    return sample


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
