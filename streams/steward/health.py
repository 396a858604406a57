"""A steward's health and metrics over HTTP, for whoever supervises it.

Not here: what is counted (`metrics`); the pool's own figures (`streams.views`).

1. `GET /metrics`: Prometheus' text. `/healthz`: 200 while no partition has stopped for good.
   `/readyz`: 200 while every partition of this process is being decided. Else 503, with the reason.
2. One request a connection, its head bounded in size and time; nothing of it is answered back.

Invariant: it reads, and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST

from streams.steward.metrics import Metrics

HEAD_BYTES_MAX: Final = 8192
HEAD_SECONDS_MAX: Final = 5.0
TEXT: Final = "text/plain; charset=utf-8"

_NO_REQUEST: Final = (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
_Answer = tuple[HTTPStatus, str, bytes]


@asynccontextmanager
async def serve_health(
    metrics: Metrics,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    measure: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[int]:
    """Serve while the context is open; gives the port. `measure` runs before metrics are given.

    Raises: OSError where the port cannot be had.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, *_NO_REQUEST):
            async with asyncio.timeout(HEAD_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(_response(await _answer(head, metrics, measure)))
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    try:
        server = await asyncio.start_server(answer, host, port, limit=HEAD_BYTES_MAX)
    except OSError as error:
        # The system's error names no file; this is what a person has to change.
        error.filename = f"{host}:{port}"
        raise
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


async def _answer(
    head: bytes, metrics: Metrics, measure: Callable[[], Awaitable[None]] | None
) -> _Answer:
    method, _, rest = head.partition(b" ")
    path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
    if method not in (b"GET", b"HEAD"):
        return HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"only GET\n"
    if path == b"/metrics":
        if measure is not None:
            await measure()
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics.text()
    if path == b"/healthz":
        return _told(metrics.is_well, "well", "a partition has stopped for good; see the log")
    if path == b"/readyz":
        return _told(metrics.is_ready, "ready", "a partition is not being decided")
    return HTTPStatus.NOT_FOUND, TEXT, b"/metrics, /healthz or /readyz\n"


def _told(good: bool, yes: str, no: str) -> _Answer:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return status, TEXT, f"{yes if good else no}\n".encode()


def _response(answer: _Answer) -> bytes:
    status, content_type, body = answer
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
