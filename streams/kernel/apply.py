"""What a decision does to the state: one function a kind. Replay applies, and never re-decides.

Not here: the effects themselves (`effects_pool`, `effects_queue`, `effects_live` and
`effects_meters`), and why it was decided (`decide` and the modules of its sections).

1. `advance` applies one decision of the running event; `apply` is the same for a receipt read from
   a ledger, and says `ReplayError` where a body does not fit the state.
2. What a body does not say (a reading's window, a claim's terms) comes from the event that the
   first receipt carries.
3. The first receipt that answers an event (settled deadlines come before it) is remembered for
   repeats.

Invariant: no state that a later decision depends on, but `now_ms`, changes elsewhere.
Profile: §2.3, §2.5, §2.6, §2.8, §3, §4.3, §5.
"""

from __future__ import annotations

from collections.abc import Callable

from schemas.records import Body, Decision, Event, Kind, Malformed
from streams.kernel import effects_live, effects_meters, effects_pool, effects_queue, repeats
from streams.kernel.state import PoolState


class ReplayError(ValueError):
    """A receipt's body does not fit the state that the receipts before it made."""


def apply(
    state: PoolState, decision: Decision, event: Event | Malformed | None, now_ms: int
) -> None:
    """Apply one receipt. `event` is given with an event's first receipt, None with the others."""
    if event is not None:
        begin(state, event, now_ms)
    try:
        advance(state, decision)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise ReplayError(f"{decision.kind}: {error!r}") from error


def begin(state: PoolState, event: Event | Malformed, now_ms: int) -> None:
    """A new event is being answered."""
    state.event = event
    state.answer_seq = None
    if now_ms > state.now_ms:
        state.now_ms = now_ms


def advance(state: PoolState, decision: Decision) -> None:
    """Apply one decision of the event that is being answered."""
    kind, body = decision.kind, decision.body
    if state.answer_seq is None and repeats.is_answer(state, kind, body):
        state.answer_seq = state.seq_next
    effect = _EFFECTS.get(kind)
    if effect is not None:
        effect(state, body)
    if state.answer_seq == state.seq_next:
        repeats.remember(state, kind, body)
    state.seq_next += 1
    state.version += 1


_EFFECTS: dict[Kind, Callable[[PoolState, Body], None]] = {
    Kind.POOL_OPENED: effects_pool.pool_opened,
    Kind.TREE_SET: effects_pool.tree_set,
    Kind.POLICY_SET: effects_pool.policy_set,
    Kind.PERIOD_OPENED: effects_pool.period_opened,
    Kind.POOL_ARCHIVED: effects_pool.pool_archived,
    Kind.CLAIM_ADMITTED: effects_live.admitted,
    Kind.CLAIM_WAITING: effects_queue.waiting,
    Kind.CLAIM_REFUSED: effects_queue.refused,
    Kind.CLAIM_COMMITTED: effects_live.committed,
    Kind.CLAIM_RENEWED: effects_live.renewed,
    Kind.CLAIM_CANCELLED: effects_queue.cancelled,
    Kind.CLAIM_EXPIRED: effects_live.expired,
    Kind.CLAIM_UNCERTAIN: effects_live.uncertain,
    Kind.CLAIM_STARVED: effects_queue.starved,
    Kind.CLAIM_PROGRESSED: effects_live.progressed,
    Kind.CLAIM_SETTLED: effects_live.settled,
    Kind.CLAIM_PREEMPTING: effects_live.preempting,
    Kind.CLAIM_SPARED: effects_live.spared,
    Kind.GUARD_ON: effects_pool.guard_on,
    Kind.GUARD_OFF: effects_pool.guard_off,
    Kind.METER_SPLIT: effects_meters.split,
    Kind.METER_GAP: effects_meters.gap,
}
