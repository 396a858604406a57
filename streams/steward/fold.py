"""From receipts back to a pool's state: what replay and audit have in common.

Whether the receipts are genuine is `schemas.chain`; what a decision does is `streams.kernel`.

1. The first receipt of an event carries the event: its parsed fields, or, where those cannot be
   part of a core (it is no event, or too deep), the bytes that arrived and their content type.
2. An event counts on its own topic only (the profile's table): topics have their own access lists,
   and a tenant who may write claims may not open pools. Elsewhere its type is unknown: `malformed`,
   field `type`. The cause names the topic, so an audit judges alike.
3. An event whose `pool` is not the record's key is `malformed` for the key's pool.

Invariant: `event_of` of a receipt gives what the steward decided, whatever had arrived.
Profile: §3, §6.1, §6.5.
"""

from collections.abc import Iterable
from typing import Final

from schemas.events import decode_event, parse_event
from schemas.receipts import Receipt
from schemas.records import Body, Decision, Event, EventType, Malformed, Value
from streams import topics
from streams.kernel import PoolState, apply
from streams.logs.contract import Record

EVENT: Final = "event"
"""The member of a first receipt's body that is not the decision's."""
_BYTES: Final = "bytes"
_CONTENT_TYPE: Final = "content_type"
_RAW_MEMBERS: Final = frozenset((_BYTES, _CONTENT_TYPE))

TOPIC_OF: Final = {
    EventType.POOL_OPENED: topics.ADMIN,
    EventType.TREE_SET: topics.ADMIN,
    EventType.POLICY_SET: topics.ADMIN,
    EventType.PERIOD_OPENED: topics.ADMIN,
    EventType.POOL_ARCHIVED: topics.ADMIN,
    EventType.STEWARD_ROTATE: topics.ADMIN,
    EventType.IDLE_REVIEW: topics.ADMIN,
    EventType.TICK: topics.ADMIN,
    EventType.CLAIM_SUBMITTED: topics.CLAIMS,
    EventType.CLAIM_COMMITTED: topics.CLAIMS,
    EventType.CLAIM_RENEWED: topics.CLAIMS,
    EventType.CLAIM_PROGRESSED: topics.CLAIMS,
    EventType.CLAIM_CANCELLED: topics.CLAIMS,
    EventType.CLAIM_RELEASED: topics.CLAIMS,
    EventType.METER_READ: topics.METERS,
}
"""Which topic an event belongs on; the profile's table, section 3."""

_TOPIC_OF_TEXT: Final[dict[Value, str]] = {str(kind): topic for kind, topic in TOPIC_OF.items()}


def event_in(record: Record) -> Event | Malformed:
    """The event of an input record, judged with its topic and key."""
    event = decode_event(record.value, record.content_type, record.key)
    return _on_topic(event, record.topic)


def fields_of(event: Event | Malformed, record: Record) -> Body | None:
    """The event's fields as a first receipt carries them; None where only its bytes will do."""
    if isinstance(event, Malformed):
        return None
    fields = event.fields
    return fields if type(fields) is dict else dict(fields)


def raw_form(record: Record) -> Body:
    """What a first receipt carries instead of fields."""
    return {_BYTES: record.value, _CONTENT_TYPE: record.content_type}


def event_of(receipt: Receipt) -> Event | Malformed:
    """The event of a first receipt, as it was judged when it arrived."""
    said = receipt.body[EVENT]
    if isinstance(said, dict) and said.keys() == _RAW_MEMBERS:
        data, content_type = said[_BYTES], said[_CONTENT_TYPE]
        if isinstance(data, bytes) and isinstance(content_type, str):
            event = decode_event(data, content_type, receipt.pool.encode())
            return _on_topic(event, receipt.cause.topic)
    event = parse_event(said, from_json=False)
    if event.pool != receipt.pool:
        event = Malformed(pool=receipt.pool, field="pool", detail="another pool's event")
    return _on_topic(event, receipt.cause.topic)


def decision_of(receipt: Receipt) -> Decision:
    """A receipt's decision, without the event that its body may carry."""
    body = receipt.body
    if receipt.cause.index == 0:
        body = {name: value for name, value in body.items() if name != EVENT}
    return Decision(kind=receipt.kind, body=body)


def apply_receipt(state: PoolState, receipt: Receipt) -> None:
    """Apply one verified receipt. Raises: streams.kernel.ReplayError."""
    event = event_of(receipt) if receipt.cause.index == 0 else None
    apply(state, decision_of(receipt), event, receipt.closed_at_ms)


def replay_pool(receipts: Iterable[Receipt], state: PoolState | None = None) -> PoolState:
    """The state after a pool's verified receipts, from the start or after `state`.

    Raises: ValueError for no receipts and no state; streams.kernel.ReplayError.
    """
    for receipt in receipts:
        if state is None:
            state = PoolState(receipt.pool)
        apply_receipt(state, receipt)
    if state is None:
        raise ValueError("a pool without receipts has no state")
    return state


def _on_topic(event: Event | Malformed, topic: str) -> Event | Malformed:
    if isinstance(event, Malformed) or _TOPIC_OF_TEXT.get(event.fields["type"]) == topic:
        return event
    return Malformed(pool=event.pool, field="type", detail=f"not an event of {topic}")
