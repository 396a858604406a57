"""One consumer on one topic's partition, read from any offset.

Not here: reading several topics together, and when a consumer is no longer needed (`kafka_reader`).

1. The next read goes on where the last one ended without a seek; any other offset is sought.
2. An offset below the start goes on at the start; one above the end waits there.
3. What the broker's last answer said of the end is remembered with its age.

Invariant: a cancelled read loses nothing: the next one says where it starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from streams.logs.contract import Fetched
from streams.logs.kafka_client import (
    Consumed,
    Consumer,
    TopicPartition,
    committed_consumer,
    start_consumer,
    stop_consumer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, OUT_OF_RANGE
from streams.logs.kafka_offsets import Limit, Offsets
from streams.logs.kafka_options import Connection
from streams.logs.kafka_records import record_of

OUT_OF_RANGE_PAUSE_SECONDS: Final = 0.1
FRESH_MS: Final = 50
"""A topic that was seen at its end so short ago counts as being there."""


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
        self._end_seen = (-1, 0.0)

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

    def keep(self) -> None:
        """Somebody is about to use it."""
        self._used_at = self._now()

    def at_end(self, offset: int, *, age_s: float = 0.0) -> None:
        """Note that nothing lay at or past an offset, so long ago."""
        seen, at = self._end_seen
        # What an older answer of the broker says does not make a newer one forgotten.
        newest = max(at, self._now() - age_s) if seen == offset else self._now() - age_s
        self._end_seen = (offset, newest)

    def is_fresh(self, offset: int) -> bool:
        """Whether it was just seen that nothing lies at or past an offset."""
        seen, at = self._end_seen
        return seen == offset and self._now() - at < FRESH_MS / 1000

    async def read(self, offset: int, max_records: int, timeout_s: float) -> Fetched:
        """Committed records at and after `offset`; waits up to `timeout_s` for the first."""
        doing = f"reading {self._topic}/{self.place.partition}"
        async with self._turn, Limit(self._connection, doing, more_s=timeout_s):
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
                self._note_end(consumer, offset_next)
                return Fetched(
                    records=tuple(record_of(record, self._topic) for record in records),
                    offset_next=offset_next,
                )

    def _note_end(self, consumer: Consumer, offset: int) -> None:
        """The broker's last answer may have said that this is the end."""
        stable = consumer.last_stable_offset(self.place)
        told_ms = consumer.last_poll_timestamp(self.place)
        if stable is not None and told_ms is not None and offset >= stable:
            self.at_end(offset, age_s=max(0.0, time.time() - told_ms / 1000))

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


def has_moved(fetched: Fetched, offset: int) -> bool:
    """Whether a read at `offset` gave anything: records, or a step over markers."""
    return bool(fetched.records) or fetched.offset_next != offset
