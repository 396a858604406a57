"""Several stewards share the partitions: each works on those that the group hands it.

Not here: deciding a partition (`loop`), joining the group (`streams.logs.kafka_group`).

1. A partition handed to us gets a steward of its own, behind a gate that is shut while partitions
   move. One that stays ours goes on where it was, with its writer open; one that is another's now
   is dropped as it is: the ledger says what has been decided.
2. A partition whose steward stops for good (its ledger does not verify, the key is wrong) stays
   stopped and is told of; the others go on. When none is left that works, all of it ends.
3. Stopping finishes every partition, heads and snapshots included, before the group is left.

Invariant: at most one steward task for each partition in this process.
Source: architecture.md "One writer, exactly once".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

from streams.logs.contract import Log
from streams.logs.gated import GatedLog
from streams.steward.loop import Steward

FINISH_MS = 60_000


class Member(Protocol):
    """Membership in a group; `streams.logs.kafka_group.Membership` is one."""

    async def run(self) -> None:
        """Be a member until cancelled."""
        ...


class _Work:
    """One partition's steward at work."""

    def __init__(self, log: GatedLog, steward: Steward) -> None:
        self.log = log
        self.steward = steward
        self.stopping = asyncio.Event()
        self.task = asyncio.create_task(steward.run(self.stopping))

    async def drop(self) -> None:
        """End it as it is; whatever it raises does not matter any more."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Crew:
    """The stewards of this process; a `Share` for the group's membership.

    `make` builds a partition's steward on the log it is given. `silence_ms`: work that asked
    nothing of its log for so long does not go on. `fenced_pause_ms`: see `GatedLog`. `on_stopped`
    and `on_let_go` hear of a partition that stopped for good, and of one that is another's now.
    `finish_ms`: how long a stop waits for the partitions to finish.
    """

    def __init__(
        self,
        log: Log,
        make: Callable[[Log, int], Steward],
        *,
        silence_ms: int,
        fenced_pause_ms: int,
        on_stopped: Callable[[int, BaseException], None],
        on_let_go: Callable[[int], None],
        finish_ms: int = FINISH_MS,
    ) -> None:
        self._log = log
        self._make = make
        self._silence_s = silence_ms / 1000
        self._fenced_pause_ms = fenced_pause_ms
        self._on_stopped = on_stopped
        self._on_let_go = on_let_go
        self._finish_s = finish_ms / 1000
        self._works: dict[int, _Work] = {}
        self._dropping: set[asyncio.Task[None]] = set()
        self._failures: dict[int, BaseException] = {}
        self._changed = asyncio.Event()
        self._is_ending = False

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that are ours now, stopped ones included."""
        return frozenset(self._works)

    @property
    def failures(self) -> dict[int, BaseException]:
        """Our partitions that stopped for good, and why."""
        return dict(self._failures)

    async def hold(self) -> None:
        """Partitions may move: end what is in flight and begin nothing."""
        await asyncio.gather(*(work.log.gate.shut() for work in self._works.values()))

    def take(self, partitions: frozenset[int]) -> None:
        """Go on with those that stayed, begin those that came, drop those that went."""
        for number in sorted(self._works.keys() - partitions):
            task = asyncio.create_task(self._works.pop(number).drop())
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)
            self._failures.pop(number, None)
            self._on_let_go(number)
        for number in sorted(partitions if not self._is_ending else self._works):
            if number not in self._works:
                log = GatedLog(self._log, fenced_pause_ms=self._fenced_pause_ms)
                work = self._works[number] = _Work(log, self._make(log, number))
                work.task.add_done_callback(partial(self._ended, number))
            self._works[number].log.gate.open()
        self._changed.set()

    def is_alive(self) -> bool:
        """Whether every partition's work goes on, or has stopped and said so."""
        return all(
            work.task.done() or work.log.idle_s < self._silence_s for work in self._works.values()
        )

    def _ended(self, number: int, _: asyncio.Task[None]) -> None:
        work = self._works.get(number)
        if work is None or not work.task.done() or work.task.cancelled():
            return
        error = work.task.exception()
        if error is not None and not work.stopping.is_set():
            self._failures[number] = error
            self._on_stopped(number, error)
        self._changed.set()

    async def run(self, member: Member, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set or nothing works any more.

        Raises: what ended the membership, or the failure of a partition when all have failed.
        """
        membership = asyncio.create_task(member.run())
        stop = asyncio.create_task(stopping.wait())
        try:
            while not stop.done() and not membership.done() and not self._all_failed():
                self._changed.clear()
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({membership, stop, changed}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
            if not membership.done():
                await self._finish()
        finally:
            stop.cancel()
            await asyncio.gather(*(work.drop() for work in self._works.values()), *self._dropping)
            membership.cancel()
            result = (await asyncio.gather(membership, return_exceptions=True))[0]
        if isinstance(result, Exception):
            raise result
        if self._all_failed():
            raise next(iter(self._failures.values()))

    def _all_failed(self) -> bool:
        return bool(self._works) and self._works.keys() == self._failures.keys()

    async def _finish(self) -> None:
        """Let every steward finish: heads that are owed, snapshots."""
        self._is_ending = True
        for work in self._works.values():
            work.stopping.set()
        running = [work.task for work in self._works.values() if not work.task.done()]
        if running:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._finish_s):
                    await asyncio.wait(running)
