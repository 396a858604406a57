"""Signed statements about a ledger's length: the steward's heads, witnesses' countersignatures.

Following a ledger is `schemas.chain`; whose statements count is `schemas.trust`; two heads that
contradict each other are `schemas.forks`.

1. A statement is a COSE_Sign1 exactly as a receipt is (`schemas.cose`): the same headers, the same
   deterministic CBOR, one flat map whose `jc_receipt` says which kind it is.
2. `open_*` check, in this order: `decode`, `canonical`, `headers` (the envelope), then `decode`,
   `canonical` of the core, `members` (exactly the kind's, each of its type and in its range), then
   `key` (the signer is one of `signers`, where that is given), then `signature`.
3. A statement names its signer; that it verifies says only that this key signed it. Compare
   `Signed.key`, the 32 raw bytes, never names or kids.

Invariant: `open_head(seal_head(...)).statement` says what was sealed.
Profile: §6.7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Generic, Literal, TypeVar

from schemas import cbor, cose
from schemas.keys import KeyRefused, Signer, did_key, from_did_key
from schemas.receipts import HASH_BYTES, ReceiptError, parse_rfc3339_ms, rfc3339_ms
from schemas.records import QUANTITY_LIMIT, Value
from schemas.wellformed import CborError

HEAD_KIND: Final = "pool-head/1"
WITNESS_KIND: Final = "pool-witness/1"
FORK_KIND: Final = "pool-fork/1"

Check = Literal["decode", "canonical", "headers", "members", "key", "signature", "contradiction"]
Core = Mapping[str, Value]

_END_MEMBERS: Final = frozenset(("jc_receipt", "pool", "length", "head", "root", "closed_at"))
_HEAD_MEMBERS: Final = _END_MEMBERS | {"steward"}
_WITNESS_MEMBERS: Final = _END_MEMBERS | {"head_digest", "witness"}


class StatementError(Exception):
    """Bytes that are no statement of the kind asked for; `check` is the first that fails."""

    def __init__(self, check: Check, detail: str) -> None:
        super().__init__(f"{check}: {detail}")
        self.check: Check = check
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What a ledger of `length` receipts comes to: SHA-256 of the last one, and the tree's root."""

    pool: str
    length: int
    head: bytes
    root: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The steward's word for an end. `steward` is a `did:key`, `closed_at_ms` the ledger's time."""

    end: End
    closed_at_ms: int
    steward: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Countersignature:
    """A witness's word: it followed the ledger to this end itself.

    `head_digest` is SHA-256 of the steward's signed head, `closed_at_ms` the witness's own time.
    """

    end: End
    closed_at_ms: int
    head_digest: bytes
    witness: str


Said = TypeVar("Said", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed(Generic[Said]):
    """An opened statement: what it says, its exact bytes, the raw key whose signature holds."""

    statement: Said
    data: bytes
    key: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the whole signed statement."""
        return sha256(self.data).digest()


def seal_head(
    signer: Signer, pool: str, length: int, head: bytes, root: bytes, closed_at_ms: int
) -> bytes:
    """The steward's signed head: what it publishes on `pool.heads`.

    `head` is SHA-256 of receipt `length` - 1, `root` the Merkle root over all, `closed_at_ms` the
    ledger's time.
    """
    assert length >= 1, "a ledger without receipts has no head"
    end = End(pool=pool, length=length, head=head, root=root)
    core = _end_core(HEAD_KIND, end, closed_at_ms) | {"steward": did_key(signer.public_key)}
    return cose.seal(signer, core)


def seal_countersignature(signer: Signer, head: Signed[Head], closed_at_ms: int) -> bytes:
    """A witness's signed statement over a head that it has checked for itself."""
    core = _end_core(WITNESS_KIND, head.statement.end, closed_at_ms)
    core |= {"head_digest": head.digest, "witness": did_key(signer.public_key)}
    return cose.seal(signer, core)


def open_head(data: bytes, signers: Collection[bytes] | None = None) -> Signed[Head]:
    """The head that these bytes are. Raises StatementError.

    `signers`: the raw public keys that may have signed it; None takes the key that it names.
    """
    sealed, core = open_core(data, HEAD_KIND, _HEAD_MEMBERS)
    key = signer_of(sealed, core, "steward", signers)
    head = Head(end=_end(core), closed_at_ms=instant(core), steward=text(core, "steward"))
    return Signed(statement=head, data=data, key=key)


def open_countersignature(
    data: bytes, signers: Collection[bytes] | None = None
) -> Signed[Countersignature]:
    """The countersignature that these bytes are. Raises StatementError. `signers` as above."""
    sealed, core = open_core(data, WITNESS_KIND, _WITNESS_MEMBERS)
    key = signer_of(sealed, core, "witness", signers)
    statement = Countersignature(
        end=_end(core),
        closed_at_ms=instant(core),
        head_digest=hash_of(core, "head_digest"),
        witness=text(core, "witness"),
    )
    return Signed(statement=statement, data=data, key=key)


def kind_of(data: bytes) -> str:
    """Which kind of statement these bytes say they are; nothing else about them is checked yet.

    Raises StatementError for bytes that are no sealed core with a `jc_receipt`.
    """
    return text(_core_of(data)[1], "jc_receipt")


def open_core(data: bytes, kind: str, members: frozenset[str]) -> tuple[cose.Sealed, Core]:
    """The parts of a statement of this kind with exactly these members. Raises StatementError."""
    sealed, core = _core_of(data)
    if core.get("jc_receipt") != kind:
        raise StatementError("members", f"not a {kind}")
    if core.keys() != members:
        odd = min(core.keys() ^ members)
        raise StatementError("members", f"{odd}: {'missing' if odd in members else 'unknown'}")
    return sealed, core


def signer_of(
    sealed: cose.Sealed, core: Core, member: str, signers: Collection[bytes] | None
) -> bytes:
    """The raw key named by `member`, once it is known to be allowed and to have signed."""
    try:
        key = from_did_key(text(core, member))
    except KeyRefused as refused:
        raise StatementError("members", f"{member}: {refused}") from refused
    if signers is not None and key not in signers:
        raise StatementError("key", f"{did_key(key)} is not a key that counts here")
    try:
        cose.verify_signature(sealed, key)
    except cose.CoseError as error:
        raise StatementError(error.check, error.detail) from error
    return key


def text(core: Core, member: str) -> str:
    """A text member that is not empty."""
    value = core.get(member)
    if not isinstance(value, str) or not value:
        raise StatementError("members", f"{member}: not a text")
    return value


def hash_of(core: Core, member: str) -> bytes:
    """A member of 32 bytes."""
    value = core.get(member)
    if not isinstance(value, bytes) or len(value) != HASH_BYTES:
        raise StatementError("members", f"{member}: not {HASH_BYTES} bytes")
    return value


def instant(core: Core) -> int:
    """`closed_at` in ms since the epoch."""
    try:
        return parse_rfc3339_ms(text(core, "closed_at"))
    except ReceiptError as error:
        raise StatementError("members", str(error)) from error


def _core_of(data: bytes) -> tuple[cose.Sealed, Core]:
    try:
        sealed = cose.split(data)
        core = cbor.decode(sealed.payload)
    except (cose.CoseError, CborError) as error:
        raise StatementError(error.check, error.detail) from error
    if not isinstance(core, dict):
        raise StatementError("members", "not a map")
    return sealed, core


def _end_core(kind: str, end: End, closed_at_ms: int) -> dict[str, object]:
    return {
        "jc_receipt": kind,
        "pool": end.pool,
        "length": end.length,
        "head": end.head,
        "root": end.root,
        "closed_at": rfc3339_ms(closed_at_ms),
    }


def _end(core: Core) -> End:
    length = core["length"]
    if type(length) is not int or not 1 <= length < QUANTITY_LIMIT:
        raise StatementError("members", "length: not an integer from 1 to 2**63 - 1")
    return End(
        pool=text(core, "pool"),
        length=length,
        head=hash_of(core, "head"),
        root=hash_of(core, "root"),
    )
