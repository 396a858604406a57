"""The read side over HTTP: which path is answered by what, and a server for it.

Not here: the answers (`handlers`, `streaming`, `door`), what stands before them (`guards`,
`connections`), the document that describes them (`openapi.json`).

1. The same application serves a read side that is fed in this process and one that Faust feeds.
2. Without tokens it is served on the loopback only; `serve` refuses anything else.

Invariant: the document names every path here, and no other; a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from streams.logs.contract import Log
from streams.views import door, handlers, streaming
from streams.views.access import Access, is_loopback
from streams.views.bodies import BODY_BYTES_MAX
from streams.views.connections import CONNECTIONS, Connections, count_connections
from streams.views.context import ACCESS, SIDE
from streams.views.guards import PUBLIC, add_headers, answer_faults, check_grant, check_origin
from streams.views.httpfaults import json_answer
from streams.views.metrics import METRICS, Metrics, get_metrics
from streams.views.readside import ReadSide
from streams.views.streaming import STREAMS, Streams

SHUTDOWN_SECONDS: Final = 2.0
_PAGE: Final = {
    "/": ("page/index.html", "text/html"),
    "/page.css": ("page/page.css", "text/css"),
    "/page.js": ("page/page.js", "text/javascript"),
    "/verify.js": ("page/verify.js", "text/javascript"),
    "/words.js": ("page/words.js", "text/javascript"),
    "/openapi.json": ("openapi.json", "application/json"),
}
_PROBES: Final = ("/health",)
POOL: Final = "/compute-pools/{pool_id}"
LEASE: Final = "/compute-leases/{lease_id}"


def make_app(
    side: ReadSide,
    access: Access,
    *,
    log: Log | None = None,
    connections: Connections | None = None,
    beyond: Sequence[Middleware] = (),
) -> web.Application:
    """The application. `log` None: it only reads. `beyond`: stands before it."""
    app = web.Application(
        middlewares=[answer_faults, count_connections, check_origin, check_grant, *beyond],
        client_max_size=BODY_BYTES_MAX,
    )
    app[SIDE], app[ACCESS] = side, access
    app[METRICS], app[STREAMS] = Metrics(side), Streams()
    app[CONNECTIONS] = connections or Connections()
    app[PUBLIC] = frozenset((*_PAGE, *_PROBES))
    if log is not None:
        app[door.LOG] = log
    app.on_response_prepare.append(add_headers)
    app.add_routes(_routes())
    return app


@asynccontextmanager
async def served(app: web.Application, *, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the block lasts; the port, which is any free one for 0. Raises OSError."""
    assert not app[ACCESS].is_open or is_loopback(host), "without tokens: the loopback only"
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=30.0,
        shutdown_timeout=SHUTDOWN_SECONDS,
        handler_cancellation=True,
    )
    await runner.setup()
    assert runner.server is not None
    watching = asyncio.create_task(app[CONNECTIONS].watch(runner.server))
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        watching.cancel()
        await runner.cleanup()


async def health(request: web.Request) -> web.Response:
    """`GET /health`: 200 once it has caught up and while no ledger is broken, else 503."""
    side = request.app[SIDE]
    broken = sum(view.broken is not None for view in side.pools.values())
    good = side.caught_up and not broken
    said = {"ok": good, "caught_up": side.caught_up, "pools": len(side.pools), "broken": broken}
    return json_answer(said, status=200 if good else 503, headers={"Cache-Control": "no-store"})


def _routes() -> list[web.RouteDef]:
    get, post = web.get, web.post
    return [
        *(get(path, _static(*file)) for path, file in _PAGE.items()),
        get("/health", health),
        get("/metrics", get_metrics),
        get("/compute-pools", handlers.list_pools),
        get(POOL, handlers.get_pool),
        get(f"{POOL}/shapes", handlers.get_shapes),
        get(f"{POOL}/claims", handlers.list_claims),
        get(f"{POOL}/claims/{{claim}}", handlers.get_claim),
        get(f"{POOL}/claims/{{claim}}/explanation", handlers.get_explanation),
        get(f"{POOL}/waiting", handlers.list_waiting),
        get(f"{POOL}/power", handlers.get_power),
        get(f"{POOL}/ledger", streaming.ledger),
        get(f"{POOL}/decisions", streaming.decisions),
        get(f"{POOL}/receipts/{{seq}}", handlers.get_receipt),
        get(f"{POOL}/proofs/{{seq}}", handlers.get_proof),
        get(f"{POOL}/consistency", handlers.get_consistency),
        get(f"{POOL}/heads", handlers.get_heads),
        get(f"{POOL}/countersignatures", handlers.get_countersignatures),
        post(f"{POOL}/readings", door.reading),
        post(f"{POOL}/events", door.event),
        post("/compute-leases", door.submit),
        get(LEASE, door.get_lease),
        post(f"{LEASE}/commit", door.commit),
        post(f"{LEASE}/renew", door.renew),
        post(f"{LEASE}/release", door.release),
        post(f"{LEASE}/cancel", door.cancel),
    ]


def _static(name: str, content_type: str) -> handlers.Handler:
    """A handler that gives one of the package's own files."""
    data = files("streams.views").joinpath(name).read_bytes()

    async def give(request: web.Request) -> web.Response:
        return web.Response(
            body=data,
            headers={
                "Content-Type": f"{content_type}; charset=utf-8",
                "Cache-Control": "no-cache",
            },
        )

    return give
