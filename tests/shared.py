"""Where the data of others lies that tests read: it is never part of the project.

`POOL_SHARED` names the folder; without it, it is `shared` beside the project's own.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("POOL_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def shared(*parts: str) -> Path:
    """A file or folder under the shared data; a test that cannot have it fails."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.fail(f"{path} is missing: set POOL_SHARED to the folder with the shared data")
    return path


def vectors(*parts: str) -> Path:
    """A file or folder under the public test vectors."""
    return shared("data", "vectors", *parts)
