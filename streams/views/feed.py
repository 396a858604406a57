"""The in-process feed: every partition of a log, from its start, into a read side.

Not here: what is made of it (`readside`); the other feed, on Kafka with Faust (`worker`).

1. Ledger, heads, countersignatures and dead letters are read together; only committed records are
   ever seen, since the log contract gives no others.
2. Heads may be read before the receipts they speak of: a pool without receipts has none kept, so
   they are read again at the end of the first pass over the ledger.
3. Trouble that a wait may heal is waited for; any other ends the feed and is raised.

Invariant: after `caught_up` the read side has everything that was committed before the start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from streams import topics
from streams.logs.contract import Record
from streams.logs.errors import LogTrouble, Remedy
from streams.views.outboxes import Outboxes
from streams.views.readside import ReadSide

FETCH_RECORDS: Final = 2048
WAIT_MS: Final = 500
PAUSE_SECONDS: Final = 0.5
OUTBOX_SECONDS: Final = 1.0
_BESIDE: Final = (topics.HEADS, topics.WITNESS, topics.DEAD)


class Feed:
    """Feeds every partition of `side.log`; `run` until cancelled.

    `outboxes`: what witnesses put beside an embedded log.
    """

    def __init__(self, side: ReadSide, outboxes: Outboxes | None = None) -> None:
        self.caught_up = asyncio.Event()
        self._side = side
        self._outboxes = outboxes
        self._behind: set[int] = set()

    async def run(self) -> None:
        """Feed for ever. Raises: LogTrouble that no waiting heals."""
        partitions = range(await self._side.log.partitions())
        self._behind = set(partitions)
        async with asyncio.TaskGroup() as group:
            for partition in partitions:
                group.create_task(self._partition(partition))
            if self._outboxes is not None:
                group.create_task(self._statements(self._outboxes))

    async def _partition(self, partition: int) -> None:
        log = self._side.log
        offset = await log.start(topics.LEDGER, partition)
        while offset < await self._end(topics.LEDGER, partition):
            offset = await self._round(partition, {topics.LEDGER: offset}, topics.LEDGER)
        positions = {topic: await log.start(topic, partition) for topic in _BESIDE}
        positions[topics.LEDGER] = offset
        while True:
            ends = {topic: await self._end(topic, partition) for topic in positions}
            self._side.lag[partition] = max(0, ends[topics.LEDGER] - positions[topics.LEDGER])
            if all(positions[topic] >= end for topic, end in ends.items()):
                self._arrived(partition)
            await self._round(partition, positions)

    async def _statements(self, outboxes: Outboxes) -> None:
        await self.caught_up.wait()
        while True:
            # A directory that cannot be read now has told nothing now; it is asked again.
            with contextlib.suppress(OSError):
                for data in outboxes.look():
                    self._side.add_statement(data)
            await asyncio.sleep(OUTBOX_SECONDS)

    async def _round(self, partition: int, positions: dict[str, int], give: str = "") -> int:
        """Read and fold once, moving `positions`; the one of `give`."""
        try:
            found = await self._side.log.read_any(
                partition, positions, max_records=FETCH_RECORDS, timeout_ms=WAIT_MS
            )
        except LogTrouble as trouble:
            await _pause(trouble)
            return positions.get(give, 0)
        records: dict[str, Sequence[Record]] = {}
        for topic, fetched in found.items():
            records[topic] = fetched.records
            positions[topic] = fetched.offset_next
        await self._side.take(records)
        return positions.get(give, 0)

    async def _end(self, topic: str, partition: int) -> int:
        while True:
            try:
                return await self._side.log.end(topic, partition)
            except LogTrouble as trouble:
                await _pause(trouble)

    def _arrived(self, partition: int) -> None:
        self._behind.discard(partition)
        if not self._behind:
            self._side.caught_up = True
            self.caught_up.set()


async def _pause(trouble: LogTrouble) -> None:
    if trouble.remedy is Remedy.STOP:
        raise trouble
    await asyncio.sleep(PAUSE_SECONDS)
