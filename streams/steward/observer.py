"""What a steward tells whoever watches it: progress bars, metrics, logs.

Nothing that is told here changes what is decided.

Invariant: an observer's methods return quickly; they run between two batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.receipts import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A batch that is in the log now: how many events it answers, its receipts in order.

    `positions` maps an input topic to the offset that is decided next. `elapsed_us` is the time
    from the first decision to the acknowledgement.
    """

    partition: int
    events: int
    receipts: Sequence[Receipt]
    dead_letters: int
    heads: int
    positions: Mapping[str, int]
    elapsed_us: int


class Observer:
    """Hears and does nothing; override what is of interest."""

    def replaying(self, partition: int, offset: int, end: int) -> None:
        """The ledger was read up to `offset` of `end` (offsets, not receipts)."""

    def opened(self, partition: int, pools: Mapping[str, int]) -> None:
        """The writer is open and the ledger replayed: pool to length."""

    def appended(self, batch: Appended) -> None:
        """A batch was acknowledged."""

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        """A record of the ledger does not count: another stood in its place before."""

    def inputs_expired(self, topic: str, partition: int, offset_next: int, start: int) -> None:
        """Inputs from `offset_next` to `start` expired before they were decided."""

    def snapshot_ignored(self, partition: int, detail: str) -> None:
        """A snapshot was of no use; the ledger is replayed from further back."""

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        """Writer and state were dropped; the steward starts again after the delay."""
