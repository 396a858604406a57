"""Answers without an end known beforehand: the decisions as they come, and the raw ledger.

Not here: single answers (`handlers`).

1. Decisions are Server-Sent Events, `id` being the receipt's `seq`: who comes back with
   `Last-Event-ID` misses nothing and gets nothing twice.
2. A reader that does not take what it is sent within `WRITE_SECONDS` is cut off. So is nobody
   else's: each stream reads on from the ledger at its own pace.
3. At most `STREAMS_MAX` streams in all and `STREAMS_EACH` a token.

Invariant: a stream gives decisions in the ledger's order, each once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from schemas.jsonform import dumps_line
from schemas.receipts import open_receipt
from streams.logs.errors import LogTrouble
from streams.views import answers
from streams.views.context import Asked, number
from streams.views.fold import PoolView
from streams.views.httpfaults import HttpFault, bad_request

WRITE_SECONDS: Final = 10.0
QUIET_SECONDS: Final = 15.0
CHUNK_RECEIPTS: Final = 256
STREAMS_MAX: Final = 256
STREAMS_EACH: Final = 16


class Streams:
    """How many streams there are, in all and by token."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """Count a stream while it lasts. Raises HttpFault(429)."""
        if self.by_name.total() >= STREAMS_MAX or self.by_name[name] >= STREAMS_EACH:
            raise HttpFault(
                429, "too-many-streams", "close another stream first", headers={"Retry-After": "5"}
            )
        self.by_name[name] += 1
        try:
            yield
        finally:
            self.by_name[name] -= 1


STREAMS: Final = web.AppKey("streams", Streams)


async def decisions(request: web.Request) -> web.StreamResponse:
    """`GET /compute-pools/{pool_id}/decisions`: a stream of them, from `from` or Last-Event-ID."""
    asked = Asked(request, "from")
    asked.may_see()
    view = asked.view()
    seq = asked.number("from", view.length)
    last = request.headers.get("Last-Event-ID")
    if last is not None:
        seq = number(last, "Last-Event-ID") + 1
    with request.app[STREAMS].one(asked.grant.name):
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        await _write(response, b": decisions\n\n")
        await _follow(asked, view, seq, response)
    return response


async def _follow(asked: Asked, view: PoolView, seq: int, response: web.StreamResponse) -> None:
    side = asked.side
    while side.pools.get(view.pool) is view and view.broken is None:
        if view.length <= seq:
            if not await side.grown(view.pool, seq, QUIET_SECONDS):
                await _write(response, b": still here\n\n")
            continue
        until = min(view.length, seq + CHUNK_RECEIPTS)
        try:
            found = await side.receipts(view, seq, until)
        except LogTrouble:
            return
        events = [_event(asked, view, data) for data in found]
        await _write(response, b"".join(events))
        # What could not be read now is read in the next round.
        seq += len(found)


def _event(asked: Asked, view: PoolView, data: bytes) -> bytes:
    """One decision as an event; nothing where it is not the asker's to see."""
    said = answers.decision(view, open_receipt(data)[1], asked.below)
    if said is None:
        return b""
    return b"id: %d\nevent: decision\ndata: %s\n\n" % (said["seq"], dumps_line(said).encode())


async def ledger(request: web.Request) -> web.StreamResponse:
    """`GET /compute-pools/{pool_id}/ledger?from=&to=`: receipts' exact bytes, a CBOR sequence."""
    asked = Asked(request, "from", "to")
    asked.may_see_all()
    view = asked.view()
    seq = asked.number("from", 0)
    until = min(asked.number("to", view.length), view.length)
    if seq > until:
        raise bad_request("from: not after `to`, nor after the ledger's end", parameter="from")
    headers = asked.tagged(view) | {"Content-Type": "application/cbor-seq"}
    headers["X-Receipts"] = f"{seq}-{until}/{view.length}"
    with request.app[STREAMS].one(asked.grant.name):
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        while seq < until:
            found = await asked.side.receipts(view, seq, min(until, seq + CHUNK_RECEIPTS))
            if not found:
                # Ended without its last chunk: the reader can tell that it has not got it all.
                assert request.transport is not None
                request.transport.abort()
                return response
            await _write(response, b"".join(found))
            seq += len(found)
        await response.write_eof()
    return response


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Write, or give up on a reader that does not read. Raises ConnectionError."""
    if not data:
        return
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(data)
    except TimeoutError as error:
        raise ConnectionResetError("the reader is too slow") from error
