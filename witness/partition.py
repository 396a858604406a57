"""One partition of a log as the runner reads it: where it is, and which pools live there.

What is done with records, and when a partition is read again, is `witness.runner`.

Invariant: a position moves only past records that were handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from witness.sources import HEADS, LEDGER, READ_MAX, TOPICS, Read, Reader

PAUSE_S: Final = 0.01
"""Between two reads of a log that has more and gave nothing yet."""
WAIT_MS: Final = 1_000


class Partition:
    """A partition's positions, its pools, and those of them that are to be judged."""

    def __init__(self, reader: Reader, number: int, noted: Mapping[tuple[str, int], int]) -> None:
        self.number = number
        self.offsets = {topic: noted.get((topic, number), 0) for topic in TOPICS}
        self.pools: set[str] = set()
        self.touched: set[str] = set()
        self.ends_asked = 0.0
        self._reader = reader

    def touch(self, pool: str) -> None:
        """The pool got something, and is to be judged, whatever happens in between."""
        self.pools.add(pool)
        self.touched.add(pool)

    async def take(
        self, topic: str, *, max_records: int = READ_MAX, timeout_ms: int = 0
    ) -> Sequence[Read]:
        """The next records of a topic; the position moves past them. Raises Trouble."""
        fetched = await self._reader.read(
            topic,
            self.number,
            offset_next=self.offsets[topic],
            max_records=max_records,
            timeout_ms=timeout_ms,
        )
        self.offsets[topic] = fetched.offset_next
        return fetched.records

    async def ended(self, *wanted: str) -> bool:
        """Whether these topics were read to their ends. Raises Trouble."""
        for topic in wanted:
            if self.offsets[topic] < await self._reader.end(topic, self.number):
                return False
        return True

    async def went_back(self) -> bool:
        """Whether the log was replaced by one that ends before where it was read to.

        Then it is to be read from the start. Raises Trouble.
        """
        for topic in TOPICS:
            if await self._reader.end(topic, self.number) < self.offsets[topic]:
                self.offsets = dict.fromkeys(TOPICS, 0)
                return True
        return False

    async def ledger_of(self, pool: str) -> AsyncIterator[bytes]:
        """Every record of a pool's ledger as it lies there now. Raises Trouble."""
        offset, end = 0, await self._reader.end(LEDGER, self.number)
        while offset < end:
            fetched = await self._reader.read(
                LEDGER, self.number, offset_next=offset, timeout_ms=WAIT_MS
            )
            for record in fetched.records:
                if pool_of(record) == pool:
                    yield record.value
            offset = fetched.offset_next
            await asyncio.sleep(0)


async def all_ended(partitions: Sequence[Partition]) -> bool:
    """Whether heads and ledgers were read to their ends everywhere. Raises Trouble."""
    for partition in partitions:
        if not await partition.ended(HEADS, LEDGER):
            return False
    return True


def pool_of(record: Read) -> str | None:
    """The pool that a record's key names."""
    try:
        return None if record.key is None else record.key.decode()
    except UnicodeDecodeError:
        return None
