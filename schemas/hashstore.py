"""Every perfect subtree of a ledger's Merkle tree, kept so that a proof takes O(log n).

Checking proofs, and the small frontier that a writer keeps, are in `merkle`.

1. Levels are lists of hashes, level 0 the leaves: 64 bytes a leaf in all.
2. A proof for any earlier size comes from the same store: only the right edge is hashed anew.
3. Given a list of leaf hashes instead of a store, the functions build one first, in O(n).

Source: pool/1 §6.9; RFC 9162 §2.1.3.1, §2.1.4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.treehash import EMPTY_ROOT, ProofError, ProofFault, fold, node_hash


class HashStore:
    """Every perfect subtree's hash, level by level (level 0: the leaves): 64 bytes a leaf.

    A proof for any size up to `size` takes O(log n) look-ups.
    """

    __slots__ = ("_levels",)

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """How many leaves it holds."""
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        """Append one leaf hash (32 bytes)."""
        node = leaf
        for level in self._levels:
            level.append(node)
            if len(level) & 1:
                return
            node = node_hash(level[-2], node)
        self._levels.append([node])

    def leaf(self, index: int) -> bytes:
        """The leaf hash at `index`."""
        return self._levels[0][index]

    def root(self, size: int | None = None) -> bytes:
        """The root of the first `size` leaves (default: all). Raises ProofError(`size`)."""
        wanted = self.size if size is None else size
        self._check_size(wanted)
        return self._subtree(0, wanted) if wanted else EMPTY_ROOT

    def inclusion_path(self, *, index: int, size: int) -> list[bytes]:
        """RFC 9162 §2.1.3.1: the hashes from leaf `index` to the root of `size` leaves, leaf first.

        Raises ProofError (`size`, `index`).
        """
        self._check_size(size)
        if not 0 <= index < size:
            raise ProofError(ProofFault.INDEX, f"leaf {index} is not in a tree of {size}")
        path: list[bytes] = []
        low, high = 0, size
        while high - low > 1:
            middle = low + _largest_power_below(high - low)
            if index < middle:
                path.append(self._subtree(middle, high))
                high = middle
            else:
                path.append(self._subtree(low, middle))
                low = middle
        path.reverse()
        return path

    def consistency_path(self, *, old_size: int, new_size: int) -> list[bytes]:
        """RFC 9162 §2.1.4.1: why the tree of `new_size` begins with the tree of `old_size`.

        Empty for equal sizes. Raises ProofError(`size`) unless 1 <= old_size <= new_size.
        """
        self._check_size(new_size)
        if not 1 <= old_size <= new_size:
            raise ProofError(
                ProofFault.SIZE, f"no consistency proof leads from {old_size} to {new_size}"
            )
        path: list[bytes] = []
        low, high, whole = 0, new_size, True
        while high != old_size:
            middle = low + _largest_power_below(high - low)
            if old_size <= middle:
                path.append(self._subtree(middle, high))
                high = middle
            else:
                path.append(self._subtree(low, middle))
                low, whole = middle, False
        if not whole:
            path.append(self._subtree(low, high))
        path.reverse()
        return path

    def path_back(self, *, old_size: int, new_size: int) -> list[bytes]:
        """What `merkle.root_at` takes: a consistency path with its first node always there.

        Raises ProofError(`size`) unless 1 <= old_size < new_size.
        """
        path = self.consistency_path(old_size=old_size, new_size=new_size)
        return path if old_size & (old_size - 1) else [self._subtree(0, old_size), *path]

    def _check_size(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise ProofError(
                ProofFault.SIZE, f"a tree of {size} asked of a store of {self.size} leaves"
            )

    def _subtree(self, low: int, high: int) -> bytes:
        """The root of leaves low..high-1, `low` being a multiple of every power of two in use."""
        perfect: list[bytes] = []
        while low < high:
            width = 1 << ((high - low).bit_length() - 1)
            level = width.bit_length() - 1
            perfect.append(self._levels[level][low >> level])
            low += width
        return fold(perfect)


def inclusion_proof(hashes: HashStore | Sequence[bytes], index: int, size: int) -> list[bytes]:
    """`HashStore.inclusion_path`, from a store or from a sequence of leaf hashes."""
    return _store(hashes).inclusion_path(index=index, size=size)


def consistency_proof(
    hashes: HashStore | Sequence[bytes], old_size: int, new_size: int
) -> list[bytes]:
    """`HashStore.consistency_path`, from a store or from a sequence of leaf hashes."""
    return _store(hashes).consistency_path(old_size=old_size, new_size=new_size)


def _store(hashes: HashStore | Sequence[bytes]) -> HashStore:
    return hashes if isinstance(hashes, HashStore) else HashStore(hashes)


def _largest_power_below(count: int) -> int:
    """The largest power of two smaller than `count` (>= 2)."""
    return 1 << ((count - 1).bit_length() - 1)
