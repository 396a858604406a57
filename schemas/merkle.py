"""The RFC 9162 Merkle tree over a ledger: its root, kept as it grows, and proofs checked.

Leaves are SHA-256 hashes of receipts' whole bytes (`leaf_hash`). Making proofs is in `hashstore`,
signatures over roots in `heads`, proofs as files in `proofs`, the hash chain beside it in `chain`.

1. `Frontier` is what a writer or a witness keeps: the perfect subtrees so far, at most 63.
2. `verify_*` take nothing for granted: sizes, index, the number of hashes and their lengths are
   checked before the roots are.
3. A consistency proof from the empty tree is an error: it would say nothing.

Invariant: `Frontier.root()` after n appends equals `root_of` the same n leaf hashes.
Source: pool/1 §6.7, §6.9; RFC 9162 §2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from schemas.hashstore import HashStore, consistency_proof, inclusion_proof
from schemas.treehash import (
    EMPTY_ROOT,
    HASH_BYTES,
    PATH_MAX,
    SIZE_MAX,
    ProofError,
    ProofFault,
    checked_hash,
    fold,
    leaf_hash,
    node_hash,
)

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "PATH_MAX",
    "SIZE_MAX",
    "Frontier",
    "HashStore",
    "ProofError",
    "ProofFault",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "node_hash",
    "root_at",
    "root_from_inclusion",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]


class Frontier:
    """A tree's right edge: enough to append leaves and to know the root, and no more.

    Mutable; `copy()` where a batch may be dropped.
    """

    __slots__ = ("_peaks", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._peaks: list[bytes] = []

    @property
    def size(self) -> int:
        """How many leaves were appended."""
        return self._size

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """The roots of its perfect subtrees, largest first; `treehash.fold` makes the root."""
        return tuple(self._peaks)

    def append(self, leaf: bytes) -> None:
        """Append one leaf hash (32 bytes)."""
        node = leaf
        remaining = self._size
        peaks = self._peaks
        while remaining & 1:
            node = sha256(b"\x01" + peaks.pop() + node).digest()
            remaining >>= 1
        peaks.append(node)
        self._size += 1

    def root(self) -> bytes:
        """The tree's root, 32 bytes; `EMPTY_ROOT` for no leaves."""
        return fold(self._peaks)

    def copy(self) -> Frontier:
        """An independent frontier of the same tree."""
        twin = Frontier()
        twin._size = self._size
        twin._peaks = self._peaks.copy()
        return twin

    def to_plain(self) -> dict[str, object]:
        """`{"size": int, "peaks": [bytes, ...]}`, largest subtree first: for a snapshot."""
        return {"size": self._size, "peaks": list(self._peaks)}

    @classmethod
    def from_plain(cls, plain: object) -> Frontier:
        """Read `to_plain`'s form back.

        Raises ProofError (`shape`, `size`, `hash`) for anything that no `to_plain` wrote.
        """
        if not isinstance(plain, Mapping) or set(plain) != {"size", "peaks"}:
            raise ProofError(ProofFault.SHAPE, "a frontier is a map of size and peaks")
        size, peaks = plain["size"], plain["peaks"]
        if type(size) is not int or not 0 <= size <= SIZE_MAX:
            raise ProofError(ProofFault.SIZE, "a frontier's size is an integer from 0 to 2**63 - 1")
        if not isinstance(peaks, list | tuple) or len(peaks) != size.bit_count():
            raise ProofError(ProofFault.SHAPE, f"a frontier of {size} has {size.bit_count()} peaks")
        frontier = cls()
        frontier._size = size
        frontier._peaks = [checked_hash(peak) for peak in peaks]
        return frontier

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frontier):
            return NotImplemented
        return self._size == other._size and self._peaks == other._peaks

    __hash__ = None  # type: ignore[assignment]  # mutable


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes (32 bytes each), in order; `EMPTY_ROOT` for none."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def verify_inclusion(
    *, leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> None:
    """Check that the leaf hash `leaf` stands at `index` in the tree of `size` leaves with `root`.

    RFC 9162 §2.1.3.2. Raises ProofError (`size`, `index`, `hash`, `length`, `root`).
    """
    if root_from_inclusion(leaf=leaf, index=index, size=size, path=path) != checked_hash(root):
        raise ProofError(ProofFault.ROOT, f"leaf {index} of {size} leads to another root")


def root_from_inclusion(*, leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that an inclusion path leads to: for a proof whose root is detached.

    Raises ProofError (`size`, `index`, `hash`, `length`).
    """
    if not 1 <= size <= SIZE_MAX:
        raise ProofError(ProofFault.SIZE, f"nothing is included in a tree of {size}")
    if not 0 <= index < size:
        raise ProofError(ProofFault.INDEX, f"leaf {index} is not in a tree of {size}")
    here, last, node = index, size - 1, checked_hash(leaf)
    for sibling in _checked_path(path):
        if last == 0:
            raise ProofError(ProofFault.LENGTH, f"the path has more than leaf {index}'s hashes")
        if here & 1 or here == last:
            node = node_hash(sibling, node)
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        here, last = here >> 1, last >> 1
    if last != 0:
        raise ProofError(ProofFault.LENGTH, f"the path has fewer than leaf {index}'s hashes")
    return node


def verify_consistency(
    *,
    old_size: int,
    new_size: int,
    old_root: bytes,
    new_root: bytes,
    path: Sequence[bytes],
) -> None:
    """Check that the tree of `new_size` leaves begins with the tree of `old_size`.

    RFC 9162 §2.1.4.2. Raises ProofError (`size`, `hash`, `length`, `root`).
    """
    if not 1 <= old_size <= new_size <= SIZE_MAX:
        raise ProofError(
            ProofFault.SIZE, f"no consistency proof leads from {old_size} to {new_size}"
        )
    old_root, new_root = checked_hash(old_root), checked_hash(new_root)
    hashes = _checked_path(path)
    if old_size == new_size:
        if hashes:
            raise ProofError(ProofFault.LENGTH, "equal sizes take an empty proof")
        if old_root != new_root:
            raise ProofError(ProofFault.ROOT, f"two roots at size {old_size}")
        return
    old_found, new_found = _roots_from_consistency(old_size, new_size, old_root, hashes)
    if old_found != old_root:
        raise ProofError(ProofFault.ROOT, f"the proof does not lead to the root at {old_size}")
    if new_found != new_root:
        raise ProofError(ProofFault.ROOT, f"the proof does not lead to the root at {new_size}")


def root_at(*, old_size: int, new_size: int, new_root: bytes, path: Sequence[bytes]) -> bytes:
    """The root that the tree of `new_size` leaves with `new_root` had at `old_size`.

    `path` is a consistency proof that always begins with a node of the old tree: RFC 9162 leaves it
    out where the old root is that node. Raises ProofError (`size`, `hash`, `length`, `root`).
    """
    if not 1 <= old_size < new_size <= SIZE_MAX:
        raise ProofError(ProofFault.SIZE, f"no path leads from {new_size} back to {old_size}")
    old_found, new_found = _roots_from_nodes(old_size, new_size, _checked_path(path))
    if new_found != checked_hash(new_root):
        raise ProofError(ProofFault.ROOT, f"the path does not lead to the root at {new_size}")
    return old_found


def _roots_from_consistency(
    old_size: int, new_size: int, old_root: bytes, path: list[bytes]
) -> tuple[bytes, bytes]:
    """The old and the new root that the hashes of a consistency proof lead to."""
    hashes = path if old_size & (old_size - 1) else [old_root, *path]
    return _roots_from_nodes(old_size, new_size, hashes)


def _roots_from_nodes(old_size: int, new_size: int, hashes: list[bytes]) -> tuple[bytes, bytes]:
    """The two roots that the nodes of a tree lead to, the first one being of the old tree."""
    if not hashes:
        raise ProofError(ProofFault.LENGTH, "an empty proof between two sizes")
    here, last = old_size - 1, new_size - 1
    while here & 1:
        here, last = here >> 1, last >> 1
    old_node = new_node = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise ProofError(ProofFault.LENGTH, "the proof has too many hashes")
        if here & 1 or here == last:
            old_node, new_node = node_hash(sibling, old_node), node_hash(sibling, new_node)
            while here and not here & 1:
                here, last = here >> 1, last >> 1
        else:
            new_node = node_hash(new_node, sibling)
        here, last = here >> 1, last >> 1
    if last != 0:
        raise ProofError(ProofFault.LENGTH, "the proof has too few hashes")
    return old_node, new_node


def _checked_path(path: Sequence[bytes]) -> list[bytes]:
    if len(path) > PATH_MAX:
        raise ProofError(ProofFault.LENGTH, f"{len(path)} hashes, at most {PATH_MAX} are possible")
    return [checked_hash(item) for item in path]
