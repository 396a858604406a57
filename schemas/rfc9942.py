"""COSE Receipts (RFC 9942) over a ledger's Merkle tree: a proof in the form that others read, too.

What a proof file holds and how it is graded is `schemas.proofs`; paths are `schemas.merkle`.

    18([ << {1: -8, 4: kid, 395: 1} >>, {396: {-1: [<< [size, index, path] >>]}}, nil, signature ])

and with `-2: [<< [old size, new size, path] >>]` for consistency. The root (the newer one) is
detached: it is the signed payload and not in the bytes.

1. The sizes and the index stand in the unprotected header: the signature does not cover them, and
   one path verifies for several sizes. So a receipt counts only against a signed head, whose
   `length` must be the size and whose `root` the root. `check_*` take that head and nothing less.
2. Only this one form is read: one proof a receipt, deterministic encoding, these headers.
3. RFC 9942 has no empty path: there is no such receipt for a ledger of one receipt, nor between two
   heads of one length.

Profile: §6.9. RFC 9942 §5.2, §5.3; RFC 9162 §2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from schemas import cbor, cose
from schemas.heads import Head, Signed
from schemas.keys import SIGNATURE_BYTES, Signer, kid
from schemas.merkle import (
    HASH_BYTES,
    PATH_MAX,
    ProofError,
    ProofFault,
    root_from_inclusion,
    verify_consistency,
)
from schemas.wellformed import CborError, read_head, write_head

INCLUSION: Final = -1
CONSISTENCY: Final = -2

_PROTECTED_START: Final = bytes.fromhex("a30127045820")
_PROTECTED_END: Final = bytes.fromhex("19018b01")
_PROTECTED_BYTES: Final = len(_PROTECTED_START) + HASH_BYTES + len(_PROTECTED_END)
_ENVELOPE: Final = b"\xd2\x84" + write_head(2, _PROTECTED_BYTES)
_PROOFS_START: Final = bytes.fromhex("a119018ca1")
_LABELS: Final = {INCLUSION: b"\x20\x81", CONSISTENCY: b"\x21\x81"}
_END: Final = b"\xf6" + write_head(2, SIGNATURE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoseReceipt:
    """A receipt taken apart. `numbers`: size and index, or the older and the newer size."""

    label: int
    kid: bytes
    numbers: tuple[int, int]
    path: tuple[bytes, ...]
    signature: bytes


def seal_inclusion(
    signer: Signer, *, root: bytes, size: int, index: int, path: Sequence[bytes]
) -> bytes:
    """The receipt that leaf `index` is in the tree of `size` leaves with `root`.

    Raises ProofError(`length`) for an empty path.
    """
    return _seal(signer, INCLUSION, root, (size, index), path)


def seal_consistency(
    signer: Signer, *, new_root: bytes, old_size: int, new_size: int, path: Sequence[bytes]
) -> bytes:
    """The receipt that the tree of `new_size` begins with that of `old_size`.

    Raises ProofError(`length`) for an empty path.
    """
    return _seal(signer, CONSISTENCY, new_root, (old_size, new_size), path)


def open_receipt(data: bytes) -> CoseReceipt:
    """The receipt that these bytes are. Raises ProofError (`shape`, `hash`, `length`).

    Nothing is verified: see `check_inclusion` and `check_consistency`.
    """
    kid_at = len(_ENVELOPE) + len(_PROTECTED_START)
    label_at = len(_ENVELOPE) + _PROTECTED_BYTES + len(_PROOFS_START)
    proof_at = label_at + 2
    label = next((n for n, code in _LABELS.items() if data[label_at:proof_at] == code), None)
    if label is None or len(data) > cose.SEALED_BYTES_MAX:
        _refuse_shape()
    proof, after = _proof(data, proof_at)
    receipt = CoseReceipt(
        label=label,
        kid=data[kid_at : kid_at + HASH_BYTES],
        numbers=_numbers(proof),
        path=_path(proof),
        signature=data[after + len(_END) :],
    )
    # Written anew and compared: whatever else could differ, an octet of it would show.
    if len(receipt.signature) != SIGNATURE_BYTES or _assemble(receipt) != data:
        _refuse_shape()
    return receipt


def check_inclusion(data: bytes, *, leaf: bytes, index: int, head: Signed[Head]) -> None:
    """Check that the leaf hash stands at `index` of the ledger that `head` speaks of.

    `head` is opened, so its signature holds. Raises ProofError.
    """
    receipt = open_receipt(data)
    end = head.statement.end
    if receipt.label != INCLUSION:
        raise ProofError(ProofFault.SHAPE, "not an inclusion receipt")
    size, place = receipt.numbers
    if size != end.length:
        raise ProofError(
            ProofFault.HEAD, f"the proof is for {size} receipts, the head for {end.length}"
        )
    if place != index:
        raise ProofError(ProofFault.INDEX, f"the proof is for receipt {place}, not {index}")
    root = root_from_inclusion(leaf=leaf, index=index, size=size, path=receipt.path)
    if root != end.root:
        raise ProofError(ProofFault.ROOT, f"receipt {index} is not in the head's tree")
    _check_signature(receipt, root, head)


def check_consistency(data: bytes, *, old: Signed[Head], new: Signed[Head]) -> None:
    """Check that the ledger of head `new` begins with that of head `old`. Raises ProofError."""
    receipt = open_receipt(data)
    if receipt.label != CONSISTENCY:
        raise ProofError(ProofFault.SHAPE, "not a consistency receipt")
    lengths = old.statement.end.length, new.statement.end.length
    if receipt.numbers != lengths:
        raise ProofError(
            ProofFault.HEAD, f"the proof leads from {receipt.numbers}, the heads are of {lengths}"
        )
    verify_consistency(
        old_size=lengths[0],
        new_size=lengths[1],
        old_root=old.statement.end.root,
        new_root=new.statement.end.root,
        path=receipt.path,
    )
    _check_signature(receipt, new.statement.end.root, new)


def _check_signature(receipt: CoseReceipt, root: bytes, head: Signed[Head]) -> None:
    if receipt.kid != kid(head.key):
        raise ProofError(ProofFault.SIGNATURE, "the receipt names another key than the head")
    message = cose.sig_structure(_protected(receipt.kid), root)
    if not cose.is_signed(cose.SignatureTask(message, receipt.signature, head.key)):
        raise ProofError(ProofFault.SIGNATURE, "the signature is not over the head's root")


def _seal(
    signer: Signer, label: int, root: bytes, numbers: tuple[int, int], path: Sequence[bytes]
) -> bytes:
    if not path:
        raise ProofError(ProofFault.LENGTH, "RFC 9942 has no receipt with an empty path")
    key_id = kid(signer.public_key)
    message = cose.sig_structure(_protected(key_id), root)
    return _assemble(
        CoseReceipt(
            label=label,
            kid=key_id,
            numbers=numbers,
            path=tuple(path),
            signature=signer.sign(message),
        )
    )


def _assemble(receipt: CoseReceipt) -> bytes:
    proof = cbor.encode([*receipt.numbers, list(receipt.path)])
    head = _ENVELOPE + _protected(receipt.kid) + _PROOFS_START + _LABELS[receipt.label]
    return head + write_head(2, len(proof)) + proof + _END + receipt.signature


def _protected(key_id: bytes) -> bytes:
    return _PROTECTED_START + key_id + _PROTECTED_END


def _proof(data: bytes, proof_at: int) -> tuple[list[cbor.Value], int]:
    """The array inside the proof's byte string, and where that string ends."""
    try:
        head = read_head(data, proof_at)
        after = head.after + head.argument
        value = cbor.decode(data[head.after : after]) if head.major == 2 else None
    except CborError as error:
        raise ProofError(ProofFault.SHAPE, f"the proof: {error.detail}") from error
    if not isinstance(value, list) or len(value) != 3:
        _refuse_shape()
    return value, after


def _numbers(proof: list[cbor.Value]) -> tuple[int, int]:
    first, second = proof[0], proof[1]
    if type(first) is not int or type(second) is not int or first < 0 or second < 0:
        raise ProofError(ProofFault.SHAPE, "the proof: sizes and indexes are integers from 0")
    return first, second


def _path(proof: list[cbor.Value]) -> tuple[bytes, ...]:
    value = proof[2]
    if not isinstance(value, list):
        raise ProofError(ProofFault.SHAPE, "the proof: no path")
    if not 1 <= len(value) <= PATH_MAX:
        raise ProofError(ProofFault.LENGTH, f"a path has 1 to {PATH_MAX} hashes")
    path = tuple(item for item in value if isinstance(item, bytes) and len(item) == HASH_BYTES)
    if len(path) != len(value):
        raise ProofError(ProofFault.HASH, f"a hash is {HASH_BYTES} bytes")
    return path


def _refuse_shape() -> NoReturn:
    raise ProofError(ProofFault.SHAPE, "not a COSE Receipt of the form that the profile has")
