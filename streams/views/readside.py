"""All pools of a read side, and who waits for what: the one object that HTTP handlers ask.

Not here: reading a log (`feed`), HTTP (`web`).

1. `take` folds what a partition's topics brought, a chunk at a time: signatures are checked in
   another thread while the chunk before is applied, in slices, so that questions are answered
   meanwhile. A chunk is applied when all its signatures were found right.
2. Who asked something of a pool waits for the receipts of its event by the event's place; the
   answer is given when the rows have it, so that a question after the answer sees its effect.
3. A pool's length is watched, not its receipts: a slow watcher reads on from where it is.

Invariant: `PoolView`s and rows change in `take` only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas import cbor, cose
from schemas.batch import verify_signatures
from schemas.cose import CoseError
from schemas.receipts import Receipt
from schemas.trust import PoolTrust
from schemas.wellformed import CborError
from streams import topics
from streams.logs.contract import LogReader, Record
from streams.steward.deadletters import source_of
from streams.views import tables
from streams.views.fold import PoolView, Pushed
from streams.views.tables import Batch, Tables

SLICE_RECEIPTS: Final = 128
CHUNK_RECORDS: Final = 512
"""Far behind, larger slices: a row is written once a slice."""
ANSWERS_KEPT: Final = 2048
"""Complete answers that may be there before the one who asked knows the place of its event."""
READ_MS: Final = 1000

Place = tuple[str, int, int]
"""Topic, partition and offset of an input record."""
_Pairs = Sequence[tuple[PoolView, Pushed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What became of an event: its receipts in order, or the dead letter that it became."""

    receipts: tuple[Receipt, ...] = ()
    dead: Record | None = None


class ReadSide:
    """Pools by name, folded from `log`. `trust_of` gives a pool's entry of the trust file.

    `caught_up`, set by who feeds it: everything that was there at the start is folded. `lag`:
    partition to ledger records that are still to be folded.
    """

    def __init__(
        self,
        log: LogReader,
        *,
        store: Tables | None = None,
        trust_of: Callable[[str], PoolTrust | None] = lambda pool: None,
    ) -> None:
        self.log = log
        self.tables = tables.in_memory() if store is None else store
        self.pools: dict[str, PoolView] = {}
        self.lag: dict[int, int] = {}
        self.caught_up = False
        self._trust_of = trust_of
        self._grown: dict[str, asyncio.Event] = {}
        self._open: dict[str, list[Receipt]] = {}
        self._heard: OrderedDict[Place, Heard] = OrderedDict()
        self._asked: dict[Place, asyncio.Future[Heard]] = {}

    async def take(self, found: Mapping[str, Sequence[Record]]) -> int:
        """Fold records by topic, all of one partition; how many receipts were new."""
        taken = 0
        before: tuple[_Pairs, asyncio.Task[int | None]] | None = None
        for records in _chunks(found.get(topics.LEDGER, ())):
            pushed = self._push(records)
            tasks = [one.task for _, one in pushed]
            checking = asyncio.create_task(asyncio.to_thread(verify_signatures, tasks))
            if before is not None:
                taken += await self._settle(*before)
            before = pushed, checking
        if before is not None:
            taken += await self._settle(*before)
        self._statements(found)
        for record in found.get(topics.DEAD, ()):
            place = source_of(record)
            if place is not None:
                self._tell(place, Heard(dead=record))
        return taken

    async def _settle(self, pushed: _Pairs, checking: asyncio.Task[int | None]) -> int:
        """Apply a chunk once its signatures are checked; those of the next one are meanwhile."""
        bad = await checking
        if bad is not None:
            self._forged(pushed, bad)
        taken = 0
        size = CHUNK_RECORDS if len(pushed) == CHUNK_RECORDS else SLICE_RECEIPTS
        for start in range(0, len(pushed), size):
            taken += self._apply(pushed[start : start + size])
            await asyncio.sleep(0)
        return taken

    def add_statement(self, data: bytes) -> None:
        """Take a witness's statement that did not come with its pool's key."""
        try:
            core = cbor.decode(cose.split(data).payload)
        except (CoseError, CborError):
            return
        view = self.pools.get(str(core.get("pool"))) if isinstance(core, dict) else None
        if view is not None:
            view.add_statement(data)
            self._wake(view.pool)

    def forget(self, partition: int, partitions: int) -> None:
        """Drop the pools of a partition that another has taken over."""
        for name in list(self.pools):
            if topics.partition_for(name.encode(), partitions) == partition:
                del self.pools[name]
                self._open.pop(name, None)
                self._wake(name)
        self.lag.pop(partition, None)

    async def answer(self, place: Place, timeout_s: float) -> Heard | None:
        """What becomes of the event at a place; None if nothing did in time."""
        if place in self._heard:
            return self._heard.pop(place)
        future: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._asked[place] = future
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._asked[place]

    async def grown(self, pool: str, length: int, timeout_s: float) -> bool:
        """Wait until a pool has more than `length` receipts; False if it does not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    event = self._grown.setdefault(pool, asyncio.Event())
                    view = self.pools.get(pool)
                    if view is None or view.length > length:
                        return view is not None
                    await event.wait()
        except TimeoutError:
            return False

    async def receipts(self, view: PoolView, seq_from: int, seq_until: int) -> list[bytes]:
        """Exact bytes of receipts seq_from..seq_until-1, which `view` has taken; maybe fewer.

        Raises: LogTrouble.
        """
        if seq_from >= seq_until:
            return []
        partition = topics.partition_for(view.pool.encode(), await self.log.partitions())
        wanted = set(view.offsets[seq_from:seq_until])
        fetched = await self.log.read(
            topics.LEDGER,
            partition,
            offset_next=view.offsets[seq_from],
            max_records=view.offsets[seq_until - 1] - view.offsets[seq_from] + 1,
            timeout_ms=READ_MS,
        )
        return [record.value for record in fetched.records if record.offset in wanted]

    # --- folding ------------------------------------------------------------------------------

    def _push(self, records: Sequence[Record]) -> _Pairs:
        pushed = []
        for record in records:
            view = self._view(record)
            one = view.push(record.value, record.offset)
            if one is not None or view.broken is not None:
                self.pools.setdefault(view.pool, view)
            if one is not None:
                pushed.append((view, one))
        return pushed

    def _view(self, record: Record) -> PoolView:
        name = (record.key or b"").decode(errors="replace")
        view = self.pools.get(name)
        return PoolView(name, self._trust_of(name)) if view is None else view

    def _forged(self, pushed: _Pairs, bad: int) -> None:
        """From the first bad signature of each pool on, nothing of it counts."""
        view, one = pushed[bad]
        view.forged(one)
        rest = [pair for pair in pushed[bad + 1 :] if pair[0] is not view]
        next_bad = verify_signatures([other.task for _, other in rest])
        if next_bad is not None:
            self._forged(rest, next_bad)

    def _apply(self, pushed: _Pairs) -> int:
        batch = Batch(self.tables)
        taken = [(view, one.receipt) for view, one in pushed if view.take(one, batch)]
        batch.write()
        for view, receipt in taken:
            self._hear(view.pool, receipt)
        for pool in {view.pool for view, _ in taken}:
            self._wake(pool)
        return len(taken)

    def _statements(self, found: Mapping[str, Sequence[Record]]) -> None:
        for topic in (topics.HEADS, topics.WITNESS):
            for record in found.get(topic, ()):
                view = self.pools.get((record.key or b"").decode(errors="replace"))
                if view is None:
                    continue
                if topic == topics.HEADS:
                    view.add_head(record.value)
                else:
                    view.add_statement(record.value)
                self._wake(view.pool)

    def _wake(self, pool: str) -> None:
        event = self._grown.pop(pool, None)
        if event is not None:
            event.set()

    # --- answers ------------------------------------------------------------------------------

    def _hear(self, pool: str, receipt: Receipt) -> None:
        cause = receipt.cause
        if cause.index == 0:
            self._open[pool] = []
        receipts = self._open[pool]
        receipts.append(receipt)
        if cause.index + 1 == cause.count:
            place = (cause.topic, cause.partition, cause.offset)
            self._tell(place, Heard(receipts=tuple(receipts)))
            del self._open[pool]

    def _tell(self, place: Place, heard: Heard) -> None:
        future = self._asked.get(place)
        if future is not None:
            if not future.done():
                future.set_result(heard)
            return
        self._heard[place] = heard
        while len(self._heard) > ANSWERS_KEPT:
            self._heard.popitem(last=False)


def _chunks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), CHUNK_RECORDS):
        yield records[start : start + CHUNK_RECORDS]
