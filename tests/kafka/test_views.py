"""The read side on Kafka: two workers share the partitions, are killed, and stay a pure fold."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
from aiokafka import AIOKafkaProducer
from support import QUICK

from schemas import cbor
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import Outgoing
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_options import Connection
from streams.steward import Keyring, Settings, Steward
from streams.topics import partition_for
from streams.views import tables
from streams.views.feed import Feed
from streams.views.readside import ReadSide

SIGNER = SeedSigner(bytes(range(32)))
PROCESS = Path(__file__).parent / "views_worker.py"
ROOT = Path(__file__).parents[2]
PARTITIONS = 3
POOLS = ("p0", "p1", "p2", "p3", "p5", "p7")
SECONDS_MAX = 90
TIMELESS = Settings(tick_ms=None, backoff_ms=10, backoff_ms_max=50, head_receipts=200)


def event(pool: str, kind: str, **fields: Any) -> Outgoing:
    """An event on its topic."""
    topic = topics.ADMIN if kind == "pool.opened" else topics.CLAIMS
    if kind == "meter.read":
        topic = topics.METERS
    said = {"pool": pool, "type": kind, **fields}
    return Outgoing(topic=topic, key=pool.encode(), value=cbor.encode(said))


def opened(pool: str) -> Outgoing:
    """A pool of two leaves."""
    capacity = {"mdev": 8000, "uj": 10**15}
    tree = [{"id": leaf, "guarantee": {"mdev": 4000, "uj": 10**14}} for leaf in ("a", "b")]
    return event(pool, "pool.opened", capacity=capacity, tree=tree)


def work(pool: str, start: int, count: int) -> list[Outgoing]:
    """Claims that come, run, are read and go."""
    events = []
    for number in range(start, start + count):
        claim = f"c{number}"
        leaf, grade = "ab"[number % 2], "ModelBased"
        gang = [{"mdev": 1000, "uj": 1000}]
        events.append(
            event(pool, "claim.submitted", claim=claim, leaf=leaf, gang=gang, grade=grade)
        )
        events.append(event(pool, "claim.committed", claim=claim))
        occupants = [{"claim": claim, "mdev": 1000}]
        events.append(
            event(
                pool, "meter.read", device=f"d{number % 4}", from_ms=number * 1000,
                to_ms=number * 1000 + 999, uj=17 * number, grade="HwShunt", occupants=occupants,
            )
        )  # fmt: skip
        if number >= 6:
            gone = f"c{number - 6}"
            events.append(event(pool, "claim.released", claim=gone, outcome="completed"))
    return events


@asynccontextmanager
async def stewards(log: KafkaLog) -> AsyncIterator[None]:
    """A steward for each partition, until the block ends."""
    stopping = asyncio.Event()
    running = [
        asyncio.create_task(
            Steward(log, number, Keyring([SIGNER]), settings=TIMELESS).run(stopping)
        )
        for number in range(PARTITIONS)
    ]
    try:
        yield
    finally:
        stopping.set()
        await asyncio.gather(*running)


class Process:
    """A worker process."""

    def __init__(self, connection: Connection, datadir: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._given = {
            "bootstrap": connection.bootstrap, "prefix": connection.prefix,
            "tuning": asdict(QUICK), "datadir": str(datadir), "port": self.port, "group": "views",
        }  # fmt: skip
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start, and wait until it has replayed what it was given."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROCESS), json.dumps(self._given),
            cwd=ROOT, stdout=asyncio.subprocess.PIPE, env=_environment(),
        )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS_MAX):
            line = await self._process.stdout.readline()
        assert line, "the worker ended before it served"

    async def end(self, how: signal.Signals) -> None:
        """Kill or stop it."""
        assert self._process is not None
        self._process.send_signal(how)
        async with asyncio.timeout(SECONDS_MAX):
            await self._process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


async def fresh(log: KafkaLog) -> ReadSide:
    """A fold of every ledger from its start."""
    side = ReadSide(log)
    feed = Feed(side)
    running = asyncio.create_task(feed.run())
    async with asyncio.timeout(SECONDS_MAX):
        await feed.caught_up.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return side


async def rows_of(workers: list[Process]) -> tuple[list[set[int]], dict[str, dict[str, bytes]]]:
    """Which partitions each worker has, and the rows of all of them together."""
    owned, rows = [], {name: {} for name in tables.TABLES}
    async with aiohttp.ClientSession() as client:
        for worker in workers:
            async with client.get(f"{worker.url}/rows") as answer:
                found = await answer.json()
            owned.append(set(found["owned"]))
            for name, table in found["rows"].items():
                rows[name] |= {key: bytes.fromhex(data) for key, data in table.items()}
    return owned, rows


async def settled(workers: list[Process], log: KafkaLog) -> None:
    """Wait until the workers' rows are those of a fresh fold, every partition being somebody's."""
    expected = (await fresh(log)).tables
    wanted = {name: dict(table) for name, table in expected.items()}
    owned: list[set[int]] = []
    rows: dict[str, dict[str, bytes]] = {}
    for _ in range(SECONDS_MAX * 2):
        owned, rows = await rows_of(workers)
        if set().union(*owned) == set(range(PARTITIONS)) and rows == wanted:
            return
        await asyncio.sleep(0.5)
    assert set().union(*owned) == set(range(PARTITIONS)), owned
    for name, table in wanted.items():
        assert rows[name].keys() == table.keys(), name
        for key in table:
            assert tables.load(rows[name][key]) == tables.load(table[key]), (name, key)


async def test_killed_under_load_the_rows_are_those_of_a_fresh_fold(
    connection: Connection, log: KafkaLog, tmp_path: Path
) -> None:
    """Two workers, killed at random while receipts come; then two that answer for each other."""
    assert {partition_for(pool.encode(), PARTITIONS) for pool in POOLS} == set(range(PARTITIONS))
    await log.publish([opened(pool) for pool in POOLS])
    one, other = Process(connection, tmp_path / "one"), Process(connection, tmp_path / "other")
    chance = random.Random(11)
    async with stewards(log):
        await _aborted(connection)
        await asyncio.gather(one.start(), other.start())
        for round_number in range(3):
            for pool in POOLS:
                await log.publish(work(pool, round_number * 12, 12))
            await _aborted(connection)
            await asyncio.sleep(chance.random())
            victim = chance.choice((one, other))
            await victim.end(signal.SIGKILL)
            await victim.start()
        await settled([one, other], log)
        await _answer_for_each_other([one, other])
    for worker in (one, other):
        await worker.end(signal.SIGTERM)


async def _aborted(connection: Connection) -> None:
    """A transaction of garbage for every pool, aborted: seen, it would break their chains."""
    producer = AIOKafkaProducer(
        bootstrap_servers=connection.bootstrap, transactional_id=f"{connection.prefix}ghost"
    )
    await producer.start()
    await producer.begin_transaction()
    for pool in POOLS:
        await producer.send_and_wait(
            connection.topic(topics.LEDGER), b"never committed", key=pool.encode(),
            partition=partition_for(pool.encode(), PARTITIONS),
        )  # fmt: skip
    await producer.abort_transaction()
    await producer.stop()


async def _answer_for_each_other(workers: list[Process]) -> None:
    owned, _ = await rows_of(workers)
    assert owned[0] | owned[1] == set(range(PARTITIONS)) and not owned[0] & owned[1]
    async with aiohttp.ClientSession() as client:
        for pool in POOLS:
            found = []
            for worker in workers:
                async with client.get(f"{worker.url}/compute-pools/{pool}") as answer:
                    assert answer.status == 200, await answer.text()
                    found.append(await answer.json())
            assert found[0] == found[1]
        for worker in workers:
            async with client.get(f"{worker.url}/compute-pools") as answer:
                pools = (await answer.json())["pools"]
            assert [one["pool_id"] for one in pools] == sorted(POOLS)
            ask = {"leaf": "b", "shape": {"mdev": 8000}, "grade": "ModelBased"}
            for pool in POOLS[:3]:
                body = ask | {"pool_id": pool, "claim": f"from-{worker.port}"}
                async with client.post(f"{worker.url}/compute-leases", json=body) as answer:
                    said = await answer.json()
                assert answer.status == 202, said
                while said["state"] == "undecided":
                    async with client.get(f"{worker.url}/compute-leases/{said['lease_id']}") as got:
                        said = said | await got.json()
                    await asyncio.sleep(0.1)
                assert said["state"] == "waiting", said
                path = f"/compute-leases/{said['lease_id']}/cancel"
                other = workers[1] if worker is workers[0] else workers[0]
                async with client.post(f"{other.url}{path}", json={}) as answer:
                    assert (await answer.json())["outcome"] == "cancelled"
        path = f"/compute-pools/{POOLS[0]}/decisions?from=0"
        for worker in workers:
            async with client.get(f"{worker.url}{path}") as answer:
                ids = []
                async for line in answer.content:
                    if line.startswith(b"id: "):
                        ids.append(int(line[4:]))
                        if len(ids) == 20:
                            break
            assert ids == list(range(20))
