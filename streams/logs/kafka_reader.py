"""Reading Kafka by offset: the contract's random access over consumers that only go forward.

Not here: writing; which topics there are (`kafka`).

1. A cursor is one consumer on one topic's partition; the next read goes on where the last one
   ended, without a seek. Topics have consumers of their own, since the client fetches nothing for
   one partition while another's records lie unread.
2. Positions are read-committed, ends read-uncommitted: a reader that has come to the end of its
   partition has passed every marker of a predecessor.
3. A topic that gave nothing was asked for its end: an empty answer, a record on its way and a
   broker that does not answer are told apart. So when one topic's record is returned, whatever was
   acknowledged before it in the others is returned too, or was before.
4. An offset below the start goes on at the start; one above the end waits there.

Invariant: a cancelled read loses nothing: the next one says where it starts.
Invariant: no read moves a group's offset.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import TracebackType

from streams.logs.contract import MAX_READ_RECORDS, MAX_TIMEOUT_MS, Fetched
from streams.logs.errors import LogTrouble, Unavailable
from streams.logs.kafka_client import (
    Consumed,
    Consumer,
    TopicPartition,
    committed_consumer,
    offsets_consumer,
    place_of,
    start_consumer,
    stop_consumer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, OUT_OF_RANGE, translate
from streams.logs.kafka_options import Connection
from streams.logs.kafka_records import record_of

CURSORS_MAX = 128
IDLE_SECONDS_MAX = 30.0
OUT_OF_RANGE_PAUSE_SECONDS = 0.1


class Offsets:
    """Where partitions start and end; two consumers that never read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumers: dict[bool, Consumer] = {}
        self._starting = asyncio.Lock()

    async def starts(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The smallest offsets that may still be read."""
        async with self._limit(places):
            return await (await self._consumer(False)).beginning_offsets(list(places))

    async def ends(
        self, places: Sequence[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, int]:
        """The read-uncommitted ends, or how far committed records reach now."""
        async with self._limit(places):
            return await (await self._consumer(committed)).end_offsets(list(places))

    def _limit(self, places: Sequence[TopicPartition]) -> _Limit:
        names = ", ".join(f"{place.topic}/{place.partition}" for place in places)
        return _Limit(self._connection, f"asking for the offsets of {names}")

    async def _consumer(self, committed: bool) -> Consumer:
        async with self._starting:
            if committed not in self._consumers:
                make = committed_consumer if committed else offsets_consumer
                self._consumers[committed] = await start_consumer(make(self._connection))
            return self._consumers[committed]

    async def close(self) -> None:
        """Close the connections; never raises."""
        consumers, self._consumers = list(self._consumers.values()), {}
        await asyncio.gather(*(stop_consumer(one, self._connection) for one in consumers))


class Cursors:
    """The cursors of one log: made when first needed, closed when long unused or too many."""

    def __init__(self, connection: Connection, offsets: Offsets) -> None:
        self._connection = connection
        self._offsets = offsets
        self._cursors: OrderedDict[TopicPartition, Cursor] = OrderedDict()

    async def read(
        self, partition: int, positions: Mapping[str, int], *, max_records: int, timeout_ms: int
    ) -> dict[str, Fetched]:
        """Read several topics of a partition together; see the contract's `read_any`."""
        limit = min(max_records, MAX_READ_RECORDS)
        cursors = {topic: await self._cursor(topic, partition) for topic in positions}
        found: dict[str, Fetched] = {}
        timeout_s = min(timeout_ms, MAX_TIMEOUT_MS) / 1000
        pending = {
            topic: asyncio.ensure_future(cursor.read(positions[topic], limit, timeout_s))
            for topic, cursor in cursors.items()
        }
        try:
            await self._await_any(pending, found, positions)
        finally:
            for task in pending.values():
                task.cancel()
            await asyncio.gather(*pending.values(), return_exceptions=True)
        await self._settle(cursors, positions, found, limit)
        return found

    async def _await_any(
        self,
        pending: Mapping[str, asyncio.Future[Fetched]],
        found: dict[str, Fetched],
        positions: Mapping[str, int],
    ) -> None:
        """Wait until one topic gave something or all have nothing."""
        while len(found) < len(pending):
            waiting = [task for topic, task in pending.items() if topic not in found]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for topic, task in pending.items():
                if task.done():
                    found[topic] = task.result()
            if any(has_moved(fetched, positions[topic]) for topic, fetched in found.items()):
                return

    async def _settle(
        self,
        cursors: Mapping[str, Cursor],
        positions: Mapping[str, int],
        found: dict[str, Fetched],
        limit: int,
    ) -> None:
        """Ask the topics that gave nothing whether there is nothing, and wait for what there is."""
        silent = {
            cursors[topic].place: topic
            for topic in positions
            if topic not in found or not has_moved(found[topic], positions[topic])
        }
        if not silent:
            return
        ends = await self._offsets.ends(list(silent), committed=True)
        for place, topic in silent.items():
            found[topic] = Fetched(records=(), offset_next=positions[topic])
            if positions[topic] >= ends[place]:
                continue
            wait_s = self._connection.tuning.request_ms / 1000
            found[topic] = await cursors[topic].read(positions[topic], limit, wait_s)
            if not has_moved(found[topic], positions[topic]):
                raise Unavailable(
                    f"{topic}/{place.partition} has records and none came",
                    where=self._connection.where,
                    todo="check that the broker runs and can be reached; trying again is safe",
                )

    async def _cursor(self, topic: str, partition: int) -> Cursor:
        place = place_of(self._connection, topic, partition)
        cursor = self._cursors.get(place)
        if cursor is None:
            cursor = self._cursors[place] = Cursor(self._connection, self._offsets, topic, place)
        self._cursors.move_to_end(place)
        for other in list(self._cursors.values()):
            if len(self._cursors) <= CURSORS_MAX and other.idle_s < IDLE_SECONDS_MAX:
                break
            if other is not cursor and not other.is_busy:
                del self._cursors[other.place]
                await other.close()
        return cursor

    async def close(self) -> None:
        """Close all cursors; never raises."""
        cursors, self._cursors = list(self._cursors.values()), OrderedDict()
        await asyncio.gather(*(cursor.close() for cursor in cursors))


class Cursor:
    """One consumer on one topic's partition, and when it was last used."""

    def __init__(
        self, connection: Connection, offsets: Offsets, topic: str, place: TopicPartition
    ) -> None:
        self.place = place
        self._connection = connection
        self._offsets = offsets
        self._topic = topic
        self._consumer: Consumer | None = None
        self._is_placed = False
        self._turn = asyncio.Lock()
        self._used_at = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def is_busy(self) -> bool:
        """Whether somebody reads with it now."""
        return self._turn.locked()

    @property
    def idle_s(self) -> float:
        """How long nobody has used it, in seconds."""
        return self._now() - self._used_at

    async def read(self, offset: int, max_records: int, timeout_s: float) -> Fetched:
        """Committed records at and after `offset`; waits up to `timeout_s` for the first."""
        doing = f"reading {self._topic}/{self.place.partition}"
        async with self._turn, _Limit(self._connection, doing, more_s=timeout_s):
            self._used_at = self._now()
            try:
                return await self._read(await self._placed(offset), offset, max_records, timeout_s)
            except CLIENT_ERRORS:
                await self.close()
                raise
            finally:
                self._used_at = self._now()

    async def _read(
        self, consumer: Consumer, offset: int, max_records: int, timeout_s: float
    ) -> Fetched:
        deadline = self._now() + timeout_s
        while True:
            wait_ms = max(0, int((deadline - self._now()) * 1000))
            records: Sequence[Consumed] = ()
            try:
                polled = await consumer.getmany(
                    self.place, timeout_ms=wait_ms, max_records=max_records
                )
                records = polled.get(self.place, ())
            except OUT_OF_RANGE:
                await self._rise_to_start(consumer)
            offset_next = await consumer.position(self.place)
            if records or offset_next != offset or self._now() >= deadline:
                return Fetched(
                    records=tuple(record_of(record, self._topic) for record in records),
                    offset_next=offset_next,
                )

    async def _rise_to_start(self, consumer: Consumer) -> None:
        """If records expired, go on at the start; a position above the end stays there."""
        starts = await self._offsets.starts([self.place])
        if await consumer.position(self.place) < starts[self.place]:
            consumer.seek(self.place, starts[self.place])
        else:
            # The broker answers at once that there is nothing there: do not ask without a pause.
            await asyncio.sleep(OUT_OF_RANGE_PAUSE_SECONDS)

    async def _placed(self, offset: int) -> Consumer:
        """The consumer, standing at `offset`."""
        if self._consumer is None:
            self._is_placed = False
            self._consumer = await start_consumer(committed_consumer(self._connection))
            self._consumer.assign([self.place])
        if not self._is_placed or await self._consumer.position(self.place) != offset:
            self._consumer.seek(self.place, offset)
            self._is_placed = True
        return self._consumer

    async def close(self) -> None:
        """Close the consumer; never raises."""
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await stop_consumer(consumer, self._connection)


class _Limit:
    """The request's time limit, and what its errors mean."""

    def __init__(self, connection: Connection, doing: str, *, more_s: float = 0.0) -> None:
        self._connection = connection
        self._doing = doing
        self._timeout = asyncio.timeout(connection.tuning.request_ms / 1000 + more_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise self._told(late) from late
        if isinstance(error, CLIENT_ERRORS) and not isinstance(error, LogTrouble):
            raise self._told(error) from error

    def _told(self, error: BaseException) -> LogTrouble:
        return translate(error, doing=self._doing, where=self._connection.where)


def has_moved(fetched: Fetched, offset: int) -> bool:
    """Whether a read at `offset` gave anything: records, or a step over markers."""
    return bool(fetched.records) or fetched.offset_next != offset
