"""Tables: a header and rows, pairs on a line, or one number a line; each line to a `Row`.

Not here: what the columns mean (`streams.meters.mapping`).

1. The header is the mapping's own, or the first line that is no comment; where it comes again it is
   passed over. A line that begins with `#` is a comment.
2. A row has exactly the header's fields and its newline. Fewer fields are a torn line, more are no
   row of this table.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence

from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.mapping import Mapping
from streams.meters.options import Options
from streams.meters.records import Item, MeterError, Refusal
from streams.meters.rows import RowReader
from streams.meters.text import Line, Source, torn

COLUMNS_MAX = 1024


def read_table(
    source: Source, plan: Callable[[Sequence[str]], Mapping], options: Options
) -> Iterator[Item]:
    """The samples of a table; `plan` makes the mapping from the header. Raises MeterError."""
    header: list[str] = []
    separator = ""
    reader: RowReader | None = None
    for line in source:
        if not isinstance(line, Line):
            yield line
            continue
        if line.text.startswith("#"):
            continue
        if reader is None:
            separator = separator_of(line.text)
            header = cells(line.text, separator)
            mapping = plan(header)
            reader = RowReader(mapping, options)
            if mapping.separator and mapping.separator != separator:
                separator = mapping.separator
                header = cells(line.text, separator)
            if not mapping.header:
                continue
            header = list(mapping.header)
        yield from _row(line, separator, header, reader)


def _row(line: Line, separator: str, header: list[str], reader: RowReader) -> Iterator[Item]:
    found = cells(line.text, separator)
    if found == header:
        return
    if len(found) < len(header) or not line.whole:
        yield torn(line)
    elif len(found) > len(header):
        yield Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200])
    else:
        yield from reader.read(Row(place=line.place, cells=dict(zip(header, found, strict=True))))


def read_pairs(source: Source, mapping: Mapping, options: Options) -> Iterator[Item]:
    """Lines of `name : value; name : value`."""
    reader = RowReader(mapping, options)
    for line in source:
        if not isinstance(line, Line):
            yield line
        elif not line.text.startswith("#"):
            pairs = [pair.partition(":") for pair in line.text.split(mapping.separator or ";")]
            if not line.whole:
                yield torn(line)
            elif not all(middle for _, middle, _ in pairs):
                yield Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200])
            else:
                found = {name.strip(): value.strip() for name, _, value in pairs}
                yield from reader.read(Row(place=line.place, cells=found))


def read_series(source: Source, mapping: Mapping, options: Options) -> Iterator[Item]:
    """One number a line, as column `value`."""
    reader = RowReader(mapping, options)
    for line in source:
        if not isinstance(line, Line):
            yield line
        elif not line.text.startswith("#"):
            if line.whole:
                yield from reader.read(Row(place=line.place, cells={"value": line.text.strip()}))
            else:
                yield torn(line)


def separator_of(header: str) -> str:
    """What parts a line's fields: a bar, a semicolon or a tab where there is one, else a comma."""
    return next((one for one in ("|", "\t", ";") if one in header), ",")


def cells(text: str, separator: str) -> list[str]:
    """A line's fields, trimmed. Raises MeterError for more than `COLUMNS_MAX`."""
    try:
        found = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []
    if len(found) > COLUMNS_MAX:
        raise MeterError("a header", f"more than {COLUMNS_MAX} columns")
    return [cell.strip() for cell in found]
