"""Bring a pool's ledger into an embedded log from elsewhere, byte for byte, to go on from there.

What an exported file is, is `pool export`'s business; here it is the receipts' bytes, in order.

1. The whole ledger is verified before anything is written, before there need be a log.
2. What stands of the pool in the log must be the beginning of it; then the rest is appended, so
   that an import that was killed goes on when it is run again. Until it ends the log refuses
   stewards.
3. Its causes name offsets of the log that it comes from. Where they are of the very partition that
   it comes to, those offsets are reserved: a receipt's cause must never be behind.
4. Reserving moves the partition's positions past every input that stands there. So all of them
   must have been decided before.

Invariant: the imported ledger has the same head; a steward goes on behind it.
Source: architecture.md "Embedded".
"""

from collections.abc import Iterable
from typing import Final

from schemas.chain import Broken, ChainReader, verify_chain
from streams import topics
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog
from streams.steward.errors import StewardStopped
from streams.steward.observer import Observer
from streams.steward.pools import Partition
from streams.steward.replay import replay

BATCH_RECEIPTS: Final = 1000
THREADS: Final = 2


class ImportRefused(StewardStopped):
    """What stands in the log does not go with the ledger. Nothing was written."""


def verify_ledger(items: Iterable[bytes]) -> ChainReader:
    """The end of a ledger to import. Raises: schemas.chain.Broken, also where it is empty."""
    chain = verify_chain(items, threads=THREADS)
    if chain.pool is None:
        raise Broken(0, "decode", "no receipt to import")
    return chain


async def import_ledger(
    log: EmbeddedLog,
    chain: ChainReader,
    items: Iterable[bytes],
    *,
    observer: Observer | None = None,
) -> None:
    """Import the receipts `items`, of which `verify_ledger` gave `chain`.

    Raises: ImportRefused where another ledger of the pool stands or inputs wait to be decided;
    StewardStopped where what stands does not verify; LogTrouble.
    """
    assert chain.pool is not None, "a verified ledger has a pool"
    key = chain.pool.encode()
    number = topics.partition_for(key, await log.partitions())
    if log.importing != key:
        await _check_decided(log, number, observer or Observer())
    remaining = await _after_what_stands(log, number, key, items)
    writer = await log.begin_import(key)
    try:
        for (topic, partition), offset_next in chain.positions.items():
            if partition == number and topic in topics.INPUT_TOPICS:
                await log.reserve(topic, number, offset_next)
        batch: list[Entry] = []
        for data in remaining:
            batch.append(Entry(topic=topics.LEDGER, key=key, value=data))
            if len(batch) == BATCH_RECEIPTS:
                await writer.append(batch)
                batch = []
        if batch:
            await writer.append(batch)
        await log.end_import()
    finally:
        await writer.close()


async def _check_decided(log: EmbeddedLog, number: int, observer: Observer) -> None:
    """Raises ImportRefused where an input of the partition was not decided yet (rule 4)."""
    partition = Partition(number=number)
    await replay(log, partition, observer)
    for topic, offset_next in partition.positions.items():
        fetched = await log.read(topic, number, offset_next=offset_next, max_records=1)
        if fetched.records:
            raise ImportRefused(
                f"{topic} has events that wait to be decided",
                where=log.where,
                todo="let the steward decide them first (pool run), then import",
            )


async def _after_what_stands(
    log: EmbeddedLog, number: int, key: bytes, items: Iterable[bytes]
) -> Iterable[bytes]:
    """What of `items` follows what stands in the log. Raises ImportRefused if that differs."""
    remaining = iter(items)
    offset_next, end = 0, await log.end(topics.LEDGER, number)
    while offset_next < end:
        fetched = await log.read(topics.LEDGER, number, offset_next=offset_next)
        offset_next = fetched.offset_next
        for record in fetched.records:
            if record.key == key and next(remaining, None) != record.value:
                raise ImportRefused(
                    f"another or longer ledger of pool {key.decode()!r} stands here",
                    where=log.where,
                    todo="import into another directory",
                )
    return remaining
