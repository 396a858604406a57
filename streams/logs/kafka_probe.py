"""Try on a running cluster what the steward relies on: fencing, isolation, the broker's clock.

Not here: what to make of the outcome (`kafka_doctor`).

1. A first writer sends a record to the dead-letter topic and does not commit.
2. A second writer opens with the same transactional id: the broker must abort the first one's
   transaction and refuse its commit.
3. A reader of committed records must see neither before nor after.
4. The record is stamped by the broker, so its acknowledgement tells the broker's clock.

Invariant: nothing is ever committed, and the id is no steward's: a probe disturbs nobody.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Final

from streams import topics
from streams.logs.contract import DEAD_REASON
from streams.logs.kafka_client import (
    Produced,
    Producer,
    committed_consumer,
    offsets_consumer,
    place_of,
    start_consumer,
    stop_consumer,
    transactional_producer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, FENCED, translate
from streams.logs.kafka_options import Connection
from streams.logs.kafka_writer import end_producer

PARTITION: Final = 0
REASON: Final = b"probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of it. `skew_ms`: broker's clock less ours, None where the topic does not stamp."""

    is_fenced: bool
    seen: int
    skew_ms: int | None


async def probe(connection: Connection) -> Tried:
    """Try fencing, isolation and the clock. Raises: Unavailable, Forbidden, Missing."""
    transactional_id = f"{connection.prefix}pool-doctor.{uuid.uuid4().hex[:8]}"
    first = transactional_producer(connection, transactional_id)
    second = transactional_producer(connection, transactional_id)
    try:
        async with asyncio.timeout(connection.tuning.open_ms / 1000):
            offset_first = await _end(connection)
            await first.start()
            skew_ms = await _send(first, connection)
            await second.start()
            is_fenced = await _is_fenced(first)
            seen = await _seen(connection, offset_first)
    except CLIENT_ERRORS as error:
        doing = "trying out fencing"
        raise translate(error, doing=doing, where=connection.where) from error
    finally:
        await asyncio.gather(end_producer(first, connection), end_producer(second, connection))
    return Tried(is_fenced=is_fenced, seen=seen, skew_ms=skew_ms)


async def _send(producer: Producer, connection: Connection) -> int | None:
    """Send the probe and keep its transaction open; the skew of the broker's clock, in ms."""
    await producer.begin_transaction()
    before_ms = time.time_ns() // 1_000_000
    pending = await producer.send(
        connection.topic(topics.DEAD),
        value=b"",
        key=None,
        partition=PARTITION,
        timestamp_ms=before_ms,
        headers=[(DEAD_REASON, REASON)],
    )
    produced: Produced = await pending
    after_ms = time.time_ns() // 1_000_000
    if produced.timestamp_type != 1:
        return None
    return produced.timestamp - (before_ms + after_ms) // 2


async def _is_fenced(producer: Producer) -> bool:
    try:
        await producer.commit_transaction()
    except FENCED:
        return True
    return False


async def _end(connection: Connection) -> int:
    consumer = await start_consumer(offsets_consumer(connection))
    try:
        place = place_of(connection, topics.DEAD, PARTITION)
        return (await consumer.end_offsets([place]))[place]
    finally:
        await stop_consumer(consumer, connection)


async def _seen(connection: Connection, offset_first: int) -> int:
    """How many probes a reader of committed records sees from `offset_first` to the end."""
    end = await _end(connection)
    place = place_of(connection, topics.DEAD, PARTITION)
    consumer = await start_consumer(committed_consumer(connection))
    seen = 0
    try:
        consumer.assign([place])
        consumer.seek(place, offset_first)
        while await consumer.position(place) < end:
            records = await consumer.getmany(place, timeout_ms=200, max_records=500)
            for record in records.get(place, ()):
                seen += (DEAD_REASON, REASON) in record.headers
    finally:
        await stop_consumer(consumer, connection)
    return seen
