"""The one exception that HTTP handlers raise, and what it looks like to who asked.

Every answer that is not the thing asked for is `{"error": code, "detail": text}`, codes being words
for programs and details sentences for people. Nothing else leaves: no trace, no internal name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from schemas.jsonform import dumps_line


class HttpFault(Exception):
    """An answer of `status`, with its code and detail. `more` are further members."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.body = {"error": code, "detail": detail, **(more or {})}
        self.headers = dict(headers or {})


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A value as JSON, big integers as strings."""
    return web.Response(
        status=status,
        body=dumps_line(value).encode() + b"\n",
        content_type="application/json",
        headers=dict(headers or {}),
    )


def fault_answer(fault: HttpFault) -> web.Response:
    """The answer that a fault is."""
    return json_answer(fault.body, status=fault.status, headers=fault.headers)


def bad_request(detail: str, **more: Any) -> HttpFault:
    """What was asked cannot be understood."""
    return HttpFault(400, "bad-request", detail, more=more)


def not_found(detail: str) -> HttpFault:
    """There is no such thing, or none that may be seen: the two are not told apart."""
    return HttpFault(404, "not-found", detail)


def forbidden(detail: str) -> HttpFault:
    """The token does not allow it, whatever there is."""
    return HttpFault(403, "forbidden", detail)
