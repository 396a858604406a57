"""How tests call `pool`: what a call came to, and its command line as a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Pool = Callable[..., "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it said."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout as JSON objects; fails the test where a line is none."""
        values = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(value, dict) for value in values), self.out
        return values

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object that was answered."""
        (line,) = self.lines
        return line


def command(*arguments: object) -> list[str]:
    """The command line of a `pool` process of its own."""
    return [sys.executable, "-m", "streams.cli.main", *map(str, arguments)]
