"""A steward that runs: heads, ticks, being fenced, trouble with the log, and stopping."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from steward_support import (
    POOL,
    SIGNER,
    TIMELESS,
    audit_clean,
    busy_day,
    claim,
    decide,
    ledger,
    opened,
    published,
    records,
    steward,
    verified,
)

from schemas.chain import ChainReader
from schemas.heads import open_head
from schemas.records import Kind
from streams import topics
from streams.logs.contract import Entry, Writer
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import AppendFailed, DiskFull, Fenced, LogTrouble, OutcomeUnknown
from streams.steward import Appended, Keyring, Observer, Settings, Steward, run_all

LIVE = Settings(wait_ms=20, tick_ms=20, head_ms=40, backoff_ms=1, backoff_ms_max=5)
PATIENCE_S = 20


class Hearing(Observer):
    """Remembers what it was told, and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.batches: list[Appended] = []
        self.troubles: list[Exception] = []
        self.opened_with: list[dict[str, int]] = []

    def appended(self, batch: Appended) -> None:
        self.batches.append(batch)

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        self.troubles.append(trouble)

    def opened(self, partition: int, pools: object) -> None:
        self.opened_with.append(dict(pools))  # type: ignore[call-overload]


async def until(condition: object) -> None:
    """Wait until a condition, a function without arguments (or a coroutine's), holds."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            held = condition()  # type: ignore[operator]
            if await held if asyncio.iscoroutine(held) else held:
                return
            await asyncio.sleep(0.01)


async def test_events_are_decided_as_they_come(tmp_path: Path) -> None:
    """A running steward decides what is published, one batch after another, until it is stopped."""
    log, hearing, stopping = EmbeddedLog(tmp_path), Hearing(), asyncio.Event()
    running = asyncio.create_task(steward(log, settings=LIVE, observer=hearing).run(stopping))
    await log.publish([opened(), claim("a", 1001)])
    await until(lambda: sum(batch.events for batch in hearing.batches) == 2)
    await log.publish([claim("b", 1002)])
    await until(lambda: sum(batch.events for batch in hearing.batches) == 3)
    stopping.set()
    await running
    told = [receipt for batch in hearing.batches for receipt in batch.receipts]
    assert told == verified(await ledger(log))[1]
    assert hearing.batches[-1].positions[topics.CLAIMS] == 2
    assert hearing.opened_with == [{}]
    await log.close()


async def test_heads_come_by_count_by_time_and_at_the_end(tmp_path: Path) -> None:
    """After so many receipts, after so long, and when it stops, a head says where the ledger is."""
    log = EmbeddedLog(tmp_path)
    settings = replace(TIMELESS, batch_events=10, head_receipts=30, head_ms=3_600_000)
    await log.publish(busy_day(60))
    one = steward(log, settings=settings)
    await one.decide_all()
    lengths = [head.length for head in await heads(log)]
    assert lengths == sorted(lengths)
    assert all(after - before >= 30 for before, after in pairwise(lengths))
    await one.finish()
    chain = audit_clean(await ledger(log))
    last = (await heads(log))[-1]
    assert (last.length, last.head, last.root) == (chain.length, chain.head, chain.root())

    count, stopping = len(await heads(log)), asyncio.Event()
    running = asyncio.create_task(
        steward(log, settings=replace(TIMELESS, head_ms=30, wait_ms=10_000)).run(stopping)
    )
    await log.publish([claim("late", 90_000)])

    async def grown() -> bool:
        return len(await heads(log)) > count

    await until(grown)
    stopping.set()
    await log.publish([claim("wakes the reader", 90_001)])
    await running
    await log.close()


async def heads(log: EmbeddedLog) -> list[object]:
    """What the steward's heads say, every one of them checked against the ledger."""
    sealed = await ledger(log)
    found = []
    for record in await records(log, topics.HEADS):
        end = open_head(record.value, [SIGNER.public_key]).statement.end
        chain, _ = verified_to(sealed, end.length)
        assert (end.pool, end.head, end.root) == (POOL, chain.head, chain.root())
        found.append(end)
    return found


def verified_to(sealed: list[bytes], length: int) -> tuple[object, object]:
    """The chain's end after `length` receipts."""
    reader = ChainReader(POOL)
    return reader, [reader.push(data) for data in sealed[:length]]


async def test_time_passes_though_nobody_sends_anything(tmp_path: Path) -> None:
    """A lease lapses on a live log by a tick, whose cause is in the ledger; then there is quiet."""
    log = EmbeddedLog(tmp_path)
    stopping = asyncio.Event()
    running = asyncio.create_task(steward(log, settings=LIVE).run(stopping))
    fields = [
        {"type": "pool.opened", "pool": POOL, "capacity": {"mdev": 1000, "uj": 9}, "tree": TREE},
        {
            "type": "claim.submitted",
            "pool": POOL,
            "claim": "a",
            "leaf": "acme",
            "gang": [{"mdev": 1000, "uj": 1}],
            "grade": "ModelBased",
            "commit_within_ms": 60,
        },
    ]
    await log.publish([published(event) for event in fields])

    async def expired() -> bool:
        return any(r.kind is Kind.CLAIM_EXPIRED for r in verified(await ledger(log))[1])

    await until(expired)
    _, receipts = verified(await ledger(log))
    assert receipts[-1].cause.topic == topics.ADMIN
    assert receipts[-1].body["event"] == {"pool": POOL, "type": "tick"}
    assert receipts[-1].closed_at_ms - receipts[-2].closed_at_ms >= 60
    ticks = await log.end(topics.ADMIN, 0)
    await asyncio.sleep(0.15)
    assert await log.end(topics.ADMIN, 0) == ticks
    stopping.set()
    await running
    audit_clean(await ledger(log))
    await log.close()


TREE = [{"id": "acme", "guarantee": {"mdev": 1000, "uj": 9}}]


async def test_ticks_leave_the_same_ledger_when_read_again(tmp_path: Path) -> None:
    """A tick that settles nothing leaves no receipt, and may be read twice."""
    log = EmbeddedLog(tmp_path)
    tick = published({"type": "tick", "pool": POOL}, 1500)
    await decide(log, [opened(), tick, tick])
    await decide(log, [claim("a", 1400)])
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts] == [Kind.POOL_OPENED, Kind.CLAIM_ADMITTED]
    assert receipts[-1].closed_at_ms == 1500
    audit_clean(await ledger(log))
    await log.close()


async def test_of_two_stewards_one_is_fenced_and_nothing_is_decided_twice(tmp_path: Path) -> None:
    """Two stewards on one partition fence each other; the chain is one, each event decided once."""
    log, stopping = EmbeddedLog(tmp_path), asyncio.Event()
    hearing = [Hearing(), Hearing()]
    events = busy_day(80)
    running = [
        asyncio.create_task(
            steward(log, settings=replace(TIMELESS, wait_ms=5), observer=one).run(stopping)
        )
        for one in hearing
    ]
    for start in range(0, len(events), 10):
        await log.publish(events[start : start + 10])
        await asyncio.sleep(0.01)

    async def all_decided() -> bool:
        sealed = await ledger(log)
        if not sealed:
            return False
        positions = verified(sealed)[0].positions
        return positions.get((topics.CLAIMS, 0)) == await log.end(topics.CLAIMS, 0)

    await until(all_decided)
    stopping.set()
    await asyncio.gather(*running)
    audit_clean(await ledger(log))
    assert any(isinstance(trouble, Fenced) for one in hearing for trouble in one.troubles)
    undisturbed = EmbeddedLog(tmp_path / "undisturbed")
    await decide(undisturbed, events)
    assert await ledger(log) == await ledger(undisturbed)
    await undisturbed.close()
    await log.close()


class TroubledLog(EmbeddedLog):
    """An embedded log whose writers fail as planned: before appending, or after it."""

    plan: Sequence[str] = ()

    async def open_writer(self, partition: int) -> Writer:  # type: ignore[override]
        return TroubledWriter(self, await super().open_writer(partition))


class TroubledWriter:
    """One writer, with the log's plan: a letter for each append of any writer."""

    def __init__(self, log: TroubledLog, writer: Writer) -> None:
        self._log, self._writer = log, writer

    @property
    def partition(self) -> int:
        return self._writer.partition

    async def append(self, batch: Sequence[Entry]) -> None:
        step, self._log.plan = (self._log.plan or ".")[0], self._log.plan[1:]
        if step == "f":
            raise AppendFailed("planned", where="here", todo="nothing")
        await self._writer.append(batch)
        if step == "u":
            raise OutcomeUnknown("planned", where="here", todo="nothing")

    async def close(self) -> None:
        await self._writer.close()


async def test_after_a_doubt_the_ledger_says_what_became_of_it(tmp_path: Path) -> None:
    """Failed and unknown appends, in any mixture, leave the ledger of an undisturbed run."""
    events = busy_day(60)
    log, hearing = TroubledLog(tmp_path / "troubled"), Hearing()
    log.plan = "f.u.ff.uu.fufu.u"
    await log.publish(events)
    one = steward(log, settings=replace(TIMELESS, batch_events=8), observer=hearing)
    await one.decide_all()
    await one.finish()
    assert len(hearing.troubles) == sum(step in "fu" for step in "f.u.ff.uu.fufu.u")
    undisturbed = EmbeddedLog(tmp_path / "undisturbed")
    await decide(undisturbed, events)
    assert await ledger(log) == await ledger(undisturbed)
    await undisturbed.close()
    await log.close()


async def test_trouble_that_says_stop_stops(tmp_path: Path) -> None:
    """A full disk ends the steward, and those of other partitions finish with it."""

    class FullLog(EmbeddedLog):
        async def open_writer(self, partition: int) -> Writer:
            if partition == 0:
                raise DiskFull("no room", where="here", todo="make room")
            return await super().open_writer(partition)

    log = FullLog(tmp_path, partitions=2)
    stewards = [Steward(log, number, Keyring([SIGNER]), settings=LIVE) for number in (0, 1)]
    with pytest.raises(LogTrouble, match="make room"):
        async with asyncio.timeout(PATIENCE_S):
            await run_all(stewards, asyncio.Event())
    await log.close()


async def test_a_cancelled_steward_lets_go(tmp_path: Path) -> None:
    """Cancelled in the middle of waiting, it closes its writer and leaves the ledger whole."""
    log = EmbeddedLog(tmp_path)
    await log.publish(busy_day(10))
    one = steward(log, settings=replace(TIMELESS, wait_ms=60_000))
    running = asyncio.create_task(one.run(asyncio.Event()))

    async def begun() -> bool:
        return bool(await ledger(log))

    await until(begun)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert one.partition is None
    await decide(log)
    audit_clean(await ledger(log))
    await log.close()


async def test_pools_of_a_partition_have_chains_of_their_own(tmp_path: Path) -> None:
    """Several pools in one partition are decided side by side, each with its own head."""
    log = EmbeddedLog(tmp_path)
    days = [busy_day(20, pool=pool) for pool in ("p", "q", "r")]
    await decide(log, [event for events in zip(*days, strict=True) for event in events])
    for pool in ("p", "q", "r"):
        chain = audit_clean(await ledger(log, pool), pool)
        assert chain.length >= 40
    assert {record.key for record in await records(log, topics.HEADS)} == {b"p", b"q", b"r"}
    await log.close()
