"""The audit: re-decide every event of a ledger and compare with what its receipts say.

Whether the receipts are genuine and in order is `schemas.chain`; feed this what it accepted. Which
events were withheld from the ledger no ledger can show.

1. A fresh state is given each event, at the time that its receipts say (`closed_at`).
2. The decisions must be the receipts': as many, of the same kinds, with the same bodies.
3. The first that differs is reported; nothing after it is looked at: the states differ from there.

Invariant: the state of an audit is made by deciding only, never by applying a receipt.
Profile: §6.1, §6.8.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from schemas import cbor
from schemas.receipts import Receipt
from schemas.records import Body, Decision
from streams.kernel import PoolState, decide
from streams.steward.fold import decision_of, event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first receipt that re-deciding does not yield: its `seq`, and both sides.

    `decided` is None where re-deciding yields fewer decisions, `found` where it yields more (then
    `seq` is that of the receipt that would have followed).
    """

    seq: int
    detail: str
    found: Decision | None
    decided: Decision | None


class Audit:
    """Takes one pool's receipts in order; `difference` is the first found, or None."""

    def __init__(self, pool: str) -> None:
        self.events = 0
        self.receipts = 0
        self.difference: Difference | None = None
        self._state = PoolState(pool)
        self._left: list[Decision] = []

    def push(self, receipt: Receipt) -> Difference | None:
        """Compare the next receipt. Returns the difference as soon as there is one."""
        if self.difference is None:
            self.difference = self._compare(receipt)
        return self.difference

    def _compare(self, receipt: Receipt) -> Difference | None:
        found = decision_of(receipt)
        if receipt.cause.index == 0:
            self._left = decide(self._state, event_of(receipt), receipt.closed_at_ms)[::-1]
            self.events += 1
        self.receipts += 1
        if self._state.now_ms != receipt.closed_at_ms:
            return _difference(receipt.seq, "closed at another time", found, None)
        if not self._left:
            return _difference(receipt.seq, "not decided", found, None)
        decided = self._left.pop()
        if decided.kind != found.kind:
            return _difference(receipt.seq, "another decision", found, decided)
        if decided.body != found.body and _bytes(decided.body) != _bytes(found.body):
            return _difference(receipt.seq, "another body", found, decided)
        if self._left and receipt.cause.index + 1 == receipt.cause.count:
            return _difference(receipt.seq + 1, "left out", None, self._left[-1])
        return None


def audit(receipts: Iterable[Receipt]) -> Difference | None:
    """Audit one pool's receipts, verified and in order, from `seq` 0: the first difference."""
    audited: Audit | None = None
    for receipt in receipts:
        audited = audited or Audit(receipt.pool)
        if audited.push(receipt) is not None:
            return audited.difference
    return None


def _bytes(body: Body) -> bytes:
    # A decision may hold tuples where its receipt, read back, holds lists.
    return cbor.encode(body)


def _difference(
    seq: int, detail: str, found: Decision | None, decided: Decision | None
) -> Difference:
    return Difference(seq=seq, detail=detail, found=found, decided=decided)
