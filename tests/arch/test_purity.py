"""The kernel is a pure function over integers: no float, no clock, no world, no chance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arch.purity import findings

ROOT = Path(__file__).parents[2]
KERNEL = sorted((ROOT / "streams" / "kernel").glob("**/*.py"))
# (what is planted, what is found); each in a module that has nothing else.
PLANTED = [
    ("x = 0.5", "1: the literal 0.5"),
    ("x = 1e9", "1: the literal 1000000000.0"),
    ("x = 1j", "1: the literal 1j"),
    ("def f(a: int) -> object:\n    return a / 2", "2: a true division"),
    ("x = 4\nx /= 2", "2: a true division"),
    ("x = float(1)", "1: the name float"),
    ("x = round(1)", "1: the name round"),
    ("x = sorted([], key=id)", "1: the name id"),
    ("x = hash('a')", "1: the name hash"),
    ("print(1)", "1: the name print"),
    ("x = open('f')", "1: the name open"),
    ("import time", "1: the import of time"),
    ("def f() -> None:\n    from datetime import datetime", "2: the import of datetime"),
    ("import random", "1: the import of random"),
    ("from math import sqrt", "1: the import of math.sqrt"),
    ("import hashlib", "1: the import of hashlib"),
    ("import json", "1: the import of json"),
    ("import cbor2", "1: the import of cbor2"),
    ("from schemas import cbor", "1: the import of schemas.cbor"),
    ("from schemas.events import parse_event", "1: the import of schemas.events"),
    ("from streams import topics", "1: the import of streams"),
    ("async def f() -> None:\n    pass", "1: a asyncfunctiondef"),
    ("def f() -> None:\n    global x", "2: a global"),
]
DIGEST = """
import hashlib, json
from streams.decide import decide_lines
from tests.kernel.crowds import crowd
from tests.model.generate import generate
digest = hashlib.sha256()
for events in (crowd(1, 150), crowd(2, 150), generate(3, 80, "reclaim"), generate(4, 80, "starve")):
    for number, decision in decide_lines(events):
        digest.update(json.dumps([number, decision]).encode())
print(digest.hexdigest())
"""


def test_there_is_a_kernel() -> None:
    """The kernel's modules are found."""
    assert len(KERNEL) > 20


@pytest.mark.parametrize("path", KERNEL, ids=lambda path: path.stem)
def test_a_module_of_the_kernel_is_pure(path: Path) -> None:
    """No float, no world, and no other imports than the named."""
    assert findings(path.read_text(), path.stem) == []


@pytest.mark.parametrize(("source", "found"), PLANTED)
def test_what_is_planted_is_found(source: str, found: str) -> None:
    """A violation in a module of the kernel is found at its line."""
    assert findings(source, "planted") == [found]


def test_only_the_idle_review_divides() -> None:
    """Fractions are divided where the profile asks for an exact mean, and nowhere else."""
    assert findings("x = a / b", "idle") == []
    assert findings("x = a / b", "fit") == ["1: a true division"]


def test_decisions_do_not_depend_on_the_order_of_sets() -> None:
    """Two processes with other hash seeds decide the same events alike, to the order of keys."""
    digests = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1
