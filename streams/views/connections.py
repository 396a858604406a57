"""Connections that nobody works on are closed: a client may not hold one by being slow.

1. A connection is busy while a handler works for it. When no handler does, it has `IDLE_SECONDS` to
   send a whole request head or to take the rest of its last answer; then it is cut.
2. Beyond `CONNECTIONS_MAX` the idle ones are cut at once, and a new request on top is told 503.

Not here: a handler's own limits: bodies (`bodies`), streams (`streaming`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from streams.views.httpfaults import json_answer

IDLE_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 2.0
CONNECTIONS_MAX: Final = 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Connections:
    """Who is busy, and since when the others are not."""

    def __init__(self, *, idle_s: float = IDLE_SECONDS, most: int = CONNECTIONS_MAX) -> None:
        self._idle_s = idle_s
        self._most = most
        self._busy: dict[Any, int] = {}
        self._idle_since: dict[Any, float] = {}

    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Work for a connection: it is busy meanwhile."""
        protocol = request.protocol
        self._busy[protocol] = self._busy.get(protocol, 0) + 1
        try:
            if len(self._busy) > self._most:
                return json_answer(
                    {"error": "too-busy", "detail": "too many connections"},
                    status=503,
                    headers={"Retry-After": "5", "Connection": "close"},
                )
            return await handler(request)
        finally:
            self._busy[protocol] -= 1
            if self._busy[protocol] <= 0:
                del self._busy[protocol]
            self._idle_since[protocol] = time.monotonic()

    async def watch(self, server: web.Server) -> None:
        """Cut idle connections until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._idle_s))
            self.look(server)

    def look(self, server: web.Server) -> None:
        """Cut what has been idle for too long."""
        now = time.monotonic()
        crowded = len(server.connections) > self._most
        for gone in self._idle_since.keys() - set(server.connections):
            del self._idle_since[gone]
        for protocol in server.connections:
            if protocol in self._busy:
                continue
            since = self._idle_since.setdefault(protocol, now)
            if crowded or now - since > self._idle_s:
                transport = protocol.transport
                if transport is not None:
                    with suppress(OSError):
                        transport.abort()


CONNECTIONS: Final = web.AppKey("connections", Connections)


@web.middleware
async def count_connections(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the request's connection as busy."""
    return await request.app[CONNECTIONS].handle(request, handler)
