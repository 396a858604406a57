"""Ledgers for the read side's tests, and a read side fed from them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path

import aiohttp

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
from streams.views.access import Access, Grant, Role, digest_of
from streams.views.connections import Connections
from streams.views.feed import Feed
from streams.views.readside import ReadSide
from streams.views.web import make_app, served

SIGNER = SeedSigner(bytes(range(32)))
WITNESS = SeedSigner(bytes(range(1, 33)))
TIMELESS = Settings(tick_ms=None, backoff_ms=1, backoff_ms_max=5, head_receipts=256)
LIVE = Settings(tick_ms=1000, wait_ms=50, head_ms=20)


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


TOKENS = {
    "boss": Grant(name="boss", role=Role.ADMIN),
    "reader": Grant(name="reader", role=Role.READ),
    "atlas-reader": Grant(name="atlas-reader", role=Role.READ, subtree="atlas"),
    "elsewhere": Grant(name="elsewhere", role=Role.READ, pool="other"),
    "cygnus": Grant(name="cygnus", role=Role.CLAIMS, pool=POOL, subtree="cygnus"),
    "meter": Grant(name="meter", role=Role.METERS),
}


@asynccontextmanager
async def site(
    log: LogReader,
    *,
    steward: bool = False,
    writes: bool = False,
    access: Access | None = None,
    connections: Connections | None = None,
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server over a log; with a steward it takes writes, too."""
    stopping = asyncio.Event()
    beside: list[asyncio.Task[None]] = []
    if steward:
        assert isinstance(log, EmbeddedLog)
        one = Steward(log, 0, Keyring([SIGNER]), settings=LIVE)
        beside.append(asyncio.create_task(one.run(stopping)))
    grants = {digest_of(name): grant for name, grant in TOKENS.items()}
    async with fed(log) as side:
        app = make_app(
            side,
            access or Access(grants, per_second=10_000, burst=10_000),
            log=log if (steward or writes) and isinstance(log, EmbeddedLog) else None,
            connections=connections,
        )
        async with served(app, host="127.0.0.1", port=0) as port:
            base = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession(base, trust_env=False) as client:
                yield client
    stopping.set()
    await asyncio.gather(*beside)


def bearing(name: str) -> dict[str, str]:
    """The headers of a token's holder; in these tests a token is its name."""
    return {"Authorization": f"Bearer {name}"}
