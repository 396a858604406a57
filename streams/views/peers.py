"""Workers answer for each other: a question about a pool that is folded elsewhere is asked there.

Not here: who folds what (`worker`).

1. The token is looked at here and there: workers of a group have the same token file.
2. A question is passed on once. If the pool is not there either, it is on its way from one worker
   to the other: 503, ask again.
3. What is answered there is given as it is, streams as they come. The list of pools is everybody's.

Invariant: a worker's own pools are never asked for elsewhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol

import aiohttp
from aiohttp import web

from streams.views import leases
from streams.views.bodies import BODY_SECONDS
from streams.views.context import SIDE
from streams.views.httpfaults import HttpFault, json_answer
from streams.views.streaming import WRITE_SECONDS

PASSED_ON: Final = "X-Pool-Passed-On"
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 45.0
CHUNK_BYTES: Final = 64 * 1024
_KEPT: Final = ("Content-Type", "ETag", "Cache-Control", "Location", "Retry-After", "X-Receipts")
_SENT: Final = (
    *("Authorization", "Content-Type", "If-None-Match", "Last-Event-ID", "Prefer"),
    "Idempotency-Key",
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Group(Protocol):
    """What is known of the workers of a group."""

    def owner(self, pool: str) -> str | None:
        """The URL of the worker that folds a pool."""
        ...

    def workers(self) -> set[str]:
        """The URLs of all workers."""
        ...


class Peers:
    """Asks the other workers. Made by `peers`."""

    def __init__(self, group: Group, own_url: str, client: aiohttp.ClientSession) -> None:
        self._group = group
        self._own = own_url.rstrip("/")
        self._client = client

    @web.middleware
    async def pass_on(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer here, or have it answered where the pool is."""
        if request.path == "/compute-pools" and PASSED_ON not in request.headers:
            return await self._list(request, await handler(request))
        pool = await _pool_of(request)
        if pool is None or pool in request.app[SIDE].pools:
            return await handler(request)
        owner = (self._group.owner(pool) or "").rstrip("/")
        if owner == self._own:
            return await handler(request)
        if not owner or PASSED_ON in request.headers:
            raise HttpFault(
                503, "moving", "the pool is on its way to another worker",
                headers={"Retry-After": "2"},
            )  # fmt: skip
        return await self._ask(owner, request)

    async def _ask(self, owner: str, request: web.Request) -> web.StreamResponse:
        data = await _body(request) if request.method == "POST" else None
        url = owner + request.raw_path
        try:
            async with self._client.request(
                request.method, url, headers=_headers(request), data=data
            ) as answer:
                return await _give(request, answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise HttpFault(
                503, "peer-unavailable", "the worker that has the pool does not answer",
                headers={"Retry-After": "2"},
            ) from error  # fmt: skip

    async def _list(self, request: web.Request, own: web.StreamResponse) -> web.StreamResponse:
        assert isinstance(own, web.Response) and isinstance(own.body, bytes)
        pools = {one["pool_id"]: one for one in json.loads(own.body)["pools"]}
        others = {url.rstrip("/") for url in self._group.workers()} - {self._own}
        found = await asyncio.gather(*(self._pools(url, request) for url in sorted(others)))
        for one in (pool for some in found for pool in some):
            pools.setdefault(one["pool_id"], one)
        headers = {"Cache-Control": "private, no-cache"}
        return json_answer({"pools": [pools[name] for name in sorted(pools)]}, headers=headers)

    async def _pools(self, url: str, request: web.Request) -> list[dict[str, Any]]:
        """Another worker's pools. One that does not answer would hide them: 503."""
        try:
            async with self._client.get(
                f"{url}/compute-pools", headers=_headers(request)
            ) as answer:
                found: list[dict[str, Any]] = (await answer.json())["pools"]
                return found
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
            raise HttpFault(
                503, "peer-unavailable", "another worker does not answer",
                headers={"Retry-After": "2"},
            ) from error  # fmt: skip


@asynccontextmanager
async def peers(group: Group, own_url: str) -> AsyncIterator[Peers]:
    """A `Peers` while the block lasts."""
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=ANSWER_SECONDS
    )
    async with aiohttp.ClientSession(
        timeout=timeout, auto_decompress=False, trust_env=False
    ) as client:
        yield Peers(group, own_url, client)


async def _pool_of(request: web.Request) -> str | None:
    """Which pool a request is about; None for none."""
    found: Mapping[str, str] = request.match_info
    if "pool_id" in found:
        return found["pool_id"]
    if "lease_id" in found:
        names = leases.split(found["lease_id"])
        return None if names is None else names[0]
    if request.path == "/compute-leases" and request.method == "POST":
        # Whatever is wrong with the body is said by the handler, here.
        with suppress(ValueError, RecursionError):
            body = json.loads(await _body(request))
            pool = body.get("pool_id") if isinstance(body, dict) else None
            return pool if isinstance(pool, str) else None
    return None


async def _body(request: web.Request) -> bytes:
    """The request's body; the framework keeps it for the handler. Raises HttpFault(408)."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise HttpFault(408, "too-slow", "the body did not come in time") from None


def _headers(request: web.Request) -> dict[str, str]:
    sent = {name: request.headers[name] for name in _SENT if name in request.headers}
    return sent | {PASSED_ON: "1"}


async def _give(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Another worker's answer, as it comes."""
    headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
    response = web.StreamResponse(status=answer.status, headers=headers)
    if answer.content_length is not None:
        response.content_length = answer.content_length
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(chunk)
        except TimeoutError:
            raise ConnectionResetError("the reader is too slow") from None
    await response.write_eof()
    return response
