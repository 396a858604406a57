"""One pool as the read side has it: its chain's end, the kernel's state, and its rows.

Not here: what a receipt does to the rows (`effects`), where receipts come from (`feed`, `worker`),
what is shown of it (`figures`, `answers`).

1. A record counts if it validly extends the chain; one whose `seq` the chain has passed is counted
   and ignored; any other breaks the pool here: nothing after it is taken, every answer says so.
2. The kernel's own `apply` makes usage, queues and the reasons for waiting; what it does not keep
   is in the rows: claims with their history, power over time, energy by how it is known.
3. Signatures are checked before anything is applied: `push` collects, `take` applies.
4. Heads and countersignatures are graded by the trust file; without one a ledger is self-attested.

Invariant: state and rows are a pure function of the ledger's receipts; they can be thrown away.
Profile: §6.1, §6.6, §6.8.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from schemas.chain import Broken, ChainReader
from schemas.cose import NOT_SIGNED, CoseError, SignatureTask
from schemas.grading import Grader, Grading
from schemas.hashstore import HashStore
from schemas.heads import End, StatementError, open_countersignature, open_head
from schemas.merkle import leaf_hash
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.trust import PoolTrust
from schemas.wellformed import CborError
from streams.kernel import PoolState, ReplayError
from streams.steward.fold import apply_receipt
from streams.views.effects import Effects
from streams.views.index import ClaimIndex
from streams.views.tables import Batch

HEADS_KEPT: Final = 64
WITNESSES_KEPT: Final = 64
_HASH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A receipt that extends the chain; its signature is still to be checked."""

    receipt: Receipt
    offset: int
    task: SignatureTask
    leaf: bytes
    digest: bytes


class PoolView:
    """A pool. `trust` None: nobody is trusted, and its ledger is self-attested."""

    def __init__(self, pool: str, trust: PoolTrust | None = None) -> None:
        self.pool = pool
        self.state = PoolState(pool)
        self.chain = ChainReader(
            pool, None if trust is None else trust.stewards, check_signatures=False
        )
        self.leaves = HashStore()
        self.offsets = array("Q")
        self.digests = bytearray()
        self.index = ClaimIndex()
        self._effects = Effects(self.state, self.index)
        self.broken: Broken | None = None
        self.ignored = 0
        self.grader = None if trust is None else Grader(trust)
        self.heads: OrderedDict[int, bytes] = OrderedDict()
        self.countersignatures: OrderedDict[bytes, bytes] = OrderedDict()
        self.statements = 0
        self._observed: set[int] = set()
        self._graded: tuple[int, int, Grading] | None = None

    @property
    def length(self) -> int:
        """How many receipts were taken: all figures are those after the last of them."""
        return len(self.offsets)

    @property
    def head(self) -> bytes:
        """SHA-256 of the last receipt taken; 32 zero bytes before the first."""
        return bytes(self.digests[-_HASH:]) or bytes(_HASH)

    def push(self, data: bytes, offset: int) -> Pushed | None:
        """The record's receipt if it extends the chain (rule 1)."""
        if self.broken is not None:
            return None
        try:
            receipt = self.chain.push(data)
        except Broken as broken:
            self.chain.take_deferred()
            if self._passed(data):
                self.ignored += 1
            else:
                self.broken = broken
            return None
        task = self.chain.take_deferred()[1][0]
        return Pushed(
            receipt=receipt,
            offset=offset,
            task=task,
            leaf=leaf_hash(data),
            digest=sha256(data).digest(),
        )

    def forged(self, pushed: Pushed) -> None:
        """The receipt's signature does not hold: the ledger is broken there."""
        self.broken = Broken(pushed.receipt.seq, "signature", NOT_SIGNED)

    def take(self, pushed: Pushed, batch: Batch) -> bool:
        """Apply a receipt whose signature holds; False if the pool is broken at or before it."""
        receipt = pushed.receipt
        if self.broken is not None and receipt.seq >= self.broken.index:
            return False
        spent = self._effects.spent_before(receipt)
        try:
            apply_receipt(self.state, receipt)
        except ReplayError as error:
            self.broken = Broken(receipt.seq, "replay", str(error))
            return False
        self.offsets.append(pushed.offset)
        self.leaves.append(pushed.leaf)
        self.digests += pushed.digest
        self._effects.take(receipt, batch, spent)
        return True

    def digest(self, seq: int) -> bytes:
        """SHA-256 of receipt `seq`."""
        return bytes(self.digests[seq * _HASH : (seq + 1) * _HASH])

    def add_head(self, data: bytes) -> None:
        """Take a record of `pool.heads`; what is no head is passed over."""
        self.statements += 1
        if self.grader is not None:
            self.grader.add_head(data)
        try:
            end = open_head(data).statement.end
        except StatementError:
            return
        self._keep_head(end, data)

    def add_statement(self, data: bytes) -> None:
        """Take a record of `pool.witness`; what is no statement is passed over."""
        self.statements += 1
        if self.grader is not None:
            self.grader.add_statement(data)
        try:
            signed = open_countersignature(data)
        except StatementError:
            return
        if signed.statement.end.pool == self.pool:
            self.countersignatures.pop(signed.key, None)
            self.countersignatures[signed.key] = data
            while len(self.countersignatures) > WITNESSES_KEPT:
                self.countersignatures.popitem(last=False)

    def grading(self) -> Grading | None:
        """The ledger's grade by the trust file; None without one."""
        if self.grader is None:
            return None
        if self._graded is None or self._graded[:2] != (self.length, self.statements):
            for length in self.grader.lengths - self._observed:
                if length <= self.length:
                    self.grader.observe(self.end(length))
                    self._observed.add(length)
            grading = self.grader.grading(self.length)
            self._graded = (self.length, self.statements, grading)
        return self._graded[2]

    def end(self, length: int) -> End:
        """What the ledger's first `length` receipts come to; 1 <= `length` <= `self.length`."""
        root = self.leaves.root(length)
        return End(pool=self.pool, length=length, head=self.digest(length - 1), root=root)

    def _keep_head(self, end: End, data: bytes) -> None:
        if end.pool != self.pool:
            return
        self.heads.pop(end.length, None)
        self.heads[end.length] = data
        while len(self.heads) > HEADS_KEPT:
            self.heads.popitem(last=False)

    def _passed(self, data: bytes) -> bool:
        try:
            receipt = open_receipt(data)[1]
        except (CoseError, CborError, ReceiptError):
            return False
        return receipt.pool == self.pool and receipt.seq < self.chain.length
