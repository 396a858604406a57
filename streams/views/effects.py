"""What a receipt does to a pool's rows.

Not here: what it does to the pool's state (the kernel), the rows themselves (`claimrows`, `power`,
`energy`), the ledger (`fold`).

1. A decision about a claim goes to the claim's row; a reading to the series of its device, of the
   claims that had a share, and of their leaves. A share of an ended claim counts where it ran.
2. What a receipt charges to a leaf is what the leaf's `spent_uj` grows by.
3. The index follows every change of a claim's state.

Invariant: everything is told by the receipt, its event, and the state after it.
Profile: §2.3, §2.5, §2.8, §3.
"""

from __future__ import annotations

from collections.abc import Callable

from schemas.receipts import Receipt
from schemas.records import ClaimSubmitted, Kind, MeterRead, Reason
from streams.kernel import PoolState
from streams.kernel.claims import Claim
from streams.views import claimrows, energy, power
from streams.views.index import ClaimIndex
from streams.views.tables import CLAIMS, ENERGY, POWER, Batch, Row, key


class Effects:
    """Writes one pool's rows; `state` is the pool's, as it stands after each receipt."""

    def __init__(self, state: PoolState, index: ClaimIndex) -> None:
        self._state = state
        self._index = index

    def take(self, receipt: Receipt, batch: Batch, spent_before: dict[str, int]) -> None:
        """Change the rows for a receipt that was applied to the state."""
        self._rows(receipt, batch)
        self._energy(receipt, batch, spent_before)

    def _rows(self, receipt: Receipt, batch: Batch) -> None:
        kind, body = receipt.kind, receipt.body
        if kind in (Kind.METER_SPLIT, Kind.METER_GAP):
            self._reading(receipt, batch)
        elif kind.value.startswith("claim."):
            self._claim(receipt, str(body["claim"]), batch)
        elif kind is Kind.TREE_SET:
            self._releaf()

    def _claim(self, receipt: Receipt, claim_id: str, batch: Batch) -> None:
        event = self._state.event
        submitted = event if isinstance(event, ClaimSubmitted) and event.claim == claim_id else None
        claim = self._state.claims.get(claim_id)
        if _is_reuse(receipt) or (claim is None and submitted is None):
            return

        def new() -> Row:
            assert submitted is not None, "a claim begins with its submission"
            return claimrows.begun(submitted, receipt.closed_at_ms)

        batch.change(
            CLAIMS,
            key(self._state.pool, claim_id),
            receipt.seq,
            new,
            lambda row: claimrows.take(row, receipt, claim, submitted),
        )
        self._note(claim_id, claim, submitted)

    def _note(self, claim_id: str, claim: Claim | None, submitted: ClaimSubmitted | None) -> None:
        if claim is not None:
            self._index.note(claim_id, claim.state.value, claim.leaf_id)
        elif submitted is not None:
            self._index.note(claim_id, claimrows.REFUSED, submitted.leaf)

    def _reading(self, receipt: Receipt, batch: Batch) -> None:
        event = self._state.event
        assert isinstance(event, MeterRead)
        self._add(batch, receipt, event, "device", event.device, event.uj)
        if receipt.kind is Kind.METER_GAP:
            for occupant in event.occupants:
                self._add(batch, receipt, event, "claim", occupant.claim, None)
            return
        by_leaf: dict[str, int] = {}
        for claim_id, amount in shares_of(receipt):
            claim = self._state.claims[claim_id]
            by_leaf[claim.leaf_id] = by_leaf.get(claim.leaf_id, 0) + amount
            self._add(batch, receipt, event, "claim", claim_id, amount)
            batch.change(
                CLAIMS,
                key(self._state.pool, claim_id),
                receipt.seq,
                _no_row,
                _metered(claim),
            )
        for leaf, amount in by_leaf.items():
            self._add(batch, receipt, event, "leaf", leaf, amount)

    def _add(
        self, batch: Batch, receipt: Receipt, event: MeterRead, of: str, name: str, uj: int | None
    ) -> None:
        batch.change(
            POWER,
            key(self._state.pool, of, name),
            receipt.seq,
            power.empty,
            lambda row: power.add(row, event.from_ms, event.to_ms, uj),
        )

    def _releaf(self) -> None:
        for claim in self._state.claims.values():
            self._index.note(claim.id, claim.state.value, claim.leaf_id)

    # --- energy -------------------------------------------------------------------------------

    def spent_before(self, receipt: Receipt) -> dict[str, int]:
        """What the leaves that a receipt may charge have spent before it."""
        leaves = {}
        for claim_id in _charged(receipt):
            claim = self._state.claims.get(claim_id)
            leaf = None if claim is None else self._state.tree.leaf(claim.leaf_id)
            if leaf is not None:
                leaves[leaf.id] = leaf.spent_uj
        return leaves

    def _energy(self, receipt: Receipt, batch: Batch, before: dict[str, int]) -> None:
        if receipt.kind is Kind.PERIOD_OPENED:
            for leaf in self._state.tree.nodes.values():
                if leaf.is_leaf:
                    self._set_energy(batch, receipt.seq, leaf.id, _begin_anew)
            return
        for leaf_id, spent in before.items():
            charged = self._state.tree.leaf(leaf_id)
            assert charged is not None
            growth = charged.spent_uj - spent
            if growth:
                part = self._part(receipt)
                self._set_energy(batch, receipt.seq, leaf_id, _growing(part, growth))

    def _part(self, receipt: Receipt) -> str:
        if receipt.kind is Kind.CLAIM_SETTLED:
            spent = receipt.body["spent"]
            assert isinstance(spent, dict)
            return energy.part_of(str(spent["grade"]), str(spent["basis"]))
        if receipt.kind is Kind.METER_SPLIT:
            return energy.part_of(str(receipt.body["grade"]))
        return energy.part_of(self._state.claims[str(receipt.body["claim"])].metered_grade)

    def _set_energy(self, batch: Batch, seq: int, leaf: str, effect: Callable[[Row], None]) -> None:
        batch.change(ENERGY, key(self._state.pool, leaf), seq, energy.empty, effect)


def shares_of(receipt: Receipt) -> list[tuple[str, int]]:
    """The claims and microjoules that a reading was split into."""
    shares = receipt.body.get("shares")
    assert isinstance(shares, list)
    found = []
    for share in shares:
        assert isinstance(share, dict) and isinstance(share["uj"], int)
        found.append((str(share["claim"]), share["uj"]))
    return found


def _charged(receipt: Receipt) -> list[str]:
    """The claims whose leaves a receipt may charge."""
    match receipt.kind:
        case Kind.CLAIM_SETTLED | Kind.CLAIM_EXPIRED:
            return [str(receipt.body["claim"])]
        case Kind.METER_SPLIT:
            return [claim for claim, _ in shares_of(receipt)]
    return []


def _metered(claim: Claim) -> Callable[[Row], None]:
    return lambda row: claimrows.metered(row, claim)


def _growing(part: str, growth: int) -> Callable[[Row], None]:
    def grow(row: Row) -> None:
        row[part] += growth

    return grow


def _begin_anew(row: Row) -> None:
    row.update(energy.empty())


def _is_reuse(receipt: Receipt) -> bool:
    """Whether the id was another claim's: that says nothing about the claim that has it."""
    return receipt.body.get("reason") == Reason.CLAIM_ID_REUSED


def _no_row() -> Row:
    raise AssertionError("a reading is split among claims that arrived")
