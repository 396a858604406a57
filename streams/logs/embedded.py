"""The embedded log: the log contract on a RocksDB directory, one process and no broker.

The format on disk is `streams.logs.layout`. Errors are `streams.logs.errors`; RocksDB's own, which
are plain exceptions with a text, are told apart in `streams.logs.rocks` and never leave it.

1. Every publication and every batch is one write batch, synced before it is acknowledged. The
   synced write runs in the event loop's thread: moving it away saves less than a hundredth of the
   time of a batch, and costs a window in which a batch is visible but not durable.
2. One process opens the directory for writing (`EmbeddedLog`); RocksDB's lock file says so to a
   second one. Others read beside it (`EmbeddedReader`, from `streams.logs.stored`).
3. Fencing is a counter for each partition: opening a writer makes all earlier ones stale.
4. Time is the clock at publication unless the record brings its own. It may run backwards when the
   machine's clock does; the kernel makes it monotone.
5. After a failed write RocksDB refuses all others until it is opened anew; so does this log.

Invariant: offsets and orders are recovered from the records themselves when the log is opened.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from streams import faults, topics
from streams.logs import layout, limits, rocks
from streams.logs.contract import Entry, Headers, Outgoing, Position
from streams.logs.errors import Damaged, Fenced, Misconfigured
from streams.logs.stored import LOG_DIRECTORY, EmbeddedReader, Stored

__all__ = ["SNAPSHOT_DIRECTORY", "EmbeddedLog", "EmbeddedReader", "EmbeddedWriter", "clock_ms"]

SNAPSHOT_DIRECTORY: Final = "snapshots"
MAX_PARTITIONS: Final = 1024


def clock_ms() -> int:
    """The machine's clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _refuse_nameless_tables(path: Path) -> None:
    """Raises Damaged where there are tables and no log, as after damage to RocksDB's manifest.

    Opened for writing such a directory would be a new log, and its tables would be deleted.
    """
    if not any(path.glob("*.sst")):
        return
    seen = rocks.open_secondary(path)
    try:
        known = seen.get(layout.FORMAT_KEY) is not None
    finally:
        seen.close()
    if not known:
        what = "there are tables, and nothing says that they are a log's"
        raise Damaged(what, where=str(path.parent), todo="restore the directory from a copy")


class EmbeddedLog(Stored):
    """A `Log` in a directory that this process holds alone for writing.

    `partitions` is for a new directory (default 1); for an existing one it must agree or be None.
    Raises: Held, Misconfigured, DiskFull, Damaged; Missing where `create` is false and it is new.
    """

    def __init__(
        self,
        directory: Path,
        *,
        partitions: int | None = None,
        create: bool = True,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        path = directory / LOG_DIRECTORY
        _refuse_nameless_tables(path)
        database = rocks.open_primary(path, create=create)
        try:
            if database.get(layout.FORMAT_KEY) is None:
                count = _checked_partitions(partitions or 1, directory)
                database.write([(layout.FORMAT_KEY, layout.pack_format(count))])
            super().__init__(directory, database)
            if partitions is not None and partitions != self._partitions:
                raise Misconfigured(
                    f"{self._partitions} partitions, not {partitions}",
                    where=str(directory),
                    todo="leave the number out, or use another directory",
                )
            self._recover()
        except BaseException:
            database.close()
            raise
        self._importing = database.get(layout.IMPORT_KEY) or b""
        self._clock = clock
        self._generations = [0] * self._partitions
        self._grown = asyncio.Event()

    def _recover(self) -> None:
        self._offsets: dict[tuple[str, int], int] = {}
        self._orders = [0] * self._partitions
        for topic in topics.ALL_TOPICS:
            for partition in range(self._partitions):
                offset_next, order_next = self._last(topic, partition)
                self._offsets[topic, partition] = offset_next
                self._orders[partition] = max(self._orders[partition], order_next)

    async def end(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""
        self._check(topic, partition)
        return self._offsets[topic, partition]

    async def publish(self, records: Sequence[Outgoing]) -> list[Position]:
        """Append to inputs, all or none, durably. Raises: TooLarge, Missing, DiskFull, ..."""
        limits.check_publication(records, self.where)
        now_ms = self._clock()
        appending = _Appending(self)
        positions = []
        for record in records:
            partition = topics.partition_for(record.key, self._partitions)
            timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            offset = appending.add(
                record.topic,
                partition,
                record.value,
                timestamp_ms=timestamp_ms,
                key=record.key,
                content_type=record.content_type,
            )
            positions.append(
                Position(
                    topic=record.topic,
                    partition=partition,
                    offset=offset,
                    timestamp_ms=timestamp_ms,
                )
            )
        appending.write()
        return positions

    async def open_writer(self, partition: int) -> "EmbeddedWriter":
        """Become the partition's writer; earlier ones are fenced.

        Raises: Missing, Damaged; Misconfigured where an import was begun and not ended.
        """
        self._check(topics.LEDGER, partition)
        self._database.check_alive()
        if self._importing:
            raise Misconfigured(
                f"the import of pool {self._importing.decode(errors='replace')!r} was interrupted",
                where=self.where,
                todo="run the same import again",
            )
        return self._writer(partition)

    async def begin_import(self, pool: bytes) -> "EmbeddedWriter":
        """Become the writer of a pool's partition to bring in its ledger from elsewhere.

        Until `end_import`, also by another process, `open_writer` refuses: a steward that went on
        from a ledger cut short would write a second history. Raises: Damaged, DiskFull,
        Misconfigured where another pool's import was begun and not ended.
        """
        if self._importing != pool:
            partition = topics.partition_for(pool, self._partitions)
            await self.open_writer(partition)
            self._database.write([(layout.IMPORT_KEY, pool)])
            self._importing = pool
        return self._writer(topics.partition_for(pool, self._partitions))

    @property
    def importing(self) -> bytes | None:
        """The key of the pool whose import was begun and not ended, if there is one."""
        return self._importing or None

    async def end_import(self) -> None:
        """The ledger is whole: stewards may go on. Raises: DiskFull, Damaged."""
        self._database.write([(layout.IMPORT_KEY, b"")])
        self._importing = b""

    def _writer(self, partition: int) -> "EmbeddedWriter":
        self._generations[partition] += 1
        return EmbeddedWriter(self, partition, self._generations[partition])

    async def note_positions(self, partition: int, positions: Mapping[str, int]) -> None:
        """Nothing to tell: there is no dashboard on an embedded log."""

    async def reserve(self, topic: str, partition: int, offset_next: int) -> None:
        """Let the next record of a topic's partition get an offset of at least `offset_next`.

        For a ledger imported from another log: its causes name offsets that this log must not use
        again. Only inputs may have such holes. Never lowers. Raises: Missing, DiskFull.
        """
        assert topic in topics.INPUT_TOPICS, topic
        self._check(topic, partition)
        if offset_next > self._offsets[topic, partition]:
            key = layout.reserved_key(topic, partition)
            self._database.write([(key, offset_next.to_bytes(8, "big"))])
            self._offsets[topic, partition] = offset_next

    def _append(self, partition: int, generation: int, batch: Sequence[Entry]) -> None:
        if generation != self._generations[partition]:
            raise Fenced(
                "another writer was opened",
                where=f"{self.where} partition {partition}",
                todo="replay from the ledger before writing again",
            )
        limits.check_batch(batch, self.where)
        now_ms = self._clock()
        appending = _Appending(self)
        for entry in batch:
            appending.add(
                entry.topic,
                partition,
                entry.value,
                timestamp_ms=now_ms,
                key=entry.key,
                content_type=entry.content_type,
                headers=entry.headers,
            )
        faults.reach(faults.Point.INSIDE_APPEND)
        appending.write()

    def _end_seen(self, topic: str, partition: int) -> int:
        return self._offsets[topic, partition]

    async def _wait_for_more(self, at_most_s: float) -> None:
        self._grown.clear()
        try:
            async with asyncio.timeout(at_most_s):
                await self._grown.wait()
        except TimeoutError:
            return


class _Appending:
    """Offsets and orders for one write batch, taken over by the log only once it is written."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._offsets: dict[tuple[str, int], int] = {}
        self._orders: dict[int, int] = {}
        self._pairs: list[tuple[bytes, bytes]] = []

    def add(
        self,
        topic: str,
        partition: int,
        value: bytes,
        *,
        timestamp_ms: int,
        key: bytes | None,
        content_type: str,
        headers: Headers = (),
    ) -> int:
        """Give a record its place; returns its offset."""
        place = (topic, partition)
        offset = self._offsets.get(place)
        if offset is None:
            offset = self._log._offsets[place]
        order = self._orders.get(partition, self._log._orders[partition])
        stored = layout.pack_record(
            value,
            timestamp_ms=timestamp_ms,
            order=order,
            key=key,
            content_type=content_type,
            headers=headers,
        )
        self._pairs.append((layout.record_key(topic, partition, offset), stored))
        self._offsets[place] = offset + 1
        self._orders[partition] = order + 1
        return offset

    def write(self) -> None:
        """Write all, synced; then the log's ends move and waiting readers wake."""
        if not self._pairs:
            return
        self._log._database.write(self._pairs)
        self._log._offsets.update(self._offsets)
        for partition, order in self._orders.items():
            self._log._orders[partition] = order
        self._log._grown.set()


class EmbeddedWriter:
    """The writer of one partition, until another is opened."""

    def __init__(self, log: EmbeddedLog, partition: int, generation: int) -> None:
        self._log = log
        self._partition = partition
        self._generation = generation
        self._dead = False

    @property
    def partition(self) -> int:
        """The partition that it holds."""
        return self._partition

    async def append(self, batch: Sequence[Entry]) -> None:
        """Append a batch atomically. Raises: Fenced, OutcomeUnknown, DiskFull, TooLarge, ..."""
        if self._dead:
            raise limits.dead_writer(self._log.where, self._partition)
        self._dead = True
        self._log._append(self._partition, self._generation, batch)
        self._dead = False

    async def close(self) -> None:
        """Let go. What was appended stays."""
        self._dead = True


def _checked_partitions(count: int, directory: Path) -> int:
    if not 1 <= count <= MAX_PARTITIONS:
        raise Misconfigured(
            f"{count} partitions", where=str(directory), todo=f"choose 1 to {MAX_PARTITIONS}"
        )
    return count
