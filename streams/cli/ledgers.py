"""A ledger to be checked, wherever it lies: a file of its receipts, or a log.

Not here: what is checked (`streams.cli.checking`).

1. A file is a CBOR sequence (RFC 8742) of the receipts' exact bytes, as `pool export` writes it. It
   may be a pipe: it is opened once, read once from start to end, and a window of it is held.
2. Of a log only the pool's own records are looked at; heads and countersignatures lie beside it.
   For a file they come from a second one, `--heads` (`streams.cli.statements`), which for a log
   adds to them.
3. Nothing here writes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO

from schemas import cbor
from schemas.cbor import CborError
from schemas.cose import CoseError
from schemas.receipts import ReceiptError, open_receipt
from schemas.trust import PoolTrust, Trust, TrustError, parse_trust
from schemas.wellformed import item_end
from streams import topics
from streams.cli.checking import Checker, Verdict
from streams.cli.session import Failure, Session, Status
from streams.cli.statements import read_statements
from streams.cli.where import Where, the_pool, values
from streams.logs.contract import LogReader
from streams.topics import partition_for
from streams.views.outboxes import Outboxes

FILE_BYTES_MAX = 4 * 1024**3
WINDOW_BYTES = 4 * 1024**2
ITEM_BYTES_MAX = 2 * cbor.BYTES_MAX
"""A receipt's payload is at most half of that; the rest is for its envelope."""
CHECKED_TOGETHER = 256
"""Receipts that are checked before anything else has its turn."""
TRUST_BYTES_MAX = 1024**2


class Ledger:
    """One pool's ledger, and what was signed about it. Made by `ledger`."""

    def __init__(
        self,
        pool: str,
        *,
        items: Iterator[bytes] | None = None,
        heads: Path | None = None,
        log: LogReader | None = None,
        data: Path | None = None,
    ) -> None:
        self.pool = pool
        self._data = data
        self._items = items
        self._heads = heads
        self._log = log

    @property
    def is_log(self) -> bool:
        """Whether it lies on a log, where records that do not count may lie between."""
        return self._log is not None

    async def receipts(self, checker: Checker) -> AsyncIterator[bytes]:
        """The receipts' bytes in order; bytes that are no item are told the checker.

        Of a file they are given once.
        """
        if self._log is not None:
            async for value in values(self._log, topics.LEDGER, self.pool):
                yield value
            return
        assert self._items is not None
        try:
            for item in self._items:
                yield item
        except CborError as error:
            checker.undecodable(error.detail)

    async def size(self) -> int | None:
        """About how many receipts there are, for a progress bar: at most so many; None: unknown."""
        if self._log is None:
            return None
        partition = partition_for(self.pool.encode(), await self._log.partitions())
        return await self._log.end(topics.LEDGER, partition)

    async def statements(self) -> AsyncIterator[tuple[str, bytes]]:
        """What was signed about the ledger, with the topic that it is from or belongs on."""
        if self._heads is not None:
            for found in read_statements(read_file(self._heads), self.pool, str(self._heads)):
                yield found
        if self._log is not None:
            for topic in (topics.HEADS, topics.WITNESS):
                async for value in values(self._log, topic, self.pool):
                    yield topic, value
            for item in self._beside():
                yield topics.WITNESS, item

    def _beside(self) -> Iterator[bytes]:
        """What witnesses put beside an embedded log; of any pool, worth what a grader finds."""
        if self._data is None:
            return
        outboxes = Outboxes(self._data)
        while found := outboxes.look():
            yield from found


@asynccontextmanager
async def ledger(
    where: Where, file: Path | None, pool: str | None, heads: Path | None = None
) -> AsyncIterator[Ledger]:
    """The ledger that a command's options name. Raises: Failure, LogTrouble."""
    if file is not None:
        with file.open("rb") as stream:
            begun = stream.read(WINDOW_BYTES)
            items = _items_in(stream, begun)
            yield Ledger(pool or _pool_in(begun), items=items, heads=heads)
        return
    async with where.reader() as log:
        yield Ledger(await the_pool(log, pool), heads=heads, log=log, data=where.data)


async def check(
    session: Session,
    one: Ledger,
    checker: Checker,
    *,
    title: str,
    accepted: Callable[[bytes], object] | None = None,
) -> Verdict:
    """Give the checker the whole ledger, showing progress. `accepted` gets what it accepts."""
    await _take_statements(one, checker)
    with session.progress() as progress:
        task = progress.add_task(title, total=await one.size())
        done = 0
        async for data in one.receipts(checker):
            if checker.push(data) and accepted is not None:
                accepted(data)
            if checker.done:
                break
            done += 1
            if done % CHECKED_TOGETHER == 0:
                progress.update(task, completed=done)
                # Reading a file or a directory waits for nothing; who interrupts must be heard.
                await asyncio.sleep(0)
    return checker.finish()


async def _take_statements(one: Ledger, checker: Checker) -> None:
    if checker.grader is None:
        return
    async for topic, data in one.statements():
        if topic == topics.HEADS:
            checker.grader.add_head(data)
        else:
            checker.grader.add_statement(data)


def read_trust(file: Path, pool: str) -> PoolTrust:
    """A trust file's entry for a pool. Raises Failure."""
    with _readable(file):
        return _parsed(file).pool(pool)


def read_trust_keys(file: Path) -> frozenset[bytes]:
    """The raw keys of all witnesses that a trust file names, whatever the pool. Raises Failure."""
    with _readable(file):
        pools = _parsed(file).pools.values()
        return frozenset(key for one in pools for key in one.witnesses.values())


def _parsed(file: Path) -> Trust:
    return parse_trust(read_file(file, TRUST_BYTES_MAX).decode())


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (TrustError, UnicodeDecodeError) as error:
        raise Failure(f"not a trust file: {error}", where=str(file), status=Status.USAGE) from error


def read_file(file: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """A whole file, bounded. Raises: Failure; OSError."""
    with file.open("rb") as stream:
        data = stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise Failure(f"longer than {bytes_max} bytes", where=str(file), status=Status.USAGE)
    return data


def _pool_in(begun: bytes) -> str:
    """The pool that a file's first receipt names; "" if that is none: the check will say so."""
    try:
        return open_receipt(next(cbor.split_sequence(begun)))[1].pool
    except (StopIteration, CborError, CoseError, ReceiptError):
        return ""


def _items_in(stream: BinaryIO, window: bytes) -> Iterator[bytes]:
    """The items of a CBOR sequence that begins with `window` and goes on in `stream`.

    As `cbor.split_sequence` of it all, but for an item longer than `ITEM_BYTES_MAX`: it may be
    called cut off. No receipt is that long.
    """
    more = window
    while more:
        more = stream.read(WINDOW_BYTES)
        window, position = window + more, 0
        while len(window) - position > (ITEM_BYTES_MAX if more else 0):
            end = item_end(window, position)
            yield window[position:end]
            position = end
        window = window[position:]
