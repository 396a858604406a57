"""Repeats (profile §3): the same again is answered with the first answer.

Not here: parsing (content is a digest that the event carries).

1. The event id is judged first, then a submitted claim's id.
2. An event id is remembered with every well-formed event that is not answered `duplicate` or
   `event-id-reused`; a claim's id as long as the claim is.
3. Ids are remembered for the period that they were seen in and the next; ended claims for the
   period they ended in and the next.

Profile: §3.
"""

from __future__ import annotations

from schemas.records import (
    Body,
    ClaimState,
    ClaimSubmitted,
    Decision,
    Event,
    Kind,
    Malformed,
    Reason,
)
from streams.kernel.state import PoolState, Seen

# Deadlines and passes write these; every other kind can only answer the event itself.
_SETTLING = frozenset(
    {
        Kind.CLAIM_EXPIRED,
        Kind.CLAIM_UNCERTAIN,
        Kind.CLAIM_REFUSED,
        Kind.CLAIM_STARVED,
        Kind.CLAIM_ADMITTED,
        Kind.CLAIM_WAITING,
        Kind.CLAIM_PREEMPTING,
        Kind.CLAIM_SPARED,
        Kind.GUARD_ON,
        Kind.GUARD_OFF,
    }
)


def judge(state: PoolState, event: Event) -> Decision | None:
    """The answer to a repeat, or None if the event is none."""
    seen = state.seen.get(event.id) if event.id is not None else None
    if seen is not None:
        if seen.content == event.content:
            return Decision(kind=Kind.DUPLICATE, body={"of": seen.seq})
        return Decision(kind=Kind.REFUSED, body={"reason": Reason.EVENT_ID_REUSED.value})
    if not isinstance(event, ClaimSubmitted):
        return None
    claim = state.claims.get(event.claim)
    if claim is None:
        return None
    if claim.content == event.content:
        return Decision(kind=Kind.DUPLICATE, body={"of": claim.first_seq})
    return Decision(
        kind=Kind.CLAIM_REFUSED,
        body={"claim": event.claim, "reason": Reason.CLAIM_ID_REUSED.value},
    )


def is_answer(state: PoolState, kind: Kind, body: Body) -> bool:
    """Whether this receipt begins the answer to the event itself, all deadlines being settled.

    Only a submission is answered by kinds that deadlines write too; its claim is then unknown, or
    the answer says that its id is reused.
    """
    if kind not in _SETTLING:
        return True
    event = state.event
    if not isinstance(event, ClaimSubmitted):
        return False
    if kind is Kind.CLAIM_REFUSED and body["reason"] == Reason.CLAIM_ID_REUSED:
        return True
    named = body.get("for" if kind is Kind.CLAIM_PREEMPTING else "claim")
    return named == event.claim and event.claim not in state.claims


def remember(state: PoolState, kind: Kind, body: Body) -> None:
    """Remember the event's id with the seq of the answer that has just been applied."""
    event = state.event
    if event is None or isinstance(event, Malformed) or event.id is None:
        return
    if kind is Kind.DUPLICATE:
        return
    if kind is Kind.REFUSED and body["reason"] in (Reason.EVENT_ID_REUSED, Reason.MALFORMED):
        return
    assert state.answer_seq is not None
    state.seen[event.id] = Seen(event.content, state.answer_seq, state.period_index)


def forget(state: PoolState) -> None:
    """A new period has begun: drop what was seen, or ended, before the one just closed."""
    oldest = state.period_index - 1
    state.seen = {key: seen for key, seen in state.seen.items() if seen.period >= oldest}
    state.claims = {
        key: claim
        for key, claim in state.claims.items()
        if claim.state is not ClaimState.ENDED or claim.ended_period >= oldest
    }
