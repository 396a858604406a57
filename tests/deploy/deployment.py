"""What deploy/ holds, read for the tests: compose's services, and the commands that they run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from streams.cli.main import pool
from witness.cli import cli as witness

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
PROGRAMS: dict[str, click.Command] = {"pool": pool, "pool-witness": witness}

sys.path.insert(0, str(DEPLOY))


def compose() -> dict[str, Any]:
    """The compose file, with what its anchors stand for."""
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return document


def texts(value: Any) -> Iterator[str]:
    """Every text in a document, at whatever depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def defaulted(text: str) -> str:
    """A compose text as it is where no variable is set: `${NAME:-DEFAULT}` is DEFAULT."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def script_commands(script: str) -> Iterator[list[str]]:
    """The words of each `pool` and `pool-witness` command in a shell script."""
    for line in script.replace("\\\n", " ").splitlines():
        for part in re.split(r"\|\||&&|[|;]", line.split(" #")[0]):
            words = shlex.split(part.strip().removeprefix("exec "), comments=True)
            if words and Path(words[0]).name in PROGRAMS:
                yield [Path(words[0]).name, *words[1:]]


def check(words: list[str]) -> None:
    """Let click judge a command without running it. Raises click.UsageError, or asserts.

    Paths that a container would have are not looked for.
    """
    command, rest = PROGRAMS[words[0]], words[1:]
    path = words[0]
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, f"{path} has no {rest[0]}"
        command, path, rest = found, f"{path} {rest[0]}", rest[1:]
    context = click.Context(command, info_name=path)
    given, left, order = command.make_parser(context).parse_args(list(rest))
    assert not left, f"{path}: {left} is too much"
    for parameter in command.params:
        value = given.get(str(parameter.name))
        assert value is not None or not parameter.required, f"{path} wants {parameter.name}"
        if parameter in order and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)
