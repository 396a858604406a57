"""Finds the history that a head speaks of, where it is not the one that this witness followed.

Asked only when a steward's head does not fit the ledger as read (`witness.follow`: a suspect, or
one that receipts never reach). It reads a pool's whole ledger, everything passed over included.

1. Receipts are told apart by their hash. Those that stand in our own leaves at their place are
   ours; of the others hash, `prev`, place and leaf are kept. Nothing is verified, and nothing needs
   to be: see 3.
2. From the head's `head`, `prev` leads back, receipt by receipt, to one of ours, or to the start.
3. Our leaves up to there and the others' after it make a tree. If its root is the head's signed
   root, it is the head's tree, whoever put the receipts there; else the history is not here.

Invariant: a tree that is returned has the head's `length` and `root`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from schemas import cose
from schemas.heads import End
from schemas.merkle import HashStore, leaf_hash
from schemas.receipts import ReceiptError, parse_core
from schemas.wellformed import CborError
from witness.leaves import Leaves

FOREIGN_MAX: Final = 4_000_000
"""Receipts that are not ours which one inquest keeps; some 250 bytes each."""


class _Foreign(NamedTuple):
    seq: int
    prev: bytes
    leaf: bytes


class Inquest:
    """What a pool's whole ledger has beside the history that `leaves` are of."""

    def __init__(self, pool: str, leaves: Leaves) -> None:
        self.pool = pool
        self._leaves = leaves
        self._foreign: dict[bytes, _Foreign] = {}

    def add(self, data: bytes) -> None:
        """Take a record of the pool's ledger, whatever it is."""
        try:
            receipt = parse_core(cose.split(data).payload)
        except (cose.CoseError, CborError, ReceiptError):
            return
        leaf = leaf_hash(data)
        ours = receipt.seq < self._leaves.size and self._leaves.leaf(receipt.seq) == leaf
        if receipt.pool == self.pool and not ours and len(self._foreign) < FOREIGN_MAX:
            foreign = _Foreign(receipt.seq, receipt.prev, leaf)
            self._foreign[sha256(data).digest()] = foreign

    def tree(self, end: End) -> HashStore | None:
        """The tree of the history that `end` speaks of, or None if the receipts do not have it."""
        branch: list[bytes] = []
        at, place = end.head, end.length - 1
        while (found := self._foreign.get(at)) is not None and found.seq == place:
            branch.append(found.leaf)
            at, place = found.prev, place - 1
        shared = place + 1
        if shared > self._leaves.size or not branch:
            return None
        tree = self._leaves.hash_store(shared)
        for leaf in reversed(branch):
            tree.append(leaf)
        return tree if tree.size == end.length and tree.root() == end.root else None
