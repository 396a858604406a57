"""One holding of a partition: from the open writer and the replayed ledger to the first doubt.

Starting again after a doubt is `streams.steward.loop`; deciding is `draft`, order is `intake`.

1. `open` fences whoever wrote before, then replays to the end: never the other way round.
2. `step` takes what waits, drafts a batch, appends it, and only then tells anybody.
3. After any exception out of `step`, other than `Unavailable`, the session is spoilt: its state may
   be ahead of the ledger. It is closed and never used again.
4. A pool whose ledger another key writes stops the partition: at once if it is so at the start,
   and after a handover when its next event comes, everything before that being appended.

Invariant: between two steps the pools' chains end exactly where the ledger does.
Source: architecture.md "One writer, exactly once".
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from schemas.keys import did_key
from streams import faults
from streams.logs.contract import Entry, Log, Writer
from streams.logs.errors import LogTrouble, Remedy, Unavailable
from streams.steward import garbage
from streams.steward.draft import Draft, Place
from streams.steward.errors import WrongKey
from streams.steward.heads import HeadsDue
from streams.steward.intake import Intake
from streams.steward.keyring import Keyring
from streams.steward.observer import Appended, Observer
from streams.steward.pools import Partition, Pool
from streams.steward.replay import replay
from streams.steward.settings import Settings
from streams.steward.snapshots import Snapshots
from streams.steward.ticks import Ticker

NOTE_MS: Final = 5000
"""How often positions are told to lag dashboards."""

SNAPSHOT_BYTES_PER_RECEIPT: Final = 100
"""A large state is written less often: one more receipt is waited for with every so many bytes of
the last snapshot. So writing takes a few hundredths of the time that deciding takes."""


class Session:
    """An open writer with its pools. Made by `open`."""

    def __init__(
        self,
        log: Log,
        writer: Writer,
        partition: Partition,
        *,
        keyring: Keyring,
        settings: Settings,
        snapshots: Snapshots | None,
        observer: Observer,
        unsealable: Collection[Place],
        clock: Callable[[], int],
    ) -> None:
        self.partition = partition
        self._log = log
        self._writer = writer
        self._keyring = keyring
        self._settings = settings
        self._snapshots = snapshots
        self._observer = observer
        self._unsealable = unsealable
        self._clock = clock
        self._intake = Intake(
            log,
            partition.number,
            partition.positions,
            fetch_records=settings.fetch_records,
        )
        self._heads = HeadsDue(head_receipts=settings.head_receipts, head_ms=settings.head_ms)
        self._ticker = Ticker(settings.tick_ms) if settings.tick_ms is not None else None
        self._unsnapshotted = 0
        self._snapshot_receipts = settings.snapshot_receipts
        self._noted_ms = 0
        self._seen_ms = 0

    @classmethod
    async def open(
        cls,
        log: Log,
        number: int,
        *,
        keyring: Keyring,
        settings: Settings,
        snapshots: Snapshots | None,
        observer: Observer,
        unsealable: Collection[Place],
        clock: Callable[[], int],
    ) -> "Session":
        """Become the partition's writer and bring its pools to the end of the ledger.

        Raises: LogTrouble, StewardStopped.
        """
        writer = await log.open_writer(number)
        try:
            partition = Partition(number=number)
            if snapshots is not None:
                partition = await snapshots.load(log, number, observer)
            lengths = {name: pool.chain.length for name, pool in partition.pools.items()}
            await replay(log, partition, observer)
            garbage.settle()
            for pool in partition.pools.values():
                _take_over(pool, keyring, log.where)
        except BaseException:
            await writer.close()
            raise
        session = cls(
            log,
            writer,
            partition,
            keyring=keyring,
            settings=settings,
            snapshots=snapshots,
            observer=observer,
            unsealable=unsealable,
            clock=clock,
        )
        session._owe_heads(lengths)
        return session

    async def step(self, *, timeout_ms: int) -> bool:
        """Decide what waits, as one batch; wait up to `timeout_ms` for something to come.

        Whether there was anything. Raises: Unavailable (call again later); LogTrouble,
        StewardStopped, Unsealable (the session is spoilt).
        """
        waiting = await self._intake.fill(timeout_ms=self._wait_ms(timeout_ms))
        started_ns = time.perf_counter_ns()
        draft = Draft(self.partition, self._keyring, unsealable=self._unsealable)
        if waiting:
            faults.reach(faults.Point.BEFORE_DECIDE)
            await self._fill(draft)
        grown = self._unsnapshotted + len(draft.receipts)
        snapshot = self._snapshots is not None and grown >= self._snapshot_receipts
        # A snapshot comes with heads, because after a restart it stands for those before it.
        await self._append(draft, started_ns, all_heads=snapshot)
        if snapshot:
            await self._snapshot()
        await self._now_and_then(idle=not waiting)
        return waiting

    async def finish(self) -> None:
        """Publish the heads that are owed and write a snapshot. Raises: LogTrouble."""
        draft = Draft(self.partition, self._keyring)
        await self._append(draft, time.perf_counter_ns(), all_heads=True)
        if self._unsnapshotted:
            await self._snapshot()

    async def close(self) -> None:
        """Let go of the partition. Never raises."""
        await self._writer.close()

    async def _fill(self, draft: Draft) -> None:
        settings = self._settings
        while (
            draft.events < settings.batch_events
            and len(draft.receipts) < settings.batch_receipts
            and draft.size < settings.batch_bytes
        ):
            record = self._intake.peek()
            if record is None:
                if await self._more_at_hand():
                    continue
                return
            foreign = draft.foreign(record)
            if foreign is not None:
                if not draft.events:
                    raise _wrong_key(foreign, self._log.where)
                return
            self._intake.take(record)
            self._seen_ms = record.timestamp_ms
            draft.add(record)

    async def _more_at_hand(self) -> bool:
        try:
            return await self._intake.fill(timeout_ms=0)
        except Unavailable:
            # What is drafted is appended; the next step meets the trouble with nothing at stake.
            return False

    async def _append(self, draft: Draft, started_ns: int, *, all_heads: bool) -> None:
        now_ms = _steady_ms()
        for pool in draft.touched.values():
            self._heads.grown(pool, now_ms)
        pools = self.partition.pools
        heads: list[Entry] = list(self._heads.due(pools, now_ms, all_of_them=all_heads))
        entries = draft.entries + heads
        if entries:
            faults.reach(faults.Point.BEFORE_APPEND)
            await self._writer.append(entries)
            faults.reach(faults.Point.AFTER_APPEND)
        self._unsnapshotted += len(draft.receipts)
        if entries or draft.events:
            elapsed_us = (time.perf_counter_ns() - started_ns) // 1000
            self._observer.appended(self._told(draft, len(heads), elapsed_us))

    def _told(self, draft: Draft, heads: int, elapsed_us: int) -> Appended:
        return Appended(
            partition=self.partition.number,
            events=draft.events,
            receipts=draft.receipts,
            dead_letters=draft.dead_letters,
            heads=heads,
            positions=dict(self.partition.positions),
            elapsed_us=elapsed_us,
        )

    async def _snapshot(self) -> None:
        if self._snapshots is not None:
            self._unsnapshotted = 0
            size = await self._snapshots.save(self._log, self.partition, self._observer)
            self._snapshot_receipts = max(
                self._settings.snapshot_receipts, size // SNAPSHOT_BYTES_PER_RECEIPT
            )

    async def _now_and_then(self, *, idle: bool) -> None:
        steady_ms = _steady_ms()
        if steady_ms - self._noted_ms >= NOTE_MS:
            self._noted_ms = steady_ms
            await self._log.note_positions(self.partition.number, self.partition.positions)
        if self._ticker is not None:
            await self._tick(self._ticker, idle)

    async def _tick(self, ticker: Ticker, idle: bool) -> None:
        now_ms = self._clock()
        if not idle and now_ms - self._seen_ms > self._settings.tick_lag_ms:
            return
        ticks = ticker.due(self.partition.pools.values(), now_ms)
        if not ticks:
            return
        try:
            await self._log.publish(ticks)
        except LogTrouble as trouble:
            # Whether it was published does not matter: another follows.
            if trouble.remedy is Remedy.STOP:
                raise

    def _wait_ms(self, timeout_ms: int) -> int:
        head_ms = self._heads.wait_ms(_steady_ms())
        wait_ms = timeout_ms if head_ms is None else min(timeout_ms, head_ms)
        if self._ticker is not None and self._settings.tick_ms is not None:
            wait_ms = min(wait_ms, self._settings.tick_ms)
        return wait_ms

    def _owe_heads(self, lengths: Mapping[str, int]) -> None:
        """A head for what was replayed beyond the snapshot: its own may have been lost."""
        for pool in self.partition.pools.values():
            if pool.chain.length > lengths.get(pool.name, 0):
                self._heads.grown(pool, _steady_ms())
                self._unsnapshotted += pool.chain.length - lengths.get(pool.name, 0)


def _take_over(pool: Pool, keyring: Keyring, where: str) -> None:
    assert pool.chain.steward is not None, "a replayed chain has a key"
    pool.signer = keyring.of(pool.chain.steward)
    if pool.signer is None:
        raise _wrong_key(pool, where)


def _wrong_key(pool: Pool, where: str) -> WrongKey:
    assert pool.chain.steward is not None
    return WrongKey(pool.name, did_key(pool.chain.steward), where=where)


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000
