"""JSON as rows: one object a line, or one list of objects, whatever stands before it on the line.

Not here: what the keys mean (`streams.meters.mapping`).

1. A line's row begins at its first `{` or `[`: loggers put a mark before it (`:::MLLOG {...}`).
2. Nested members are columns by their path, `energy.total.value`; members of a list by number.
3. A line that is an opening bracket alone begins a document that is printed over many lines; it
   ends where its bracket is closed at the line's beginning.
4. Numbers keep their text, so that they are read exactly; null is an empty cell: no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from streams.meters.cells import Row
from streams.meters.codes import Code
from streams.meters.mapping import Mapping
from streams.meters.options import Options
from streams.meters.records import Item, Refusal
from streams.meters.rows import RowReader
from streams.meters.text import Line, Source, torn

MEMBERS_MAX = 4096
DEPTH_MAX = 16
LINES_MAX = 65_536
CLOSED_BY = {"[": "]", "{": "}"}


def read_json(source: Source, mapping: Mapping, options: Options) -> Iterator[Item]:
    """The samples of a file of JSON lines."""
    reader = RowReader(mapping, options)
    for line in _documents(source):
        if not isinstance(line, Line):
            yield line
        elif not line.text.startswith("#"):
            rows = _rows(line.text)
            if not line.whole:
                yield torn(line)
            elif rows is None:
                yield Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200])
            else:
                for cells in rows:
                    yield from reader.read(Row(place=line.place, cells=cells))


def _documents(source: Source) -> Source:
    """The lines, and documents over many lines each as one; one that is not closed is torn."""
    opened: Line | None = None
    parts: list[str] = []
    for line in source:
        if isinstance(line, Line) and opened is None and line.text.rstrip() in CLOSED_BY:
            opened, parts = line, [line.text]
        elif opened is None:
            yield line
        elif isinstance(line, Line) and line.text.rstrip() == opened.text.rstrip():
            yield replace(opened, whole=False)
            opened, parts = line, [line.text]
        elif not isinstance(line, Line) or len(parts) >= LINES_MAX:
            yield replace(opened, whole=False)
            yield line
            opened = None
        else:
            parts.append(line.text)
            if line.text.rstrip() == CLOSED_BY[opened.text.rstrip()]:
                yield Line(place=opened.place, text=" ".join(parts), whole=line.whole)
                opened = None
    if opened is not None:
        yield replace(opened, whole=False)


def _rows(text: str) -> list[dict[str, str]] | None:
    """A line's objects as cells; None: it holds none."""
    begin = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if begin < 0:
        return None
    try:
        value = json.loads(text[begin:], parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    rows: list[dict[str, str]] = []
    for one in value if isinstance(value, list) else [value]:
        cells: dict[str, str] = {}
        if not isinstance(one, dict) or not _flatten(one, "", cells, 0):
            return None
        rows.append(cells)
    return rows


def _flatten(value: Any, path: str, cells: dict[str, str], depth: int) -> bool:
    """Add what is below a value; False: too much, or too deep."""
    if isinstance(value, dict | list):
        if depth >= DEPTH_MAX:
            return False
        members = value.items() if isinstance(value, dict) else enumerate(value)
        return all(
            _flatten(member, f"{path}.{key}" if path else str(key), cells, depth + 1)
            for key, member in members
        )
    if value is None:
        cells[path] = ""
    elif isinstance(value, bool):
        cells[path] = "true" if value else "false"
    else:
        cells[path] = str(value)
    return len(cells) <= MEMBERS_MAX
