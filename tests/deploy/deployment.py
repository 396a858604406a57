"""What deploy/ holds, read for the tests: compose's services, manifests, and commands in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"

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
