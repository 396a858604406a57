"""What stands before every handler: who asks, how often, from which page, and for how long.

Not here: what a role may do (`context`, `door`); how connections are cut (`connections`).

1. A browser's page of another site may not use this server's user: without tokens the `Host` must
   be the loopback's (a name that was bound to it elsewhere is refused), and what a browser says
   comes from another site is refused, but for what everybody may have.
2. The token is looked at, then the bucket: who shows none is counted by address.
3. Whatever a handler raises becomes an answer in JSON; what nobody thought of becomes a bare 500,
   its trace goes to the server's log.

Invariant: every answer says how it may be used: no sniffing, no framing, no scripts but our own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from streams.logs.errors import LogTrouble
from streams.views.access import Access
from streams.views.context import ACCESS, GRANT
from streams.views.httpfaults import HttpFault, fault_answer, json_answer
from streams.views.metrics import METRICS
from streams.views.streaming import STREAMS

LOG: Final = logging.getLogger("streams.views")
PUBLIC: Final = web.AppKey("public", frozenset[str])
"""Paths that are answered without a token: the page's own files, the document, the probes."""
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def answer_faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever is raised into an answer (rule 3), and count it."""
    started = time.perf_counter()
    response = await _answered(request, handler)
    route = _route(request)
    metrics = request.app[METRICS]
    metrics.requests.labels(route, str(response.status)).inc()
    if response.content_type not in ("text/event-stream", "application/cbor-seq"):
        metrics.seconds.labels(route).observe(time.perf_counter() - started)
    return response


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer's own headers; a signal, so that streams have them too."""
    response.headers.update(HEADERS)


@web.middleware
async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages of other sites (rule 1)."""
    if request.app[ACCESS].is_open:
        host = request.headers.get("Host", "")
        if _name(host) not in _LOOPBACK:
            raise HttpFault(
                403, "wrong-host", "without tokens this server answers on the loopback only"
            )
    from_elsewhere = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if from_elsewhere and request.path not in request.app[PUBLIC]:
        raise HttpFault(403, "cross-site", "not from another site's page")
    return await handler(request)


@web.middleware
async def check_grant(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Look at the token, and count the request (rule 2)."""
    access = request.app[ACCESS]
    grant = access.grant(request.headers.get("Authorization"))
    if request.path in request.app[PUBLIC]:
        _count(access, f"address {request.remote}")
    elif grant is None:
        _count(access, f"address {request.remote}")
        raise HttpFault(
            401, "no-token", "send a known token: Authorization: Bearer ...",
            headers={"WWW-Authenticate": 'Bearer realm="pool"'},
        )  # fmt: skip
    else:
        _count(access, f"token {grant.name}")
        request[GRANT] = grant
    return await handler(request)


def _count(access: Access, who: str) -> None:
    wait_s = access.wait_s(who)
    if wait_s:
        raise HttpFault(
            429, "too-many-requests", f"wait {wait_s} s", headers={"Retry-After": str(wait_s)}
        )


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except HttpFault as fault:
        return fault_answer(fault)
    except web.HTTPNotModified as unchanged:
        return web.Response(status=unchanged.status, headers=unchanged.headers)
    except web.HTTPException as refused:
        return _plain(refused)
    except LogTrouble as trouble:
        LOG.warning("%s: %s", _route(request), trouble)
        return json_answer(
            {"error": "log-unavailable", "detail": "the log cannot be read now"},
            status=503,
            headers={"Retry-After": "2"},
        )
    except ConnectionError:
        raise
    except Exception:
        LOG.exception("a fault in %s", _route(request))
        return json_answer(
            {"error": "fault", "detail": "a fault of this server; its log says more"}, status=500
        )


def _plain(refused: web.HTTPException) -> web.Response:
    """The framework's own answers, in this API's form."""
    codes = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}
    details = {
        404: "no such path",
        405: "not with this method",
        413: "the body is too large",
    }
    status = refused.status
    headers = {name: refused.headers[name] for name in ("Allow",) if name in refused.headers}
    code = codes.get(status, "bad-request")
    return json_answer(
        {"error": code, "detail": details.get(status, "the request is not well-formed")},
        status=status,
        headers=headers,
    )


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "unknown" if resource is None else resource.canonical


def _name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0].lower()


__all__ = ["HEADERS", "PUBLIC", "STREAMS", "add_headers", "answer_faults", "check_grant"]
