"""The tests themselves: all of them can be collected in one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_test_modules_outside_of_packages_have_names_of_their_own() -> None:
    """Two of one name are one module to Python: run together, neither directory's are collected."""
    names = Counter(
        path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()
    )
    assert not [name for name, count in names.items() if count > 1]
