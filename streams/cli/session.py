"""What every command shares: its two options, where its words go, and how it fails.

1. stdout carries the answer: a table for a person or, with `--json`, one JSON object a line and
   nothing else. Progress, notes and warnings go to stderr.
2. A command that cannot do what was asked raises `Failure` with one line: what, where, what to do;
   the exit status says whose turn it is. 0 done, 1 the answer is no, 2 wrong use or bad input,
   3 trouble of the log or the disk.

Invariant: with `--json`, every line of stdout is a JSON object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from schemas.jsonform import dumps_line

WIDTH_OFF_TERMINAL = 160
"""Columns of a table that no terminal bounds."""
Command = TypeVar("Command", bound=Callable[..., object])


class Status(IntEnum):
    """Exit statuses."""

    DONE = 0
    NO = 1
    USAGE = 2
    TROUBLE = 3


class Failure(Exception):
    """Why a command ends otherwise than well; `str()` is the one line that is printed."""

    def __init__(self, what: str, *, where: str = "", todo: str = "", status: Status) -> None:
        line = what + (f" ({where})" if where else "") + (f": {todo}" if todo else "")
        super().__init__(" ".join(line.split()))
        self.status = status


class Answered(Exception):
    """The answer was printed, and it is no: end with status 1 and say nothing more."""


@dataclass(slots=True)
class Session:
    """One run of the command: how it answers, and how much it says about trouble."""

    json: bool = False
    verbose: bool = False
    notes: Console = field(default_factory=lambda: _console(stderr=True))

    def line(self, value: Mapping[str, object]) -> None:
        """One JSON object on stdout."""
        click.echo(dumps_line(value))

    def answer(self, value: Mapping[str, object], show: Callable[[Console], None]) -> None:
        """The answer, as JSON or as `show` prints it."""
        if self.json:
            self.line(value)
        else:
            show(self.out())

    def out(self) -> Console:
        """stdout for people. Made when asked for: a test may have replaced stdout."""
        return _console(stderr=False)

    def note(self, text: str) -> None:
        """A word to the person, beside the answer."""
        self.notes.print(text, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """A warning to the person."""
        self.notes.print(f"[yellow]warning:[/] {_escaped(text)}", soft_wrap=True)

    def progress(self) -> Progress:
        """A progress display on stderr; off a terminal it shows nothing."""
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.notes,
            transient=True,
            disable=not self.notes.is_terminal,
        )


def _console(*, stderr: bool) -> Console:
    # No emoji: did:key: is not a key symbol. No highlighting: numbers are not all alike.
    made = Console(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_OFF_TERMINAL
    return made


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def table(title: str, *columns: str, right: frozenset[str] = frozenset()) -> Table:
    """An empty table; the columns named in `right` hold numbers."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column in right or column == columns[0],
        )
    return made


def pairs(out: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Names and values below each other; nothing is cut off, and a value may have several lines."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed) + 2
    for name, value in listed:
        first, *others = value.splitlines() or [""]
        out.print(f"{name:<{width}}{first}", markup=False, soft_wrap=True)
        for line in others:
            out.print(" " * width + line, markup=False, soft_wrap=True)


def common(command: Command) -> Command:
    """Give a command `--json` and `-v`; they set the session, the command sees neither."""
    for names, attribute, text in (
        (("-v", "--verbose"), "verbose", "On an error, show where in the program it arose."),
        (("--json",), "json", "Answer in JSON, one object a line."),
    ):
        command = click.option(
            *names,
            is_flag=True,
            expose_value=False,
            help=text,
            callback=_setter(attribute),
        )(command)
    return command


def _setter(attribute: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            setattr(context.ensure_object(Session), attribute, True)

    return remember
