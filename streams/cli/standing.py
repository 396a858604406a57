"""How a pool stands: its state now, and those of its receipts that speak of something.

Not here: verification for a stranger (`streams.cli.checking`). What is read here is one's own log:
the state comes as a steward gets it, from a snapshot that the ledger bears out and what follows.

1. Receipts are found by the text that they must contain, and only those are opened.
2. A record whose `seq` was passed does not count.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from schemas.cose import CoseError
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.wellformed import CborError
from streams import topics
from streams.cli.session import Failure, Status
from streams.cli.where import Where, the_pool, values
from streams.kernel import PoolState
from streams.logs.contract import LogReader
from streams.logs.embedded import SNAPSHOT_DIRECTORY
from streams.steward import Observer, Snapshots
from streams.steward.pools import Partition
from streams.steward.replay import replay
from streams.topics import partition_for


async def state_of(log: LogReader, where: Where, named: str | None) -> PoolState:
    """The state of the pool asked for, or of the only one.

    Raises: Failure, LogTrouble; StewardStopped where the ledger does not verify.
    """
    name = await the_pool(log, named)
    number = partition_for(name.encode(), await log.partitions())
    observer = Observer()
    partition = Partition(number=number)
    if where.data is not None:
        snapshots = Snapshots(where.data / SNAPSHOT_DIRECTORY)
        partition = await snapshots.load(log, number, observer)
    await replay(log, partition, observer)
    pool = partition.pools.get(name)
    if pool is None:
        raise Failure(f"no pool {name!r}", where=log.where, status=Status.NO)
    return pool.state


async def receipts_with(
    log: LogReader, pool: str, texts: Collection[str]
) -> AsyncIterator[Receipt]:
    """The pool's receipts that contain any of the texts, in order. Raises LogTrouble."""
    wanted = [text.encode() for text in texts]
    seq_last = -1
    async for value in values(log, topics.LEDGER, pool):
        if not any(text in value for text in wanted):
            continue
        try:
            receipt = open_receipt(value)[1]
        except (CoseError, CborError, ReceiptError):
            continue
        if receipt.seq > seq_last:
            seq_last = receipt.seq
            yield receipt
