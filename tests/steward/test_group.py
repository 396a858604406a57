"""Stewards of one process take, hold and let go of partitions, whoever hands them out."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schemas import cbor
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import Entry, Log, Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.logs.gated import GatedLog
from streams.steward import Keyring, Settings, Steward, WrongKey
from streams.steward.group import Crew

PARTITIONS = 3
QUICK = Settings(tick_ms=None, wait_ms=20, backoff_ms=5)
OURS, THEIRS = SeedSigner(bytes(32)), SeedSigner(bytes([1] * 32))


class Group:
    """Hands out partitions as a test says; the crew's member."""

    def __init__(self) -> None:
        self.crew: Crew | None = None
        self.left = asyncio.Event()

    async def run(self) -> None:
        """Be a member until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()

    async def move(self, *partitions: int) -> None:
        """A rebalance, after which these are the crew's."""
        assert self.crew is not None
        await self.crew.hold()
        await asyncio.sleep(0.02)
        self.crew.take(frozenset(partitions))


class Setting:
    """A log with three partitions, a pool in each, a crew and its group."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.log = log
        self.group = Group()
        self.stopping = asyncio.Event()
        self.stopped: list[tuple[int, BaseException]] = []
        self.let_go: list[int] = []
        self.key = OURS
        self.crew = Crew(
            log,
            self.make,
            silence_ms=400,
            fenced_pause_ms=10,
            on_stopped=lambda number, error: self.stopped.append((number, error)),
            on_let_go=self.let_go.append,
            finish_ms=2_000,
        )
        self.group.crew = self.crew
        self.running = asyncio.create_task(self.crew.run(self.group, self.stopping))

    def make(self, log: Log, number: int) -> Steward:
        """A partition's steward."""
        return Steward(log, number, Keyring([self.key]), settings=QUICK)

    async def decided(self, partition: int) -> int:
        """How many receipts the partition's ledger has."""
        found = await self.log.read(topics.LEDGER, partition, offset_next=0)
        return len(found.records)

    async def wait(self, partition: int, receipts: int) -> None:
        """Wait until the partition's ledger has so many receipts."""
        async with asyncio.timeout(5):
            while await self.decided(partition) < receipts:
                await asyncio.sleep(0.01)

    async def send(self, partition: int) -> None:
        """Publish one event for the partition's pool; the first opens it."""
        pool = pool_in(partition)
        event = {"pool": pool, "type": "pool.opened", "capacity": {}, "tree": []}
        await self.log.publish(
            [Outgoing(topic=topics.ADMIN, key=pool.encode(), value=cbor.encode(event))]
        )


def pool_in(partition: int) -> str:
    """The name of a pool that lives in a partition."""
    names = (f"p{number}" for number in range(100))
    return next(
        name for name in names if topics.partition_for(name.encode(), PARTITIONS) == partition
    )


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    """A crew at work, no partition in hand yet."""
    log = EmbeddedLog(tmp_path, partitions=PARTITIONS)
    made = Setting(log)
    yield made
    made.stopping.set()
    await asyncio.gather(made.running, return_exceptions=True)
    await log.close()


async def test_a_partition_is_decided_while_it_is_ours(setting: Setting) -> None:
    """What is handed to us is decided, what is taken away is not, what comes back goes on."""
    for partition in range(PARTITIONS):
        await setting.send(partition)
    await setting.group.move(0, 1)
    await setting.wait(0, 1)
    await setting.wait(1, 1)
    assert await setting.decided(2) == 0
    await setting.group.move(1, 2)
    await setting.wait(2, 1)
    assert setting.let_go == [0]
    await setting.send(0)
    await setting.send(1)
    await setting.wait(1, 2)
    assert await setting.decided(0) == 1
    await setting.group.move(0)
    await setting.wait(0, 2)


async def test_a_held_partition_waits(setting: Setting) -> None:
    """While partitions move nothing is appended; afterwards it is, by the same writer."""
    await setting.group.move(0)
    await setting.send(0)
    await setting.wait(0, 1)
    await setting.crew.hold()
    await setting.send(0)
    await asyncio.sleep(0.1)
    assert await setting.decided(0) == 1
    assert setting.crew.is_alive()
    setting.crew.take(frozenset({0}))
    await setting.wait(0, 2)


async def test_a_partition_that_stops_stays_stopped(setting: Setting) -> None:
    """A ledger of another's stops its partition only; when all have stopped, all of it ends."""
    stranger = Steward(setting.log, 0, Keyring([THEIRS]), settings=QUICK)
    await setting.send(0)
    await stranger.decide_all()
    await stranger.close()
    await setting.group.move(0, 1)
    await setting.send(1)
    await setting.wait(1, 1)
    async with asyncio.timeout(5):
        while not setting.stopped:
            await asyncio.sleep(0.01)
    ((number, error),) = setting.stopped
    assert (number, type(error)) == (0, WrongKey)
    assert setting.crew.failures.keys() == {0}
    assert setting.crew.is_alive()
    await setting.group.move(0)
    with pytest.raises(WrongKey):
        await setting.running
    assert setting.group.left.is_set()


async def test_stopping_finishes_and_leaves(setting: Setting) -> None:
    """Told to stop, every partition publishes the heads that it owes, and the group is left."""
    await setting.group.move(0)
    await setting.send(0)
    await setting.wait(0, 1)
    setting.stopping.set()
    await setting.running
    assert setting.group.left.is_set()
    heads = await setting.log.read(topics.HEADS, 0, offset_next=0)
    assert len(heads.records) == 1


async def test_work_that_does_not_go_on_is_noticed(setting: Setting) -> None:
    """A steward that asks nothing of its log for too long is not alive."""
    await setting.group.move(0)
    assert setting.crew.is_alive()
    never = asyncio.Event()

    async def hang(*arguments: object, **more: object) -> None:
        await never.wait()

    setting.log.read_any = hang  # type: ignore[method-assign,assignment]
    async with asyncio.timeout(5):
        while setting.crew.is_alive():
            await asyncio.sleep(0.02)


async def test_a_fenced_writer_is_not_replaced_at_once(tmp_path: Path) -> None:
    """After a fencing the next opening waits, and fences nobody meanwhile."""
    log = EmbeddedLog(tmp_path)
    gated = GatedLog(log, fenced_pause_ms=200)
    gated.gate.open()
    ours = await gated.open_writer(0)
    theirs = await log.open_writer(0)
    entry = Entry(topic=topics.LEDGER, key=b"p", value=b"x")
    with pytest.raises(Exception, match="another writer"):
        await ours.append([entry])
    opening = asyncio.create_task(gated.open_writer(0))
    await asyncio.sleep(0.05)
    await theirs.append([entry])
    assert not opening.done()
    await (await opening).append([entry])
    await log.close()
