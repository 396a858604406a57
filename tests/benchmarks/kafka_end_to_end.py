"""What the steward does on Kafka: `python -m tests.benchmarks.kafka_end_to_end`.

Producers -> Kafka -> steward (signed, exactly once) -> a consumer that opens every receipt; each is
a process of its own, and the broker (one local node, unless POOL_TEST_KAFKA names one) shares the
machine with them. In the same run, beside it:

(i)   the raw Ed25519 signing rate of one core;
(ii)  the same loop without signing (a signer that returns zeros);
(iii) the plainest Faust agent that decides and sends, signed, but without exactly-once.

The load is claims in threes (submitted, committed, released) for one pool in each partition. Rates
are receipts over the time from the first to the last that the consumer opened, with more published
than can be decided; latency is from just before publication to an opened receipt, at half the rate.
Processor times tell what bounds it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas import cbor
from schemas.keys import SeedSigner
from schemas.receipts import open_receipt
from streams import topics
from streams.logs.contract import Outgoing, Record
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection
from streams.steward import Keyring, Settings
from streams.steward.draft import Draft
from streams.steward.pools import Partition
from streams.steward.running import run_on_kafka

ROOT = Path(__file__).parents[2]
KAFKA_LOCAL = ROOT / "deploy" / "kafka-local"
SEED = bytes(range(1, 33))
PARTITIONS = 2
CALL_RECORDS = 500
LEAVES = 16
SECONDS_MAX = 240
PACED_SECONDS = 12
START_SECONDS = {"steward": 3, "faust": 8}


class Unsigned:
    """A signer that costs nothing, to see what signing costs."""

    public_key = SeedSigner(SEED).public_key

    def sign(self, message: bytes) -> bytes:
        """Sixty-four zeros."""
        return bytes(64)


def pools() -> list[str]:
    """One pool in each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        name = f"pool-{number}"
        found.setdefault(topics.partition_for(name.encode(), PARTITIONS), name)
        number += 1
    return [found[partition] for partition in range(PARTITIONS)]


def opening(pool: str) -> Outgoing:
    """The event that opens a pool with room for the load."""
    share = {"mdev": 1_000_000, "uj": 10**15}
    whole = {name: amount * LEAVES for name, amount in share.items()}
    tree = [{"id": f"leaf{number}", "guarantee": share} for number in range(LEAVES)]
    event = {"pool": pool, "type": "pool.opened", "capacity": whole, "tree": tree}
    return Outgoing(topic=topics.ADMIN, key=pool.encode(), value=cbor.encode(event))


def load(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The load's events, pools taking turns: pool and fields."""
    names = pools()
    for number in range(count):
        pool = names[number % len(names)]
        turn = number // len(names)
        claim = f"claim-{turn // 3}"
        yield pool, _step(turn % 3, claim, turn // 3)


def _step(step: int, claim: str, number: int) -> dict[str, Any]:
    if step == 0:
        gang = [{"mdev": 1000, "uj": 5_000_000}]
        leaf = f"leaf{number % LEAVES}"
        event = {"type": "claim.submitted", "claim": claim, "leaf": leaf, "gang": gang}
        return event | {"grade": "ModelBased"}
    if step == 1:
        return {"type": "claim.committed", "claim": claim}
    actual = {"uj": 4_000_000, "grade": "HwShunt"}
    return {"type": "claim.released", "claim": claim, "outcome": "completed", "actual": actual}


async def produce(plan: dict[str, Any]) -> dict[str, Any]:
    """Publish the load, as fast as it goes or at a rate; the id of an event is when it left."""
    log = KafkaLog(connection(plan))
    started = time.monotonic()
    batch: list[tuple[str, dict[str, Any]]] = []
    sent = 0
    size = CALL_RECORDS if plan["rate"] is None else max(1, plan["rate"] // 100)
    for item in load(plan["events"]):
        batch.append(item)
        if len(batch) < size:
            continue
        await log.publish([_outgoing(pool, event) for pool, event in batch])
        sent += len(batch)
        batch.clear()
        if plan["rate"] is not None:
            await asyncio.sleep(max(0, started + sent / plan["rate"] - time.monotonic()))
    await log.publish([_outgoing(pool, event) for pool, event in batch])
    await log.close()
    return {"seconds": time.monotonic() - started}


def _outgoing(pool: str, event: dict[str, Any]) -> Outgoing:
    value = cbor.encode({"pool": pool, "id": f"{time.time_ns()}", **event})
    return Outgoing(topic=topics.CLAIMS, key=pool.encode(), value=value)


async def consume(plan: dict[str, Any]) -> dict[str, Any]:
    """Open every receipt until all events are answered."""
    log = KafkaLog(connection(plan))
    state = {"seen": 0, "first": 0.0, "last": 0.0}
    latencies_ns: list[int] = []

    async def follow(partition: int) -> None:
        offset = 0
        while state["seen"] < plan["events"]:
            fetched = await log.read(topics.LEDGER, partition, offset_next=offset, timeout_ms=500)
            offset = fetched.offset_next
            for record in fetched.records:
                receipt = open_receipt(record.value)[1]
                event = receipt.body.get("event")
                if isinstance(event, dict) and "id" in event:
                    latencies_ns.append(time.time_ns() - int(str(event["id"])))
                    state["seen"] += 1
                    state["first"] = state["first"] or time.monotonic()
                    state["last"] = time.monotonic()

    await asyncio.gather(*(follow(partition) for partition in range(PARTITIONS)))
    await log.close()
    latencies_ns.sort()
    return {
        "seconds": state["last"] - state["first"],
        "p50_ms": latencies_ns[len(latencies_ns) // 2] / 1e6,
        "p99_ms": latencies_ns[len(latencies_ns) * 99 // 100] / 1e6,
    }


async def steward(plan: dict[str, Any]) -> dict[str, Any]:
    """The steward, signed or not, until its standard input closes."""
    stopping = asyncio.Event()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    signer = SeedSigner(SEED) if plan["signed"] else Unsigned()

    async def until_closed() -> None:
        await reader.read()
        stopping.set()

    closing = asyncio.create_task(until_closed())
    await run_on_kafka(
        connection(plan),
        Keyring([signer]),
        stopping,
        partitions=range(PARTITIONS),
        settings=Settings(tick_ms=None),
    )
    await closing
    return {}


def faust_agent(plan: dict[str, Any]) -> None:
    """The plainest agent: decide, seal, send; nothing makes it exactly-once."""
    import faust

    where = connection(plan)
    app = faust.App(
        "pool-benchmark-" + where.prefix.strip("."),
        broker=f"aiokafka://{where.bootstrap}",
        datadir=plan["directory"],
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        broker_max_poll_records=2000,
        stream_wait_empty=False,
        producer_acks=-1,
        topic_allow_declare=False,
        producer_linger=0.005,
    )
    raw = {"value_serializer": "raw", "key_serializer": "raw"}
    inputs = app.topic(where.topic(topics.CLAIMS), where.topic(topics.ADMIN), **raw)
    ledger = app.topic(where.topic(topics.LEDGER), **raw)
    keyring = Keyring([SeedSigner(SEED)])
    partitions = {number: Partition(number=number) for number in range(PARTITIONS)}

    @app.agent(inputs)
    async def decide(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            draft = Draft(partitions[message.partition], keyring)
            draft.add(
                Record(
                    topic=message.topic.removeprefix(where.prefix),
                    partition=message.partition,
                    offset=message.offset,
                    timestamp_ms=int(message.timestamp * 1000),
                    order=0,
                    key=message.key,
                    value=message.value,
                )
            )
            for entry in draft.entries:
                if entry.topic == topics.LEDGER:
                    await ledger.send(key=entry.key, value=entry.value, partition=message.partition)

    app.finalize()
    worker = faust.Worker(app, loglevel="ERROR")
    worker.execute_from_commandline()


def connection(plan: dict[str, Any]) -> Connection:
    """The plan's deployment."""
    return Connection(bootstrap=plan["bootstrap"], prefix=plan["prefix"])


ROLES = {"produce": produce, "consume": consume, "steward": steward}


def role(name: str, plan: dict[str, Any]) -> None:
    """Be one of the processes; prints what it found and the processor time that it took."""
    if name == "faust":
        faust_agent(plan)
        return
    found = asyncio.run(ROLES[name](plan))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(found | {"cpu_s": used.ru_utime + used.ru_stime}), flush=True)


class Bench:
    """Runs the processes of each measurement on one broker."""

    def __init__(self, bootstrap: str, directory: Path, broker_pid: int | None) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._broker_pid = broker_pid
        self._runs = 0

    def _start(self, name: str, plan: dict[str, Any]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.kafka_end_to_end", name, json.dumps(plan)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(
        self, decider: str, *, events: int, rate: int | None = None, signed: bool = True
    ) -> dict[str, Any]:
        """One measurement: the consumer's figures, and the processor time of each process."""
        self._runs += 1
        plan = {
            "bootstrap": self._bootstrap,
            "prefix": f"bench-{os.getpid()}-{self._runs}.",
            "directory": str(self._directory / str(self._runs)),
            "events": events,
            "rate": rate,
            "signed": signed,
        }
        asyncio.run(_prepare(plan))
        broker_before = self._broker_s()
        deciding = self._start(decider, plan)
        consuming = self._start("consume", plan)
        time.sleep(START_SECONDS[decider])
        producing = self._start("produce", plan)
        try:
            produced = _result(producing, deciding)
            consumed = _result(consuming, deciding)
            used = {
                "decider": _cpu_s(deciding.pid),
                "broker": self._broker_s() - broker_before,
                "producer": produced["cpu_s"],
                "consumer": consumed["cpu_s"],
            }
        finally:
            for process in (producing, consuming, deciding):
                _end(process)
        return {
            "rate": round(events / consumed["seconds"]),
            "p50_ms": round(consumed["p50_ms"], 1),
            "p99_ms": round(consumed["p99_ms"], 1),
            "cpu_us": {who: round(seconds / events * 1e6) for who, seconds in used.items()},
        }

    def _broker_s(self) -> float:
        return 0.0 if self._broker_pid is None else _cpu_s(self._broker_pid)


async def _prepare(plan: dict[str, Any]) -> None:
    where = connection(plan)
    await create_topics(where, partitions=PARTITIONS, replicas=1)
    log = KafkaLog(where)
    await log.publish([opening(pool) for pool in pools()])
    await log.close()


def _result(process: subprocess.Popen[str], decider: subprocess.Popen[str]) -> dict[str, Any]:
    """What a process printed when it ended; nothing more is to come once the decider is dead."""
    deadline = time.monotonic() + SECONDS_MAX
    while process.poll() is None:
        assert decider.poll() is None, "the decider ended; see its message"
        assert time.monotonic() < deadline, "a measurement took too long"
        time.sleep(0.1)
    assert process.returncode == 0, "a process of the benchmark failed"
    assert process.stdout is not None
    result: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    return result


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _cpu_s(pid: int) -> float:
    """Processor time of a running process, all its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def signing_rate(seconds: float = 2.0) -> int:
    """Ed25519 signatures a second of one core, over messages as long as a receipt's."""
    signer, message = SeedSigner(SEED), bytes(700)
    count, started = 0, time.thread_time()
    while time.thread_time() - started < seconds:
        for _ in range(100):
            signer.sign(message)
        count += 100
    return round(count / (time.thread_time() - started))


@contextmanager
def broker() -> Iterator[tuple[str, int | None]]:
    """The broker's address, and its process if it is ours."""
    given = os.environ.get("POOL_TEST_KAFKA")
    if given:
        yield given, None
        return
    with tempfile.TemporaryDirectory() as scratch:
        where = ["--dir", f"{scratch}/kafka"]
        start = [str(KAFKA_LOCAL), "start", "--base-port", "0", "--full-jit", *where]
        address = subprocess.run(start, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield address, int(Path(f"{scratch}/kafka/node-1/pid").read_text())
        finally:
            subprocess.run([str(KAFKA_LOCAL), "stop", "--remove", *where], check=True)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", nargs="?", choices=[*ROLES, "faust"])
    parser.add_argument("plan", nargs="?")
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--only", choices=["steward", "unsigned", "faust"])
    options = parser.parse_args()
    if options.role:
        role(options.role, json.loads(options.plan))
        return
    with broker() as (address, pid), tempfile.TemporaryDirectory() as scratch:
        measure_all(Bench(address, Path(scratch), pid), options.events, options.only)


def measure_all(bench: Bench, events: int, only: str | None) -> None:
    """Every row of the table, or only one kind of them."""
    rates: dict[str, int] = {}
    if only is None:
        print(f"| raw Ed25519 signing, one core | {signing_rate()}/s | | | |", flush=True)
    if only in (None, "steward"):
        # The first run warms up the broker.
        bench.measure("steward", events=events // 6)
        full = bench.measure("steward", events=events)
        rates["steward"] = full["rate"]
        show("steward, signed, exactly once", full)
        half = full["rate"] // 2
        paced = bench.measure("steward", events=half * PACED_SECONDS, rate=half)
        show(f"the same at {half}/s", paced)
    if only in (None, "unsigned"):
        show("steward, unsigned", bench.measure("steward", events=events, signed=False))
    if only in (None, "faust"):
        agent = bench.measure("faust", events=events // 3)
        rates["faust"] = agent["rate"]
        show("Faust agent, signed, at least once", agent)
    if len(rates) == 2:
        print(f"\nsteward / Faust agent: {rates['steward'] / rates['faust']:.1f}")


def show(name: str, found: dict[str, Any]) -> None:
    """One row: rate, latencies, processor time of each process in us an event."""
    used = ", ".join(f"{who} {amount}" for who, amount in found["cpu_us"].items())
    print(
        f"| {name} | {found['rate']}/s | {found['p50_ms']} | {found['p99_ms']} | {used} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
