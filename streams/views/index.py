"""Which claims a pool has had, in the order they came, with what lists are filtered by.

Not here: the claims' rows (`claimrows`).

1. A claim has a place, counted from 0 in the order of first arrival; it keeps it for ever.
2. For each place there are its id, its state and its leaf, small enough to look through all of them
   for one page.

Invariant: `states` of a place is what the claim's row says.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from streams.views.claimrows import STATES

_CODE = {state: code for code, state in enumerate(STATES)}
LIVE = frozenset({"held", "running", "uncertain"})


class ClaimIndex:
    """The places of a pool's claims."""

    __slots__ = ("_at", "_leaf_codes", "_leaf_of", "_leaves", "_states", "ids")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._at: dict[str, int] = {}
        self._states = array("B")
        self._leaf_of = array("I")
        self._leaves: list[str] = []
        self._leaf_codes: dict[str, int] = {}

    def note(self, claim: str, state: str, leaf: str) -> None:
        """A claim is in this state at this leaf now."""
        place = self._at.get(claim)
        code = self._leaf_code(leaf)
        if place is None:
            self._at[claim] = len(self.ids)
            self.ids.append(claim)
            self._states.append(_CODE[state])
            self._leaf_of.append(code)
        else:
            self._states[place] = _CODE[state]
            self._leaf_of[place] = code

    def leaf(self, claim: str) -> str | None:
        """A claim's leaf; None if there never was such a claim."""
        place = self._at.get(claim)
        return None if place is None else self._leaves[self._leaf_of[place]]

    def find(
        self, *, place_from: int, states: frozenset[str] | None, below: str | None
    ) -> Iterator[tuple[int, str]]:
        """Places and ids from a place on, in these states, at or below a node."""
        codes = None if states is None else {_CODE[state] for state in states}
        leaves = None
        if below is not None:
            leaves = {at for at, leaf in enumerate(self._leaves) if is_below(leaf, below)}
        for place in range(place_from, len(self.ids)):
            if codes is not None and self._states[place] not in codes:
                continue
            if leaves is None or self._leaf_of[place] in leaves:
                yield place, self.ids[place]

    def count(self, below: str | None = None) -> dict[str, int]:
        """How many claims are in each state, at or below a node."""
        counts = dict.fromkeys(STATES, 0)
        if below is None:
            for code, state in enumerate(STATES):
                counts[state] = self._states.count(code)
            return counts
        for place, _ in self.find(place_from=0, states=None, below=below):
            counts[STATES[self._states[place]]] += 1
        return counts

    def _leaf_code(self, leaf: str) -> int:
        code = self._leaf_codes.get(leaf)
        if code is None:
            code = self._leaf_codes[leaf] = len(self._leaves)
            self._leaves.append(leaf)
        return code


def is_below(leaf: str, node: str) -> bool:
    """Whether a node is this one or below it; everything is below the root."""
    return node == "/" or leaf == node or leaf.startswith(node + "/")
