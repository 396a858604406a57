"""Verification of a ledger: one numbered procedure, one receipt at a time.

What is signed about a ledger as a whole is in `schemas.heads`; whether its decisions follow from
its events is for a replay, in `streams`, to say: it reports `replay`, this module never does.

For the receipt at index n, which is the next one due, in this order; the first fault is reported
as `Broken(index=n, check, detail)`, and the reader stays where it was:
1. `decode`: the bytes are one COSE_Sign1 (`schemas.cose`), at most 1 MiB, and its payload one item
   of the data model (`schemas.cbor`). A core without §6.5's members is also refused as `decode`,
   but after step 2, because only deterministic bytes are read further.
2. `canonical`: envelope, protected header and core are in deterministic encoding.
3. `headers`: protected `{1: -8, 4: kid}`, unprotected empty.
4. `signature`: `steward` is the key due: at index 0 one the reader trusts (any, if none is named),
   later the same, or the one that the last `steward.rotated` handed over to. The kid is
   that key's, and its signature verifies.
5. `sequence`: `pool` is the chain's; `seq` is n; the cause goes on where the last one was: the
   same event's next `index`, or, if that was complete, an event at `index` 0 whose offset is not
   behind the last of its topic and partition; `closed_at` is not before the last one.
6. `chain`: `prev` is SHA-256 of the receipt before, 32 zero bytes at index 0.

A ledger that ends inside an event is broken (`sequence`) at its end: events are appended whole.

Invariant: after n accepted receipts `length` is n, `head` the hash of the last one, and
`positions` where each input is to be read on.
Profile: §6.5, §6.6, §6.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from hashlib import sha256
from typing import Literal, get_args

from schemas import cose
from schemas.batch import BATCH_TASKS, verify_signatures
from schemas.cose import CoseError, Sealed, SignatureTask
from schemas.keys import KeyRefused, from_did_key
from schemas.merkle import Frontier, ProofError, leaf_hash
from schemas.receipts import HASH_BYTES, NO_RECEIPT, Cause, Receipt, ReceiptError, open_receipt
from schemas.records import Kind
from schemas.wellformed import CborError

Check = Literal["decode", "canonical", "headers", "signature", "sequence", "chain", "replay"]

CHECKS: tuple[Check, ...] = get_args(Check)
"""Every check, in the order of the procedure."""


class Broken(Exception):
    """The first receipt that does not belong where it is, and the check that says so."""

    def __init__(self, index: int, check: Check, detail: str) -> None:
        super().__init__(f"receipt {index}: {check}: {detail}")
        self.index = index
        self.check: Check = check
        self.detail = detail


class ChainReader:
    """A verified chain's end, and the receipts that may come next. Mutable; `copy()` to try out.

    `pool` None takes the first receipt's. `stewards` are the raw keys that may have begun the
    chain; None takes the first receipt's own, which makes the ledger self-attested at best.
    With `check_signatures=False` step 4 leaves the signature itself to the caller, who must check
    every one of `take_deferred()` before believing anything read here.
    """

    __slots__ = (
        "_deferred",
        "_deferred_from",
        "_last_cause",
        "_steward_did",
        "_stewards",
        "check_signatures",
        "closed_at_ms",
        "frontier",
        "head",
        "length",
        "pool",
        "positions",
        "steward",
    )

    def __init__(
        self,
        pool: str | None = None,
        stewards: Iterable[bytes] | None = None,
        *,
        check_signatures: bool = True,
    ) -> None:
        self.pool = pool
        self.length = 0
        self.head = NO_RECEIPT
        self.steward: bytes | None = None
        self.frontier = Frontier()
        self.positions: dict[tuple[str, int], int] = {}
        self.closed_at_ms = 0
        self._steward_did: str | None = None
        self._stewards = None if stewards is None else frozenset(stewards)
        self._last_cause: Cause | None = None
        self.check_signatures = check_signatures
        self._deferred: list[SignatureTask] = []
        self._deferred_from = 0

    @property
    def event_open(self) -> bool:
        """Whether receipts of the last event are still to come."""
        cause = self._last_cause
        return cause is not None and cause.index + 1 < cause.count

    def root(self) -> bytes:
        """The RFC 9162 root over the receipts so far, 32 bytes."""
        return self.frontier.root()

    def push(self, data: bytes) -> Receipt:
        """The receipt in `data`, accepted as the next one. Raises `Broken`, changing nothing."""
        try:
            sealed, receipt = open_receipt(data)
            self._check_signer(sealed, receipt)
        except (CoseError, CborError, ReceiptError) as error:
            raise Broken(self.length, error.check, error.detail) from error
        fault = self._sequence_fault(receipt)
        if fault:
            raise Broken(self.length, "sequence", fault)
        if receipt.prev != self.head:
            raise Broken(self.length, "chain", "prev is not the hash of the receipt before")
        self.advance(data, receipt)
        return receipt

    def advance(self, data: bytes, receipt: Receipt) -> None:
        """Accept `data` unchecked as the next receipt: for the one who has just sealed it."""
        cause = receipt.cause
        self.pool = receipt.pool
        self.length += 1
        self.head = sha256(data).digest()
        self.frontier.append(leaf_hash(data))
        self.closed_at_ms = receipt.closed_at_ms
        self._last_cause = cause
        if cause.index + 1 == cause.count:
            self.positions[cause.topic, cause.partition] = cause.offset + 1
        if receipt.kind is Kind.STEWARD_ROTATED:
            self._set_steward(str(receipt.body["steward"]))
        elif receipt.steward != self._steward_did:
            self._set_steward(receipt.steward)

    def take_deferred(self) -> tuple[int, list[SignatureTask]]:
        """The signatures left to the caller since the last call, and the first one's index.

        One a receipt, in order; the last may be that of a receipt which then broke in step 5 or 6.
        """
        taken = self._deferred_from, self._deferred
        self._deferred_from, self._deferred = self.length, []
        return taken

    def check_complete(self) -> None:
        """Raises `Broken("sequence")` if the ledger ends inside an event."""
        cause = self._last_cause
        if cause is not None and self.event_open:
            detail = f"the ledger ends after {cause.index + 1} of an event's {cause.count} receipts"
            raise Broken(self.length, "sequence", detail)

    def copy(self) -> ChainReader:
        """An independent reader at the same place."""
        twin = copy(self)
        twin.frontier = self.frontier.copy()
        twin.positions = self.positions.copy()
        twin._deferred = self._deferred.copy()
        return twin

    def _set_steward(self, did: str) -> None:
        self._steward_did, self.steward = did, from_did_key(did)

    def _check_signer(self, sealed: Sealed, receipt: Receipt) -> None:
        """Step 4. Raises `CoseError("signature")`."""
        key = self.steward
        if key is None:
            key = from_did_key(receipt.steward)
            if self._stewards is not None and key not in self._stewards:
                raise CoseError("signature", f"{receipt.steward} is not trusted for this pool")
        elif receipt.steward != self._steward_did:
            raise CoseError("signature", f"{receipt.steward} was not handed the ledger")
        if self.check_signatures:
            cose.verify_signature(sealed, key)
        else:
            self._deferred.append(cose.signature_task(sealed, key))

    def _sequence_fault(self, receipt: Receipt) -> str:
        """Step 5: what is wrong with the receipt's place, or nothing."""
        if self.pool is not None and receipt.pool != self.pool:
            return f"a receipt of pool {receipt.pool!r}"
        if receipt.seq != self.length:
            return f"seq {receipt.seq} where {self.length} is due"
        cause_fault = self._cause_fault(receipt.cause)
        if not cause_fault and receipt.closed_at_ms < self.closed_at_ms:
            return "closed before the receipt before it"
        return cause_fault

    def _cause_fault(self, cause: Cause) -> str:
        last = self._last_cause
        if last is not None and last.index + 1 < last.count:
            if cause.index != last.index + 1 or _event_of(cause) != _event_of(last):
                return f"receipt {last.index + 1} of {last.count} of the last event is due"
            return ""
        if cause.index != 0:
            return f"an event begins with its receipt {cause.index}"
        if cause.offset < self.positions.get((cause.topic, cause.partition), 0):
            return f"its cause, offset {cause.offset}, was decided before"
        return ""

    def to_plain(self) -> dict[str, object]:
        """The place as a map that `schemas.cbor` can write, between two events, for a snapshot."""
        assert not self.event_open, "only a place between two events is resumed"
        assert self.length, "and not the start"
        return {
            "pool": self.pool,
            "length": self.length,
            "head": self.head,
            "steward": self._steward_did,
            "closed_at_ms": self.closed_at_ms,
            "positions": [[*place, offset] for place, offset in self.positions.items()],
            "frontier": self.frontier.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: object) -> ChainReader:
        """The reader that `to_plain` describes. Raises `ReceiptError` if it describes none."""
        reader = cls()
        try:
            reader._restore(plain)
        except (ProofError, KeyRefused) as error:
            raise ReceiptError("place", str(error)) from error
        return reader

    def _restore(self, plain: object) -> None:
        match plain:
            case {
                "pool": str(pool),
                "length": int(length),
                "head": bytes(head),
                "steward": str(steward),
                "closed_at_ms": int(closed_at_ms),
                "positions": list(positions),
                "frontier": frontier,
            }:
                self.pool, self.length, self.head = pool, length, head
                self._deferred_from = length
                self.closed_at_ms = closed_at_ms
                self._set_steward(steward)
                self.frontier = Frontier.from_plain(frontier)
                self.positions = dict(_position_of(position) for position in positions)
            case _:
                raise ReceiptError("place", "not a place in a chain")
        if self.frontier.size != length or length < 1 or len(head) != HASH_BYTES:
            raise ReceiptError("place", "length, head and frontier do not go together")


def verify_chain(
    items: Iterable[bytes],
    pool: str | None = None,
    stewards: Iterable[bytes] | None = None,
    *,
    threads: int = 1,
) -> ChainReader:
    """The reader at the end of a whole ledger, every receipt of it verified. Raises `Broken`.

    With `threads` above 1 signatures are checked in batches, to the same result. An
    iterator that raises `CborError` (`schemas.cbor.split_sequence`) breaks the ledger, too.
    """
    reader = ChainReader(pool, stewards, check_signatures=threads <= 1)
    if threads <= 1:
        for _ in _pushes(reader, items):
            pass
    else:
        _push_batched(reader, items, threads)
        reader.check_signatures = True
    reader.check_complete()
    return reader


def _push_batched(reader: ChainReader, items: Iterable[bytes], threads: int) -> None:
    """Push every item, checking signatures a batch at a time; raises the first fault by index."""
    try:
        for _ in _pushes(reader, items):
            if reader.length % BATCH_TASKS == 0:
                _check_deferred(reader, threads)
    except Broken:
        _check_deferred(reader, threads)
        raise
    _check_deferred(reader, threads)


def _check_deferred(reader: ChainReader, threads: int) -> None:
    """Raises `Broken("signature")` at the first bad one of the signatures left to the caller.

    That is earlier than any `Broken` before it: these receipts were accepted, or got to step 5.
    """
    start, tasks = reader.take_deferred()
    bad = verify_signatures(tasks, threads=threads)
    if bad is not None:
        raise Broken(start + bad, "signature", cose.NOT_SIGNED)


def _pushes(reader: ChainReader, items: Iterable[bytes]) -> Iterator[Receipt]:
    """Push every item, one a step. Raises `Broken`."""
    try:
        for data in items:
            yield reader.push(data)
    except CborError as error:
        raise Broken(reader.length, error.check, error.detail) from error


def _event_of(cause: Cause) -> tuple[str, int, int, bytes, int]:
    """What the causes of one event's receipts have in common."""
    return cause.topic, cause.partition, cause.offset, cause.digest, cause.count


def _position_of(plain: object) -> tuple[tuple[str, int], int]:
    """A place to read on from, as `to_plain` has it."""
    match plain:
        case [str(topic), int(partition), int(offset)]:
            return (topic, partition), offset
        case _:
            raise ReceiptError("place", "not a position in an input")
