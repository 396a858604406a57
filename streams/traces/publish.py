"""Put a replay's events on a log, from wherever an earlier run of the same replay was stopped.

Not here: making the events (`streams.traces.drive`) and deciding them for real (the steward).

The driver knows each event's decisions from a twin of the kernel, so it never waits for the
steward: events travel in large batches, at the price of deciding everything twice. Feeding the
steward's own decisions back would cost one synced batch for nearly every event.

1. The same events are made again from the start. What stands in the log already must be equal, in
   value and instant, topic by topic; then the rest is published. A run killed at any moment left a
   beginning of the same events, so both runs end at the same head.
2. A batch is decided before the next is published, and at the start: the log is never far ahead.
3. Anything else in the log under the replay's pool is an error: nothing is published.

Invariant: batches carry events; they never decide an instant, an order or a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from schemas import cbor
from streams.logs.contract import Log, LogReader, Outgoing, Record
from streams.topics import INPUT_TOPICS, partition_for
from streams.traces.plan import Stamped, TraceError

BATCH_EVENTS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """How many of the events stood in the log before, and how many were published now."""

    standing: int
    published: int


class Pace(Protocol):
    """How fast a trace's time passes."""

    def delay_s(self, at_ms: int) -> float:
        """Seconds until the event of that instant is due; not above 0: it is due."""
        ...


async def publish(
    events: Iterable[Stamped],
    *,
    pool: str,
    log: Log,
    decide: Callable[[], Awaitable[None]],
    pace: Pace | None = None,
) -> Published:
    """Publish what does not stand yet; `decide` has the steward decide all that stands.

    Without a `pace`, as fast as it goes. Raises TraceError where the log holds other events of the
    pool, and LogTrouble.
    """
    await decide()
    standing = _Standing(log, pool)
    published = 0
    batch: list[Outgoing] = []
    async for outgoing in standing.new(events):
        delay_s = 0.0 if pace is None else pace.delay_s(outgoing.timestamp_ms or 0)
        if len(batch) == BATCH_EVENTS or delay_s > 0:
            await _flush(batch, log, decide)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        batch.append(outgoing)
        published += 1
    await _flush(batch, log, decide)
    return Published(standing=standing.count, published=published)


async def _flush(batch: list[Outgoing], log: Log, decide: Callable[[], Awaitable[None]]) -> None:
    if batch:
        await log.publish(batch)
        batch.clear()
        await decide()


class _Standing:
    """The pool's events that stand in the log, read topic by topic as they are compared."""

    def __init__(self, log: LogReader, pool: str) -> None:
        self.count = 0
        self._where = log.where
        self._pool = pool
        self._topics = {topic: _records(log, topic, pool.encode()) for topic in INPUT_TOPICS}

    async def new(self, events: Iterable[Stamped]) -> AsyncIterator[Outgoing]:
        """The events after those that stand. Raises TraceError at the first that differs."""
        fresh = False
        for event in events:
            outgoing = Outgoing(
                topic=event.topic,
                key=self._pool.encode(),
                value=cbor.encode(event.event),
                timestamp_ms=event.at_ms,
            )
            if not fresh and await self._holds(outgoing):
                self.count += 1
                continue
            if not fresh:
                await self._nothing_else()
            fresh = True
            yield outgoing

    async def _holds(self, outgoing: Outgoing) -> bool:
        record = await anext(self._topics[outgoing.topic], None)
        if record is None:
            return False
        if (record.value, record.timestamp_ms) != (outgoing.value, outgoing.timestamp_ms):
            raise self._other(record)
        return True

    async def _nothing_else(self) -> None:
        for records in self._topics.values():
            record = await anext(records, None)
            if record is not None:
                raise self._other(record)

    def _other(self, record: Record) -> TraceError:
        return TraceError(
            self._where,
            f"{record.topic} offset {record.offset} of pool {self._pool!r} is not of this replay: "
            "take another directory, or the options that it was begun with",
        )


async def _records(log: LogReader, topic: str, key: bytes) -> AsyncIterator[Record]:
    """What stands in a topic under a key, up to the end that the log had at the call."""
    partition = partition_for(key, await log.partitions())
    offset = await log.start(topic, partition)
    end = await log.end(topic, partition)
    while offset < end:
        fetched = await log.read(topic, partition, offset_next=offset)
        offset = fetched.offset_next
        for record in fetched.records:
            if record.key == key:
                yield record
