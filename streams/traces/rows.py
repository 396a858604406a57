"""A CSV file to its rows, each with its line: bounded, and with one kind of error.

Not here: what the columns mean (`streams.traces.philly`, `streams.traces.openb`).

1. A name that ends in `.gz` is unpacked while it is read.
2. The header must name every column that is asked for; other columns are left alone.
3. Numbers are read as decimals, never as floats; durations become whole milliseconds.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from streams.traces.plan import TRACE_ROWS_MAX, TraceError

NUMBER_LIMIT = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row, with where it stands; its readers raise TraceError with that place."""

    number: int
    place: str
    cells: dict[str, str | None]

    def text(self, column: str) -> str:
        """The cell's text."""
        return self.cells[column] or ""

    def integer(self, column: str) -> int:
        """A whole number that is not negative."""
        text = self.text(column)
        if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) >= NUMBER_LIMIT:
            raise TraceError(self.place, f"{column}: {text!r} is no whole number")
        return int(text)

    def milliseconds(self, column: str) -> int:
        """A decimal number of seconds as milliseconds, rounded down."""
        text = self.text(column)
        try:
            seconds = Decimal(text)
        except InvalidOperation:
            raise TraceError(self.place, f"{column}: {text!r} is no number") from None
        if not seconds.is_finite() or not 0 <= seconds < NUMBER_LIMIT // 1000:
            raise TraceError(self.place, f"{column}: {text!r} is no duration in seconds")
        return int(seconds * 1000)

    def instant_ms(self, column: str) -> int:
        """A local time `YYYY-MM-DD HH:MM:SS`, read as UTC, in ms since the Unix epoch."""
        text = self.text(column)
        try:
            moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            raise TraceError(self.place, f"{column}: {text!r} is no time") from None
        return int(moment.timestamp()) * 1000


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The file's rows in its order. Raises TraceError; the first row's number is 0."""
    try:
        with _open(path) as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(path.name, f"no column {missing[0]!r}: is the format right?")
            for number, cells in enumerate(reader):
                if number >= TRACE_ROWS_MAX:
                    raise TraceError(path.name, f"more than {TRACE_ROWS_MAX} rows")
                yield Row(number=number, place=f"{path.name}:{reader.line_num}", cells=cells)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(path.name, f"cannot be read: {error}") from None


def _open(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
