"""Consistency files: one head's ledger begins with another's, shown to somebody with keys only.

Whoever kept an old head, or an old copy, learns from it that nothing before that was changed. One
deterministic CBOR map:

    {"jc_receipt": "pool-consistency/1",
     "old": bytes, "new": bytes,        the steward's signed heads of the two lengths
     "consistency": bytes,              RFC 9942 (`schemas.rfc9942`), where the maker has the
                                        steward's key; else "path": [hashes] alone
     "witnesses": [...]}                under the new head (`schemas.prooffile`)

`check_consistency_file` checks, in this order, and the first fault is what it raises:
1. `shape`: the file is such a map.
2. `head`: both heads are trusted stewards' and of that pool.
3. `size`, `length`, `hash`, `root`, `signature`: the newer tree begins with the older.
4. The grade: `witnessed` to the length that at least k trusted witnesses vouch for, else
   `self-attested`; `forked` if one of them signed another end at one of the two lengths.

Profile: §6.9; RFC 9162 §2.1.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from schemas import cbor, rfc9942
from schemas.grading import LedgerGrade, Trusted
from schemas.heads import End, Head, Signed
from schemas.keys import Signer
from schemas.merkle import HashStore, ProofError, ProofFault, verify_consistency
from schemas.prooffile import (
    Members,
    best_head,
    borne_out,
    bytes_in,
    check_entries,
    hashes,
    make_entries,
    members_of,
    refuse,
    signed_by,
    trusted_head,
)

CONSISTENCY_KIND: Final = "pool-consistency/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsistencyReport:
    """What a consistency file shows: the ledger that ends in `new` begins with that of `old`.

    `witnessed_by` are the trusted witnesses that vouch for the first `witnessed_length` receipts.
    """

    old: End
    new: End
    grade: LedgerGrade
    witnessed_length: int
    witnessed_by: tuple[str, ...]
    quorum: int
    warnings: tuple[str, ...]


def make_consistency_file(
    *,
    old_length: int,
    new_length: int | None,
    leaves: HashStore,
    heads: Iterable[bytes],
    countersignatures: Iterable[bytes] = (),
    signer: Signer | None = None,
) -> bytes:
    """The file that leads from `old_length` to `new_length` of the ledger with these leaf hashes.

    None as `new_length` takes the head that a receipt just past the old end would be proved by.
    With the steward's `signer` the path is in an RFC 9942 receipt. Raises ProofError: `size` unless
    1 <= old < new <= the ledger's; `head` if the ledger has no signed head of one of the lengths;
    `signature` if none of the new length is the signer's.
    """
    statements = list(countersignatures)
    known = borne_out(heads, leaves, least=1)
    if new_length is None:
        data = (head.data for head in known)
        new = best_head(data, leaves, statements, signer, least=old_length + 1)
    elif not 1 <= old_length < new_length <= leaves.size:
        detail = f"nothing leads from {old_length} to {new_length} of {leaves.size} receipts"
        raise ProofError(ProofFault.SIZE, detail)
    else:
        new = signed_by(signer, _heads_of(known, new_length))[-1]
    old = _heads_of(known, old_length)[-1]
    end = new.statement.end
    path = leaves.consistency_path(old_size=old_length, new_size=end.length)
    core: dict[str, object] = {
        "jc_receipt": CONSISTENCY_KIND,
        "old": old.data,
        "new": new.data,
        "witnesses": make_entries(end.length, leaves, statements, least=1),
    }
    if signer is None:
        return cbor.encode(core | {"path": path})
    core["consistency"] = rfc9942.seal_consistency(
        signer,
        new_root=end.root,
        old_size=old_length,
        new_size=end.length,
        path=path,
    )
    return cbor.encode(core)


def check_consistency_file(data: bytes, trusted: Trusted) -> ConsistencyReport:
    """What the file shows to somebody who trusts `trusted`. Raises ProofError."""
    file = _file(data)
    old = trusted_head(bytes_in(file, "old"), trusted)
    new = trusted_head(bytes_in(file, "new"), trusted)
    first, second = old.statement.end, new.statement.end
    consistency: bytes | Sequence[bytes]
    consistency = bytes_in(file, "consistency") if "consistency" in file else hashes(file["path"])
    if first.length == second.length:
        raise ProofError(ProofFault.SIZE, "both heads are of one length")
    check_same_history(old, new, consistency=consistency)
    vouched = check_entries(file["witnesses"], second, trusted, least=1, known=(first,))
    witnessed = vouched.witnessed(trusted.quorum)
    grade = LedgerGrade.WITNESSED if witnessed else LedgerGrade.SELF_ATTESTED
    return ConsistencyReport(
        old=first,
        new=second,
        grade=LedgerGrade.FORKED if vouched.contradicted else grade,
        witnessed_length=witnessed,
        witnessed_by=tuple(sorted(n for n, to in vouched.reach.items() if 0 < witnessed <= to)),
        quorum=trusted.quorum,
        warnings=trusted.warnings,
    )


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


def _file(data: bytes) -> Members:
    file = members_of(data)
    if file.get("jc_receipt") != CONSISTENCY_KIND:
        refuse(f"not a {CONSISTENCY_KIND} file")
    proofs = file.keys() & {"consistency", "path"}
    if len(proofs) != 1 or file.keys() - proofs != {"jc_receipt", "old", "new", "witnesses"}:
        refuse("members missing or unknown")
    return file


def _heads_of(known: Sequence[Signed[Head]], length: int) -> Sequence[Signed[Head]]:
    """The heads of this length, at least one. Raises ProofError(`head`)."""
    found = [head for head in known if head.statement.end.length == length]
    if found:
        return found
    lengths = sorted({head.statement.end.length for head in known})
    near = [*[n for n in lengths if n < length][-1:], *[n for n in lengths if n > length][:1]]
    nearest = f"; the nearest: {' and '.join(map(str, near))}" if near else ""
    raise ProofError(ProofFault.HEAD, f"no signed head of {length} receipts{nearest}")
