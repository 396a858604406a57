"""The read side on Kafka: a Faust worker folds the partitions that its group gives it.

Not here: the application's settings and its tables (`faustapp`), asking other workers (`peers`).

1. Faust shares the ledger's partitions among workers, brings what is committed in batches, and
   keeps the rows in RocksDB tables with a changelog each.
2. What the kernel keeps is not in tables: with a partition that comes, its ledger is replayed from
   the start, by the same fold. Rows that have a receipt already are left as they are; rows that a
   killed worker did not get to write are written now. So rows depend on no guarantee but their own.
3. A batch waits for the replay; records that the replay has had are passed over.
4. Heads, countersignatures and dead letters of the partitions are followed beside.
5. A partition that goes takes its pools with it.

Invariant: rows and state of a pool are those of a fold of its ledger's committed records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from streams import topics
from streams.logs.contract import LogReader, Record
from streams.logs.errors import LogTrouble, Remedy
from streams.logs.kafka_options import Connection
from streams.views.faustapp import as_if_in, check_isolation, make_faust, make_table
from streams.views.place import Place
from streams.views.readside import ReadSide
from streams.views.tables import CLAIMS, TABLES

BATCH_RECORDS: Final = 500
BATCH_SECONDS: Final = 0.05
FETCH_RECORDS: Final = 2048
WAIT_MS: Final = 500
PAUSE_SECONDS: Final = 0.5
_BESIDE: Final = (topics.HEADS, topics.WITNESS, topics.DEAD)


class Worker:
    """One worker. `side.tables` are its Faust tables; `side.log` reads committed records."""

    def __init__(
        self, connection: Connection, place: Place, side: ReadSide, partitions: int
    ) -> None:
        self.side = side
        self.place = place
        self.partitions = partitions
        self._topic = connection.topic(topics.LEDGER)
        self.app = make_faust(connection, place, partitions)
        made = {name: make_table(self.app, name, partitions) for name in TABLES}
        side.tables = made
        self._owned: dict[int, asyncio.Task[None]] = {}
        self._ready: dict[int, asyncio.Event] = {}
        self._next: dict[int, int] = {}
        self._recovered = asyncio.Event()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        source = self.app.topic(
            self._topic, key_type=bytes, value_type=bytes, partitions=partitions,
            key_serializer="raw", value_serializer="raw",
        )  # fmt: skip
        self.app.agent(source, name="ledger")(self._agent)
        for signal, heard in (
            (self.app.on_partitions_assigned, self._assigned),
            (self.app.on_partitions_revoked, self._revoked),
            (self.app.on_rebalance_complete, self._complete),
        ):
            hear: Any = heard
            signal.connect(hear)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are folded here."""
        return frozenset(self._owned)

    @property
    def is_ready(self) -> bool:
        """Whether every partition that is folded here was replayed, and there is one."""
        return bool(self._owned) and all(event.is_set() for event in self._ready.values())

    def owner(self, pool: str) -> str | None:
        """The URL of the worker that folds a pool; None while nobody is known to."""
        try:
            # Rows are in the pool's partition whatever their key is, so the pool is looked up.
            return str(self.app.router.key_store(CLAIMS, pool.encode()))
        except KeyError:
            return None

    def workers(self) -> set[str]:
        """The URLs of all workers that fold anything."""
        return {str(url) for url in self.app.router.tables_metadata()}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work while the block lasts. Raises LogTrouble: it cannot be begun."""
        await self.app.start()
        try:
            check_isolation(self.app)
            yield
        finally:
            for task in self._owned.values():
                task.cancel()
            await asyncio.gather(*self._owned.values(), return_exceptions=True)
            await self.app.stop()

    async def failed(self) -> None:
        """Wait for ever, or raise what no waiting heals."""
        await asyncio.shield(self._failed)

    async def _agent(self, stream: Any) -> None:
        """Batches as Faust brings them; of several partitions, in each partition's order."""
        async for events in stream.take_events(BATCH_RECORDS, within=BATCH_SECONDS):
            by_partition: dict[int, list[Record]] = {}
            for event in events:
                record = _record(event)
                by_partition.setdefault(record.partition, []).append(record)
            for partition, records in by_partition.items():
                await self._batch(partition, records)

    async def _batch(self, partition: int, records: Sequence[Record]) -> None:
        ready = self._ready.get(partition)
        if ready is None:
            # It went to another worker while the batch was on its way.
            return
        await ready.wait()
        news = [record for record in records if record.offset >= self._next.get(partition, 0)]
        if news and partition in self._owned:
            self._next[partition] = news[-1].offset + 1
            await self._fold(partition, {topics.LEDGER: news})

    async def _fold(self, partition: int, found: dict[str, Sequence[Record]]) -> None:
        with as_if_in(self._topic, partition):
            await self.side.take(found)

    async def _assigned(self, sender: Any, assigned: Any, **_: Any) -> None:
        wanted = {place.partition for place in assigned if place.topic == self._topic}
        for partition in wanted - self._owned.keys():
            self.side.caught_up = False
            self._ready[partition] = asyncio.Event()
            self._owned[partition] = asyncio.create_task(self._own(partition))
        await self._let_go(self._owned.keys() - wanted)

    async def _complete(self, sender: Any, **_: Any) -> None:
        """Tables have everything that their changelogs have."""
        self._recovered.set()

    async def _revoked(self, sender: Any, revoked: Any, **_: Any) -> None:
        # Every rebalance begins with this, and recovers tables anew.
        self._recovered.clear()
        await self._let_go({place.partition for place in revoked if place.topic == self._topic})

    async def _let_go(self, gone: Any) -> None:
        for partition in set(gone) & self._owned.keys():
            task = self._owned.pop(partition)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._ready.pop(partition).set()
            self._next.pop(partition, None)
            self.side.forget(partition, self.partitions)

    async def _own(self, partition: int) -> None:
        """Replay the partition's ledger, then follow what is said beside it."""
        try:
            # A changelog read after the rows were written would put old rows over new ones.
            await self._recovered.wait()
            await self._replay(partition)
            self._ready[partition].set()
            self.side.caught_up = self.is_ready
            await self._follow(partition)
        except LogTrouble as trouble:
            if not self._failed.done():
                self._failed.set_exception(trouble)

    async def _replay(self, partition: int) -> None:
        log = self.side.log
        offset = await _start(log, partition)
        end = await log.end(topics.LEDGER, partition)
        while offset < end:
            found = await _read(log, partition, {topics.LEDGER: offset})
            if found is not None:
                records, positions = found
                await self._fold(partition, records)
                offset = positions[topics.LEDGER]
        self._next[partition] = offset

    async def _follow(self, partition: int) -> None:
        positions = {topic: await self.side.log.start(topic, partition) for topic in _BESIDE}
        while True:
            found = await _read(self.side.log, partition, positions)
            if found is not None:
                records, positions = found
                await self.side.take(records)


async def _start(log: LogReader, partition: int) -> int:
    """Where the ledger begins; waits where waiting helps."""
    while True:
        try:
            return await log.start(topics.LEDGER, partition)
        except LogTrouble as trouble:
            if trouble.remedy is Remedy.STOP:
                raise
            await asyncio.sleep(PAUSE_SECONDS)


async def _read(
    log: LogReader, partition: int, positions: dict[str, int]
) -> tuple[dict[str, Sequence[Record]], dict[str, int]] | None:
    """What is there, and the positions after it; None after trouble that a wait may heal."""
    try:
        found = await log.read_any(
            partition, positions, max_records=FETCH_RECORDS, timeout_ms=WAIT_MS
        )
    except LogTrouble as trouble:
        if trouble.remedy is Remedy.STOP:
            raise
        await asyncio.sleep(PAUSE_SECONDS)
        return None
    return (
        {topic: fetched.records for topic, fetched in found.items()},
        {topic: fetched.offset_next for topic, fetched in found.items()},
    )


def _record(event: Any) -> Record:
    message = event.message
    timestamp_ms = int(message.timestamp * 1000)
    return Record(
        topic=topics.LEDGER,
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=timestamp_ms,
        order=timestamp_ms,
        key=message.key,
        value=event.value,
    )
