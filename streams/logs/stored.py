"""Reading an embedded log: what the log and a reader beside it have in common, and that reader.

Writing is `streams.logs.embedded`; the format is `streams.logs.layout`.

1. A reader beside a writer sees what was written up to its last look, and looks again whenever it
   comes to the end. It changes nothing in the directory, which may be on a read-only file system.
2. A batch is seen whole or not at all: the writer's write-ahead log holds it as one record.
3. What cannot be read is `Damaged` and never waited for: a block whose checksum is wrong, a record
   missing below the end. Inputs alone may have holes, each up to a reserved start; since the last
   reservation only is kept, a hole with inputs behind it passes for one.
4. What nobody reads is not checked. A steward that starts from a snapshot reads the ledger from
   there on only, so it goes on behind damage that lies before; `pool verify` reads it all.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from streams import topics
from streams.logs import layout, rocks
from streams.logs.contract import (
    MAX_READ_BYTES,
    MAX_READ_RECORDS,
    MAX_TIMEOUT_MS,
    Fetched,
    Record,
)
from streams.logs.errors import Damaged, Missing

LOG_DIRECTORY: Final = "log"
READER_POLL_MS: Final = 50
"""How often a reader beside a writer looks whether there is more."""


class Stored:
    """Reading, shared by the log and the reader beside it."""

    def __init__(self, directory: Path, database: rocks.Database) -> None:
        self.directory = directory
        self._database = database
        self._partitions = self._read_format()

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.directory)

    async def partitions(self) -> int:
        """How many partitions every topic has."""
        return self._partitions

    async def start(self, topic: str, partition: int) -> int:
        """Always 0: nothing expires here, and holes are allowed."""
        self._check(topic, partition)
        return 0

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Fetched:
        """Records at and after `offset_next`. Raises: Missing, Damaged."""
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
        """`read` of several topics of a partition; waits until any has a record."""
        for topic in positions:
            self._check(topic, partition)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(timeout_ms, MAX_TIMEOUT_MS) / 1000
        while True:
            found = {
                topic: self._scan(topic, partition, offset_next, min(max_records, MAX_READ_RECORDS))
                for topic, offset_next in positions.items()
            }
            left_s = deadline - loop.time()
            if left_s <= 0 or any(fetched.records for fetched in found.values()):
                return found
            await self._wait_for_more(left_s)

    def _scan(self, topic: str, partition: int, offset_next: int, max_records: int) -> Fetched:
        records: list[Record] = []
        size = 0
        for record in self._from(topic, partition, offset_next):
            records.append(record)
            size += len(record.value)
            if len(records) >= max_records or size > MAX_READ_BYTES:
                break
        if not records:
            return Fetched(records=(), offset_next=self._past_hole(topic, partition, offset_next))
        return Fetched(records=tuple(records), offset_next=records[-1].offset + 1)

    def _from(self, topic: str, partition: int, offset_next: int) -> Iterator[Record]:
        """Every record at and after `offset_next`. Raises: Damaged, naming the offset (rule 3)."""
        prefix, due = layout.partition_prefix(topic, partition), offset_next
        pairs = self._database.items_from(layout.record_key(topic, partition, offset_next))
        while True:
            try:
                pair = next(pairs, None)
            except Damaged as error:
                place = f"{topic}/{partition} cannot be read on from offset {due}"
                raise self._damaged(f"{place}: {error.what}") from error
            if pair is None or not pair[0].startswith(prefix):
                return
            record = self._unpack(topic, partition, *pair)
            if record.offset != due and topic not in topics.INPUT_TOPICS:
                raise self._missing(topic, partition, due, record.offset)
            yield record
            due = record.offset + 1

    def _past_hole(self, topic: str, partition: int, offset_next: int) -> int:
        """Where to read at next where no record was found: a reserved start may lie ahead."""
        end = self._end_seen(topic, partition)
        if offset_next >= end:
            return offset_next
        if self._reserved(topic, partition) < end:
            raise self._missing(topic, partition, offset_next, end)
        return end

    def _unpack(self, topic: str, partition: int, key: bytes, stored: bytes) -> Record:
        try:
            return layout.unpack_record(topic, partition, layout.offset_of(key), stored)
        except layout.LayoutError as error:
            raise self._damaged(f"{topic}/{partition} at key {key.hex()}: {error}") from error

    def _last(self, topic: str, partition: int) -> tuple[int, int]:
        """The offset and the order after the last record of a topic's partition."""
        try:
            found = self._database.last_before(layout.record_key(topic, partition, 2**64 - 1))
        except Damaged as error:
            place = f"the end of {topic}/{partition} cannot be read"
            raise self._damaged(f"{place}: {error.what}") from error
        offset_next = self._reserved(topic, partition)
        if found is None or not found[0].startswith(layout.partition_prefix(topic, partition)):
            return offset_next, 0
        try:
            after = layout.offset_of(found[0]) + 1
            return max(offset_next, after), layout.order_of(found[1]) + 1
        except layout.LayoutError as error:
            raise self._damaged(f"the last record of {topic}/{partition}: {error}") from error

    def _reserved(self, topic: str, partition: int) -> int:
        """The smallest offset that a next record may get; 0 where none was reserved."""
        return int.from_bytes(
            self._database.get(layout.reserved_key(topic, partition)) or b"", "big"
        )

    def _end_seen(self, topic: str, partition: int) -> int:
        """The end of a topic's partition as of the last look."""
        return self._last(topic, partition)[0]

    def _check(self, topic: str, partition: int) -> None:
        if topic not in layout.TOPIC_CODES:
            raise Missing(f"no topic {topic!r}", where=self.where, todo="name a topic of a pool")
        if not 0 <= partition < self._partitions:
            raise Missing(
                f"no partition {partition}",
                where=self.where,
                todo=f"it has {self._partitions}, numbered from 0",
            )

    def _read_format(self) -> int:
        stored = self._database.get(layout.FORMAT_KEY)
        if stored is None:
            raise Missing("no log", where=self.where, todo="name a directory that holds one")
        try:
            return layout.unpack_format(stored)
        except layout.LayoutError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> Damaged:
        return Damaged(what, where=self.where, todo="restore the directory from a copy")

    def _missing(self, topic: str, partition: int, first: int, after: int) -> Damaged:
        return self._damaged(f"{topic}/{partition} lacks its records from {first} to {after - 1}")

    async def _wait_for_more(self, at_most_s: float) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Release the directory."""
        self._database.close()


class EmbeddedReader(Stored):
    """A `LogReader` of a directory that another process may be writing to. Changes nothing in it.

    Raises: Missing, where there is no log; Damaged.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / LOG_DIRECTORY
        database = rocks.open_secondary(path)
        try:
            super().__init__(directory, database)
        except BaseException:
            database.close()
            raise

    async def end(self, topic: str, partition: int) -> int:
        """The offset after the last record written so far."""
        self._check(topic, partition)
        self._database.catch_up()
        return self._last(topic, partition)[0]

    async def _wait_for_more(self, at_most_s: float) -> None:
        await asyncio.sleep(min(at_most_s, READER_POLL_MS / 1000))
        self._database.catch_up()
