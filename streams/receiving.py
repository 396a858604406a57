"""Receipts as they come: from a log's partition to the receipts of one pool, checked.

Not here: verifying a ledger from its start, which takes more (`schemas.chain`).

1. Each receipt is opened and its signature checked. The first one seen is believed as it stands;
   from then on a record counts only if it extends the one before, and anything else is passed over.
2. A receipt's place in the log is found by halving, since a pool's `seq` rises with the offset.

Invariant: receipts are given in order, each `seq` once, without a hole.
Profile: §6.5.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from schemas import cose
from schemas.cose import CoseError
from schemas.keys import KeyRefused, from_did_key
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.records import Kind
from schemas.wellformed import CborError
from streams import topics
from streams.logs.contract import LogReader, Record

WINDOW_RECORDS: Final = 512
WAIT_MS: Final = 1000
FAULTS: Final = (CoseError, CborError, ReceiptError, KeyRefused)


class Untrusted(Exception):
    """The ledger is written with a key that is not among those given: `steward`, a `did:key`."""

    def __init__(self, pool: str, steward: str) -> None:
        self.steward = steward
        super().__init__(f"pool {pool!r} is written by {steward}, which is not trusted here")


class Link:
    """The end of what was seen of a pool's chain, and whether a record extends it.

    `stewards`: raw public keys that may have written it; None: whichever it names. A key handed
    over to by a receipt that was checked is trusted too (profile §6.10).
    """

    def __init__(self, pool: str, stewards: Collection[bytes] | None = None) -> None:
        self.pool = pool
        self._key = pool.encode()
        self._stewards = None if stewards is None else set(stewards)
        self._seq_next: int | None = None
        self._head = b""

    def push(self, record: Record) -> Receipt | None:
        """The record's receipt if it is this pool's and extends what was seen. Raises Untrusted."""
        if record.key != self._key:
            return None
        try:
            sealed, receipt = open_receipt(record.value)
            if receipt.pool != self.pool or not self._extends(receipt):
                return None
            public_key = from_did_key(receipt.steward)
            cose.verify_signature(sealed, public_key)
        except FAULTS:
            return None
        if self._stewards is not None:
            if public_key not in self._stewards:
                raise Untrusted(self.pool, receipt.steward)
            if receipt.kind is Kind.STEWARD_ROTATED:
                self._stewards.add(from_did_key(str(receipt.body["steward"])))
        self._seq_next = receipt.seq + 1
        self._head = sha256(record.value).digest()
        return receipt

    def _extends(self, receipt: Receipt) -> bool:
        if self._seq_next is None:
            return True
        return receipt.seq == self._seq_next and receipt.prev == self._head


async def follow(
    log: LogReader,
    pool: str,
    *,
    seq_from: int = 0,
    seq_until: int | None = None,
    stewards: Collection[bytes] | None = None,
) -> AsyncIterator[Receipt]:
    """A pool's receipts from a `seq` on, as they come; ends only before `seq_until`.

    Raises: LogTrouble, Untrusted.
    """
    partition = topics.partition_for(pool.encode(), await log.partitions())
    offset = await _offset_before(log, partition, pool, seq_from)
    link = Link(pool, stewards)
    while True:
        fetched = await log.read(topics.LEDGER, partition, offset_next=offset, timeout_ms=WAIT_MS)
        offset = fetched.offset_next
        for record in fetched.records:
            receipt = link.push(record)
            if receipt is None or receipt.seq < seq_from:
                continue
            if seq_until is not None and receipt.seq >= seq_until:
                return
            yield receipt
            if receipt.seq + 1 == seq_until:
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    offset: int
    seq: int


async def _offset_before(log: LogReader, partition: int, pool: str, seq: int) -> int:
    """An offset at or before the pool's receipt `seq`; not far before it if that can be told."""
    low = await log.start(topics.LEDGER, partition)
    high = await log.end(topics.LEDGER, partition)
    while seq and high - low > WINDOW_RECORDS:
        middle = (low + high) // 2
        place = await _first(log, partition, pool, middle)
        if place is None:
            # No receipt of this pool nearby: nothing tells on which side it lies.
            break
        if place.seq <= seq:
            low = max(place.offset, middle)
        else:
            high = middle
    return low


async def _first(log: LogReader, partition: int, pool: str, offset: int) -> _Place | None:
    """The pool's first receipt at or after an offset, within one window."""
    fetched = await log.read(
        topics.LEDGER, partition, offset_next=offset, max_records=WINDOW_RECORDS
    )
    for record in fetched.records:
        if record.key == pool.encode():
            try:
                return _Place(offset=record.offset, seq=open_receipt(record.value)[1].seq)
            except FAULTS:
                continue
    return None
