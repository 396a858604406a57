"""Events, embedded logs and stewards for the tests of this directory."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schemas import cbor
from schemas.chain import ChainReader
from schemas.keys import SeedSigner
from schemas.receipts import Receipt
from streams import topics
from streams.logs.contract import LogReader, Outgoing, Record
from streams.logs.embedded import EmbeddedLog
from streams.steward import Keyring, Observer, Settings, Snapshots, Steward, audit
from streams.steward.fold import TOPIC_OF

CASES = sorted((Path(__file__).parents[2] / "schemas" / "cases").glob("*.json"))
SIGNER = SeedSigner(bytes(range(32)))
OTHER = SeedSigner(bytes(range(1, 33)))
TIMELESS = Settings(tick_ms=None, backoff_ms=1, backoff_ms_max=5)
POOL = "p"

TREE = [
    {"id": "acme", "guarantee": {"mdev": 4000, "uj": 500_000}},
    {"id": "bolt", "guarantee": {"mdev": 4000, "uj": 500_000}},
]


def opened(pool: str = POOL, at_ms: int = 1000) -> Outgoing:
    """The event that opens a pool of two leaves."""
    capacity = {"mdev": 8000, "uj": 1_000_000}
    fields = {"type": "pool.opened", "pool": pool, "capacity": capacity, "tree": TREE}
    return published(fields, at_ms)


def claim(name: str, at_ms: int, *, pool: str = POOL, mdev: int = 1000, **more: Any) -> Outgoing:
    """A claim of one device for some joules."""
    fields = {
        "type": "claim.submitted",
        "pool": pool,
        "claim": name,
        "leaf": "acme",
        "gang": [{"mdev": mdev, "uj": 10}],
        "grade": "ModelBased",
        **more,
    }
    return published(fields, at_ms)


def released(name: str, at_ms: int, *, pool: str = POOL) -> Outgoing:
    """A release that reports what was spent."""
    actual = {"uj": 7, "grade": "ModelBased"}
    fields = {"type": "claim.released", "pool": pool, "claim": name}
    return published({**fields, "outcome": "completed", "actual": actual}, at_ms)


def committed(name: str, at_ms: int, *, pool: str = POOL) -> Outgoing:
    """What was held runs."""
    return published({"type": "claim.committed", "pool": pool, "claim": name}, at_ms)


def published(fields: dict[str, Any], at_ms: int | None = None, **how: Any) -> Outgoing:
    """An event on its topic, keyed by its pool."""
    event = {
        "topic": TOPIC_OF[fields["type"]],
        "key": fields["pool"].encode(),
        "value": cbor.encode(fields),
        "timestamp_ms": at_ms,
    }
    return Outgoing(**{**event, **how})


def busy_day(count: int, *, pool: str = POOL) -> list[Outgoing]:
    """An opened pool and `count` claims, most of them committed and released, some waiting."""
    events = [opened(pool)]
    for number in range(count):
        at_ms = 2000 + 10 * number
        leaf = ("acme", "bolt")[number % 2]
        events.append(claim(f"c{number}", at_ms, pool=pool, leaf=leaf, lease_ms=500))
        if number % 3:
            events.append(committed(f"c{number}", at_ms + 1, pool=pool))
        if number % 7 != 6 and number >= 5:
            events.append(released(f"c{number - 5}", at_ms + 2, pool=pool))
    return events


def case_events(path: Path) -> list[Outgoing]:
    """A case's events, in its order, as JSON on their topics at their times."""
    events = []
    for given in json.loads(path.read_text())["events"]:
        fields = {name: value for name, value in given.items() if name != "at_ms"}
        topic = TOPIC_OF.get(fields.get("type"), topics.ADMIN)
        events.append(
            Outgoing(
                topic=topic,
                key=str(fields["pool"]).encode(),
                value=json.dumps(fields).encode(),
                content_type="application/json",
                timestamp_ms=given["at_ms"],
            )
        )
    return events


def steward(
    log: EmbeddedLog,
    *,
    keys: Keyring | None = None,
    settings: Settings = TIMELESS,
    snapshots: Path | None = None,
    observer: Observer | None = None,
    **more: Any,
) -> Steward:
    """A steward of partition 0 that ticks only if told to."""
    return Steward(
        log,
        0,
        keys or Keyring([SIGNER]),
        settings=settings,
        snapshots=None if snapshots is None else Snapshots(snapshots),
        observer=observer,
        **more,
    )


async def decide(log: EmbeddedLog, events: Iterable[Outgoing] = (), **how: Any) -> None:
    """Publish and have all of it decided by a steward that then finishes."""
    batch = list(events)
    if batch:
        await log.publish(batch)
    one = steward(log, **how)
    await one.decide_all()
    await one.finish()


async def records(log: LogReader, topic: str) -> list[Record]:
    """All records of a topic's partition 0."""
    found: list[Record] = []
    offset_next, end = 0, await log.end(topic, 0)
    while offset_next < end:
        fetched = await log.read(topic, 0, offset_next=offset_next)
        found += fetched.records
        offset_next = fetched.offset_next
    return found


async def ledger(log: LogReader, pool: str = POOL) -> list[bytes]:
    """The sealed receipts of a pool."""
    return [one.value for one in await records(log, topics.LEDGER) if one.key == pool.encode()]


def verified(items: Iterable[bytes], pool: str = POOL) -> tuple[ChainReader, list[Receipt]]:
    """The end of a chain and its receipts, every one of them checked."""
    reader = ChainReader(pool)
    receipts = [reader.push(data) for data in items]
    reader.check_complete()
    return reader, receipts


def audit_clean(items: Iterable[bytes], pool: str = POOL) -> ChainReader:
    """The end of a chain that verifies and whose every decision is decided again."""
    reader, receipts = verified(items, pool)
    assert audit(receipts) is None
    return reader
