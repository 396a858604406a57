"""From an event to its decisions (profile §3): the one place where an event is judged.

Not here: bytes, keys, positions (the steward), and how a section decides (its module).

1. `now` is the broker's time, made monotone.
2. Every deadline that has come is settled, even if the event turns out malformed or a repeat.
3. malformed; repeats; out-of-range on the event alone; then the event's own section.

`decide` advances the state by applying each decision that it makes, since the next depends on it;
a state whose decisions were not appended to the ledger must be dropped.
Invariant: a pure function of the state, the event and the time.
Profile: §3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemas.records import (
    ClaimCancelled,
    ClaimCommitted,
    ClaimProgressed,
    ClaimReleased,
    ClaimRenewed,
    ClaimState,
    ClaimSubmitted,
    Decision,
    Event,
    IdleReview,
    Kind,
    Malformed,
    MeterRead,
    PeriodOpened,
    PolicySet,
    PoolArchived,
    PoolOpened,
    Reason,
    StewardRotate,
    Tick,
    TreeSet,
)
from streams.kernel import admin, deadlines, idle, repeats, settlement, sharing, submit
from streams.kernel.apply import begin
from streams.kernel.passes import run_pass
from streams.kernel.run import Run, wrong_state
from streams.kernel.state import PoolState
from streams.kernel.tree import undeclared

_HELD = frozenset({ClaimState.HELD})
_STARTED = frozenset({ClaimState.RUNNING, ClaimState.UNCERTAIN})
_QUEUED = frozenset({ClaimState.WAITING})


def decide(state: PoolState, event: Event | Malformed, timestamp_ms: int) -> list[Decision]:
    """Decide one event at the broker's time; the state is then past it.

    For a pool that is not open the only answers are its opening and refusals; a refusal leaves
    the state as it was, and belongs to no ledger.
    """
    if not state.is_open:
        refused = _not_open(event)
        if refused is not None:
            return [refused]
    run = Run(state)
    begin(state, event, max(state.now_ms, timestamp_ms))
    if not state.is_open:
        run.emit(Kind.POOL_OPENED, {})
        return run.decisions
    deadlines.settle(run)
    _judge(run, event)
    return run.decisions


def _not_open(event: Event | Malformed) -> Decision | None:
    if isinstance(event, Malformed):
        return _malformed(event.field)
    if not isinstance(event, PoolOpened):
        return admin.refusal(Reason.UNKNOWN_POOL)
    if not event.in_range:
        return admin.refusal(Reason.OUT_OF_RANGE)
    return admin.opening_fault(event)


def _malformed(field: str | None) -> Decision:
    if field is None:
        return admin.refusal(Reason.MALFORMED)
    return admin.refusal(Reason.MALFORMED, field=field)


def _undeclared_field(event: Event, resources: tuple[str, ...]) -> str | None:
    """The field that names a resource which the pool did not declare (an opening was judged)."""
    if isinstance(event, ClaimSubmitted):
        return None if all(name in resources for name in event.demand) else "gang"
    if isinstance(event, TreeSet):
        return "tree" if undeclared(event.tree, resources) else None
    return None


def _judge(run: Run, event: Event | Malformed) -> None:
    state = run.state
    if isinstance(event, Tick):
        return
    if isinstance(event, Malformed):
        named = event.named
        earlier = named is not None and not named[1].issubset(state.resources)
        run.answer(_malformed(named[0] if named is not None and earlier else event.field))
        return
    field = _undeclared_field(event, state.resources)
    if field is not None:
        run.answer(_malformed(field))
        return
    repeat = repeats.judge(state, event)
    if repeat is not None:
        run.answer(repeat)
    elif not event.in_range:
        run.refuse(Reason.OUT_OF_RANGE)
    else:
        _SECTIONS[type(event)](run, event)


def _commit(run: Run, event: ClaimCommitted) -> None:
    if wrong_state(run, event.claim, _HELD) is not None:
        run.emit(Kind.CLAIM_COMMITTED, {"claim": event.claim})


def _renew(run: Run, event: ClaimRenewed) -> None:
    if wrong_state(run, event.claim, _STARTED) is not None:
        run.emit(Kind.CLAIM_RENEWED, {"claim": event.claim})


def _progress(run: Run, event: ClaimProgressed) -> None:
    claim = wrong_state(run, event.claim, _STARTED)
    if claim is None:
        return
    if event.completed < claim.completed:
        run.refuse(Reason.PROGRESS_FELL)
        return
    run.emit(Kind.CLAIM_PROGRESSED, {"claim": event.claim, "completed": event.completed})


def _cancel(run: Run, event: ClaimCancelled) -> None:
    if wrong_state(run, event.claim, _QUEUED) is not None:
        run.emit(Kind.CLAIM_CANCELLED, {"claim": event.claim})
        run.spare(event.claim)
        run_pass(run)


def _release(run: Run, event: ClaimReleased) -> None:
    if settlement.release(run, event):
        run_pass(run)


def _review(run: Run, event: IdleReview) -> None:
    idle.review(run)


_SECTIONS: dict[type[Event], Callable[[Run, Any], None]] = {
    PoolOpened: admin.reopen,
    TreeSet: admin.set_tree,
    PolicySet: admin.set_policy,
    PeriodOpened: admin.open_period,
    PoolArchived: admin.archive,
    StewardRotate: admin.rotate,
    IdleReview: _review,
    ClaimSubmitted: submit.submit,
    ClaimCommitted: _commit,
    ClaimRenewed: _renew,
    ClaimProgressed: _progress,
    ClaimCancelled: _cancel,
    ClaimReleased: _release,
    MeterRead: sharing.read,
}
