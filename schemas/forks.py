"""Fork evidence: two heads that one ledger's stewards signed and that cannot both be true.

Heads themselves are `schemas.heads`; what a fork does to a ledger's grade is `schemas.trust`.

Two heads of a pool contradict each other
1. at the same length, if their `head` or `root` differ;
2. at two lengths, if the longer one's tree had another root at the shorter length. `path` proves
   it: nodes of the longer tree that lead to its signed root and to the root that it had before.
   No receipt is needed, and nobody has to be trusted: the stewards' own signatures say it.

A witness signs the statement and so vouches for having met it, but the evidence stands without
that: whoever has the stewards' keys can check it. Of `heads`, the first is the one that the witness
countersigned.

Not evidence: a head without the receipts that it speaks of, a bad read, a gap. Those are "not yet".

Invariant: a fork statement that opens has two verified heads in contradiction.
Profile: §6.7; RFC 9162 §2.1.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from schemas import cose
from schemas.heads import (
    FORK_KIND,
    Core,
    Head,
    Signed,
    StatementError,
    instant,
    open_core,
    open_head,
    signer_of,
    text,
)
from schemas.keys import Signer, did_key
from schemas.merkle import HASH_BYTES, PATH_MAX, ProofError, root_at
from schemas.receipts import rfc3339_ms

_MEMBERS: Final = frozenset(("jc_receipt", "pool", "heads", "path", "witness", "closed_at"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A witness's evidence. `path` is empty where both heads have one length."""

    pool: str
    first: Signed[Head]
    second: Signed[Head]
    path: tuple[bytes, ...]
    witness: str
    closed_at_ms: int

    @property
    def length(self) -> int:
        """The shorter of the two heads' lengths: up to there, two histories were signed."""
        return min(self.first.statement.end.length, self.second.statement.end.length)


def check_contradiction(first: Signed[Head], second: Signed[Head], path: Sequence[bytes]) -> None:
    """Raises StatementError("contradiction") unless the two heads cannot both be true."""
    one, other = sorted((first.statement.end, second.statement.end), key=lambda end: end.length)
    if one.pool != other.pool:
        raise StatementError("contradiction", "the heads are of two pools")
    if one.length == other.length:
        if path:
            raise StatementError("contradiction", "heads of one length take no path")
        if one == other:
            raise StatementError("contradiction", "the heads say the same")
        return
    try:
        before = root_at(old_size=one.length, new_size=other.length, new_root=other.root, path=path)
    except ProofError as error:
        raise StatementError("contradiction", error.detail) from error
    if before == one.root:
        raise StatementError("contradiction", "the longer head extends the shorter one")


def seal_fork(
    signer: Signer,
    first: Signed[Head],
    second: Signed[Head],
    path: Sequence[bytes],
    closed_at_ms: int,
) -> bytes:
    """A witness's signed evidence. Raises StatementError("contradiction") if it is none."""
    check_contradiction(first, second, path)
    core = {
        "jc_receipt": FORK_KIND,
        "pool": first.statement.end.pool,
        "heads": [first.data, second.data],
        "path": list(path),
        "witness": did_key(signer.public_key),
        "closed_at": rfc3339_ms(closed_at_ms),
    }
    return cose.seal(signer, core)


def open_fork(
    data: bytes,
    stewards: Collection[bytes] | None = None,
    signers: Collection[bytes] | None = None,
) -> Signed[Fork]:
    """The evidence that these bytes are, checked to the end. Raises StatementError.

    `stewards`: raw keys that may have signed the heads; None takes those that the heads name, which
    proves only that those keys contradict themselves. `signers`: raw keys of witnesses; None: any.
    """
    sealed, core = open_core(data, FORK_KIND, _MEMBERS)
    key = signer_of(sealed, core, "witness", signers)
    first, second = (open_head(head, stewards) for head in _two_heads(core))
    fork = Fork(
        pool=text(core, "pool"),
        first=first,
        second=second,
        path=_path(core),
        witness=text(core, "witness"),
        closed_at_ms=instant(core),
    )
    if first.statement.end.pool != fork.pool:
        raise StatementError("members", "pool: not the heads'")
    check_contradiction(first, second, fork.path)
    return Signed(statement=fork, data=data, key=key)


def _two_heads(core: Core) -> tuple[bytes, bytes]:
    value = core["heads"]
    if isinstance(value, list) and len(value) == 2:
        first, second = value
        if isinstance(first, bytes) and isinstance(second, bytes):
            return first, second
    raise StatementError("members", "heads: not two byte strings")


def _path(core: Core) -> tuple[bytes, ...]:
    value = core["path"]
    if not isinstance(value, list) or len(value) > PATH_MAX:
        raise StatementError("members", f"path: not an array of at most {PATH_MAX}")
    path = tuple(item for item in value if isinstance(item, bytes) and len(item) == HASH_BYTES)
    if len(path) != len(value):
        raise StatementError("members", f"path: not hashes of {HASH_BYTES} bytes")
    return path
