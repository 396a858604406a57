"""Named points at which a test kills this very process, to see what a signature survives.

Nothing happens unless `POOL_WITNESS_FAULT` is set in the environment when the process starts:
`POINT`, or `POINT:N` for the Nth time that it is reached, from 1.

Invariant: with the variable unset, `reach` costs one comparison and changes nothing.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from typing import Final

VARIABLE: Final = "POOL_WITNESS_FAULT"


class Point(StrEnum):
    """The steps of one signature, in order."""

    CHECKED = "checked"
    SIGNED = "signed"
    WRITING = "writing"
    """Inside the transaction, before it commits."""
    PERSISTED = "persisted"
    PUBLISHING = "publishing"
    """The embedded log's file: half of the statement is written."""
    PUBLISHED = "published"


def _plan() -> tuple[Point, int] | None:
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    name, _, count = text.partition(":")
    return Point(name), int(count or "1")


_planned = _plan()
_left = _planned[1] if _planned else 0


def planned(point: Point) -> bool:
    """Whether the next `reach` of this point kills the process."""
    return _planned is not None and _planned[0] is point and _left == 1


def reach(point: Point) -> None:
    """Note that `point` was reached; kills the process (SIGKILL) if that was planned."""
    global _left
    if _planned is None or _planned[0] is not point:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
