"""The service's loop: read, judge, publish; and read again what did not fit.

What is right is `witness.follow`, signing is `witness.witness`, logs are `witness.sources`.

A round, for each partition: heads, then the ledger (a head and its receipts are committed together,
so a head that is seen has its receipts there), then our own topic; then each pool that got
something is judged, and statements go out.
1. At the start every statement under our key that is found published is compared with the store
   (`witness.guard`), from where that was done last; then what the store holds is published again,
   unless it was among them.
2. A pool is *stuck* if its heads wait and the ledger was read to its end. The partition is then
   read again from the first receipt that is not signed for; then, if it is still stuck, from the
   start, with an inquest (`witness.inquest`); then with longer and longer pauses. So a bad read is
   got over, a rewritten history is found, and neither keeps the machine busy.
3. A log that ends before where it was read to was replaced: it is read again from the start.
4. Trouble with the log is told and tried again; any other trouble ends the run, because only a new
   start learns from the store what was signed.
5. Where to read on, what was published and which heads were refused is noted in the store now and
   then: hints, never beyond what is signed for and published.
6. A head that the steward signed with the witness's own key ends the run: whoever holds that key is
   no witness of that steward, so it signs nothing more, for no pool.

Invariant: a statement is published only after `Witness` has returned it or the store has held it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from witness import faults, guard
from witness.health import Health
from witness.outcome import Outcome, Refusal
from witness.partition import PAUSE_S, WAIT_MS, Partition, all_ended, pool_of
from witness.sources import HEADS, LEDGER, WITNESS, Publisher, Reader
from witness.store import Refused
from witness.trouble import Reason, Trouble
from witness.witness import Witness

POLL_S: Final = 0.1
HEADS_AHEAD: Final = 1_024
"""Heads that may wait for receipts before reading more heads waits, too."""
NOTE_S: Final = 5.0
"""How often, at most, the store is told where to read on."""
END_S: Final = 1.0
"""How often, at most, a quiet partition is asked for its ends."""
RETRY_S_MAX: Final = 60.0
TRIES_ONCE: Final = 2
"""How often `once` tries a stuck pool again: from what is outstanding, then with an inquest."""

_TRIED_AGAIN: Final = frozenset((Reason.LOG_UNAVAILABLE, Reason.LOG_DAMAGED))


@dataclass(slots=True)
class _Stuck:
    """How often a stuck pool was tried again, and when it may be next (steady clock)."""

    tries: int = 0
    next_try: float = 0.0


class Runner:
    """Follows every partition of a log for one witness.

    `hear` is told every outcome, `complain` all trouble that is tried again.
    """

    def __init__(
        self,
        witness: Witness,
        reader: Reader,
        publisher: Publisher,
        *,
        health: Health | None = None,
        hear: Callable[[Outcome], None] = lambda outcome: None,
        complain: Callable[[Trouble], None] = lambda trouble: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._witness = witness
        self._reader = reader
        self._publisher = publisher
        self.health = health or Health()
        self._hear = hear
        self._complain = complain
        self._clock = clock
        self._partitions: list[Partition] = []
        self._outgoing: list[tuple[str, bytes]] = []
        self._started = False
        self._published: set[bytes] = set()
        self._stuck: dict[str, _Stuck] = {}
        self._noted: dict[tuple[str, int], int] = {}
        self._noted_at = clock()

    async def start(self) -> None:
        """Rule 1. Raises Trouble: `store-behind`, or of the log."""
        self._noted = self._witness.store.positions()
        self._partitions = [
            Partition(self._reader, number, self._noted)
            for number in range(await self._reader.partitions())
        ]
        held = await self._publisher.published()
        self._published = self._witness.store.published() if held is None else set()
        for statement in held or ():
            self._check_published(statement)
        for partition in self._partitions:
            await self._check_ends(partition)
            while not await partition.ended(WITNESS):
                await self._read_own(partition, timeout_ms=WAIT_MS)
        self._outgoing = [
            (pool, statement)
            for pool, statement in self._witness.statements()
            if sha256(statement).digest() not in self._published
        ]
        self._started = True
        await self._publish()

    async def run(self, stop: asyncio.Event) -> None:
        """Rounds until `stop` is set. Raises Trouble that is not the log's to pass."""
        pause = POLL_S
        while not stop.is_set():
            try:
                if not self._started:
                    await self.start()
                pause = POLL_S if not await self.round() else 0.0
            except Trouble as trouble:
                if trouble.reason not in _TRIED_AGAIN:
                    raise
                self.health.trouble(trouble.reason, str(trouble))
                self._complain(trouble)
                pause = min(RETRY_S_MAX, max(1.0, pause * 2))
            await _wait(stop, pause)
        self._note(force=True)

    async def once(self) -> None:
        """Start, and rounds until the log's end is reached and nothing more comes of it."""
        await self.start()
        while (came := await self.round()) or not await all_ended(self._partitions):
            await asyncio.sleep(0 if came else PAUSE_S)
        for partition in self._partitions:
            for _ in range(TRIES_ONCE):
                await self._try_again(partition, at_once=True)
        self._note(force=True)

    async def round(self) -> bool:
        """Once through all partitions; whether anything came. Raises Trouble."""
        await self._publish()
        any_came = False
        for partition in self._partitions:
            came = await self._read(partition)
            if not came and self._clock() - partition.ends_asked > END_S:
                partition.ends_asked = self._clock()
                came = await self._check_ends(partition)
                await self._try_again(partition)
            any_came |= came
        self._note()
        self.health.round_done(
            clock_behind_ms=self._witness.clock_behind_ms, unpublished=len(self._outgoing)
        )
        return any_came

    async def _read(self, partition: Partition) -> bool:
        """One step in one partition; whether anything came."""
        await self._read_heads(partition)
        await self._read_ledger(partition)
        await self._read_own(partition)
        came = bool(partition.touched)
        while partition.touched:
            pool = min(partition.touched)
            await self._take(self._witness.judge(pool))
            self._report(pool)
            partition.touched.discard(pool)
        return came

    async def _read_heads(self, partition: Partition) -> None:
        follows = self._witness.pools
        ahead = sum(follows[pool].pending for pool in partition.pools if pool in follows)
        if ahead > HEADS_AHEAD and not await partition.ended(LEDGER):
            return
        for record in await partition.take(HEADS, max_records=HEADS_AHEAD):
            pool = pool_of(record)
            if pool is None:
                continue
            partition.touch(pool)
            self.health.head_came(pool)
            outcome = self._witness.take_head(pool, record.value, record.offset)
            if outcome is not None:
                self._tell(outcome)

    async def _read_ledger(self, partition: Partition) -> None:
        items: dict[str, list[tuple[int, bytes]]] = {}
        records = await partition.take(LEDGER)
        for record in records:
            pool = pool_of(record)
            if pool is not None:
                items.setdefault(pool, []).append((record.offset, record.value))
        for pool, receipts in items.items():
            partition.touch(pool)
            self._witness.take_receipts(pool, receipts)
        self.health.receipts_read(len(records))

    async def _read_own(self, partition: Partition, *, timeout_ms: int = 0) -> None:
        """Statements of all witnesses: ours must be known. Raises Trouble(`store-behind`)."""
        for record in await partition.take(WITNESS, timeout_ms=timeout_ms):
            self._check_published(record.value)

    def _check_published(self, statement: bytes) -> None:
        self._witness.check_published(statement)
        self._published.add(sha256(statement).digest())

    async def _take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            self._tell(outcome)
        await self._publish()

    def _tell(self, outcome: Outcome) -> None:
        self.health.outcome(outcome)
        if outcome.reason is Refusal.OWN_KEY:
            raise guard.key_is_stewards(self._witness.public_key, outcome.pool)
        self._hear(outcome)
        if outcome.statement is not None:
            self._stuck.pop(outcome.pool, None)
            self._outgoing.append((outcome.pool, outcome.statement))

    async def _publish(self) -> None:
        """Let out what is durable. A statement that cannot be published now waits."""
        while self._outgoing:
            pool, statement = self._outgoing[0]
            await self._publisher.publish(pool, statement)
            faults.reach(faults.Point.PUBLISHED)
            self._published.add(sha256(statement).digest())
            del self._outgoing[0]

    async def _check_ends(self, partition: Partition) -> bool:
        """Rule 3."""
        if not await partition.went_back():
            return False
        self.health.went_back()
        self._rewind(partition, 0)
        return True

    async def _try_again(self, partition: Partition, *, at_once: bool = False) -> None:
        """Rule 2, for every pool of the partition that is stuck and whose time has come."""
        if not await partition.ended(LEDGER):
            return
        for pool in sorted(partition.pools & self._witness.pools.keys()):
            follow = self._witness.pools[pool]
            stuck = self._stuck.setdefault(pool, _Stuck())
            if not follow.stuck or (self._clock() < stuck.next_try and not at_once):
                continue
            first_time = stuck.tries == 0 and follow.feed.offset is not None
            stuck.tries += 1
            stuck.next_try = self._clock() + min(RETRY_S_MAX, 2.0 ** (stuck.tries - 1))
            self._rewind(partition, self._outstanding(partition) if first_time else 0)
            await self._read_to_end(partition)
            if follow.stuck and not first_time:
                await self._inquire(partition, pool)

    async def _read_to_end(self, partition: Partition) -> None:
        while not await partition.ended(LEDGER):
            await asyncio.sleep(0 if await self._read(partition) else PAUSE_S)

    async def _inquire(self, partition: Partition, pool: str) -> None:
        """Look through the pool's whole ledger for the history that its heads speak of."""
        inquest = self._witness.inquest(pool)
        async for receipt in partition.ledger_of(pool):
            inquest.add(receipt)
        outcome = self._witness.conclude(inquest)
        if outcome is not None:
            await self._take([outcome])
        self._report(pool)

    def _outstanding(self, partition: Partition) -> int:
        """Where the partition's first receipt lies that is not signed for."""
        follows = [
            self._witness.pools[pool] for pool in partition.pools & self._witness.pools.keys()
        ]
        offsets = [offset for follow in follows if (offset := follow.feed.offset) is not None]
        return min([*offsets, partition.offsets[LEDGER]])

    def _rewind(self, partition: Partition, offset: int) -> None:
        """Read a partition's ledger again, from `offset`."""
        partition.offsets[LEDGER] = min(offset, partition.offsets[LEDGER])
        for pool in partition.pools & self._witness.pools.keys():
            self._witness.restart(pool)

    def _note(self, *, force: bool = False) -> None:
        """Rule 5."""
        if not force and self._clock() - self._noted_at < NOTE_S:
            return
        self._noted_at = self._clock()
        positions = dict(self._positions())
        if positions != self._noted:
            current = {sha256(data).digest() for _, data in self._witness.statements()}
            self._published &= current
            self._witness.store.note(positions, self._published, self._refused())
            self._noted = positions

    def _refused(self) -> Iterator[Refused]:
        for pool, follow in self._witness.pools.items():
            one = follow.refused
            if one is not None:
                yield Refused(pool, one.length, one.reason or "", one.detail)

    def _positions(self) -> Iterator[tuple[tuple[str, int], int]]:
        for partition in self._partitions:
            follows = [
                follow for pool, follow in self._witness.pools.items() if pool in partition.pools
            ]
            heads = [offset for follow in follows if (offset := follow.heads_offset) is not None]
            yield (LEDGER, partition.number), self._outstanding(partition)
            yield (HEADS, partition.number), min([*heads, partition.offsets[HEADS]])
            yield (WITNESS, partition.number), partition.offsets[WITNESS]

    def _report(self, pool: str) -> None:
        follow = self._witness.pools.get(pool)
        if follow is not None:
            self.health.pool(follow)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
