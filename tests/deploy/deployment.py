"""What deploy/ holds, read for the tests: compose's services, and the commands that they run.

A command is judged by what the program's own `--help` says, as whoever writes one would.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
PROGRAMS = ("pool", "pool-witness")
_OPTION = re.compile(r"^  (?:-\w, )?(--[\w-]+)(?: (?!\s)(\S+))?", re.MULTILINE)

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
        line = re.sub(r"(<<|2?>)\s*\S+|&$", "", line.split(" #")[0])
        for part in re.split(r"\|\||&&|[|;]", line):
            words = shlex.split(part.strip().removeprefix("exec "), comments=True)
            if words and Path(words[0]).name in PROGRAMS:
                yield [Path(words[0]).name, *words[1:]]


def check(words: list[str]) -> None:
    """Whether a command has its subcommands, its options and no others, and all that it needs."""
    count = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
    text = help_of(*words[:count])
    options = dict(_OPTION.findall(text))
    given, rest = set(), iter(words[count:])
    for word in rest:
        name, equals, _ = word.partition("=")
        assert name in options, f"{' '.join(words)}: no {name}"
        assert options[name] or not equals, f"{name} takes no value"
        if options[name] and not equals:
            assert not next(rest, "--").startswith("--"), f"{name} wants a value"
        given.add(name)
    for part in text.split("\n  --"):
        if "[required]" in part:
            assert "--" + part.split()[0] in given, f"{' '.join(words)}: {part}"


@cache
def help_of(program: str, *words: str) -> str:
    """What a command says of itself. A file's name after it is none of its subcommands."""
    command = [Path(sys.executable).parent / program, *words, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
