"""Ledgers made with the wire contract alone: what a steward would write, and what it must not.

Receipts are of one kind; witnesses do not look at decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from schemas import cose
from schemas.heads import seal_head
from schemas.keys import SeedSigner, did_key
from schemas.merkle import HashStore, leaf_hash
from schemas.receipts import NO_RECEIPT, Cause, Receipt, core_of
from schemas.records import Kind

START_MS = 1_750_000_000_000
TOPIC = "pool.claims"


def signer(number: int) -> SeedSigner:
    """A key that is the same in every run."""
    return SeedSigner(bytes([number]) * 32)


STEWARD, OTHER_STEWARD = signer(1), signer(2)
WITNESS, OTHER_WITNESS, THIRD_WITNESS = signer(11), signer(12), signer(13)


@dataclass
class Ledger:
    """A growing chain of receipts; `branch` goes on with another history."""

    pool: str = "alpha"
    steward: SeedSigner = STEWARD
    mark: str = "first"
    receipts: list[bytes] = field(default_factory=list)
    leaves: HashStore = field(default_factory=HashStore)

    @property
    def length(self) -> int:
        return len(self.receipts)

    @property
    def prev(self) -> bytes:
        return sha256(self.receipts[-1]).digest() if self.receipts else NO_RECEIPT

    def grow(self, count: int = 1) -> Ledger:
        """Append `count` events of one receipt each; returns itself."""
        for _ in range(count):
            self.append(Kind.REFUSED, {"reason": "unknown-claim"})
        return self

    def append(
        self, kind: Kind, body: dict[str, object], *, index: int = 0, count: int = 1
    ) -> bytes:
        """Append one receipt of an event."""
        seq = self.length
        if index == 0:
            body = body | {"event": {"pool": self.pool, "type": "claim.renewed", "mark": self.mark}}
        receipt = Receipt(
            pool=self.pool,
            seq=seq,
            prev=self.prev,
            closed_at_ms=START_MS + seq,
            steward=did_key(self.steward.public_key),
            cause=Cause(
                topic=TOPIC,
                partition=0,
                offset=seq - index,
                digest=sha256(b"event %d" % (seq - index)).digest(),
                index=index,
                count=count,
            ),
            kind=kind,
            body=body,
        )
        sealed = cose.seal(self.steward, core_of(receipt))
        self.take(sealed)
        return sealed

    def rotate(self, new: SeedSigner) -> Ledger:
        """Hand the ledger over to another key; returns itself."""
        self.append(Kind.STEWARD_ROTATED, {"steward": did_key(new.public_key)})
        self.steward = new
        return self

    def take(self, sealed: bytes) -> None:
        """Append a receipt that exists already."""
        self.receipts.append(sealed)
        self.leaves.append(leaf_hash(sealed))

    def branch(self, length: int, *, mark: str = "second") -> Ledger:
        """A ledger with the same first `length` receipts, that will go on differently."""
        twin = Ledger(pool=self.pool, steward=self.steward, mark=mark)
        for receipt in self.receipts[:length]:
            twin.take(receipt)
        return twin

    def head(
        self,
        length: int | None = None,
        *,
        steward: SeedSigner | None = None,
        root: bytes | None = None,
        head: bytes | None = None,
        closed_at_ms: int | None = None,
    ) -> bytes:
        """The signed head of the first `length` receipts (default: all), or one bent on purpose."""
        at = self.length if length is None else length
        return seal_head(
            steward or self.steward,
            self.pool,
            at,
            sha256(self.receipts[at - 1]).digest() if head is None else head,
            self.leaves.root(at) if root is None else root,
            START_MS + at if closed_at_ms is None else closed_at_ms,
        )
