"""What the chaos tests and `chaos.py` share: a deployment, its stewards, a feed, and the verifier.

The verifier is shaped as Kafka's own: wait until no transaction is open (the committed ends are the
uncommitted ones), then compare the outputs with the inputs, one to one and in order.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from schemas import cbor
from schemas.chain import ChainReader
from schemas.keys import SeedSigner
from streams import topics
from streams.faults import VARIABLE
from streams.logs.contract import Outgoing, Record
from streams.logs.errors import LogTrouble
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_client import committed_consumer, place_of
from streams.logs.kafka_options import Connection
from streams.steward import audit
from streams.steward.deadletters import source_of

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "steward_process.py"
SEED = bytes(range(1, 33))
SETTLE_SECONDS_MAX = 90
QUICK_STEWARD = {"tick_ms": None, "wait_ms": 200, "backoff_ms": 100, "backoff_ms_max": 1000}


class StewardProcess:
    """A steward in a process of its own, with its log."""

    def __init__(
        self,
        deployment: "Deployment",
        name: str,
        *,
        partitions: list[int] | None = None,
        fault: str | None = None,
        snapshots: Path | None = None,
        hang: tuple[int, float] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        connection = deployment.connection
        plan = {
            "bootstrap": connection.bootstrap,
            "prefix": connection.prefix,
            "tuning": asdict(connection.tuning),
            "partitions": partitions,
            "snapshots": None if snapshots is None else str(snapshots),
            "seed": SEED.hex(),
            "settings": QUICK_STEWARD | dict(settings or {}),
            "hang": hang,
        }
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop(VARIABLE, None)
        if fault is not None:
            environment[VARIABLE] = fault
        self.name = name
        self.log = deployment.directory / f"{name}.log"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).parent / "steward_process.py"),
                    json.dumps(plan),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
            )

    def send(self, what: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(what)

    async def frozen(self, seconds_max: float = 30) -> None:
        """Wait until it has stopped itself."""
        command = ["ps", "-o", "stat=", "-p", str(self._process.pid)]
        async with asyncio.timeout(seconds_max):
            while not subprocess.run(command, capture_output=True).stdout.startswith(b"T"):
                await asyncio.sleep(0.1)

    async def ended(self, seconds_max: float = 30) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        async with asyncio.timeout(seconds_max):
            while self._process.poll() is None:
                await asyncio.sleep(0.05)
        assert self._process.returncode is not None
        return self._process.returncode

    def end(self) -> None:
        """Kill it, whatever state it is in."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def told(self) -> Iterator[dict[str, Any]]:
        """What it said so far."""
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def count(self, what: str, **fields: object) -> int:
        """How often it said something with these fields."""
        wanted = {"what": what, **fields}.items()
        return sum(1 for line in self.told() if wanted <= line.items())

    async def says(
        self, what: str, *, times: int = 1, seconds_max: float = 40, **fields: object
    ) -> None:
        """Wait until it has said something so many times."""
        try:
            async with asyncio.timeout(seconds_max):
                while self.count(what, **fields) < times:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(
                f"{self.name} never said {what} {fields}:\n{self.tail()}"
            ) from None

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text().splitlines()[-30:])


@dataclass
class Feed:
    """Publishes a mix of events to pools in every partition, trouble or not, until stopped."""

    log: KafkaLog
    pools: list[str]
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    published: int = 0
    _claims: int = 0
    _live: list[tuple[str, str]] = field(default_factory=list)

    async def open_pools(self) -> None:
        """Open every pool, with room for some of what will be claimed."""
        await self.send([self._opened(pool) for pool in self.pools])

    async def run(self, stopping: asyncio.Event, *, pause_s: float = 0.02) -> None:
        """Publish small batches until told to stop."""
        while not stopping.is_set():
            await self.send([self.event() for _ in range(self.chance.randint(1, 12))])
            await asyncio.sleep(pause_s)

    async def send(self, records: list[Outgoing]) -> None:
        """Publish, again and again until it is acknowledged: events carry ids, so twice is once."""
        while True:
            try:
                await self.log.publish(records)
            except LogTrouble:
                await asyncio.sleep(0.3)
            else:
                self.published += len(records)
                return

    def event(self) -> Outgoing:
        """The next event; one in fifty is poison."""
        self._claims += 1
        if self._claims % 50 == 0:
            return self.poison()
        if self._live and self.chance.random() < 0.45:
            pool, claim = self._live.pop(self.chance.randrange(len(self._live)))
            kind = self.chance.choice(["claim.released", "claim.released", "claim.cancelled"])
            event: dict[str, object] = {"type": kind, "claim": claim}
            if kind == "claim.released":
                event |= {"outcome": "completed", "actual": {"uj": 900, "grade": "HwShunt"}}
            return self._of(pool, topics.CLAIMS, event)
        pool = self.chance.choice(self.pools)
        claim = f"c{self._claims}"
        self._live.append((pool, claim))
        demand = {"mdev": 1000, "uj": 1_000}
        event = {"type": "claim.submitted", "claim": claim, "leaf": "a", "gang": [demand]}
        return self._of(pool, topics.CLAIMS, event | {"grade": "ModelBased"})

    def poison(self) -> Outgoing:
        """A record that nobody can decide: no CBOR, another pool's key, a pool that is not open."""
        pool = self.chance.choice(self.pools).encode()
        closed = cbor.encode({"pool": "closed", "type": "claim.committed", "claim": "c"})
        key, value = self.chance.choice(
            [(pool, b"\xff\xff"), (pool, closed), (b"closed", closed), (None, b""), (b"\xff", b"x")]
        )
        return Outgoing(topic=self.chance.choice(topics.INPUT_TOPICS), key=key, value=value)

    def _of(self, pool: str, topic: str, event: dict[str, object]) -> Outgoing:
        said = {"pool": pool, "id": f"e{self._claims}", **event}
        return Outgoing(topic=topic, key=pool.encode(), value=cbor.encode(said))

    def _opened(self, pool: str) -> Outgoing:
        demand = {"mdev": 30_000, "uj": 10**15}
        tree = [{"id": "a", "guarantee": demand}]
        event = {"type": "pool.opened", "capacity": demand, "tree": tree}
        return self._of(pool, topics.ADMIN, event)


class Deployment:
    """Topics, pools in every partition, stewards and a feed."""

    def __init__(self, connection: Connection, directory: Path, *, partitions: int) -> None:
        self.connection = connection
        self.directory = directory
        self.partitions = partitions
        self.stewards: list[StewardProcess] = []
        self.log = KafkaLog(connection)
        self.feed = Feed(self.log, list(pools_for(partitions)))
        self._feeding: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def open(self, *, replicas: int = 1) -> None:
        """Create the topics and open the pools."""
        await create_topics(self.connection, partitions=self.partitions, replicas=replicas)
        await self.feed.open_pools()
        self._feeding = asyncio.create_task(self.feed.run(self._stop))

    def steward(self, name: str, **how: Any) -> StewardProcess:
        """Start a steward."""
        started = StewardProcess(self, name, **how)
        self.stewards.append(started)
        return started

    async def stop_feeding(self) -> None:
        """No more inputs."""
        self._stop.set()
        if self._feeding is not None:
            await self._feeding

    async def close(self) -> None:
        """End every process and connection."""
        self._stop.set()
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.gather(self._feeding, return_exceptions=True)
        for steward in self.stewards:
            steward.end()
        await self.log.close()

    async def verify(self) -> int:
        """Every input decided exactly once, in order, in unbroken chains; how many were."""
        await self.stop_feeding()
        try:
            async with asyncio.timeout(SETTLE_SECONDS_MAX):
                for partition in range(self.partitions):
                    while not await self._is_settled(partition):
                        await asyncio.sleep(0.2)
        except TimeoutError:
            logs = "\n".join(f"--- {one.name}\n{one.tail()}" for one in self.stewards)
            raise AssertionError(f"not everything was decided in time\n{logs}") from None
        counts = [await self._verify(partition) for partition in range(self.partitions)]
        assert sum(counts) >= self.feed.published
        return sum(counts)

    async def _is_settled(self, partition: int) -> bool:
        """Whether no transaction is open and the last input is decided."""
        consumer = committed_consumer(self.connection)
        await consumer.start()
        try:
            places = [place_of(self.connection, name, partition) for name in topics.WRITER_TOPICS]
            committed = await consumer.end_offsets(places)
        finally:
            await consumer.stop()
        for name in topics.WRITER_TOPICS:
            place = place_of(self.connection, name, partition)
            if committed[place] != await self.log.end(name, partition):
                return False
        decided = await self._decided(partition)
        for topic in topics.INPUT_TOPICS:
            inputs = await self._records(topic, partition)
            if inputs and (topic, inputs[-1].offset) not in decided:
                return False
        return True

    async def _decided(self, partition: int) -> dict[tuple[str, int], bytes]:
        """The inputs that were decided, in the order in which it happened, with their digests."""
        decided: dict[tuple[str, int], bytes] = {}
        for record in await self._records(topics.LEDGER, partition):
            cause = _core(record)["cause"]
            place = (cause["topic"], cause["offset"])
            if cause["index"] == 0:
                assert place not in decided, f"decided twice: {place}"
            else:
                assert decided[place] == cause["digest"]
            decided[place] = cause["digest"]
        for record in await self._records(topics.DEAD, partition):
            source = source_of(record)
            assert source is not None
            assert (source[0], source[2]) not in decided, f"decided twice: {source}"
            decided[source[0], source[2]] = sha256(record.value).digest()
        return decided

    async def _verify(self, partition: int) -> int:
        decided = await self._decided(partition)
        inputs = 0
        for topic in topics.INPUT_TOPICS:
            records = await self._records(topic, partition)
            inputs += len(records)
            for record in records:
                assert decided.pop((topic, record.offset)) == sha256(record.value).digest()
        assert not decided, f"decided though never sent: {list(decided)[:3]}"
        await self._verify_chains(partition)
        return inputs

    async def _verify_chains(self, partition: int) -> None:
        """Every record of the ledger is the next receipt of its pool; causes rise; audits agree."""
        chains: dict[bytes, ChainReader] = {}
        receipts: dict[bytes, list[Any]] = defaultdict(list)
        newest: dict[str, int] = {}
        steward = SeedSigner(SEED).public_key
        for record in await self._records(topics.LEDGER, partition):
            assert record.key is not None
            if record.key not in chains:
                chains[record.key] = ChainReader(record.key.decode(), [steward])
            receipt = chains[record.key].push(record.value)
            receipts[record.key].append(receipt)
            cause = receipt.cause
            assert newest.get(cause.topic, -1) <= cause.offset, "decided out of order"
            newest[cause.topic] = cause.offset
        for chain in chains.values():
            chain.check_complete()
        for found in receipts.values():
            assert audit(found) is None

    async def _records(self, topic: str, partition: int) -> list[Record]:
        """All committed records of a partition."""
        end = await self.log.end(topic, partition)
        offset_next, found = 0, []
        while offset_next < end:
            fetched = await self.log.read(topic, partition, offset_next=offset_next, timeout_ms=200)
            found += fetched.records
            offset_next = fetched.offset_next
        return found


def _core(record: Record) -> Any:
    from schemas import cose

    return cbor.decode(cose.split(record.value).payload)


def pools_for(partitions: int) -> Iterator[str]:
    """A pool for each partition, and a second one for partition 0."""
    missing = [0, *range(partitions)]
    number = 0
    while missing:
        name = f"pool-{number}"
        number += 1
        partition = topics.partition_for(name.encode(), partitions)
        if partition in missing:
            missing.remove(partition)
            yield name
