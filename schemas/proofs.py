"""Proof files: one receipt's place in a ledger, shown to somebody with keys only.

One head's place in a later one is `schemas.consistency`. A proof file is one deterministic CBOR
map, readable by whoever has the trust file and nothing else.

    {"jc_receipt": "pool-proof/1",
     "receipt": bytes,                  the receipt, whole
     "head": bytes,                     the steward's signed head of a ledger that has it
     "inclusion": bytes,                RFC 9942 (`schemas.rfc9942`), where the maker has the
                                        steward's key; else "path": [hashes] alone
     "witnesses": [...]}                countersignatures (`schemas.prooffile`)

`check_proof` checks, in this order, and the first fault is what it raises:
1. `shape`: the file is such a map.
2. `receipt`: the receipt is well-formed and its steward's; `trust`: that steward is trusted.
3. `head`: the head is a trusted steward's and of that pool.
4. `size`, `index`, `length`, `hash`, `root`, `signature`: the receipt is in that head's tree.
5. The grade: `witnessed` if at least k trusted witnesses vouch for a length that includes the
   receipt, else `self-attested`; `forked` if one of them signed another end of the head's length.

Profile: §6.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from schemas import cbor, cose, rfc9942
from schemas.consistency import CONSISTENCY_KIND
from schemas.grading import LedgerGrade, Trusted
from schemas.heads import End, Head, Signed, StatementError, open_head
from schemas.keys import Signer, from_did_key
from schemas.merkle import HashStore, ProofError, ProofFault, leaf_hash, verify_inclusion
from schemas.prooffile import (
    Members,
    best_head,
    bytes_in,
    check_entries,
    hashes,
    make_entries,
    members_of,
    refuse,
    trusted_head,
)
from schemas.receipts import Receipt, ReceiptError, parse_core
from schemas.wellformed import CborError

PROOF_KIND: Final = "pool-proof/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport:
    """What a proof shows: this receipt stands in the ledger that ends in `end`.

    `witnessed_by` are the trusted witnesses that vouch for the receipt, `quorum` how many were
    wanted, `witnessed_length` how far so many vouch: it may be less than `length`, or more.
    """

    receipt: Receipt
    end: End
    grade: LedgerGrade
    witnessed_length: int
    witnessed_by: tuple[str, ...]
    quorum: int
    warnings: tuple[str, ...]

    @property
    def length(self) -> int:
        """How many receipts the proof's head is of."""
        return self.end.length


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

    Of `heads` that this ledger bears out the longest is taken that one of `countersignatures` is
    of, else the longest; of `countersignatures` each key's longest. With the steward's `signer` the
    inclusion is an RFC 9942 receipt under a head of its own, unless that is of one receipt alone.
    Raises ProofError: `head` if no head includes the receipt, `signature` if none is the signer's.
    """
    statements = list(countersignatures)
    head = best_head(heads, leaves, statements, signer, least=seq + 1)
    end = head.statement.end
    path = leaves.inclusion_path(index=seq, size=end.length)
    core: dict[str, object] = {
        "jc_receipt": PROOF_KIND,
        "receipt": receipt,
        "head": head.data,
        "witnesses": make_entries(end.length, leaves, statements, least=seq + 1),
    }
    if signer is not None and path:
        core["inclusion"] = rfc9942.seal_inclusion(
            signer, root=end.root, size=end.length, index=seq, path=path
        )
    else:
        core["path"] = path
    return cbor.encode(core)


def check_proof(data: bytes, trusted: Trusted) -> ProofReport:
    """What the proof file shows to somebody who trusts `trusted`. Raises ProofError."""
    file = _file(data)
    receipt_data = bytes_in(file, "receipt")
    receipt = _trusted_receipt(receipt_data, trusted)
    head = trusted_head(bytes_in(file, "head"), trusted)
    end = head.statement.end
    _check_included(file, receipt_data, receipt.seq, head)
    vouched = check_entries(file["witnesses"], end, trusted, least=receipt.seq + 1)
    witnessed = vouched.witnessed(trusted.quorum)
    grade = LedgerGrade.WITNESSED if witnessed else LedgerGrade.SELF_ATTESTED
    return ProofReport(
        receipt=receipt,
        end=end,
        grade=LedgerGrade.FORKED if vouched.contradicted else grade,
        witnessed_length=witnessed,
        witnessed_by=tuple(sorted(vouched.reach)),
        quorum=trusted.quorum,
        warnings=trusted.warnings,
    )


def kind_of_proof(data: bytes) -> tuple[str, str]:
    """Which kind of proof a file says it is, and of which pool: to find whose keys count.

    Raises ProofError. Nothing is verified yet.
    """
    file = members_of(data)
    match file.get("jc_receipt"):
        case str(kind) if kind == PROOF_KIND:
            return kind, _receipt(bytes_in(_file(data), "receipt"))[1].pool
        case str(kind) if kind == CONSISTENCY_KIND and "new" in file:
            try:
                return kind, open_head(bytes_in(file, "new")).statement.end.pool
            except StatementError as error:
                raise ProofError(ProofFault.HEAD, str(error)) from error
    refuse("neither a proof of a receipt nor of consistency")


def _file(data: bytes) -> Members:
    file = members_of(data)
    if file.get("jc_receipt") != PROOF_KIND:
        refuse(f"not a {PROOF_KIND} file")
    proofs = file.keys() & {"inclusion", "path"}
    if len(proofs) != 1 or file.keys() - proofs != {"jc_receipt", "receipt", "head", "witnesses"}:
        refuse("members missing or unknown")
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


def _check_included(file: Members, receipt: bytes, seq: int, head: Signed[Head]) -> None:
    end, leaf = head.statement.end, leaf_hash(receipt)
    if "inclusion" in file:
        data = bytes_in(file, "inclusion")
        rfc9942.check_inclusion(data, leaf=leaf, index=seq, head=head)
    else:
        path = hashes(file["path"])
        verify_inclusion(leaf=leaf, index=seq, size=end.length, path=path, root=end.root)
    if seq == end.length - 1 and sha256(receipt).digest() != end.head:
        raise ProofError(ProofFault.HEAD, "the head names another last receipt")
