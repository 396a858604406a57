"""What both kinds of proof file have in common: one CBOR map, signed heads, and witnesses' entries.

What they prove is `schemas.proofs` (a receipt) and `schemas.consistency` (a shorter head).

    "witnesses": [{"statement": bytes, "path": [hashes]}]

1. An entry is a countersignature, at any length, with the consistency path between that length and
   the head's (empty where they are equal): witnesses go at their own pace, and k of them seldom
   sign one head. Of each key the longest is taken that the ledger bears out.
2. Entries that do not open, are unknown, or whose path does not hold, are not counted. A trusted
   witness's signature at a length that the file has a head of, over another end, contradicts it.
3. With k wanted, the k-th largest of the lengths that the trusted witnesses vouch for is witnessed.

Profile: §6.8, §6.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from schemas import cbor
from schemas.grading import Trusted
from schemas.heads import (
    Countersignature,
    End,
    Head,
    Signed,
    StatementError,
    open_countersignature,
    open_head,
)
from schemas.keys import Signer, did_key
from schemas.merkle import HashStore, ProofError, ProofFault, verify_consistency
from schemas.wellformed import CborError

WITNESSES_MAX: Final = 64
Members = Mapping[str, cbor.Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """Up to which length each trusted witness vouches, by name; whether one contradicts."""

    reach: Mapping[str, int]
    contradicted: bool

    def witnessed(self, quorum: int) -> int:
        """The length that `quorum` witnesses vouch for; 0 if they do not (rule 3)."""
        lengths = sorted(self.reach.values(), reverse=True)
        return lengths[quorum - 1] if 0 < quorum <= len(lengths) else 0


def members_of(data: bytes) -> dict[str, cbor.Value]:
    """The map that a proof file is. Raises ProofError(`shape`)."""
    try:
        file = cbor.decode(data)
    except CborError as error:
        raise ProofError(ProofFault.SHAPE, f"not a proof file: {error.detail}") from error
    return file if isinstance(file, dict) else refuse("not a proof file: no map")


def trusted_head(data: bytes, trusted: Trusted) -> Signed[Head]:
    """A file's head, if it is a trusted steward's of the pool. Raises ProofError(`head`)."""
    try:
        head = open_head(data, trusted.stewards)
    except StatementError as error:
        raise ProofError(ProofFault.HEAD, str(error)) from error
    if head.statement.end.pool != trusted.pool:
        raise ProofError(ProofFault.HEAD, "a head of another pool")
    return head


def borne_out(heads: Iterable[bytes], leaves: HashStore, *, least: int) -> list[Signed[Head]]:
    """Of these heads, those of at least `least` receipts that the ledger bears out."""
    found = []
    for data in heads:
        try:
            head = open_head(data)
        except StatementError:
            continue
        end = head.statement.end
        if least <= end.length <= leaves.size and leaves.root(end.length) == end.root:
            found.append(head)
    return found


def best_head(
    heads: Iterable[bytes],
    leaves: HashStore,
    countersignatures: Iterable[bytes],
    signer: Signer | None,
    *,
    least: int,
) -> Signed[Head]:
    """The signer's head to prove against, of at least `least` receipts; any steward's for None.

    The longest that a countersignature is of: then nothing stands between what is proved and what
    was witnessed. Else the longest. Raises ProofError (`head`, `signature`).
    """
    found = borne_out(heads, leaves, least=least)
    if not found:
        detail = f"this ledger has no signed head of {least} or more receipts"
        raise ProofError(ProofFault.HEAD, detail)
    own = signed_by(signer, found)
    ends = set()
    for data in countersignatures:
        try:
            ends.add(open_countersignature(data).statement.end)
        except StatementError:
            continue
    return max(own, key=lambda head: (head.statement.end in ends, head.statement.end.length))


def signed_by(signer: Signer | None, heads: Sequence[Signed[Head]]) -> Sequence[Signed[Head]]:
    """Those of these heads (at least one) that are the signer's; all for None.

    Raises ProofError(`signature`) if there is none.
    """
    own = [head for head in heads if signer is None or head.key == signer.public_key]
    if signer is not None and not own:
        raise ProofError(
            ProofFault.SIGNATURE,
            f"{did_key(signer.public_key)} did not sign the head: that was "
            f"{heads[-1].statement.steward}",
        )
    return own


def make_entries(
    length: int, leaves: HashStore, countersignatures: Iterable[bytes], *, least: int
) -> list[dict[str, object]]:
    """The witnesses' entries under a head of `length`; each signed for at least `least`."""
    longest: dict[bytes, Signed[Countersignature]] = {}
    for data in countersignatures:
        try:
            signed = open_countersignature(data)
        except StatementError:
            continue
        end = signed.statement.end
        known = longest.get(signed.key)
        if not least <= end.length <= leaves.size or leaves.root(end.length) != end.root:
            continue
        if known is None or known.statement.end.length < end.length:
            longest[signed.key] = signed
    chosen = sorted(longest.values(), key=lambda signed: -signed.statement.end.length)
    return [
        {"statement": signed.data, "path": _between(leaves, length, signed.statement.end.length)}
        for signed in chosen[:WITNESSES_MAX]
    ]


def check_entries(
    entries: cbor.Value, head: End, trusted: Trusted, *, least: int, known: Collection[End] = ()
) -> Vouched:
    """What the entries under a head are worth (rule 2); `known`: the file's other ends.

    Raises ProofError(`shape`).
    """
    names = {key: name for name, key in trusted.witnesses.items()}
    if not isinstance(entries, list) or len(entries) > WITNESSES_MAX:
        refuse(f"witnesses: not a list of at most {WITNESSES_MAX}")
    reach: dict[str, int] = {}
    contradicted = False
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != {"statement", "path"}:
            refuse("witnesses: not maps of statement and path")
        try:
            signed = open_countersignature(bytes_in(entry, "statement"), names.keys())
            end, name = signed.statement.end, names[signed.key]
            contradicted |= any(_contradicts(end, other) for other in (head, *known))
            _check_covers(end, hashes(entry["path"]), head, least)
        except (StatementError, ProofError):
            continue
        reach[name] = max(end.length, reach.get(name, 0))
    return Vouched(reach=reach, contradicted=contradicted)


def bytes_in(members: Members, name: str) -> bytes:
    """A member that is a byte string. Raises ProofError(`shape`)."""
    value = members[name]
    return value if isinstance(value, bytes) else refuse(f"{name}: not a byte string")


def hashes(value: cbor.Value) -> list[bytes]:
    """A path's hashes, not yet measured. Raises ProofError(`shape`)."""
    if not isinstance(value, list):
        refuse("a path: not an array")
    return [item if isinstance(item, bytes) else refuse("a path: not hashes") for item in value]


def refuse(detail: str) -> NoReturn:
    """Raises ProofError(`shape`)."""
    raise ProofError(ProofFault.SHAPE, detail)


def _between(leaves: HashStore, one: int, other: int) -> list[bytes]:
    return leaves.consistency_path(old_size=min(one, other), new_size=max(one, other))


def _contradicts(one: End, other: End) -> bool:
    return (one.pool, one.length) == (other.pool, other.length) and one != other


def _check_covers(vouched: End, path: Sequence[bytes], head: End, least: int) -> None:
    """Raises ProofError unless the countersigned ledger is the head's and long enough."""
    if vouched.pool != head.pool or vouched.length < least:
        raise ProofError(ProofFault.HEAD, "the countersignature does not cover it")
    old, new = sorted((vouched, head), key=lambda end: end.length)
    verify_consistency(
        old_size=old.length,
        new_size=new.length,
        old_root=old.root,
        new_root=new.root,
        path=path,
    )
