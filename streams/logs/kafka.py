"""The log contract on Apache Kafka.

Not here: reading (`kafka_reader`), appending (`kafka_writer`), publishing (`kafka_publisher`),
creating topics and checking a deployment (`kafka_admin`, `kafka_doctor`), and who gets which
partition (`kafka_group`; nobody needs it: with fixed partitions the same code runs without).

1. The partition count comes from the cluster; all topics must agree on it.
2. Times of inputs are the broker's (`LogAppendTime`), so `Record.order` is that time.
3. Group offsets are written for lag dashboards, in a group of their own that nobody joins, and are
   never read back.

Invariant: a `KafkaLog` belongs to the event loop that first awaited it.
Source: architecture.md "One writer, exactly once".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from streams import topics
from streams.logs import limits
from streams.logs.contract import MAX_READ_RECORDS, Fetched, Outgoing, Position
from streams.logs.errors import LogTrouble, Misconfigured, Missing
from streams.logs.kafka_admin import Cluster, describe
from streams.logs.kafka_client import (
    Consumer,
    place_of,
    positions_consumer,
    start_consumer,
    stop_consumer,
)
from streams.logs.kafka_errors import words
from streams.logs.kafka_offsets import Offsets
from streams.logs.kafka_options import Connection
from streams.logs.kafka_publisher import Publisher
from streams.logs.kafka_reader import Cursors
from streams.logs.kafka_writer import KafkaWriter

_log = logging.getLogger(__name__)

LAG_GROUP_SUFFIX: Final = ".positions"
NOTE_SECONDS_MIN: Final = 5.0


class KafkaReader:
    """The reading half of a deployment on Kafka; see the contract's `LogReader`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._offsets = Offsets(connection)
        self._cursors = Cursors(connection, self._offsets)
        self._cluster: Cluster | None = None

    @property
    def where(self) -> str:
        """What to call this log in a message."""
        return self.connection.where

    async def partitions(self) -> int:
        """How many partitions every topic has. Raises: Missing, Misconfigured, Unavailable."""
        return (await self._described()).partitions

    async def _described(self) -> Cluster:
        if self._cluster is None:
            self._cluster = await describe(self.connection)
        return self._cluster

    async def _check(self, wanted: Iterable[str], partition: int) -> None:
        """Raises Missing for a topic or a partition that this deployment does not have."""
        cluster = await self._described()
        for topic in wanted:
            if topic not in cluster.topics or not 0 <= partition < cluster.partitions:
                raise Missing(
                    f"no {topic}/{partition} that this user may see",
                    where=self.where,
                    todo=f"use one of {', '.join(cluster.topics)}, partitions 0 to "
                    f"{cluster.partitions - 1}",
                )

    async def start(self, topic: str, partition: int) -> int:
        """The smallest offset that may still be read."""
        await self._check([topic], partition)
        place = place_of(self.connection, topic, partition)
        return (await self._offsets.starts([place]))[place]

    async def end(self, topic: str, partition: int) -> int:
        """The offset that a reader must get to: the read-uncommitted end."""
        await self._check([topic], partition)
        place = place_of(self.connection, topic, partition)
        return (await self._offsets.ends([place], committed=False))[place]

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Fetched:
        """Committed records at and after `offset_next`."""
        found = await self.read_any(
            partition, {topic: offset_next}, max_records=max_records, timeout_ms=timeout_ms
        )
        return found[topic]

    async def read_any(
        self,
        partition: int,
        positions: Mapping[str, int],
        *,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Mapping[str, Fetched]:
        """`read` of several topics of a partition."""
        await self._check(positions, partition)
        return await self._cursors.read(
            partition, positions, max_records=max_records, timeout_ms=timeout_ms
        )

    async def close(self) -> None:
        """Release every connection; never raises."""
        await asyncio.gather(self._cursors.close(), self._offsets.close())


class KafkaLog(KafkaReader):
    """A deployment on Kafka that may be written to; see the contract's `Log`."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._publisher = Publisher(connection)
        self._lag = _Lag(connection)

    async def publish(self, records: Sequence[Outgoing]) -> list[Position]:
        """Append to inputs or countersignatures, each record to its key's partition."""
        limits.check_publication(records, self.where)
        cluster = await self._described()
        for record in records:
            if record.timestamp_ms is not None and record.topic in cluster.stamping:
                raise Misconfigured(
                    f"{record.topic} stamps its records itself; a given time would be lost",
                    where=self.where,
                    todo="leave the time out, or set message.timestamp.type=CreateTime on a "
                    "deployment for traces only",
                )
        return await self._publisher.publish(records, cluster.partitions)

    async def open_writer(self, partition: int) -> KafkaWriter:
        """Become the partition's writer, fencing whoever was."""
        await self._check(topics.WRITER_TOPICS, partition)
        return await KafkaWriter.open(self.connection, partition)

    async def note_positions(self, partition: int, positions: Mapping[str, int]) -> None:
        """Tell lag dashboards how far a steward has come; never raises, and not at every call."""
        try:
            cluster = await self._described()
        except LogTrouble as trouble:
            _log.info("positions for dashboards not noted: %s", trouble)
        else:
            await self._lag.note(partition, positions, cluster.partitions)

    async def close(self) -> None:
        """Release every connection; never raises."""
        await asyncio.gather(super().close(), self._publisher.close(), self._lag.close())


class _Lag:
    """Commits positions for a group without members, now and then; failures only cost a figure."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumer: Consumer | None = None
        self._positions: dict[tuple[str, int], int] = {}
        self._noted_at = 0.0
        self._turn = asyncio.Lock()

    async def note(self, partition: int, positions: Mapping[str, int], partitions: int) -> None:
        """Remember, and commit if it is time to."""
        for topic, offset in positions.items():
            self._positions[topic, partition] = offset
        now = asyncio.get_running_loop().time()
        if self._turn.locked() or now - self._noted_at < NOTE_SECONDS_MIN:
            return
        async with self._turn:
            self._noted_at = now
            try:
                async with asyncio.timeout(self._connection.tuning.stop_ms / 1000):
                    await self._commit(partitions)
            except Exception as error:
                # Whatever it is, it must not stop a steward.
                _log.info("positions for dashboards not committed: %s", words(error))
                await self._drop()

    async def _commit(self, partitions: int) -> None:
        connection = self._connection
        if self._consumer is None:
            group = connection.group + LAG_GROUP_SUFFIX
            self._consumer = await start_consumer(positions_consumer(connection, group))
            # All at once: the library mixes up what it knows of an assignment that is replaced.
            places = [
                place_of(connection, topic, number)
                for topic in topics.INPUT_TOPICS
                for number in range(partitions)
            ]
            self._consumer.assign(places)
            for place in places:
                self._consumer.seek(place, 0)
            self._consumer.pause(*places)
        offsets = {
            place_of(connection, topic, number): offset
            for (topic, number), offset in self._positions.items()
        }
        await self._consumer.commit(offsets)

    async def _drop(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            await stop_consumer(consumer, self._connection)

    async def close(self) -> None:
        """Commit no more; never raises."""
        await self._drop()
