"""Proof files: one receipt, or one head's place in a later one, shown to somebody with keys only.

A proof file is one deterministic CBOR map, readable by whoever has the trust file and nothing else.

    {"jc_receipt": "pool-proof/1",
     "receipt": bytes,                  the receipt, whole
     "head": bytes,                     the steward's signed head of a ledger that has it
     "inclusion": bytes,                RFC 9942 (`schemas.rfc9942`), where the maker has the
                                        steward's key; else "path": [hashes] alone
     "witnesses": [{"statement": bytes, "path": [hashes]}]}

Each witness entry is a countersignature, at any length, with the consistency path between that
length and the head's (empty where they are equal): witnesses go at their own pace, and k of them
seldom sign one head.

`check_proof` checks, in this order, and the first fault is what it raises:
1. `shape`: the file is such a map.
2. `receipt`: the receipt is well-formed and its steward's; `trust`: that steward is trusted.
3. `head`: the head is a trusted steward's and of that pool.
4. `size`, `index`, `length`, `hash`, `root`, `signature`: the receipt is in that head's tree.
5. Witness entries that do not open, are unknown, or whose path does not hold, are not counted. A
   trusted witness's signature at the head's own length over another end makes it `forked`.
6. The grade: `witnessed` if at least k trusted witnesses vouch for a length that includes the
   receipt, else `self-attested`.

Profile: §6.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NoReturn

from schemas import cbor, cose, rfc9942
from schemas.grading import LedgerGrade, Trusted
from schemas.heads import (
    Countersignature,
    Head,
    Signed,
    StatementError,
    open_countersignature,
    open_head,
)
from schemas.keys import Signer, from_did_key
from schemas.merkle import (
    HashStore,
    ProofError,
    ProofFault,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)
from schemas.receipts import Receipt, ReceiptError, parse_core
from schemas.wellformed import CborError

PROOF_KIND: Final = "pool-proof/1"
WITNESSES_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport:
    """What a proof shows: this receipt stands in a ledger of `length`, attested so far.

    `witnessed_by` are the trusted witnesses that vouch for it, `quorum` how many were wanted.
    """

    receipt: Receipt
    length: int
    grade: LedgerGrade
    witnessed_by: tuple[str, ...]
    quorum: int
    warnings: tuple[str, ...]


def make_proof(
    *,
    receipt: bytes,
    seq: int,
    leaves: HashStore,
    heads: Iterable[bytes],
    countersignatures: Iterable[bytes] = (),
    signer: Signer | None = None,
) -> bytes:
    """The proof file of receipt `seq` of the ledger whose leaf hashes are `leaves`.

    Of `heads` the longest that this ledger bears out is taken, of `countersignatures` each key's
    longest. With the steward's `signer` the inclusion is an RFC 9942 receipt. Raises
    ProofError(`head`) if no head includes the receipt.
    """
    head = _best_head(seq, leaves, heads)
    end = head.statement.end
    path = leaves.inclusion_path(index=seq, size=end.length)
    core: dict[str, object] = {
        "jc_receipt": PROOF_KIND,
        "receipt": receipt,
        "head": head.data,
        "witnesses": _entries(seq, end.length, leaves, countersignatures),
    }
    if signer is not None and signer.public_key == head.key and path:
        core["inclusion"] = rfc9942.seal_inclusion(
            signer, root=end.root, size=end.length, index=seq, path=path
        )
    else:
        core["path"] = path
    return cbor.encode(core)


def check_proof(data: bytes, trusted: Trusted) -> ProofReport:
    """What the proof file shows to somebody who trusts `trusted`. Raises ProofError."""
    file = _file(data)
    receipt_data = _bytes(file, "receipt")
    receipt = _trusted_receipt(receipt_data, trusted)
    head = _trusted_head(_bytes(file, "head"), trusted)
    _check_included(file, receipt_data, receipt.seq, head)
    vouching, contradicted = _vouching(file, receipt.seq, head, trusted)
    witnessed = 0 < trusted.quorum <= len(vouching)
    grade = LedgerGrade.WITNESSED if witnessed else LedgerGrade.SELF_ATTESTED
    return ProofReport(
        receipt=receipt,
        length=head.statement.end.length,
        grade=LedgerGrade.FORKED if contradicted else grade,
        witnessed_by=tuple(sorted(vouching)),
        quorum=trusted.quorum,
        warnings=trusted.warnings,
    )


def pool_of_proof(data: bytes) -> str:
    """Which pool the proof's receipt names: to find the entry of a trust file. Raises ProofError.

    Nothing is verified yet.
    """
    return _receipt(_bytes(_file(data), "receipt"))[1].pool


def check_same_history(
    old: Signed[Head], new: Signed[Head], *, consistency: bytes | Sequence[bytes]
) -> None:
    """Check that the ledger of head `new` begins with that of head `old`.

    `consistency` is an RFC 9942 receipt or a bare path. Raises ProofError.
    """
    first, second = old.statement.end, new.statement.end
    if first.pool != second.pool:
        raise ProofError(ProofFault.HEAD, "heads of two pools")
    if isinstance(consistency, bytes):
        rfc9942.check_consistency(consistency, old=old, new=new)
        return
    verify_consistency(
        old_size=first.length,
        new_size=second.length,
        old_root=first.root,
        new_root=second.root,
        path=consistency,
    )


def _best_head(seq: int, leaves: HashStore, heads: Iterable[bytes]) -> Signed[Head]:
    best: Signed[Head] | None = None
    for data in heads:
        try:
            head = open_head(data)
        except StatementError:
            continue
        length = head.statement.end.length
        if not seq < length <= leaves.size or (best and best.statement.end.length >= length):
            continue
        if leaves.root(length) == head.statement.end.root:
            best = head
    if best is None:
        raise ProofError(ProofFault.HEAD, f"no signed head of this ledger includes receipt {seq}")
    return best


def _entries(
    seq: int, length: int, leaves: HashStore, countersignatures: Iterable[bytes]
) -> list[dict[str, object]]:
    longest: dict[bytes, Signed[Countersignature]] = {}
    for data in countersignatures:
        try:
            signed = open_countersignature(data)
        except StatementError:
            continue
        end = signed.statement.end
        known = longest.get(signed.key)
        if not seq < end.length <= leaves.size or leaves.root(end.length) != end.root:
            continue
        if known is None or known.statement.end.length < end.length:
            longest[signed.key] = signed
    chosen = sorted(longest.values(), key=lambda signed: -signed.statement.end.length)
    return [
        {"statement": signed.data, "path": _between(leaves, length, signed.statement.end.length)}
        for signed in chosen[:WITNESSES_MAX]
    ]


def _between(leaves: HashStore, one: int, other: int) -> list[bytes]:
    return leaves.consistency_path(old_size=min(one, other), new_size=max(one, other))


def _file(data: bytes) -> dict[str, cbor.Value]:
    try:
        file = cbor.decode(data)
    except CborError as error:
        raise ProofError(ProofFault.SHAPE, f"not a proof file: {error.detail}") from error
    if not isinstance(file, dict) or file.get("jc_receipt") != PROOF_KIND:
        raise ProofError(ProofFault.SHAPE, f"not a {PROOF_KIND} file")
    proofs = file.keys() & {"inclusion", "path"}
    if len(proofs) != 1 or file.keys() - proofs != {"jc_receipt", "receipt", "head", "witnesses"}:
        raise ProofError(ProofFault.SHAPE, "members missing or unknown")
    return file


def _receipt(data: bytes) -> tuple[cose.Sealed, Receipt]:
    try:
        sealed = cose.split(data)
        return sealed, parse_core(sealed.payload)
    except (cose.CoseError, CborError, ReceiptError) as error:
        raise ProofError(ProofFault.RECEIPT, str(error)) from error


def _trusted_receipt(data: bytes, trusted: Trusted) -> Receipt:
    sealed, receipt = _receipt(data)
    key = from_did_key(receipt.steward)
    try:
        cose.verify_signature(sealed, key)
    except cose.CoseError as error:
        raise ProofError(ProofFault.RECEIPT, str(error)) from error
    if receipt.pool != trusted.pool or key not in trusted.stewards:
        raise ProofError(ProofFault.TRUST, f"{receipt.steward} is not trusted for {receipt.pool}")
    return receipt


def _trusted_head(data: bytes, trusted: Trusted) -> Signed[Head]:
    try:
        head = open_head(data, trusted.stewards)
    except StatementError as error:
        raise ProofError(ProofFault.HEAD, str(error)) from error
    if head.statement.end.pool != trusted.pool:
        raise ProofError(ProofFault.HEAD, "a head of another pool")
    return head


def _check_included(
    file: dict[str, cbor.Value], receipt: bytes, seq: int, head: Signed[Head]
) -> None:
    end, leaf = head.statement.end, leaf_hash(receipt)
    if "inclusion" in file:
        data = _bytes(file, "inclusion")
        rfc9942.check_inclusion(data, leaf=leaf, index=seq, head=head)
    else:
        path = _hashes(file["path"])
        verify_inclusion(leaf=leaf, index=seq, size=end.length, path=path, root=end.root)
    if seq == end.length - 1 and sha256(receipt).digest() != end.head:
        raise ProofError(ProofFault.HEAD, "the head names another last receipt")


def _vouching(
    file: dict[str, cbor.Value], seq: int, head: Signed[Head], trusted: Trusted
) -> tuple[set[str], bool]:
    """The names of the witnesses that vouch for the receipt, and whether one contradicts."""
    names = {key: name for name, key in trusted.witnesses.items()}
    entries = file["witnesses"]
    if not isinstance(entries, list) or len(entries) > WITNESSES_MAX:
        raise ProofError(ProofFault.SHAPE, f"witnesses: not a list of at most {WITNESSES_MAX}")
    vouching: set[str] = set()
    contradicted = False
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != {"statement", "path"}:
            raise ProofError(ProofFault.SHAPE, "witnesses: not maps of statement and path")
        try:
            signed = open_countersignature(_bytes(entry, "statement"), names.keys())
            contradicted |= _contradicts(signed, head)
            _check_covers(signed, _hashes(entry["path"]), seq, head)
        except (StatementError, ProofError):
            continue
        vouching.add(names[signed.key])
    return vouching, contradicted


def _contradicts(signed: Signed[Countersignature], head: Signed[Head]) -> bool:
    one, other = signed.statement.end, head.statement.end
    return (one.pool, one.length) == (other.pool, other.length) and one != other


def _check_covers(
    signed: Signed[Countersignature], path: Sequence[bytes], seq: int, head: Signed[Head]
) -> None:
    """Raises ProofError unless the countersigned ledger has the receipt and is the head's."""
    vouched, end = signed.statement.end, head.statement.end
    if vouched.pool != end.pool or seq >= vouched.length:
        raise ProofError(ProofFault.HEAD, "the countersignature does not cover the receipt")
    old, new = sorted((vouched, end), key=lambda one: one.length)
    verify_consistency(
        old_size=old.length,
        new_size=new.length,
        old_root=old.root,
        new_root=new.root,
        path=path,
    )


def _bytes(members: dict[str, cbor.Value], name: str) -> bytes:
    value = members[name]
    return value if isinstance(value, bytes) else _refuse(f"{name}: not a byte string")


def _hashes(value: cbor.Value) -> list[bytes]:
    if not isinstance(value, list):
        _refuse("a path: not an array")
    return [item if isinstance(item, bytes) else _refuse("a path: not hashes") for item in value]


def _refuse(detail: str) -> NoReturn:
    raise ProofError(ProofFault.SHAPE, detail)
