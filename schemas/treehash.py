"""The hashes of the RFC 9162 Merkle tree, and the one error of all that is proved with them.

The tree itself is in `merkle` (which re-exports what is public here), the store that makes proofs
in `hashstore`.

1. A leaf is SHA-256(0x00 || data), an inner node SHA-256(0x01 || left || right), the empty tree
   SHA-256(""): leaves and nodes cannot be taken for each other.
2. Every hash is 32 bytes; another length is an error, also where it would only be compared.

Source: pool/1 §6.7; RFC 9162 §2.1.1.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import Final

HASH_BYTES: Final = 32
SIZE_MAX: Final = 2**63 - 1
"""Sizes and indexes are integers below 2**63, as everywhere in the profile."""
PATH_MAX: Final = 64
"""No proof of a tree below 2**63 leaves has more hashes."""
EMPTY_ROOT: Final = sha256(b"").digest()


class ProofFault(StrEnum):
    """Why a proof is refused. Codes are append-only."""

    SIZE = "size"
    INDEX = "index"
    LENGTH = "length"
    HASH = "hash"
    ROOT = "root"
    SHAPE = "shape"
    HEAD = "head"
    SIGNATURE = "signature"
    RECEIPT = "receipt"
    TRUST = "trust"


class ProofError(Exception):
    """A proof, a path or a stored frontier that does not hold.

    `reason` is the code, `detail` one sentence for people.
    """

    def __init__(self, reason: ProofFault, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def leaf_hash(data: bytes) -> bytes:
    """The 32-byte leaf hash of one receipt's whole bytes."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The 32-byte hash of an inner node from its children's hashes."""
    return sha256(b"\x01" + left + right).digest()


def fold(perfect: list[bytes]) -> bytes:
    """The root of perfect subtrees of falling size, from the right."""
    if not perfect:
        return EMPTY_ROOT
    node = perfect[-1]
    for left in reversed(perfect[:-1]):
        node = node_hash(left, node)
    return node


def checked_hash(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != HASH_BYTES:
        raise ProofError(ProofFault.HASH, f"a hash is {HASH_BYTES} bytes")
    return value
