"""When a pool's signed head is due, and what it says.

How a head is sealed is `schemas.heads`; witnesses countersign it.

1. A head is published in the batch that reaches `head_receipts` receipts after the last one, or
   in the first batch after `head_ms`, or when the steward stops.
2. `closed_at` is the ledger's own time, that of its last receipt: the same ledger gives the same
   heads, whenever it is run.
3. After a handover heads are the new key's; a steward without it publishes none.

Invariant: a head never says more than the batch that it is in.
Profile: §6.7, §6.10.
"""

from collections.abc import Iterator

from schemas.heads import seal_head
from streams import topics
from streams.logs.contract import Entry
from streams.steward.pools import Pool


class HeadsDue:
    """Which pools have receipts that no head covers yet, and since when (ms, a steady clock)."""

    def __init__(self, *, head_receipts: int, head_ms: int) -> None:
        self._head_receipts = head_receipts
        self._head_ms = head_ms
        self._since_ms: dict[str, int] = {}
        self._published: dict[str, int] = {}

    def grown(self, pool: Pool, now_ms: int) -> None:
        """The pool has receipts beyond its last head."""
        self._since_ms.setdefault(pool.name, now_ms)

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until the next head is due by time; None if none waits."""
        if not self._since_ms:
            return None
        oldest_ms = next(iter(self._since_ms.values()))
        return max(0, oldest_ms + self._head_ms - now_ms)

    def due(self, pools: dict[str, Pool], now_ms: int, *, all_of_them: bool) -> Iterator[Entry]:
        """The heads to publish now; `published` says that they were."""
        for name, since_ms in list(self._since_ms.items()):
            pool = pools[name]
            receipts = pool.chain.length - self._published.get(name, 0)
            by_time = now_ms - since_ms >= self._head_ms
            if all_of_them or by_time or receipts >= self._head_receipts:
                self._since_ms.pop(name)
                self._published[name] = pool.chain.length
                if pool.signer is not None:
                    yield _entry(pool)


def _entry(pool: Pool) -> Entry:
    chain = pool.chain
    assert pool.signer is not None
    sealed = seal_head(
        pool.signer, pool.name, chain.length, chain.head, chain.root(), chain.closed_at_ms
    )
    return Entry(topic=topics.HEADS, key=pool.key, value=sealed)
