"""What a witness keeps of one pool: where it stands, what it signed there, and any fork.

Where records lie is `witness.store`; how they come about is `witness.follow`.

1. A record is one deterministic CBOR map. Its bytes are the token of the store's compare-and-swap.
2. `place` is the verified chain's end (`schemas.chain.ChainReader.to_plain`) at exactly the length
   that was countersigned; `head` and `countersignature` are the two statements about it.
3. `keys` says from which length on which steward's key signs heads, following the handovers inside
   the chain (profile §6.10).
4. A record that is read again is verified again: both signatures, and that place, head and
   countersignature speak of one end. That finds damage, not rollback: an older record is as valid.

Profile: §6.7.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas import cbor
from schemas.chain import ChainReader
from schemas.forks import Fork, open_fork
from schemas.heads import (
    Countersignature,
    End,
    Head,
    Signed,
    StatementError,
    open_countersignature,
    open_head,
)
from schemas.keys import KeyRefused, check_public_key
from schemas.receipts import ReceiptError
from schemas.wellformed import CborError

Keys = tuple[tuple[int, bytes], ...]
"""(the first length whose head is this key's, raw public key), in rising order."""


class RecordDamaged(Exception):
    """A stored record that is not what a witness with this key wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What was countersigned: the steward's head, our statement, and the chain's place there."""

    place: dict[str, object]
    head: Signed[Head]
    countersignature: Signed[Countersignature]

    @property
    def end(self) -> End:
        """Pool, length, head and root."""
        return self.head.statement.end

    def chain(self) -> ChainReader:
        """A reader that goes on from here."""
        return ChainReader.from_plain(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One pool's record. `standing` is None until the first signature, `fork` until a fork."""

    pool: str
    keys: Keys
    standing: Standing | None = None
    fork: Signed[Fork] | None = None

    @property
    def length(self) -> int:
        """The length that was last countersigned; 0 for none."""
        return 0 if self.standing is None else self.standing.end.length

    @property
    def closed_at_ms(self) -> int:
        """The time of the last countersignature; 0 for none."""
        if self.standing is None:
            return 0
        return self.standing.countersignature.statement.closed_at_ms

    def encode(self) -> bytes:
        """The record's bytes."""
        standing = self.standing
        return cbor.encode(
            {
                "pool": self.pool,
                "keys": [[length, key] for length, key in self.keys],
                "place": None if standing is None else standing.place,
                "head": None if standing is None else standing.head.data,
                "countersignature": None if standing is None else standing.countersignature.data,
                "fork": None if self.fork is None else self.fork.data,
            }
        )


def decode(body: bytes, own_key: bytes) -> Record:
    """The record of these bytes, verified. Raises RecordDamaged."""
    try:
        record = _parts(cbor.decode(body), own_key)
    except (CborError, StatementError, ReceiptError, KeyRefused) as error:
        raise RecordDamaged(str(error)) from error
    if record.standing is not None:
        _check_agreement(record, record.standing)
    return record


def _parts(members: cbor.Value, own_key: bytes) -> Record:
    match members:
        case {
            "pool": str(pool),
            "keys": list(keys),
            "place": place,
            "head": head,
            "countersignature": countersignature,
            "fork": fork,
        }:
            return Record(
                pool=pool,
                keys=tuple(_key(entry) for entry in keys),
                standing=_standing(place, head, countersignature, own_key),
                fork=_fork(fork, own_key),
            )
        case _:
            raise RecordDamaged("members missing")


def _key(entry: cbor.Value) -> tuple[int, bytes]:
    match entry:
        case [int(length), bytes(key)]:
            check_public_key(key)
            return length, key
        case _:
            raise RecordDamaged("keys are pairs of a length and a key")


def _standing(
    place: cbor.Value, head: cbor.Value, countersignature: cbor.Value, own_key: bytes
) -> Standing | None:
    match place, head, countersignature:
        case None, None, None:
            return None
        case dict(plain), bytes(head_data), bytes(own_data):
            return Standing(
                place=dict(plain),
                head=open_head(head_data),
                countersignature=open_countersignature(own_data, {own_key}),
            )
        case _:
            raise RecordDamaged("place, head and countersignature go together")


def _fork(fork: cbor.Value, own_key: bytes) -> Signed[Fork] | None:
    match fork:
        case None:
            return None
        case bytes(data):
            return open_fork(data, signers={own_key})
        case _:
            raise RecordDamaged("fork: no statement")


def _check_agreement(record: Record, standing: Standing) -> None:
    """Rule 4: one end, in the chain's place and in both statements."""
    chain = standing.chain()
    place = End(pool=chain.pool or "", length=chain.length, head=chain.head, root=chain.root())
    statement = standing.countersignature.statement
    if not place == standing.end == statement.end or place.pool != record.pool:
        raise RecordDamaged("place, head and countersignature speak of several ends")
    if statement.head_digest != standing.head.digest:
        raise RecordDamaged("the countersignature is over another head")
    if key_due(record.keys, place.length) != standing.head.key:
        raise RecordDamaged("the head is not by the key that was due")


def key_due(keys: Keys, length: int) -> bytes | None:
    """Whose head of this length counts; None before the first receipt is known."""
    due = None
    for length_from, key in keys:
        if length_from <= length:
            due = key
    return due
