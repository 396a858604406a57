"""Receipts on their way into one pool's chain: verified one by one, leaves and handovers noted.

What heads say about the chain is `witness.follow`.

1. A receipt is accepted if it validly extends the chain (`schemas.chain`, the numbered procedure).
2. What does not is passed over, as every reader of a ledger does: the first record that validly
   extends it wins (architecture.md "One writer"). A gap is not bridged: the chain waits.
3. Receipts are verified in batches, their signatures in threads; a batch with a fault is verified
   again one by one, so that the result is the same.

Invariant: `leaves.size == chain.length`, and every receipt below it was verified here or before the
record that this began with was signed.
Profile: §6.6, §6.10.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas import cose
from schemas.batch import BATCH_TASKS, verify_signatures
from schemas.chain import Broken, ChainReader
from schemas.merkle import leaf_hash
from schemas.receipts import ReceiptError, parse_core
from schemas.wellformed import CborError
from witness.leaves import Leaves
from witness.record import Keys


@dataclass(frozen=True, slots=True)
class _Waiting:
    offset: int
    data: bytes


class Feed:
    """A chain, its leaves, the keys that sign its heads, and the receipts that wait to extend it.

    `passed_over` counts receipts that did not; `fault` says why the first one that should have did
    not, and is empty once one does.
    """

    def __init__(self, chain: ChainReader, leaves: Leaves, keys: Keys, *, threads: int = 1) -> None:
        self.chain = chain
        self.leaves = leaves
        self.keys = keys
        self.passed_over = 0
        self.fault = ""
        self._threads = threads
        self._waiting: deque[_Waiting] = deque()
        self._offsets: deque[int] = deque()
        self._since = 0
        self.waiting_bytes = 0

    @property
    def waiting(self) -> int:
        """How many receipts wait."""
        return len(self._waiting)

    @property
    def outstanding(self) -> bool:
        """Whether receipts were taken that are not signed for, one at fault included."""
        return bool(self._offsets or self._waiting or self.fault)

    @property
    def offset(self) -> int | None:
        """Where in the log to read again for what is outstanding; None if nothing is."""
        return self._since if self.outstanding else None

    def take(self, items: Iterable[tuple[int, bytes]]) -> None:
        """Take (offset, receipt) pairs in the log's order."""
        for offset, data in items:
            if not self.outstanding:
                self._since = offset
            self._waiting.append(_Waiting(offset, data))
            self.waiting_bytes += len(data)

    def signed(self, count: int) -> None:
        """The next `count` receipts of the chain were signed for: they need not be read again."""
        for _ in range(min(count, len(self._offsets))):
            self._since = self._offsets.popleft() + 1

    def advance(self, length: int) -> None:
        """Verify waiting receipts until the chain has `length`, or none is left."""
        while self._waiting and self.chain.length < length:
            count = min(BATCH_TASKS, length - self.chain.length, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            self.waiting_bytes -= sum(len(item.data) for item in batch)
            if not self._push_together(batch):
                for item in batch:
                    self._push_alone(item)

    def _push_together(self, batch: Sequence[_Waiting]) -> bool:
        """Verify receipts that all extend the chain; if one does not, do nothing."""
        trial, keys = self.chain.copy(), self.keys
        trial.check_signatures = False
        try:
            for item in batch:
                trial.push(item.data)
                keys = _keys_after(trial, keys)
        except Broken:
            return False
        _, tasks = trial.take_deferred()
        if verify_signatures(tasks, threads=self._threads) is not None:
            return False
        trial.check_signatures = True
        self.chain, self.keys = trial, keys
        for item in batch:
            self.leaves.append(leaf_hash(item.data))
            self._offsets.append(item.offset)
        return True

    def _push_alone(self, item: _Waiting) -> None:
        """Verify one receipt; what does not extend the chain is passed over."""
        try:
            self._refuse_elsewhere(item.data)
            self.chain.push(item.data)
        except Broken as broken:
            self.passed_over += 1
            if not self.fault and broken.index == self.chain.length:
                self.fault = str(broken)
            return
        self.fault = ""
        self.keys = _keys_after(self.chain, self.keys)
        self.leaves.append(leaf_hash(item.data))
        self._offsets.append(item.offset)

    def _refuse_elsewhere(self, data: bytes) -> None:
        """Raises Broken for a receipt of another place, before its signature costs anything."""
        try:
            seq = parse_core(cose.split(data).payload).seq
        except (cose.CoseError, CborError, ReceiptError):
            return
        if seq != self.chain.length:
            # One from before is a repeat and says nothing; one from beyond shows a gap.
            index = min(seq, self.chain.length)
            raise Broken(index, "sequence", f"seq {seq} where {self.chain.length} is due")


def _keys_after(chain: ChainReader, keys: Keys) -> Keys:
    """The keys that sign heads, once the chain's last receipt may have handed over."""
    steward = chain.steward
    assert steward is not None, "a chain with a receipt has a steward"
    return keys if keys and keys[-1][1] == steward else (*keys, (chain.length, steward))
