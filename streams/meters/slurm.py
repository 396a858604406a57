"""Slurm: `sacct --parsable2` with `ConsumedEnergyRaw`, jobs' energy from their nodes' meters.

What it can tell: what the nodes of a job took while it ran, by whatever plugin the site has; which
one is not said: ModelBased.

1. The field is `ConsumedEnergyRaw`, in joules. `ConsumedEnergy` is the same rounded to a few digits
   (K, M, G are powers of 1000), read where the raw one is missing; what a `no value` is rounded to
   (4.29G) is none either. `TRESUsage...` energies are averages or rates, and no energy.
2. One level is settled: the job. Its steps (`12.batch`, `12.extern`, `12.0`) are nested.
3. The physical thing is the list of nodes. Jobs that share a node in the same window each show the
   whole node: one total, counted once and split over them; in windows that only overlap, the later
   is refused.
4. A job names itself as the claim that held the nodes, with its accelerators (`gres/gpu=N` of
   `AllocTRES`) as its part, one if it says none. An occupants file can name claims otherwise.
5. Without `-P` a line of dashes under the header says where its columns stand. A name that was cut
   to its column's width (`n00+`) names nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from schemas.records import Occupant
from streams.meters.answers import exactly
from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.headers import Header
from streams.meters.mapping import DeviceField, Field, Mapping, MeterField
from streams.meters.options import Options
from streams.meters.records import Item, MeterError, Obtained, Quantity, Refusal, Sample, Scope
from streams.meters.rows import RowReader
from streams.meters.tables import cells, separator_of
from streams.meters.text import Line, Source, peeked, torn

FORM = "slurm"
HOSTS_MAX = 65_536
RAW = ("consumedenergyraw",)
ROUNDED = ("consumedenergy",)
JOB = ("jobidraw", "jobid")
NODES = ("nodelist", "nodes")
TRES = ("alloctres", "reqtres")
_SUFFIX = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)J?")
_POWER = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_GPUS = re.compile(r"gres/gpu=(\d{1,6})(?:,|$)")
_GPUS_BY_TYPE = re.compile(r"gres/gpu:[^,=]+=(\d{1,6})(?=,|$)")
_NO_VALUES = (0xFFFFFFFE, 0xFFFFFFFF, 2**64 - 2, 2**64 - 1)
_DASHES = re.compile(r"-+(?: +-+)* *")
_RANGE = re.compile(r"([^,\[\]]+)(?:\[([0-9,-]+)\])?([^,\[\]]*)(?:,|$)")


def read(source: Source, options: Options) -> Iterator[Item]:
    """The jobs of a `sacct` table, by the begin of their windows. Raises MeterError."""
    samples: list[Sample] = []
    names: list[str] = []
    layout: _Layout | None = None
    separator = "|"
    for line in _barred(source):
        if not isinstance(line, Line):
            yield line
        elif line.text.startswith("#"):
            continue
        elif layout is None:
            separator = separator_of(line.text)
            names = cells(line.text, separator)
            layout = _layout(names, options)
        else:
            found = cells(line.text, separator)
            if found == names:
                continue
            if len(found) != len(names) or not line.whole:
                yield torn(line)
                continue
            row = Row(place=line.place, cells=dict(zip(names, found, strict=True)))
            for one in _job(row, layout):
                if isinstance(one, Sample):
                    samples.append(one)
                else:
                    yield one
    yield from sorted(samples, key=lambda one: (one.from_ms or 0, one.stamp_ms or 0))


def _barred(source: Source) -> Source:
    """The lines, with bars between their cells where a line of dashes says how wide they are."""
    ahead, whole = peeked(source, 2)
    if len(ahead) < 2 or _DASHES.fullmatch(ahead[1].text) is None:
        yield from whole
        return
    spans = [matched.span() for matched in re.finditer("-+", ahead[1].text)]
    for line in whole:
        if not isinstance(line, Line) or line.text.startswith("#"):
            yield line
        elif line.text.split() == ahead[0].text.split():
            yield replace(line, text="|".join(line.text.split()))
        elif _DASHES.fullmatch(line.text) is None:
            yield _placed(line, spans)


def _placed(line: Line, spans: Sequence[tuple[int, int]]) -> Line | Refusal:
    """A row's cells by where they stand; what stands outside the columns was moved: no row."""
    between = list(line.text)
    for begin, end in spans:
        between[begin:end] = " " * len(between[begin:end])
    if "".join(between).strip():
        return Refusal(
            code=Code.NOT_A_ROW,
            place=line.place,
            raw=line.text[:200],
            detail="its cells do not stand under the columns: use -P",
        )
    return replace(line, text="|".join(line.text[begin:end].strip() for begin, end in spans))


class _Layout:
    """Where a table's columns are."""

    def __init__(self, reader: RowReader, job: str, tres: str, raw: str, rounded: str) -> None:
        self.reader = reader
        self.job = job
        self.tres = tres
        self.raw = raw
        self.rounded = rounded


def _layout(names: Sequence[str], options: Options) -> _Layout:
    header = Header(names, FORM)
    job, nodes = header.first(JOB), header.first(NODES)
    raw, rounded = header.first(RAW), header.first(ROUNDED)
    start, end = header.first(("start",)), header.first(("end",))
    if job is None or (raw is None and rounded is None):
        raise header.needs(("JobID", "ConsumedEnergyRaw"))
    energy = MeterField(
        quantity=Quantity.FIGURE,
        value=Field(columns=("energy",), unit="J"),
        scope=Scope.HOST,
        obtained=Obtained.MODEL,
    )
    mapping = Mapping(
        form=FORM,
        fields=(energy,),
        devices=() if nodes is None else (DeviceField(column=nodes.header, identity="name"),),
        device="" if nodes is not None else "cluster",
        stamp=() if end is None else (end.header,),
        since=() if start is None else (start.header,),
        instance=job.header,
    )
    tres = header.first(TRES)
    return _Layout(
        RowReader(mapping, options),
        job.header,
        "" if tres is None else tres.header,
        "" if raw is None else raw.header,
        "" if rounded is None else rounded.header,
    )


def _job(row: Row, layout: _Layout) -> Iterator[Sample | Refusal]:
    job = row.cell(layout.job)
    energy, field = row.cell(layout.raw), layout.raw
    notes: tuple[str, ...] = ()
    if not energy and layout.rounded:
        energy, field = _rounded(row.cell(layout.rounded)), layout.rounded
        notes = (f"{row.cell(layout.rounded)}: a rounded figure",)
    if job.endswith("+"):
        yield Refusal(
            code=Code.NOT_A_ROW, place=row.place, device=job, detail="a name that was cut"
        )
        return
    if "." in job:
        yield Refusal(
            code=Code.NESTED, place=row.place, device=job, raw=energy, detail="a step of a job"
        )
        return
    occupant = Occupant(claim=job, mdev=max(1, _accelerators(row.cell(layout.tres))) * 1000)
    for one in layout.reader.read(Row(place=row.place, cells={**row.cells, "energy": energy})):
        if isinstance(one, Refusal):
            yield one
            continue
        try:
            parts = hosts(one.device)
        except MeterError as error:
            yield Refusal(
                code=Code.NOT_A_ROW, place=row.place, device=one.device, detail=error.detail
            )
            continue
        origin = replace(one.origin, field=field, notes=notes)
        yield replace(one, origin=origin, parts=parts, occupants=(occupant,))


def _accelerators(tres: str) -> int:
    """How many a job had: as it says for all types, else by type; 0: it says nothing."""
    every = _GPUS.search(tres)
    return int(every[1]) if every else sum(int(one) for one in _GPUS_BY_TYPE.findall(tres))


def _rounded(text: str) -> str:
    """`4.19G` as joules; other text as it is, for `answers` to judge."""
    matched = _SUFFIX.fullmatch(text)
    exact = None if matched is None else exactly(matched[1])
    if matched is None or exact is None:
        return text
    last = Fraction(_POWER[matched[2]], 10 ** len(matched[1].partition(".")[2]))
    for none in _NO_VALUES:
        if matched[2] and abs(exact * _POWER[matched[2]] - none) * 2 <= last:
            return str(none)
    thousandths = int(exact * _POWER[matched[2]] * 1000 // 1)
    return f"{thousandths // 1000}.{thousandths % 1000:03}"


def hosts(text: str) -> tuple[str, ...]:
    """A host list taken apart: `n[001-003,7],m` is n001, n002, n003, n7, m. Raises MeterError."""
    found: list[str] = []
    at = 0
    while at < len(text):
        matched = _RANGE.match(text, at)
        if matched is None or matched.end() == at:
            raise MeterError("NodeList", f"{text[:80]!r} is no host list")
        if "+" in matched[0]:
            raise MeterError("NodeList", f"{text[:80]!r} was cut: use -P")
        at = matched.end()
        if matched[2] is None:
            found.append(matched[1] + matched[3])
        else:
            found += [matched[1] + one + matched[3] for one in _numbers(matched[2], text)]
        if len(found) > HOSTS_MAX:
            raise MeterError("NodeList", f"more than {HOSTS_MAX} hosts")
    return tuple(found)


def _numbers(ranges: str, text: str) -> Iterator[str]:
    for one in ranges.split(","):
        low, dash, high = one.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise MeterError("NodeList", f"{text[:80]!r} is no host list")
        last = int(high or low)
        if last - int(low) >= HOSTS_MAX:
            raise MeterError("NodeList", f"more than {HOSTS_MAX} hosts")
        for number in range(int(low), last + 1):
            yield str(number).zfill(len(low))
