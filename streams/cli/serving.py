"""A running `pool serve`: the log, what is folded from it, and the server, until it is stopped.

Not here: the command and its files (`serve`); what is served (`streams.views`).

1. On an embedded log the stewards run beside, in this process; they finish after the server.
2. Whatever ends by itself ends all of it, and is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from schemas.trust import PoolTrust
from streams import topics
from streams.cli.session import Session
from streams.cli.stewarding import stewards_of
from streams.cli.trouble import named
from streams.cli.where import Where
from streams.logs.contract import Log, LogReader
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.logs.kafka_admin import view_topics
from streams.logs.kafka_options import Connection
from streams.steward import Keyring, Settings, run_all
from streams.views import ReadSide
from streams.views.access import Access
from streams.views.feed import Feed
from streams.views.outboxes import Outboxes
from streams.views.peers import peers
from streams.views.place import Place
from streams.views.web import make_app, served
from streams.views.worker import Worker


async def serve_all(
    session: Session,
    where: Where,
    access: Access,
    trust_of: Callable[[str], PoolTrust | None],
    keyring: Keyring | None,
    host: str,
    port: int,
) -> None:
    """Serve every partition, folded in this process. Raises: LogTrouble, StewardStopped."""
    async with _log(where, keyring) as (reader, log, steward):
        side = ReadSide(reader, trust_of=trust_of)
        feed = Feed(side, None if where.data is None else Outboxes(where.data))
        app = make_app(side, access, log=log)
        async with _bound(app, host, port) as bound:
            url = _url(host, bound)
            _told(session, access, url, reader.where, writes=log is not None)
            await _until_stopped(feed.run(), steward)


async def serve_shared(
    session: Session,
    where: Where,
    access: Access,
    trust_of: Callable[[str], PoolTrust | None],
    place: Place,
    host: str,
    port: int,
) -> None:
    """Serve as one of a group's workers."""
    assert where.kafka is not None
    async with where.log() as log:
        side = ReadSide(log, trust_of=trust_of)
        partitions = await log.partitions()
        place = replace(place, replicas=await _replicas(where.kafka))
        worker = Worker(where.kafka, place, side, partitions)
        async with worker.running(), peers(worker, place.url) as others:
            app = make_app(side, access, log=log, beyond=[others.pass_on])
            async with _bound(app, host, port) as bound:
                _told(session, access, _url(host, bound), log.where, writes=True)
                await _until_stopped(worker.failed(), [])


async def _replicas(connection: Connection) -> int:
    """As many as the ledger has: what a worker writes down is no safer than what it reads."""
    view = (await view_topics(connection))[topics.LEDGER]
    assert view is not None, "the log has looked for it"
    return min(len(partition.replicas) for partition in view.partitions)


@contextlib.asynccontextmanager
async def _bound(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """A server, with the port that it has got. Raises OSError that says which it could not have."""
    async with contextlib.AsyncExitStack() as stack:
        with named(f"{host}:{port}"):
            bound = await stack.enter_async_context(served(app, host=host, port=port))
        yield bound


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _told(session: Session, access: Access, url: str, where: str, *, writes: bool) -> None:
    """Say where it serves, and who may ask."""
    if access.is_open:
        session.note("no tokens: on the loopback only, and whoever reaches it may all")
    if session.json:
        session.line({"url": url, "writes": writes})
    session.note(f"serving {where} on {url}")


@contextlib.asynccontextmanager
async def _log(
    where: Where, keyring: Keyring | None
) -> AsyncIterator[tuple[LogReader, Log | None, list[asyncio.Task[None]]]]:
    """The log to read, the one to publish to if writes are taken, and what runs beside."""
    if where.data is None:
        async with where.log() as log:
            yield log, log, []
    elif keyring is None:
        reader = EmbeddedReader(where.data)
        try:
            yield reader, None, []
        finally:
            await reader.close()
    else:
        embedded = EmbeddedLog(where.data)
        stopping = asyncio.Event()
        try:
            stewards = await stewards_of(embedded, keyring, None, Settings())
            running = asyncio.create_task(run_all(stewards, stopping))
            try:
                yield embedded, embedded, [running]
            finally:
                stopping.set()
                await running
        finally:
            await embedded.close()


async def _until_stopped(
    feed: Coroutine[Any, Any, None], beside: Sequence[asyncio.Task[None]]
) -> None:
    """Feed until SIGTERM or SIGINT, or until anything ends by itself. Raises what ended it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    feeding, told = asyncio.create_task(feed), asyncio.create_task(stopping.wait())
    work: list[asyncio.Task[Any]] = [feeding, told, *beside]
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (feeding, told):
            task.cancel()
        await asyncio.gather(feeding, told, return_exceptions=True)
    for task in done:
        task.result()
