"""A pool's leaf hashes, in tiles of 256: how a witness knows the root at every past length.

The tiles lie in `witness.store`; what roots are compared for is `witness.follow`.

1. Signed tiles are read from the store when needed; later leaves are in memory until they are
   signed. Of full tiles the roots are kept in memory: 32 bytes for 256 receipts.
2. A root at any length is the fold of full tiles' roots and of some leaves of one more tile: exact,
   because a full tile is a perfect subtree (RFC 9162 §2.1).
3. The hashes are of receipts that were verified. They cost 32 bytes a receipt on disk, and let a
   witness prove a contradiction at a length that it passed long ago, when the ledger may be gone.

Invariant: `root_at(size)` is the chain's root at `size`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schemas.merkle import HASH_BYTES, Frontier, HashStore, root_of
from schemas.treehash import fold
from witness.store import Tile

TILE = 256


class Leaves:
    """The leaf hashes of one pool. `read_tile` gives a stored tile's bytes by its number."""

    def __init__(self, read_tile: Callable[[int], bytes]) -> None:
        self._read_tile = read_tile
        self._roots: list[bytes] = []
        self._fresh: dict[int, bytearray] = {}
        self._last_read: tuple[int, bytes] = (-1, b"")
        self.size = 0

    @classmethod
    def stored(
        cls, size: int, roots: list[bytes | None], read_tile: Callable[[int], bytes]
    ) -> Leaves | None:
        """Those that the store has for a pool of `size`; None if they do not add up to it."""
        leaves = cls(read_tile)
        full, rest = divmod(size, TILE)
        leaves._roots = [root for root in roots if root is not None]
        leaves.size = size
        if len(leaves._roots) != full or len(roots) != full + (rest > 0):
            return None
        if rest:
            leaves._fresh[full] = bytearray(read_tile(full))
            if len(leaves._fresh[full]) != rest * HASH_BYTES:
                return None
        return leaves

    def append(self, leaf: bytes) -> None:
        """The next receipt's leaf hash."""
        number = self.size // TILE
        tile = self._fresh.setdefault(number, bytearray())
        tile += leaf
        self.size += 1
        if self.size % TILE == 0:
            self._roots.append(root_of(_split(tile)))

    def root_at(self, length: int) -> bytes:
        """The root of the first `length` receipts, `length` being at most `size`."""
        full, rest = divmod(length, TILE)
        above, below = Frontier(), Frontier()
        for root in self._roots[:full]:
            above.append(root)
        for leaf in _split(self._tile(full)[: rest * HASH_BYTES]) if rest else ():
            below.append(leaf)
        return fold([*above.peaks, *below.peaks])

    def leaf(self, index: int) -> bytes:
        """The leaf hash of one receipt."""
        number, at = divmod(index, TILE)
        return bytes(self._tile(number)[at * HASH_BYTES : (at + 1) * HASH_BYTES])

    def hash_store(self, length: int) -> HashStore:
        """The first `length` leaves in a form that makes proofs."""
        store = HashStore()
        for index, leaf in enumerate(self._all()):
            if index == length:
                break
            store.append(leaf)
        return store

    def unsaved(self, length: int) -> list[Tile]:
        """The tiles to be written with a record of `length`."""
        tiles = []
        for number, hashes in sorted(self._fresh.items()):
            kept = bytes(hashes[: max(0, length - number * TILE) * HASH_BYTES])
            if kept:
                full = len(kept) == TILE * HASH_BYTES
                tiles.append(Tile(number, kept, self._roots[number] if full else None))
        return tiles

    def saved(self, length: int) -> None:
        """What was written with a record of `length` is read from the store from now on."""
        for number in [number for number in self._fresh if (number + 1) * TILE <= length]:
            del self._fresh[number]

    def _tile(self, number: int) -> bytes | bytearray:
        fresh = self._fresh.get(number)
        if fresh is not None:
            return fresh
        if self._last_read[0] != number:
            # A full tile never changes: the last one read is kept, for who asks leaf by leaf.
            self._last_read = number, self._read_tile(number)
        return self._last_read[1]

    def _all(self) -> Iterator[bytes]:
        for number in range(-(-self.size // TILE)):
            yield from _split(self._tile(number))


def _split(hashes: bytes | bytearray) -> Iterator[bytes]:
    for at in range(0, len(hashes), HASH_BYTES):
        yield bytes(hashes[at : at + HASH_BYTES])
