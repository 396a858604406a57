"""Reading Kafka by offset: the contract's random access over consumers that only go forward.

Not here: writing; which topics there are (`kafka`).

1. A cursor is one consumer, assigned to the places that one reader follows together; the next read
   of the same places goes on where the last one ended, without a seek.
2. Positions are read-committed, ends read-uncommitted: a reader that has come to the end of its
   partition has passed every marker of a predecessor.
3. A read that found nothing asks the broker whether there is nothing: an empty answer and a broker
   that does not answer are told apart (`Unavailable`).
4. An offset below the start goes on at the start; one above the end waits there.

Invariant: a cursor whose last call did not finish is sought anew before the next one.
Invariant: no read moves a group's offset.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from streams.logs.contract import (
    CONTENT_CBOR,
    CONTENT_TYPE_HEADER,
    MAX_CONTENT_TYPE_BYTES,
    MAX_READ_RECORDS,
    MAX_TIMEOUT_MS,
    Fetched,
    Headers,
    Record,
)
from streams.logs.errors import Unavailable
from streams.logs.kafka_client import (
    Consumed,
    Consumer,
    TopicPartition,
    committed_consumer,
    offsets_consumer,
    place_of,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, OUT_OF_RANGE, translate
from streams.logs.kafka_options import Connection

CURSORS_MAX = 32
POLL_MS = 100
"""How long a read that found nothing though there is something waits before it looks again."""

_Positions = dict[TopicPartition, int]


class Offsets:
    """Where partitions start and end; a consumer that never reads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumer: Consumer | None = None
        self._starting = asyncio.Lock()

    async def start(self, topic: str, partition: int) -> int:
        """The smallest offset that may still be read."""
        place = place_of(self._connection, topic, partition)
        return (await self._ask("beginning_offsets", place))[place]

    async def end(self, topic: str, partition: int) -> int:
        """The read-uncommitted end: whatever was acknowledged lies below it."""
        place = place_of(self._connection, topic, partition)
        return (await self._ask("end_offsets", place))[place]

    async def _ask(self, what: str, place: TopicPartition) -> dict[TopicPartition, int]:
        connection = self._connection
        try:
            async with asyncio.timeout(connection.tuning.request_ms / 1000):
                consumer = await self._started()
                if what == "end_offsets":
                    return await consumer.end_offsets([place])
                return await consumer.beginning_offsets([place])
        except CLIENT_ERRORS as error:
            doing = f"asking for the offsets of {place.topic}/{place.partition}"
            raise translate(error, doing=doing, where=connection.where) from error

    async def _started(self) -> Consumer:
        async with self._starting:
            if self._consumer is None:
                self._consumer = await start_consumer(offsets_consumer(self._connection))
            return self._consumer

    async def close(self) -> None:
        """Close the connection; never raises."""
        if self._consumer is not None:
            await stop_consumer(self._consumer, self._connection)
            self._consumer = None


class Cursors:
    """The cursors of one log, the least recently used one closed when there are too many."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursors: OrderedDict[tuple[TopicPartition, ...], Cursor] = OrderedDict()

    async def read(
        self, partition: int, positions: Mapping[str, int], *, max_records: int, timeout_ms: int
    ) -> dict[str, Fetched]:
        """Read several topics of a partition together; see the contract's `read_any`."""
        connection = self._connection
        names = {place_of(connection, topic, partition): topic for topic in positions}
        places = tuple(sorted(names))
        cursor = await self._cursor(places)
        wanted = {place: positions[names[place]] for place in places}
        try:
            fetched = await cursor.read(
                wanted,
                max_records=min(max_records, MAX_READ_RECORDS),
                timeout_ms=min(timeout_ms, MAX_TIMEOUT_MS),
            )
        except CLIENT_ERRORS as error:
            await self._drop(places)
            doing = f"reading {', '.join(sorted(positions))}/{partition}"
            raise translate(error, doing=doing, where=connection.where) from error
        return {names[place]: _named(found, names[place]) for place, found in fetched.items()}

    async def _cursor(self, places: tuple[TopicPartition, ...]) -> Cursor:
        cursor = self._cursors.get(places)
        if cursor is None:
            cursor = self._cursors[places] = Cursor(self._connection, places)
        self._cursors.move_to_end(places)
        for oldest in [key for key, idle in self._cursors.items() if not idle.is_busy]:
            if len(self._cursors) <= CURSORS_MAX or oldest == places:
                break
            await self._drop(oldest)
        return cursor

    async def _drop(self, places: tuple[TopicPartition, ...]) -> None:
        cursor = self._cursors.pop(places, None)
        if cursor is not None:
            await cursor.close()

    async def close(self) -> None:
        """Close all cursors; never raises."""
        cursors, self._cursors = list(self._cursors.values()), OrderedDict()
        await asyncio.gather(*(cursor.close() for cursor in cursors))


class Cursor:
    """One consumer and where it stands."""

    def __init__(self, connection: Connection, places: Sequence[TopicPartition]) -> None:
        self._connection = connection
        self._places = tuple(places)
        self._consumer: Consumer | None = None
        self._positions: _Positions = {}
        self._turn = asyncio.Lock()
        self._limit_s = connection.tuning.request_ms / 1000

    @property
    def is_busy(self) -> bool:
        """Whether somebody reads with it now."""
        return self._turn.locked()

    async def read(
        self, wanted: _Positions, *, max_records: int, timeout_ms: int
    ) -> dict[TopicPartition, Fetched]:
        """Records at and after the wanted offsets; waits up to `timeout_ms` for the first."""
        async with self._turn:
            consumer = await self._started()
            for place, offset in wanted.items():
                if self._positions.pop(place, None) != offset:
                    consumer.seek(place, offset)
            return await self._read(consumer, wanted, max_records, timeout_ms)

    async def _read(
        self, consumer: Consumer, wanted: _Positions, max_records: int, timeout_ms: int
    ) -> dict[TopicPartition, Fetched]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_ms / 1000
        hopeless = max(deadline, clock() + self._limit_s)
        while True:
            wait_ms = max(0, int((deadline - clock()) * 1000))
            records = await self._poll(consumer, wait_ms, max_records)
            positions = {place: await consumer.position(place) for place in wanted}
            if positions == wanted and not any(records.values()):
                if clock() < deadline:
                    continue
                if not await self._nothing_left(consumer, positions):
                    if clock() < hopeless:
                        await asyncio.sleep(POLL_MS / 1000)
                        continue
                    raise Unavailable(
                        "the broker has records and returns none",
                        where=self._connection.where,
                        todo="trying again is safe",
                    )
            self._positions = dict(positions)
            return {place: _fetched(records.get(place, ()), positions[place]) for place in wanted}

    async def _poll(
        self, consumer: Consumer, wait_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Consumed]]:
        """One look at all places, `max_records` for each."""
        try:
            records = await consumer.getmany(
                *self._places, timeout_ms=wait_ms, max_records=max_records
            )
            # The client spends its limit on the first place that has something: ask the others.
            for place in self._places if any(records.values()) else ():
                room = max_records - len(records.get(place, ()))
                if room > 0 and len(self._places) > 1:
                    more = await consumer.getmany(place, timeout_ms=0, max_records=room)
                    records.setdefault(place, []).extend(more.get(place, ()))
        except OUT_OF_RANGE:
            await self._rise_to_start(consumer)
            return {}
        return records

    async def _rise_to_start(self, consumer: Consumer) -> None:
        """Move places whose records expired to their start; one above the end stays there."""
        async with asyncio.timeout(self._limit_s):
            starts = await consumer.beginning_offsets(list(self._places))
        for place, offset in starts.items():
            if await consumer.position(place) < offset:
                consumer.seek(place, offset)
        await asyncio.sleep(POLL_MS / 1000)

    async def _nothing_left(self, consumer: Consumer, positions: _Positions) -> bool:
        """Whether every place has come to what is committed. Tells silence from emptiness."""
        async with asyncio.timeout(self._limit_s):
            ends = await consumer.end_offsets(list(positions))
        return all(offset >= ends[place] for place, offset in positions.items())

    async def _started(self) -> Consumer:
        if self._consumer is None:
            consumer = committed_consumer(self._connection)
            async with asyncio.timeout(self._limit_s):
                self._consumer = await start_consumer(consumer)
            self._consumer.assign(list(self._places))
            self._positions = {}
        return self._consumer

    async def close(self) -> None:
        """Close the consumer; never raises."""
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await stop_consumer(consumer, self._connection)


async def start_consumer(consumer: Consumer) -> Consumer:
    """Start a consumer; one that could not be started is closed, so that nothing of it stays."""
    try:
        await consumer.start()
    except BaseException:
        with contextlib.suppress(*CLIENT_ERRORS):
            await consumer.stop()
        raise
    return consumer


async def stop_consumer(consumer: Consumer, connection: Connection) -> None:
    """Stop a consumer within its time; never raises."""
    with contextlib.suppress(*CLIENT_ERRORS):
        async with asyncio.timeout(connection.tuning.stop_ms / 1000):
            await consumer.stop()


def _fetched(consumed: Sequence[Consumed], offset_next: int) -> Fetched:
    return Fetched(records=tuple(map(_record, consumed)), offset_next=offset_next)


def _named(fetched: Fetched, topic: str) -> Fetched:
    """The same under the topic's own name, without the deployment's prefix."""
    if not fetched.records or fetched.records[0].topic == topic:
        return fetched
    records = tuple(replace(record, topic=topic) for record in fetched.records)
    return replace(fetched, records=records)


def _record(consumed: Consumed) -> Record:
    content_type = CONTENT_CBOR
    headers: Headers = ()
    if consumed.headers:
        content_type, headers = _headers(consumed.headers)
    return Record(
        topic=consumed.topic,
        partition=consumed.partition,
        offset=consumed.offset,
        timestamp_ms=max(0, consumed.timestamp),
        order=max(0, consumed.timestamp),
        key=consumed.key,
        # A tombstone is no event: as an empty value it is found malformed like any other.
        value=consumed.value or b"",
        content_type=content_type,
        headers=headers,
    )


def _headers(given: Sequence[tuple[str, bytes | None]]) -> tuple[str, Headers]:
    content_type: str | None = None
    others = []
    for name, value in given:
        if name == CONTENT_TYPE_HEADER and content_type is None:
            content_type = _content_type(value or b"")
        else:
            others.append((name, value or b""))
    return CONTENT_CBOR if content_type is None else content_type, tuple(others)


def _content_type(value: bytes) -> str:
    """The header's text; empty, which no event has, where it is none or too long."""
    if len(value) > MAX_CONTENT_TYPE_BYTES:
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
