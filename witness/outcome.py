"""What a witness makes of a head: signed, or not, and why.

Trouble that stops the whole witness is `witness.trouble`.

Only `forked` accuses anybody, and only with two heads that the stewards signed. `not-yet` never
does: a gap, a bad read, receipts that have not come, a head without receipts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What became of a head. Append-only."""

    SIGNED = "signed"
    """Countersigned; the statement is durable and may leave."""
    PASSED = "passed"
    """Right, and not signed: a longer head was signed instead, or it ends inside an event."""
    STALE = "stale"
    """Shorter than what was signed, and its root is our history's: nothing to do."""
    KNOWN = "known"
    """The same head as was signed, and too soon to sign it again."""
    NOT_YET = "not-yet"
    """Cannot be checked now. To be tried again."""
    REFUSED = "refused"
    """No head that counts here: see `reason`."""
    FORKED = "forked"
    """The stewards contradict themselves: evidence is durable, and the pool is halted."""
    HALTED = "halted"
    """Of a pool whose stewards were found to contradict themselves: nothing is signed any more."""


class Refusal(StrEnum):
    """Why a head is refused. Append-only."""

    STATEMENT = "statement"
    """Not a head of the profile's form: `detail` has the check that fails."""
    UNKNOWN_POOL = "unknown-pool"
    KEY = "key"
    """Signed by a key that is not the one due at this length."""
    OWN_KEY = "own-key"
    """The steward's key is this witness's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one head. `statement` is set where one may leave: signed, or evidence."""

    kind: Kind
    pool: str
    length: int
    statement: bytes | None = None
    reason: Refusal | None = None
    detail: str = ""
