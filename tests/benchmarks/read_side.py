"""What the read side costs: events/s of the fold, a look-up's time, memory for 100,000 claims.

`python -m tests.benchmarks.read_side [--claims N] [--kafka HOST:PORT]`. One JSON line a figure.

1. A ledger of N claims (submitted, committed, read once by a meter, released) is decided by a
   steward on an embedded log; its own rate is the first figure, in the same run.
2. The fold reads that ledger; beside it a bare reader that opens receipts and checks signatures,
   and one that only reads records. With `--kafka` the same ledger is copied to a broker, and a bare
   aiokafka fold (reading, decoding, counting) and the Faust worker read it there.
3. Look-ups go through HTTP on the loopback, one after the other, over all claims.

Times are of this machine, whatever else it does: compare them with each other, in one run. Rates a
CPU second are of this process's own work, on as many cores as it used.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas import cbor
from schemas.batch import verify_signatures
from schemas.cose import signature_task
from schemas.keys import SeedSigner, from_did_key
from schemas.receipts import open_receipt
from streams import topics
from streams.logs.contract import Entry, LogReader, Outgoing, Record
from streams.logs.embedded import EmbeddedLog
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection
from streams.steward import Keyring, Settings, Steward
from streams.views.access import Access
from streams.views.feed import Feed
from streams.views.place import Place
from streams.views.readside import ReadSide
from streams.views.web import make_app, served
from streams.views.worker import Worker

POOL = "bench"
SIGNER = SeedSigner(bytes(range(32)))
LEAVES = 50
LIVE_AT_ONCE = 200
LOOKUPS = 2000
PUBLISH = 4000


def events(claims: int) -> Iterator[Outgoing]:
    """A pool of `LEAVES` leaves, and the lives of claims, `LIVE_AT_ONCE` of them at any time."""
    tree = [
        {"id": f"t{leaf}", "guarantee": {"mdev": 20_000, "uj": 10**16}} for leaf in range(LEAVES)
    ]
    capacity = {"mdev": 20_000 * LEAVES, "uj": 10**16 * LEAVES}
    yield _event(topics.ADMIN, 0, type="pool.opened", capacity=capacity, tree=tree)
    for number in range(claims + LIVE_AT_ONCE):
        at_ms = 10_000 + number * 10
        if number < claims:
            yield from _begun(number, at_ms)
        if number >= LIVE_AT_ONCE:
            gone = f"c{number - LIVE_AT_ONCE}"
            yield _event(
                topics.CLAIMS, at_ms + 2, type="claim.released", claim=gone, outcome="completed"
            )


def _begun(number: int, at_ms: int) -> Iterator[Outgoing]:
    claim = f"c{number}"
    gang = [{"mdev": 1000, "uj": 10**6}]
    yield _event(
        topics.CLAIMS, at_ms, type="claim.submitted", claim=claim, leaf=f"t{number % LEAVES}",
        gang=gang, grade="ModelBased",
    )  # fmt: skip
    yield _event(topics.CLAIMS, at_ms, type="claim.committed", claim=claim)
    occupants = [{"claim": claim, "mdev": 1000}]
    yield _event(
        topics.METERS, at_ms + 1, type="meter.read", device=f"d{number % LIVE_AT_ONCE}",
        from_ms=at_ms - 1500, to_ms=at_ms, uj=900, grade="HwShunt", occupants=occupants,
    )  # fmt: skip


def _event(topic: str, at_ms: int, **fields: Any) -> Outgoing:
    value = cbor.encode({"pool": POOL, **fields})
    return Outgoing(topic=topic, key=POOL.encode(), value=value, timestamp_ms=at_ms)


def say(figure: str, **values: Any) -> None:
    """One figure."""
    print(json.dumps({"figure": figure, **values}), flush=True)


def resident_bytes() -> int:
    """This process's resident memory now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def decide(log: EmbeddedLog, claims: int) -> None:
    """Have a steward decide all; its rate."""
    waiting: list[Outgoing] = []
    count, took_s, cpu_s = 0, 0.0, time.process_time()
    steward = Steward(log, 0, Keyring([SIGNER]), settings=Settings(tick_ms=None))
    for event in events(claims):
        waiting.append(event)
        if len(waiting) == PUBLISH:
            count, took_s = await _decided(log, steward, waiting, count, took_s)
            waiting = []
    count, took_s = await _decided(log, steward, waiting, count, took_s)
    await steward.finish()
    await steward.close()
    say(
        "steward, embedded",
        events=count,
        events_per_s=int(count / took_s),
        events_per_cpu_s=int(count / (time.process_time() - cpu_s)),
    )


async def _decided(
    log: EmbeddedLog, steward: Steward, batch: list[Outgoing], count: int, took_s: float
) -> tuple[int, float]:
    if batch:
        await log.publish(batch)
    started = time.perf_counter()
    await steward.decide_all()
    return count + len(batch), took_s + time.perf_counter() - started


async def ledger_of(log: LogReader) -> list[Record]:
    """All records of the ledger; the rate of reading alone."""
    started = time.perf_counter()
    records: list[Record] = []
    offset, end = 0, await log.end(topics.LEDGER, 0)
    while offset < end:
        fetched = await log.read(topics.LEDGER, 0, offset_next=offset, timeout_ms=1000)
        records += fetched.records
        offset = fetched.offset_next
    took_s = time.perf_counter() - started
    say("read only, embedded", receipts=len(records), per_s=int(len(records) / took_s))
    return records


def opened(records: list[Record]) -> None:
    """Opening and checking signatures alone: what any reader pays who believes nobody."""
    some = records[:20_000]
    started = time.perf_counter()
    tasks = []
    for record in some:
        sealed, receipt = open_receipt(record.value)
        tasks.append(signature_task(sealed, from_did_key(receipt.steward)))
    parsed_s = time.perf_counter() - started
    assert verify_signatures(tasks) is None
    took_s = time.perf_counter() - started
    say(
        "open and check only",
        receipts=len(some),
        open_per_s=int(len(some) / parsed_s),
        with_signatures_per_s=int(len(some) / took_s),
    )


async def folded(log: LogReader, claims: int) -> ReadSide:
    """The whole fold; its rate, and the memory that it takes."""
    before = resident_bytes()
    side = ReadSide(log)
    feed = Feed(side)
    started, cpu_s = time.perf_counter(), time.process_time()
    running = asyncio.create_task(feed.run())
    await feed.caught_up.wait()
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    view = side.pools[POOL]
    assert view.broken is None
    events_count = claims * 4 + 1
    grown = resident_bytes() - before
    say(
        "read side, in process",
        receipts=view.length,
        receipts_per_s=int(view.length / took_s),
        events_per_s=int(events_count / took_s),
        events_per_cpu_s=int(events_count / cpu_s),
        memory_mib=grown >> 20,
        memory_mib_per_100k_claims=(grown * 100_000 // claims) >> 20,
    )
    return side


async def looked_up(side: ReadSide, claims: int) -> None:
    """Look-ups of single claims, one after the other."""
    app = make_app(side, Access(None, per_second=10**6, burst=10**6))
    times: list[float] = []
    async with (
        served(app, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        for number in range(LOOKUPS):
            path = f"/compute-pools/{POOL}/claims/c{number * 7919 % claims}"
            started = time.perf_counter()
            async with client.get(path) as answer:
                assert answer.status == 200
                await answer.read()
            times.append(time.perf_counter() - started)
    times.sort()
    say(
        "claim look-up over HTTP",
        requests=LOOKUPS,
        p50_us=int(times[LOOKUPS // 2] * 1e6),
        p99_us=int(times[LOOKUPS * 99 // 100] * 1e6),
    )


async def on_kafka(bootstrap: str, records: list[Record], directory: Path) -> None:
    """The same ledger on a broker: a bare fold, and the Faust worker."""
    connection = Connection(bootstrap=bootstrap, prefix=f"b{uuid.uuid4().hex[:8]}.")
    await create_topics(connection, partitions=1, replicas=1)
    log = KafkaLog(connection)
    writer = await log.open_writer(0)
    for start in range(0, len(records), 5000):
        batch = [
            Entry(topic=topics.LEDGER, key=record.key, value=record.value)
            for record in records[start : start + 5000]
        ]
        await writer.append(batch)
    await writer.close()
    await _bare(connection, len(records))
    side = ReadSide(log)
    place = Place(datadir=directory, url="http://127.0.0.1:1/")
    worker = Worker(connection, place, side, 1)
    started = time.perf_counter()
    async with worker.running():
        while POOL not in side.pools or side.pools[POOL].length < len(records):
            await asyncio.sleep(0.02)
        took_s = time.perf_counter() - started
    say(
        "read side, Faust and RocksDB",
        receipts=len(records),
        receipts_per_s=int(len(records) / took_s),
        start_included=True,
    )
    await log.close()


async def _bare(connection: Connection, count: int) -> None:
    """aiokafka's own loop: read committed, decode, count by kind; no signature, no state."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=connection.bootstrap, isolation_level="read_committed"
    )
    await consumer.start()
    place = TopicPartition(connection.topic(topics.LEDGER), 0)
    consumer.assign([place])
    await consumer.seek_to_beginning(place)
    kinds: dict[str, int] = {}
    seen = 0
    started = time.perf_counter()
    while seen < count:
        for batch in (await consumer.getmany(timeout_ms=1000, max_records=2000)).values():
            for record in batch:
                kind = open_receipt(record.value)[1].kind.value
                kinds[kind] = kinds.get(kind, 0) + 1
                seen += 1
    took_s = time.perf_counter() - started
    await consumer.stop()
    say("bare aiokafka fold", receipts=seen, receipts_per_s=int(seen / took_s))


async def main(claims: int, kafka: str | None) -> None:
    """All figures."""
    with tempfile.TemporaryDirectory() as directory:
        log = EmbeddedLog(Path(directory) / "data")
        await decide(log, claims)
        records = await ledger_of(log)
        opened(records)
        if kafka is None:
            records = []
        side = await folded(log, claims)
        await looked_up(side, claims)
        del side
        if kafka is not None:
            await on_kafka(kafka, records, Path(directory) / "tables")
        await log.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, default=20_000)
    parser.add_argument("--kafka")
    given = parser.parse_args()
    asyncio.run(main(given.claims, given.kafka))
