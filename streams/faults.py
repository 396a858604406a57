"""Named points at which a test kills or stops this very process, to see what survives.

Nothing happens unless `POOL_FAULT` is set in the environment when the process starts:
`POINT`, `POINT:N` (at the Nth time that it is reached, from 1), `POINT:N:stop` (SIGSTOP instead of
SIGKILL, for a process that is to come back as a zombie).

Invariant: with the variable unset, `reach` costs one comparison and changes nothing.
"""

import os
import signal
from enum import StrEnum
from typing import Final

VARIABLE: Final = "POOL_FAULT"


class Point(StrEnum):
    """Where the loop and the logs may be cut."""

    BEFORE_DECIDE = "before-decide"
    BEFORE_APPEND = "before-append"
    INSIDE_APPEND = "inside-append"
    """Embedded: the batch is built and not written. Kafka does not reach it."""
    BEFORE_SEND = "before-send"
    AFTER_SEND = "after-send"
    """Kafka: every record is acknowledged, the transaction not yet asked to commit."""
    INSIDE_COMMIT = "inside-commit"
    """Kafka: the commit was sent and its answer not awaited."""
    AFTER_COMMIT = "after-commit"
    AFTER_APPEND = "after-append"
    BEFORE_SNAPSHOT = "before-snapshot"
    INSIDE_SNAPSHOT = "inside-snapshot"
    """The snapshot's file is written under its temporary name."""


class _Fault:
    """One planned fault and how often its point is still to be passed."""

    def __init__(self, plan: str) -> None:
        point, _, rest = plan.partition(":")
        count, _, action = rest.partition(":")
        self.point = Point(point)
        self.left = int(count or "1")
        self.signal = signal.SIGSTOP if action == "stop" else signal.SIGKILL


_planned = _Fault(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def reach(point: Point) -> None:
    """Note that `point` was reached; kills the process if that was planned."""
    if _planned is None or _planned.point is not point:
        return
    _planned.left -= 1
    if _planned.left == 0:
        os.kill(os.getpid(), _planned.signal)
