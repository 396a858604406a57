"""A partition as its ledgers say it is: verified, applied, and where to go on.

Called after the writer is open (the log contract, rule 8). What a receipt must be is
`schemas.chain`; what it does, `streams.kernel`; starting further on than 0, `snapshots`.

1. `end()` is asked first; everything below it is read. Reading goes on while the signatures of the
   chunk before are checked by another thread.
2. A record that does not go on its pool's chain, but whose `seq` the chain has passed, is counted
   and ignored: of two records for one place the first one stands. Any other is an error at its
   index: going on without it would be a second history.
3. Positions are the contract's position rule, over receipts and dead letters.
4. A position beyond the end of its input means that acknowledged inputs are gone.

Invariant: no state leaves here unless every signature below `end()` was checked.
Profile: §6.6.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from schemas import cose
from schemas.batch import verify_signatures
from schemas.chain import Broken, ChainReader
from schemas.cose import CoseError, SignatureTask
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.wellformed import CborError
from streams import topics
from streams.kernel import PoolState, ReplayError
from streams.logs.contract import LogReader, Record
from streams.logs.errors import Damaged, Unavailable
from streams.steward.deadletters import source_of
from streams.steward.errors import LedgerRefused
from streams.steward.fold import apply_receipt
from streams.steward.observer import Observer
from streams.steward.pools import Partition, Pool

CHUNK_RECORDS: Final = 2048
READ_MS: Final = 1000
QUIET_READS_MAX: Final = 60
"""Reads of `READ_MS` without progress below the end, after which the log counts as unavailable."""


async def replay(log: LogReader, partition: Partition, observer: Observer) -> None:
    """Bring `partition` to the end of its ledger and dead letters.

    Raises: LedgerRefused, Damaged, Unavailable and whatever reading raises.
    """
    number = partition.number
    ledger_end = await log.end(topics.LEDGER, number)
    dead_end = await log.end(topics.DEAD, number)
    await _replay_ledgers(log, partition, ledger_end, observer)
    await _replay_dead(log, partition, dead_end)
    for pool in partition.pools.values():
        try:
            pool.chain.check_complete()
        except Broken as broken:
            raise LedgerRefused(pool.name, broken, where=_where(log, number)) from broken
    await _check_positions(log, partition, observer)


async def _replay_ledgers(
    log: LogReader, partition: Partition, end: int, observer: Observer
) -> None:
    chunks = _Chunks(log, partition, observer)
    try:
        quiet = 0
        while partition.ledger_next < end:
            observer.replaying(partition.number, partition.ledger_next, end)
            fetched = await log.read(
                topics.LEDGER,
                partition.number,
                offset_next=partition.ledger_next,
                max_records=CHUNK_RECORDS,
                timeout_ms=READ_MS,
            )
            quiet = _quiet(log, quiet, partition.ledger_next, fetched.offset_next)
            await chunks.push(fetched.records)
            partition.ledger_next = fetched.offset_next
        await chunks.settle()
    finally:
        await chunks.abandon()
    observer.replaying(partition.number, partition.ledger_next, end)


async def _replay_dead(log: LogReader, partition: Partition, end: int) -> None:
    quiet = 0
    while partition.dead_next < end:
        fetched = await log.read(
            topics.DEAD, partition.number, offset_next=partition.dead_next, timeout_ms=READ_MS
        )
        quiet = _quiet(log, quiet, partition.dead_next, fetched.offset_next)
        for record in fetched.records:
            source = source_of(record)
            if source is not None and source[0] in partition.positions:
                topic, source_partition, offset = source
                if source_partition == partition.number:
                    partition.decided(topic, offset)
        partition.dead_next = fetched.offset_next


async def _check_positions(log: LogReader, partition: Partition, observer: Observer) -> None:
    for topic, offset_next in partition.positions.items():
        end = await log.end(topic, partition.number)
        if offset_next > end:
            raise Damaged(
                f"{topic} ends at {end}, but was decided up to {offset_next}",
                where=_where(log, partition.number),
                todo="the input topic was lost or made anew: restore it, or reserve its offsets",
            )
        start = await log.start(topic, partition.number)
        if offset_next < start:
            observer.inputs_expired(topic, partition.number, offset_next, start)
            partition.positions[topic] = start


class _Chunks:
    """Receipts chunk by chunk: pushed and applied here, their signatures checked a chunk behind."""

    def __init__(self, log: LogReader, partition: Partition, observer: Observer) -> None:
        self._where = _where(log, partition.number)
        self._partition = partition
        self._observer = observer
        self._tasks: list[SignatureTask] = []
        self._places: list[tuple[str, int]] = []
        self._checking: asyncio.Task[None] | None = None

    async def push(self, records: Sequence[Record]) -> None:
        """Apply a chunk. Raises: LedgerRefused, the earliest fault of the chunk and the last."""
        fault: LedgerRefused | None = None
        for record in records:
            try:
                self._push(record)
            except LedgerRefused as refused:
                fault = refused
                break
        await self.settle()
        self._checking = asyncio.create_task(self._check(self._tasks, self._places))
        self._tasks, self._places = [], []
        if fault is not None:
            await self.settle()
            raise fault
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Wait for the signatures under way. Raises: LedgerRefused."""
        if self._checking is not None:
            checking, self._checking = self._checking, None
            await checking

    async def abandon(self) -> None:
        """Wait for the signatures under way, whatever comes of them."""
        if self._checking is not None:
            await asyncio.wait([self._checking])
            self._checking.exception()

    def _push(self, record: Record) -> None:
        pool = self._pool(record)
        try:
            receipt = pool.chain.push(record.value)
        except Broken as broken:
            self._refuse_unless_passed(pool, record, broken)
            return
        self._tasks += pool.chain.take_deferred()[1]
        self._places.append((pool.name, receipt.seq))
        try:
            apply_receipt(pool.state, receipt)
        except ReplayError as error:
            fault = Broken(receipt.seq, "replay", str(error))
            raise LedgerRefused(pool.name, fault, where=self._where) from error
        pool.offset = record.offset
        self._partition.pools.setdefault(pool.name, pool)
        cause = receipt.cause
        if cause.partition == record.partition and cause.topic in self._partition.positions:
            self._partition.decided(cause.topic, cause.offset)

    def _pool(self, record: Record) -> Pool:
        key = record.key or b""
        name = key.decode(errors="replace")
        pool = self._partition.pools.get(name)
        if pool is None:
            chain = ChainReader(name)
            pool = Pool(name=name, key=key, chain=chain, state=PoolState(name))
        pool.chain.check_signatures = False
        return pool

    def _refuse_unless_passed(self, pool: Pool, record: Record, broken: Broken) -> None:
        # The signature of what is ignored does not matter, and must not be taken for another's.
        pool.chain.take_deferred()
        receipt = _receipt_in(record)
        if receipt is None or receipt.pool != pool.name or receipt.seq >= pool.chain.length:
            raise LedgerRefused(pool.name, broken, where=self._where) from broken
        self._observer.ignored(record.partition, record.offset, str(broken))

    async def _check(self, tasks: list[SignatureTask], places: list[tuple[str, int]]) -> None:
        bad = await asyncio.to_thread(verify_signatures, tasks)
        if bad is not None:
            name, index = places[bad]
            raise LedgerRefused(
                name, Broken(index, "signature", cose.NOT_SIGNED), where=self._where
            )


def _receipt_in(record: Record) -> Receipt | None:
    try:
        return open_receipt(record.value)[1]
    except (CoseError, CborError, ReceiptError):
        return None


def _quiet(log: LogReader, quiet: int, before: int, after: int) -> int:
    if after > before:
        return 0
    if quiet + 1 >= QUIET_READS_MAX:
        raise Unavailable("the log does not reach its end", where=log.where, todo="wait for it")
    return quiet + 1


def _where(log: LogReader, partition: int) -> str:
    return f"{log.where} partition {partition}"
