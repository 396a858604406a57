"""A ledger's receipts, one after the other, through verification, replay and, if asked, audit.

Not here: what each of these checks (`schemas.chain`, `schemas.grading`, `streams.steward.fold` and
`audit`); where the receipts come from (`streams.cli.ledgers`).

1. Signatures are checked in batches on several cores, the rest at once. So a fault that was found
   at once is reported only after the signatures before it were found right: the first broken
   receipt is the one reported.
2. The replay applies each receipt (§6.6, `replay`); the audit decides each event anew (§6.1).
3. A ledger without a receipt is none, however it came about: it breaks at its first one, `decode`.
4. In a log, a record whose `seq` the chain has passed is counted and skipped, as a steward's own
   replay does it; in a file it is a repeated receipt, and breaks the ledger there.

Invariant: a verdict without `broken` speaks of every receipt that was given.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from schemas.batch import BATCH_TASKS, verify_signatures
from schemas.chain import Broken, ChainReader
from schemas.cose import NOT_SIGNED, CoseError, SignatureTask
from schemas.grading import Grader, Grading
from schemas.heads import End
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.trust import PoolTrust
from schemas.wellformed import CborError
from streams.kernel import PoolState, ReplayError
from streams.steward.audit import Audit, Difference
from streams.steward.fold import apply_receipt

THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What checking a ledger came to. `length` counts receipts in order before the first fault."""

    pool: str | None
    length: int
    head: bytes | None
    root: bytes | None
    steward: bytes | None
    broken: Broken | None
    skipped: int
    grading: Grading | None
    difference: Difference | None
    state: PoolState | None


class Checker:
    """Takes a ledger's receipts in order; `finish` gives the verdict.

    `hear` is told every receipt once it was accepted, before its signature was checked, with the
    state that it made.
    """

    def __init__(
        self,
        *,
        pool: str | None = None,
        trust: PoolTrust | None = None,
        audit: bool = False,
        replay: bool = True,
        in_log: bool = False,
        hear: Callable[[Receipt, PoolState], None] | None = None,
    ) -> None:
        stewards = None if trust is None else trust.stewards
        self.grader = None if trust is None else Grader(trust)
        self._reader = ChainReader(pool, stewards, check_signatures=False)
        self._tasks: list[SignatureTask] = []
        self._audits = audit
        self._replays = replay
        self._audit: Audit | None = None
        self._in_log = in_log
        self._hear = hear
        self._state: PoolState | None = None
        self._broken: Broken | None = None
        self._skipped = 0

    @property
    def done(self) -> bool:
        """Whether more receipts can change nothing: the ledger is broken, or its audit failed."""
        return self._broken is not None or (
            self._audit is not None and self._audit.difference is not None
        )

    def push(self, data: bytes) -> bool:
        """Check the next receipt; whether it was accepted, its signature still to be checked."""
        if self.done:
            return False
        try:
            receipt = self._reader.push(data)
        except Broken as broken:
            self._refuse(data, broken)
            return False
        self._tasks += self._reader.take_deferred()[1]
        self._take(receipt)
        if len(self._tasks) >= BATCH_TASKS:
            self._check_signatures()
        return True

    def undecodable(self, detail: str) -> None:
        """What follows in the ledger's bytes is no item at all."""
        if not self.done:
            self._broken = Broken(self._reader.length, "decode", detail)

    def finish(self) -> Verdict:
        """The verdict on what was given."""
        if self._broken is None:
            try:
                self._reader.check_complete()
            except Broken as incomplete:
                self._broken = incomplete
            if self._reader.length == 0:
                self._broken = Broken(0, "decode", "the ledger is empty")
        self._check_signatures()
        broken, reader = self._broken, self._reader
        whole = broken is None and reader.length > 0
        return Verdict(
            pool=reader.pool,
            length=reader.length if broken is None else broken.index,
            head=reader.head if whole else None,
            root=reader.root() if whole else None,
            steward=reader.steward,
            broken=broken,
            skipped=self._skipped,
            grading=None if self.grader is None else self.grader.grading(reader.length),
            difference=None if self._audit is None else self._audit.difference,
            state=self._state,
        )

    def _take(self, receipt: Receipt) -> None:
        """An accepted receipt: replay it, audit it, and note the end where somebody signed one."""
        self._state = self._state or PoolState(receipt.pool)
        if self._replays:
            try:
                apply_receipt(self._state, receipt)
            except ReplayError as error:
                self._broken = Broken(receipt.seq, "replay", str(error))
                return
        if self._audits:
            self._audit = self._audit or Audit(receipt.pool)
            self._audit.push(receipt)
        reader = self._reader
        if self.grader is not None and reader.length in self.grader.lengths:
            length, head, root = reader.length, reader.head, reader.root()
            self.grader.observe(End(pool=receipt.pool, length=length, head=head, root=root))
        if self._hear is not None:
            self._hear(receipt, self._state)

    def _refuse(self, data: bytes, broken: Broken) -> None:
        """A receipt that does not go on the chain: passed by (rule 4), or the ledger's end."""
        own = self._reader.take_deferred()[1]
        if self._in_log and self._passed(data):
            self._skipped += 1
        elif verify_signatures(own) is not None:
            # It broke in a later step only because its signature was still to be checked.
            self._broken = Broken(broken.index, "signature", NOT_SIGNED)
        else:
            self._broken = broken

    def _passed(self, data: bytes) -> bool:
        try:
            receipt = open_receipt(data)[1]
        except (CoseError, CborError, ReceiptError):
            return False
        return receipt.pool == self._reader.pool and receipt.seq < self._reader.length

    def _check_signatures(self) -> None:
        """Check what was left. One that is wrong lies before any other fault, or at it."""
        bad = verify_signatures(self._tasks, threads=THREADS)
        if bad is not None:
            start = self._reader.length - len(self._tasks)
            self._broken = Broken(start + bad, "signature", NOT_SIGNED)
        self._tasks.clear()
