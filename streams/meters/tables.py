"""Tables: a header and rows, pairs on a line, or one number a line; each line to a `Row`.

Not here: what the columns mean (`streams.meters.mapping`).

1. The header is the mapping's own, or the first line that the format understands; what stands
   before it (a tool's greeting, an error) is refused line by line. A line that begins with `#` is
   a comment. Where the header comes again it is passed over; where another one comes, as in logs
   that were appended to each other, the rows below are read by that one.
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
PREAMBLE_LINES_MAX = 1024
"""So many lines may stand before the header."""


def read_table(
    source: Source, plan: Callable[[Sequence[str]], Mapping], options: Options
) -> Iterator[Item]:
    """The samples of a table; `plan` makes the mapping from the header. Raises MeterError."""
    table = _Table(plan, options)
    for line in source:
        if not isinstance(line, Line):
            yield line
        elif not line.text.startswith("#"):
            yield from table.take(line)
    table.end()


class _Table:
    """A table as it is read: the header that holds, and what stood before the first one."""

    def __init__(self, plan: Callable[[Sequence[str]], Mapping], options: Options) -> None:
        self._plan = plan
        self._options = options
        self._separator = ","
        self._header: list[str] = []
        self._reader: RowReader | None = None
        self._turns: dict[str, int] = {}
        self._before: list[Refusal] | None = []
        """What was refused so far; None: the first header came."""
        self._trouble: MeterError | None = None

    def take(self, line: Line) -> Iterator[Item]:
        """A line's samples. Raises MeterError where no header comes at all."""
        found = cells(line.text, self._separator)
        if self._reader is not None and self._names_columns(found):
            if found == self._header:
                return
            self._reader = None
        if self._reader is None:
            self._reader = self._begun(line)
            if self._reader is None:
                yield from self._refused(line)
                return
            yield from self._before or ()
            self._before = None
            found = cells(line.text, self._separator)
        yield from _row(line, found, self._header, self._reader)

    def end(self) -> None:
        """The source ends. Raises MeterError if it had no header."""
        if self._before is not None and self._trouble is not None:
            raise self._trouble

    def _begun(self, line: Line) -> RowReader | None:
        """The reader of what follows, if the line is a header or a mapping brings its own."""
        separator = separator_of(line.text)
        try:
            mapping = self._plan(cells(line.text, separator))
            _check_once(cells(line.text, mapping.separator or separator), mapping)
        except MeterError as error:
            self._trouble = self._trouble or error
            return None
        self._separator = mapping.separator or separator
        self._header = list(mapping.header) or cells(line.text, self._separator)
        return RowReader(mapping, self._options, self._turns)

    def _names_columns(self, found: Sequence[str]) -> bool:
        """Whether a line's cells are names of columns, of this header or of another."""
        known = sum(cell in self._header for cell in found if not cell.isdigit())
        return found == self._header or known * 2 >= max(len(found), 3)

    def _refused(self, line: Line) -> Iterator[Refusal]:
        """A line under no header: told at once, or kept until there is one."""
        refusal = _not_a_row(line, "no header that is understood stands before it")
        if self._before is None:
            yield refusal
        elif len(self._before) >= PREAMBLE_LINES_MAX:
            assert self._trouble is not None
            raise self._trouble
        else:
            self._before.append(refusal)


def _check_once(header: Sequence[str], mapping: Mapping) -> None:
    """Raise MeterError for a column that is read and stands there twice: which one is it?"""
    read = [column for one in mapping.fields for column in one.value.columns]
    read += [*mapping.stamp, *mapping.since, *(one.column for one in mapping.devices)]
    for column in () if mapping.header else read:
        if header.count(column) > 1:
            raise MeterError(
                f"header {', '.join(header)[:120]!r}", f"{column!r} stands there twice"
            )


def _row(line: Line, found: list[str], header: list[str], reader: RowReader) -> Iterator[Item]:
    if found == header:
        return
    if len(found) < len(header) or not line.whole:
        yield torn(line)
    elif len(found) > len(header):
        yield _not_a_row(line)
    else:
        yield from reader.read(Row(place=line.place, cells=dict(zip(header, found, strict=True))))


def _not_a_row(line: Line, detail: str = "") -> Refusal:
    return Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200], detail=detail)


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
                yield _not_a_row(line)
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
