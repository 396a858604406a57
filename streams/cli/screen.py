"""What a person sees: lines, tables, names with their values.

Not here: JSON (`streams.cli.session`).

1. Every string is made visible before it is laid out, whoever wrote it (`schemas.visible`).
2. Markup is for what this program says itself. A line that is said, a table's cell and a listing's
   have none: a claim may be called `[/]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from schemas.visible import visible, visible_lines
from streams.cli.trouble import named

WIDTH_OFF_TERMINAL = 160
"""Columns of a table that no terminal bounds."""


class _Console(Console):
    """A console whose strings are made visible before they are laid out."""

    def print(self, *objects: Any, **how: Any) -> None:
        """See `Console`. Raises OSError that says where it is."""
        with named("stderr" if self.stderr else "stdout"):
            super().print(*objects, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        """See `Console`. All that is printed comes through here, the cells of tables too."""
        return super().render_str(visible_lines(text), **how)


def console(*, stderr: bool) -> Console:
    """stdout or stderr for people."""
    # No emoji: did:key: is not a key symbol. No highlighting: numbers are not all alike.
    made = _Console(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_OFF_TERMINAL
    return made


def say(out: Console, text: str) -> None:
    """One line of text on a console, as it is but for what is made visible."""
    out.print(visible(text), markup=False, soft_wrap=True)


class _Table(Table):
    """A table whose strings are text, not markup; a styled cell is a `Text`."""

    def add_row(self, *cells: Any, **how: Any) -> None:
        """See `Table`."""
        plain = (escape(visible(cell)) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*plain, **how)


def table(title: str, *columns: str, right: frozenset[str] = frozenset()) -> Table:
    """An empty table; the columns named in `right` hold numbers."""
    made = _Table(
        title=escape(title), title_justify="left", header_style="bold", box=None, pad_edge=False
    )
    for column in columns:
        made.add_column(
            escape(visible(column)),
            justify="right" if column in right else "left",
            no_wrap=column in right or column == columns[0],
        )
    return made


def listing(
    out: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """A long table, a row a line: laid out by its widest cells, and never wrapped.

    For rows without number: `table` takes half a millisecond for each.
    """
    cells = [tuple(map(visible, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    say(out, title)
    out.print(f"[bold]{escape(_padded(columns, widths))}[/]", soft_wrap=True)
    with named("stdout"):
        click.echo("".join(_padded(row, widths) + "\n" for row in cells), file=out.file, nl=False)


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def pairs(out: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other; nothing is cut off, and a value may have several lines."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed) + 2
    for name, value in listed:
        first, *others = value.split("\n")
        say(out, f"{name:<{width}}{first}")
        for line in others:
            say(out, " " * width + line)
