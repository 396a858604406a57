"""A log behind a gate: work on one partition can be held and let go on, whatever does the work.

Not here: when partitions move (`kafka_group`), who decides (`streams.steward`).

1. While the gate is shut nothing is appended and no writer is opened: the caller waits there.
   Reading goes on; what was read and drafted is appended when the gate opens, if it ever does.
2. Shutting waits for what is in flight. After that the partition may be another's.
3. After a writer was fenced the next one is opened only after a pause: a process that slept past
   its session learns in that time that the partition is another's, instead of fencing it in turn.

Invariant: correctness never depends on the gate; fencing does that. It keeps the peace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

from streams.logs.contract import (
    MAX_READ_RECORDS,
    Entry,
    Fetched,
    Log,
    Outgoing,
    Position,
    Writer,
)
from streams.logs.errors import Fenced


class Gate:
    """Shut until `open` is called; `shut` waits until nobody is inside."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._inside = 0
        self._waiting = 0
        self._left = asyncio.Event()
        self._left.set()

    @property
    def is_waited_at(self) -> bool:
        """Whether somebody waits to pass."""
        return self._waiting > 0

    def open(self) -> None:
        """Let everybody pass."""
        self._opened.set()

    async def shut(self) -> None:
        """Let nobody pass any more, and wait until those inside have left."""
        self._opened.clear()
        await self._left.wait()

    @contextlib.asynccontextmanager
    async def passage(self) -> AsyncIterator[None]:
        """Wait until the gate is open; it cannot be shut while one is inside."""
        self._waiting += 1
        try:
            while not self._opened.is_set():
                await self._opened.wait()
        finally:
            self._waiting -= 1
        self._inside += 1
        self._left.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if self._inside == 0:
                self._left.set()


class GatedLog:
    """A `Log` for the work on one partition, behind a gate. Closing it leaves the log open."""

    def __init__(self, log: Log, *, fenced_pause_ms: int) -> None:
        self.gate = Gate()
        self._log = log
        self._fenced_pause_s = fenced_pause_ms / 1000
        self._was_fenced = False
        self._used_at = self._now()

    @property
    def idle_s(self) -> float:
        """How long nothing was asked of it, in seconds; waiting at the gate is not idleness."""
        return 0.0 if self.gate.is_waited_at else self._now() - self._used_at

    def touch(self) -> None:
        """Count as used now."""
        self._used_at = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def where(self) -> str:
        """The log's own name."""
        return self._log.where

    async def partitions(self) -> int:
        """See the contract."""
        return await self._log.partitions()

    async def start(self, topic: str, partition: int) -> int:
        """See the contract."""
        self.touch()
        return await self._log.start(topic, partition)

    async def end(self, topic: str, partition: int) -> int:
        """See the contract."""
        self.touch()
        return await self._log.end(topic, partition)

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Fetched:
        """See the contract."""
        self.touch()
        return await self._log.read(
            topic,
            partition,
            offset_next=offset_next,
            max_records=max_records,
            timeout_ms=timeout_ms,
        )

    async def read_any(
        self,
        partition: int,
        positions: Mapping[str, int],
        *,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Mapping[str, Fetched]:
        """See the contract."""
        self.touch()
        return await self._log.read_any(
            partition, positions, max_records=max_records, timeout_ms=timeout_ms
        )

    async def publish(self, records: Sequence[Outgoing]) -> list[Position]:
        """See the contract."""
        self.touch()
        return await self._log.publish(records)

    async def note_positions(self, partition: int, positions: Mapping[str, int]) -> None:
        """See the contract."""
        await self._log.note_positions(partition, positions)

    async def open_writer(self, partition: int) -> Writer:
        """Wait at the gate, then become the partition's writer."""
        if self._was_fenced:
            await asyncio.sleep(self._fenced_pause_s)
        async with self.gate.passage():
            self.touch()
            self._was_fenced = False
            return _GatedWriter(self, await self._log.open_writer(partition))

    async def close(self) -> None:
        """Nothing of its own to release."""

    def fenced(self) -> None:
        """A writer of ours was fenced: the next opening waits first."""
        self._was_fenced = True


class _GatedWriter:
    """A writer whose batches wait at the gate."""

    def __init__(self, log: GatedLog, writer: Writer) -> None:
        self._log = log
        self._writer = writer

    @property
    def partition(self) -> int:
        """The partition that it holds."""
        return self._writer.partition

    async def append(self, batch: Sequence[Entry]) -> None:
        """See the contract."""
        async with self._log.gate.passage():
            self._log.touch()
            try:
                await self._writer.append(batch)
            except Fenced:
                self._log.fenced()
                raise

    async def close(self) -> None:
        """See the contract."""
        await self._writer.close()
