"""Every golden case of the profile holds for the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .pool_model import Model

CASES = sorted((Path(__file__).parents[2] / "schemas" / "cases").glob("*.json"))


def pins(pinned: Any, found: Any) -> bool:
    """A case pins the fields that it names at the top of a decision; below that it pins all."""
    return all(name in found and found[name] == value for name, value in pinned.items())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    """The model answers each event of the case with the decisions that the case pins."""
    case = json.loads(path.read_text())
    model = Model()
    for event, expected in zip(case["events"], case["decisions"], strict=True):
        found = model.feed(event)
        assert [one["kind"] for one in found] == [one["kind"] for one in expected], found
        for pinned, decision in zip(expected, found, strict=True):
            assert pins(pinned, decision), (pinned, decision)


def test_there_are_cases() -> None:
    """The folder of cases is found."""
    assert len(CASES) >= 36
