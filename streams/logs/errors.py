"""Operating trouble of a log, each kind naming what its caller must do.

This is trouble with storage or brokers, never with an event: a refused event is a receipt, a
malformed one a receipt or a dead letter.

Invariant: every error that leaves a log is a `LogTrouble`; a client library's own never does.
Invariant: `remedy` alone tells a steward how to go on; it never looks at the text.
"""

from enum import StrEnum
from typing import ClassVar


class Remedy(StrEnum):
    """What the holder of a writer or a reader does about a trouble."""

    RETRY = "retry"
    """Nothing was lost or changed: wait with backoff and do the same call again."""
    REOPEN = "reopen"
    """Drop the writer and all state that came after the last known append; open a new writer,
    replay the ledger, go on from what it says. Never abort and go on with the old one."""
    STOP = "stop"
    """A person has to act. Write nothing more; say what and where; exit with status 3."""


class LogTrouble(Exception):
    """The base: `what` happened, `where` (directory, address, topic and partition), what `todo`.

    `str()` is one line made of the three, fit for a person.
    """

    remedy: ClassVar[Remedy] = Remedy.RETRY

    def __init__(self, what: str, *, where: str, todo: str) -> None:
        self.what = what
        self.where = where
        self.todo = todo
        super().__init__(f"{what} ({where}): {todo}")


class Unavailable(LogTrouble):
    """The log does not answer now, or not in time, and the call changed nothing (it was a read)."""


class Fenced(LogTrouble):
    """Another writer was opened for this partition; this one can append nothing any more."""

    remedy = Remedy.REOPEN


class OutcomeUnknown(LogTrouble):
    """An append or a publication may or may not have happened; only reading the log tells."""

    remedy = Remedy.REOPEN


class AppendFailed(LogTrouble):
    """The batch was not appended, nothing of it is visible; the writer must not be used again."""

    remedy = Remedy.REOPEN


class TooLarge(LogTrouble):
    """A record or batch is above a bound of the contract; nothing was written, the log is usable.

    A caller that sees it asked for something that the contract forbids: not to be retried.
    """

    remedy = Remedy.STOP


class DiskFull(LogTrouble):
    """No room to write. Nothing of the batch is visible, and nothing more may be tried."""

    remedy = Remedy.STOP


class Held(LogTrouble):
    """Another process holds this embedded log for writing."""

    remedy = Remedy.STOP


class Missing(LogTrouble):
    """There is no log, or no such topic, where one was expected."""

    remedy = Remedy.STOP


class Misconfigured(LogTrouble):
    """The log exists, but not with the settings that the contract needs."""

    remedy = Remedy.STOP


class Damaged(LogTrouble):
    """What is stored cannot be what was written, or acknowledged records are gone."""

    remedy = Remedy.STOP
