"""Why a steward stops for good: a person has to look. Everything else it gets over by itself.

Trouble with the log is `streams.logs.errors`; a refused event is a receipt.

Invariant: `str()` is one line: what, where, what to do.
"""

from schemas.chain import Broken


class StewardStopped(Exception):
    """`what` it met, `where`, and what to do about it; nothing more is written."""

    def __init__(self, what: str, *, where: str, todo: str) -> None:
        self.what = what
        self.where = where
        self.todo = todo
        super().__init__(f"{what} ({where}): {todo}")


class LedgerRefused(StewardStopped):
    """A pool's ledger does not verify: `broken` names the index, the check and the detail."""

    def __init__(self, pool: str, broken: Broken, *, where: str) -> None:
        self.pool = pool
        self.broken = broken
        super().__init__(
            f"pool {pool!r}: {broken}",
            where=where,
            todo="nothing was written; compare with a copy of the ledger or a witness",
        )


class WrongKey(StewardStopped):
    """A pool's ledger is another key's, and no `steward.rotated` names one of ours."""

    def __init__(self, pool: str, key: str, *, where: str) -> None:
        self.pool = pool
        self.key = key
        super().__init__(
            f"pool {pool!r} is written by {key}",
            where=where,
            todo="start with that key, or hand over with an event steward.rotate",
        )
