"""Reading Kafka by offset: the contract's random access over consumers that only go forward.

Not here: writing; which topics there are (`kafka`); one topic's consumer (`kafka_cursor`).

1. A cursor is one consumer on one topic's partition; the next read goes on where the last one
   ended, without a seek. Topics have consumers of their own, since the client fetches nothing for
   one partition while another's records lie unread.
2. Positions are read-committed, ends read-uncommitted: a reader that has come to the end of its
   partition has passed every marker of a predecessor.
3. Before a read says that nothing is there, the broker was asked for the end: an empty answer, a
   record on its way and a broker that does not answer are told apart. Beside a topic that gave
   something, a silent one is asked only if it was not seen at its end within `FRESH_MS`: so what
   was acknowledged in another topic that long before a record is returned before it, or with it.
4. A read that may not wait and follows one that gave something says "nothing now" without asking:
   its caller has work in hand. The next one asks, so there are never two such answers in a row.

Invariant: no read moves a group's offset.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from streams.logs.contract import MAX_READ_RECORDS, MAX_TIMEOUT_MS, Fetched
from streams.logs.errors import Unavailable
from streams.logs.kafka_client import TopicPartition, place_of
from streams.logs.kafka_cursor import Cursor, has_moved
from streams.logs.kafka_offsets import Offsets
from streams.logs.kafka_options import Connection

CURSORS_MAX: Final = 128
IDLE_SECONDS_MAX: Final = 30.0


class Cursors:
    """The cursors of one log: made when first needed, closed when long unused or too many."""

    def __init__(self, connection: Connection, offsets: Offsets) -> None:
        self._connection = connection
        self._offsets = offsets
        self._cursors: OrderedDict[TopicPartition, Cursor] = OrderedDict()
        self._just_gave: set[int] = set()

    async def read(
        self, partition: int, positions: Mapping[str, int], *, max_records: int, timeout_ms: int
    ) -> dict[str, Fetched]:
        """Read several topics of a partition together; see the contract's `read_any`."""
        limit = min(max_records, MAX_READ_RECORDS)
        cursors = {topic: await self._cursor(topic, partition) for topic in positions}
        # What is at hand is taken without a task: under load there is always something.
        found = {
            topic: await cursor.read(positions[topic], limit, 0.0)
            for topic, cursor in cursors.items()
        }
        if timeout_ms > 0 and not _moved(found, positions):
            found = await self._wait(cursors, positions, limit, min(timeout_ms, MAX_TIMEOUT_MS))
        may_ask = timeout_ms > 0 or partition not in self._just_gave
        await self._settle(cursors, positions, found, limit, may_ask)
        if _moved(found, positions):
            self._just_gave.add(partition)
        else:
            self._just_gave.discard(partition)
        return found

    async def _wait(
        self,
        cursors: Mapping[str, Cursor],
        positions: Mapping[str, int],
        limit: int,
        timeout_ms: int,
    ) -> dict[str, Fetched]:
        """Wait until one topic gives something, or the time is over."""
        pending = {
            topic: asyncio.ensure_future(cursor.read(positions[topic], limit, timeout_ms / 1000))
            for topic, cursor in cursors.items()
        }
        found: dict[str, Fetched] = {}
        try:
            while len(found) < len(pending) and not _moved(found, positions):
                waiting = [task for topic, task in pending.items() if topic not in found]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                found = {topic: task.result() for topic, task in pending.items() if task.done()}
        finally:
            for task in pending.values():
                task.cancel()
            await asyncio.gather(*pending.values(), return_exceptions=True)
        return found

    async def _settle(
        self,
        cursors: Mapping[str, Cursor],
        positions: Mapping[str, int],
        found: dict[str, Fetched],
        limit: int,
        may_ask: bool,
    ) -> None:
        """Ask the topics that gave nothing whether there is nothing, and wait for what there is."""
        silent = [
            topic
            for topic in positions
            if topic not in found or not has_moved(found[topic], positions[topic])
        ]
        for topic in silent:
            found[topic] = Fetched(records=(), offset_next=positions[topic])
        if len(silent) < len(positions):
            silent = [topic for topic in silent if not cursors[topic].is_fresh(positions[topic])]
        elif not may_ask:
            return
        if not silent:
            return
        places = {cursors[topic].place: topic for topic in silent}
        ends = await self._offsets.ends(list(places), committed=True)
        for place, topic in places.items():
            if positions[topic] >= ends[place]:
                cursors[topic].at_end(positions[topic])
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
        cursor.keep()
        # Taken out before anything is awaited: another reader may be tidying up as well.
        idle: list[Cursor] = []
        for other in list(self._cursors.values()):
            if len(self._cursors) <= CURSORS_MAX and other.idle_s < IDLE_SECONDS_MAX:
                break
            if other is not cursor and not other.is_busy:
                idle.append(self._cursors.pop(other.place))
        for other in idle:
            await other.close()
        return cursor

    async def close(self) -> None:
        """Close all cursors; never raises."""
        cursors, self._cursors = list(self._cursors.values()), OrderedDict()
        await asyncio.gather(*(cursor.close() for cursor in cursors))


def _moved(found: Mapping[str, Fetched], positions: Mapping[str, int]) -> bool:
    return any(has_moved(fetched, positions[topic]) for topic, fetched in found.items())
