"""What stops a witness, each kind with a reason code, a place and what to do.

A head that is refused, or not yet understood, is no trouble: see `witness.outcome`.

Exit codes: 1 for what was asked after and is not there, 2 for wrong use or bad input, 3 for trouble
with disk or log.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a witness does not start, or stops. Append-only."""

    KEY_REFUSED = "key-refused"
    KEY_IS_STEWARDS = "key-is-stewards"
    KEY_OF_ANOTHER = "key-of-another"
    STORE_MISSING = "store-missing"
    STORE_EXISTS = "store-exists"
    STORE_HELD = "store-held"
    STORE_BEHIND = "store-behind"
    STORE_DAMAGED = "store-damaged"
    STORE_CHANGED = "store-changed"
    STORE_FAILED = "store-failed"
    LOG_MISSING = "log-missing"
    LOG_DAMAGED = "log-damaged"
    LOG_UNAVAILABLE = "log-unavailable"
    BAD_INPUT = "bad-input"
    KEY_FAILED = "key-failed"
    UNKNOWN_POOL = "unknown-pool"
    KEY_EXISTS = "key-exists"


_WRONG_USE = frozenset(
    (
        Reason.KEY_REFUSED,
        Reason.KEY_IS_STEWARDS,
        Reason.KEY_OF_ANOTHER,
        Reason.KEY_EXISTS,
        Reason.STORE_MISSING,
        Reason.STORE_EXISTS,
        Reason.LOG_MISSING,
        Reason.BAD_INPUT,
    )
)


class Trouble(Exception):
    """`what` happened, `where`, and what `todo` about it: one line for a person."""

    def __init__(self, reason: Reason, what: str, *, where: str, todo: str) -> None:
        super().__init__(f"{what} ({where}): {todo}")
        self.reason = reason
        self.what = what
        self.where = where
        self.todo = todo

    @property
    def exit_code(self) -> int:
        """1, 2 or 3, as the module says."""
        if self.reason is Reason.UNKNOWN_POOL:
            return 1
        return 2 if self.reason in _WRONG_USE else 3
