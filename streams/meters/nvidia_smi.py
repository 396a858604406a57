"""`nvidia-smi`: `--query-gpu=... --format=csv` and `dmon`, both power to be integrated.

What it can tell: a board's draw as its vendor reports it, never an energy: ModelBased.

1. Of the draws that a row offers, the average over the last second is taken, then the unnamed one,
   then the instant: the first that answers, by name, and the reading says which.
2. The board is booked; a module contains it, memory lies inside it. `scope=module` picks the
   module.
3. A log without a header (`noheader`) is read if one cell is an instant and one a number of watts.
   Its board is the one that a UUID, a bus address or a small number in it names.
4. A log that names no board is one board's, unless several take turns in it
   (`streams.meters.nameless`). A product's name is no board's.
5. `dmon` names its columns and units in two comment lines, and again every few rows; it parts them
   by blanks or by commas. Without `-o DT` its rows have no instants, and take turns if the operator
   says when.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.headers import Header
from streams.meters.mapping import DeviceField, Field, Mapping, MeterField
from streams.meters.nameless import without_turns
from streams.meters.options import Options
from streams.meters.records import Item, MeterError, Obtained, Quantity, Refusal, Scope
from streams.meters.rows import RowReader
from streams.meters.stamps import instant_ms
from streams.meters.tables import read_table
from streams.meters.text import Line, Source, torn

FORM = "nvidia-smi"
DMON = "nvidia-smi-dmon"
BOARD = ("power_draw_average", "power_avg", "gpu_avg", "power_draw", "power", "gpu_power",
         "power_draw_instant", "power_instant", "gpu_instant")  # fmt: skip
MODULE = ("module_power_draw_average", "module_power_avg", "module_avg", "module_power_draw",
          "module_power", "module_power_draw_instant", "module_power_instant",
          "module_instant")  # fmt: skip
LIMITS = ("enforced_power_limit", "enforced_limit", "power_limit", "gpu_limit",
          "power_management_limit")  # fmt: skip
INDEX_MAX = 15
"""A bare number up to this is a board's index: no temperature is so low."""
NAMED = ("uuid", "serial", "bus", "index")
"""What names a board, and not only its kind or its host."""
_BUS = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
MODULE_LIMITS = ("module_enforced_power_limit", "module_power_limit", "module_limit")


def read(source: Source, options: Options) -> Iterator[Item]:
    """The samples of a query log. Raises MeterError for a header without a draw."""
    rows = read_table(source, lambda header: plan(header, options), options)
    return without_turns(rows, NAMED)


def plan(cells: Sequence[str], options: Options) -> Mapping:
    """What a query's header means."""
    if any(instant_ms(cell) is not None for cell in cells):
        return _headerless(cells)
    header = Header(cells, FORM)
    fields = [
        _draw(header, names, scope)
        for names, scope in ((BOARD, Scope.BOARD), (MODULE, Scope.MODULE))
        if header.first(names) is not None
    ]
    if not fields:
        raise header.needs(("power.draw", "power.draw.average", "power.draw.instant"))
    booked = Scope.MODULE if options.scope == Scope.MODULE else Scope.BOARD
    fields = [
        one if one.scope is booked else replace(one, inside=f"{booked.value} is booked")
        for one in fields
    ]
    limit = header.first(MODULE_LIMITS if booked is Scope.MODULE else LIMITS)
    return Mapping(
        form=FORM,
        fields=tuple(fields),
        devices=header.devices(),
        host=header.host(),
        stamp=header.stamp(),
        limit=None if limit is None else Field(columns=(limit.header,), unit=limit.unit),
    )


def _draw(header: Header, names: Sequence[str], scope: Scope) -> MeterField:
    columns = header.every(names)
    return MeterField(
        quantity=Quantity.POWER,
        value=Field(columns=tuple(one.header for one in columns), unit=columns[0].unit),
        scope=scope,
        obtained=Obtained.VENDOR_POWER,
    )


def _headerless(cells: Sequence[str]) -> Mapping:
    """Rule 3: the columns of a first row, by their cells."""
    stamps = [at for at, cell in enumerate(cells) if instant_ms(cell) is not None]
    watts = [at for at, cell in enumerate(cells) if cell.endswith(" W")]
    boards = _boards(cells)
    if len(stamps) != 1 or len(watts) != 1 or len(boards) > 1:
        raise MeterError(
            f"a first row {', '.join(cells)[:120]!r}",
            "no header, and not exactly one instant and one number of watts: give --map",
        )
    return Mapping(
        form=FORM,
        fields=(
            MeterField(
                quantity=Quantity.POWER,
                value=Field(columns=(str(watts[0]),)),
                scope=Scope.BOARD,
                obtained=Obtained.VENDOR_POWER,
                notes=("no header: the only number of watts",),
            ),
        ),
        header=tuple(str(at) for at in range(len(cells))),
        devices=boards,
        device="" if boards else "gpu",
        stamp=(str(stamps[0]),),
    )


def _boards(cells: Sequence[str]) -> tuple[DeviceField, ...]:
    """The cells that name a board, of the surest kind that there is."""
    kinds = (
        ("uuid", [at for at, cell in enumerate(cells) if cell.startswith("GPU-")]),
        ("bus", [at for at, cell in enumerate(cells) if _BUS.fullmatch(cell)]),
        ("index", [at for at, cell in enumerate(cells) if _is_index(cell)][:1]),
    )
    identity, found = next((one for one in kinds if one[1]), ("", []))
    return tuple(DeviceField(column=str(at), identity=identity) for at in found)


def _is_index(cell: str) -> bool:
    return cell.isdecimal() and len(cell) <= 2 and int(cell) <= INDEX_MAX


def read_dmon(source: Source, options: Options) -> Iterator[Item]:
    """The samples of a `dmon` log. Its units line is required: watts are not assumed."""
    names: list[str] = []
    reader: RowReader | None = None
    turns: dict[str, int] = {}
    for line in source:
        if not isinstance(line, Line):
            yield line
            continue
        words = _dmon_words(line.text)
        if line.text.lstrip().startswith("#"):
            if "gpu" in (word.lower() for word in words):
                names, reader = [word.lower() for word in words], None
            elif "Idx" in words and len(words) == len(names):
                units = dict(zip(names, words, strict=True))
                reader = RowReader(_dmon_plan(names, units), options, turns)
        elif reader is None:
            yield Refusal(
                code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200],
                detail="before the two header lines",
            )  # fmt: skip
        elif len(words) != len(names) or not line.whole:
            yield torn(line)
        else:
            cells = dict(zip(names, words, strict=True))
            yield from reader.read(Row(place=line.place, cells=cells))


def _dmon_words(text: str) -> list[str]:
    """A line's cells: parted by commas if it has any (`--format csv`), else by blanks."""
    plain = text.strip().lstrip("#")
    return [cell.strip() for cell in plain.split(",")] if "," in plain else plain.split()


def _dmon_plan(names: Sequence[str], units: dict[str, str]) -> Mapping:
    if "pwr" not in names:
        raise MeterError(f"dmon header {' '.join(names)!r}", "no column pwr: use -s p")
    dated = {"date", "time"} <= set(names)
    return Mapping(
        form=DMON,
        fields=(
            MeterField(
                quantity=Quantity.POWER,
                value=Field(columns=("pwr",), unit=units["pwr"]),
                scope=Scope.BOARD,
                obtained=Obtained.VENDOR_POWER,
            ),
        ),
        devices=(DeviceField(column="gpu", identity="index"),),
        stamp=("date", "time") if dated else (),
    )
