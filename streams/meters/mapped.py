"""Any source, by a mapping file: a table, JSON lines, pairs, single numbers, Prometheus text.

What it can tell is what the mapping says; its grade follows from `obtained`.

1. In Prometheus text a series is a row: column `name` is the metric, `value` its number, and each
   label is a column. A metric that no `[[meter]]` names is passed over.
2. pyJoules' lines need no mapping of one's own: `PYJOULES` knows that its packages are in uJ and
   its GPUs in mJ, which the lines do not say. Nor do MLPerf's logs: `MLLOG` knows that its readings
   are watts of a node; the unit of its estimate of the interconnect nobody states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streams.meters.cells import Row
from streams.meters.jsonlines import read_json
from streams.meters.mapping import Field, Mapping, MeterField
from streams.meters.options import Options
from streams.meters.prometheus import Scrape, scrapes
from streams.meters.records import Item, MeterError, Obtained, Quantity, Scope
from streams.meters.rows import RowReader
from streams.meters.tables import read_pairs, read_series, read_table
from streams.meters.text import Source

STAMP = "own_ms"


def read(source: Source, options: Options) -> Iterator[Item]:
    """The samples that the mapping finds. Raises MeterError without one."""
    mapping = options.mapping
    if mapping is None:
        raise MeterError("the format map", "--map FILE says what the columns are")
    match mapping.container:
        case "pairs":
            return read_pairs(source, mapping, options)
        case "json":
            return read_json(source, mapping, options)
        case "series":
            return read_series(source, mapping, options)
        case "prometheus":
            return _prometheus(source, mapping, options)
    return read_table(source, lambda header: _checked(mapping, header), options)


def _checked(mapping: Mapping, header: Sequence[str]) -> Mapping:
    """The mapping, if the header has what it names. Raises MeterError."""
    present = set(mapping.header or header)
    named = [column for one in mapping.fields for column in one.value.columns]
    named += [*mapping.stamp, *mapping.since, *mapping.where]
    missing = [column for column in named if column not in present]
    if missing:
        raise MeterError(f"header {', '.join(header)[:120]!r}", f"no column {missing[0]!r}")
    return mapping


def _prometheus(source: Source, mapping: Mapping, options: Options) -> Iterator[Item]:
    metrics = {name for one in mapping.fields for name in one.when.get("name", ())}
    reader = RowReader(replace(mapping, stamp=(STAMP,), stamp_unit="ms"), options)
    for scrape in scrapes(source, options):
        if not isinstance(scrape, Scrape):
            yield scrape
            continue
        for series in scrape.series:
            if series.name in metrics:
                own_ms = scrape.at_ms if series.own_ms is None else series.own_ms
                cells = {**series.labels, "name": series.name, "value": series.value}
                cells[STAMP] = "" if own_ms is None else str(own_ms)
                yield from reader.read(Row(place=series.place, cells=cells))


def read_pyjoules(source: Source, options: Options) -> Iterator[Item]:
    """The records of pyJoules' print handler."""
    return read_pairs(source, PYJOULES, options)


def _pyjoules() -> Mapping:
    fields: list[MeterField] = []
    for socket in range(4):
        for domain, inside in (("package", ""), ("dram", ""), ("core", "package"),
                               ("uncore", "package")):  # fmt: skip
            fields.append(_energy(f"{domain}_{socket}", "uJ", inside and "inside its package"))
    fields += [_energy(f"nvidia_gpu_{index}", "mJ", "") for index in range(16)]
    return Mapping(
        form="pyjoules",
        fields=tuple(fields),
        container="pairs",
        device="host",
        since=("begin timestamp",),
        lasts=Field(columns=("duration",), unit="s"),
    )


def _energy(column: str, unit: str, inside: str) -> MeterField:
    scope = Scope.DRAM if column.startswith("dram") else Scope.PACKAGE
    return MeterField(
        quantity=Quantity.FIGURE,
        value=Field(columns=(column,), unit=unit),
        scope=Scope.BOARD if column.startswith("nvidia") else scope,
        obtained=Obtained.COUNTER,
        part=column,
        inside=inside,
    )


PYJOULES = _pyjoules()


def read_mllog(source: Source, options: Options) -> Iterator[Item]:
    """A node's log of MLPerf Training: `:::MLLOG {...}` lines with `power_reading` in watts."""
    return read_json(source, MLLOG, options)


def _mllog() -> Mapping:
    reading = MeterField(
        quantity=Quantity.POWER,
        value=Field(columns=("value",), unit="W"),
        scope=Scope.HOST,
        obtained=Obtained.INSTRUMENT,
        when={"key": ("power_reading",)},
    )
    estimate = replace(
        reading,
        value=Field(columns=("value",)),
        obtained=Obtained.GUESS,
        part="interconnect",
        when={"key": ("interconnect_power_est",)},
    )
    return Mapping(
        form="mllog",
        fields=(reading, estimate),
        container="json",
        where={"key": ("power_reading", "interconnect_power_est")},
        stamp=("time_ms",),
        stamp_unit="ms",
        device="node",
    )


MLLOG = _mllog()
