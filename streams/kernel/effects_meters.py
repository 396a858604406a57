"""What a reading does to its device and to the claims that held it.

Not here: the split itself (`sharing`).

1. A share adds to its claim's meter and worsens its grade; the hold follows the meter.
2. A share for an ended claim charges the growth of max(figure, metered): to its leaf, or to the
   pool's overhead if that leaf is gone.

Profile: §2.3, §2.5.
"""

from __future__ import annotations

from schemas.records import (
    Body,
    ClaimState,
    MeterRead,
    worst,
)
from streams.kernel import projection, usage
from streams.kernel.bodies import claim_of, integer, text, touched
from streams.kernel.claims import Claim, DeviceUse
from streams.kernel.state import PoolState
from streams.kernel.tree import resort


def split(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, MeterRead)
    state.devices[event.device] = event.to_ms
    shares = body["shares"]
    assert isinstance(shares, list)
    if not shares:
        state.overhead_uj += integer(body["overhead_uj"])
        return
    held = {occupant.claim: occupant.mdev for occupant in event.occupants}
    grade = text(body["grade"])
    for share in shares:
        assert isinstance(share, dict)
        claim = claim_of(state, share)
        amount = integer(share["uj"])
        if claim.state is ClaimState.ENDED:
            _late(state, claim, amount)
        else:
            _metered(state, claim, amount, grade)
            use = claim.devices.setdefault(event.device, DeviceUse())
            use.add((event.from_ms, event.to_ms, amount, grade), held[claim.id])


def _metered(state: PoolState, claim: Claim, amount: int, grade: str) -> None:
    held, freed = claim.hold_uj, claim.freed_uj
    claim.metered_uj += amount
    resort(claim.leaf)
    before = claim.metered_grade
    claim.metered_grade = grade if before is None else worst(before, grade)
    if claim.hold_uj != held:
        usage.add(claim.leaf, state.uj, claim.hold_uj - held)
        touched(state, claim.leaf)
    if claim.reclaimed_for is not None:
        projection.refree_uj(claim, claim.freed_uj - freed)


def _late(state: PoolState, claim: Claim, amount: int) -> None:
    """Reality over the report: charge the growth of max(figure, metered), here or as overhead."""
    charged = max(claim.figure_uj, claim.metered_uj)
    claim.metered_uj += amount
    growth = max(claim.figure_uj, claim.metered_uj) - charged
    leaf = state.tree.leaf(claim.leaf_id)
    if leaf is None:
        state.overhead_uj += growth
    elif growth:
        leaf.spent_uj += growth
        usage.add(leaf, state.uj, growth)
        touched(state, leaf)


def gap(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, MeterRead)
    state.devices[event.device] = event.to_ms
    for occupant in event.occupants:
        state.claims[occupant.claim].gap = True
