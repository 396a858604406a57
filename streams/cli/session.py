"""What every command shares: its two options, where its words go, and how it fails.

1. stdout carries the answer: a table for a person or, with `--json`, one JSON object a line and
   nothing else. Progress, notes and warnings go to stderr.
2. Text for people is made visible (`schemas.visible`), whoever wrote it: here and in
   `streams.cli.screen`, and nowhere else is anything printed.
3. A command that cannot do what was asked raises `Failure` with one line: what, where, what to do;
   the exit status says whose turn it is. 0 done, 1 the answer is no, 2 wrong use or bad input,
   3 trouble of the log or the disk.

Invariant: with `--json`, every line of stdout is a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from schemas.jsonform import dumps_line, to_json
from schemas.visible import visible
from streams.cli.screen import console, say
from streams.cli.trouble import named

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


class Text(click.ParamType):
    """A text that is compared with what a ledger has, which is UTF-8 in every locale."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        """The argument's bytes as UTF-8, whatever they were taken for."""
        try:
            if not any("\ud800" <= one <= "\udfff" for one in value):
                return str(value)
            return os.fsencode(value).decode()
        except UnicodeError:
            self.fail(f"{value!r} is not UTF-8 text", param, context)


TEXT = Text()


@dataclass(slots=True)
class Session:
    """One run of the command: how it answers, and how much it says about trouble."""

    json: bool = False
    verbose: bool = False
    notes: Console = field(default_factory=lambda: console(stderr=True))

    def line(self, value: Mapping[str, object]) -> None:
        """One JSON object on stdout, in escapes where stdout takes ASCII only."""
        text = dumps_line(value)
        if not _takes(text):
            text = json.dumps(to_json(value), separators=(",", ":"))
        with named("stdout"):
            click.echo(text)

    def say(self, text: str) -> None:
        """One line of text on stdout, as it is but for what is made visible."""
        with named("stdout"):
            click.echo(visible(text))

    def answer(self, value: Mapping[str, object], show: Callable[[Console], None]) -> None:
        """The answer, as JSON or as `show` prints it."""
        if self.json:
            self.line(value)
        else:
            show(self.out())

    def out(self) -> Console:
        """stdout for people. Made when asked for: a test may have replaced stdout."""
        return console(stderr=False)

    def note(self, text: str) -> None:
        """A word to the person, beside the answer."""
        say(self.notes, text)

    def warn(self, text: str) -> None:
        """A warning to the person."""
        self.notes.print("[yellow]warning:[/]", escape(visible(text)), soft_wrap=True)

    def progress(self) -> Progress:
        """A progress display on stderr; off a terminal it shows nothing."""
        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.notes,
            transient=True,
            disable=not self.notes.is_terminal,
        )


def _takes(text: str) -> bool:
    """Whether stdout can have the text in its encoding."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
