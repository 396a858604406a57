"""Ledgers for the read side's tests, and a read side fed from them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path

from schemas import cbor
from schemas.keys import SeedSigner
from schemas.trust import PoolTrust
from streams.demo.day import DEVICES, END_MS, POOL, plan_of_the_day
from streams.demo.machines import Machines
from streams.logs.contract import LogReader, Outgoing
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.steward import Keyring, Settings, Steward
from streams.traces.drive import drive
from streams.traces.twin import KernelTwin
from streams.views.feed import Feed
from streams.views.readside import ReadSide

SIGNER = SeedSigner(bytes(range(32)))
WITNESS = SeedSigner(bytes(range(1, 33)))
TIMELESS = Settings(tick_ms=None, backoff_ms=1, backoff_ms_max=5, head_receipts=256)


def day() -> list[Outgoing]:
    """The demo's day: claims, readings, preemption, expiry, a lost machine."""
    plan, lost = plan_of_the_day()
    machines = Machines(DEVICES, opened_ms=plan.opened_ms, lost=lost)
    stamped = takewhile(lambda one: one.at_ms < END_MS, drive(plan, KernelTwin(POOL), machines))
    return [
        Outgoing(
            topic=one.topic,
            key=POOL.encode(),
            value=cbor.encode(one.event),
            timestamp_ms=one.at_ms,
        )
        for one in stamped
    ]


async def decide(log: EmbeddedLog, events: Sequence[Outgoing]) -> None:
    """Have a steward decide events, and publish its heads."""
    for start in range(0, len(events), 1000):
        await log.publish(events[start : start + 1000])
    steward = Steward(log, 0, Keyring([SIGNER]), settings=TIMELESS)
    await steward.decide_all()
    await steward.finish()
    await steward.close()


def copy_of(directory: Path, to: Path) -> Path:
    """A log's directory again, to be changed."""
    shutil.copytree(directory, to, ignore=shutil.ignore_patterns("LOCK"))
    return to


@asynccontextmanager
async def fed(log: LogReader, trust: PoolTrust | None = None) -> AsyncIterator[ReadSide]:
    """A read side that has everything in the log, and goes on following it."""
    side = ReadSide(log, trust_of=lambda pool: trust)
    feed = Feed(side)
    running = asyncio.create_task(feed.run())
    try:
        arrived = asyncio.create_task(feed.caught_up.wait())
        await asyncio.wait({running, arrived}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield side
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def read(directory: Path, trust: PoolTrust | None = None) -> AsyncIterator[ReadSide]:
    """`fed` from a directory that somebody else may be writing."""
    reader = EmbeddedReader(directory)
    try:
        async with fed(reader, trust) as side:
            yield side
    finally:
        await reader.close()
