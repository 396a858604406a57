"""What every handler asks of a request: whose it is, which pool it is about, its parameters.

Not here: the answers (`handlers`, `door`, `streaming`).

1. A parameter that is not known, or given twice, is a bad request: a misspelt one is never ignored.
2. The grant is judged before the pool is looked up: who may not ask learns nothing.
3. An answer about a pool carries an `ETag` made of its ledger's length and head, of what was signed
   about it, and of what the token may see; asked again with it, the answer is 304.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from aiohttp import web

from streams.views.access import Access, Grant
from streams.views.fold import PoolView
from streams.views.httpfaults import HttpFault, bad_request, forbidden, json_answer, not_found
from streams.views.readside import ReadSide

SIDE: Final = web.AppKey("side", ReadSide)
ACCESS: Final = web.AppKey("access", Access)
GRANT: Final = web.RequestKey("grant", Grant)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
NAME_MAX: Final = 1024


class Asked:
    """One request, its grant and, where it names one, its pool."""

    def __init__(self, request: web.Request, *parameters: str) -> None:
        self.request = request
        self.side = request.app[SIDE]
        self.grant = request[GRANT]
        self._query = _query(request, parameters)

    @property
    def below(self) -> str:
        """The node that the asker may look below."""
        return self.grant.subtree

    def may_see(self) -> None:
        """Raises HttpFault(403) for who sees nothing."""
        if not self.grant.sees:
            raise forbidden("this token is for sending readings only")

    def may_see_all(self) -> None:
        """Raises HttpFault(403) for who sees a subtree only."""
        self.may_see()
        if not self.grant.sees_all:
            raise forbidden("this shows every tenant's claims: it takes a token for the whole pool")

    def may_see_every_pool(self) -> None:
        """Raises HttpFault(403) for who sees one pool only, or part of it."""
        self.may_see_all()
        if self.grant.pool is not None:
            raise forbidden("this shows every pool: it takes a token for all of them")

    def view(self) -> PoolView:
        """The pool in the path. Raises HttpFault (403, 404)."""
        return self.pool(self.request.match_info["pool_id"])

    def pool(self, name: str) -> PoolView:
        """A pool by its name. Raises HttpFault (403, 404)."""
        if self.grant.pool not in (None, name):
            raise forbidden("this token is for another pool")
        view = self.side.pools.get(name)
        if view is None:
            raise not_found("no such pool here")
        return view

    def text(self, name: str) -> str | None:
        """A parameter's text; None if it is not given. Raises HttpFault(400)."""
        value = self._query.get(name)
        if value is not None and not 0 < len(value) <= NAME_MAX:
            raise bad_request(f"{name}: 1 to {NAME_MAX} characters", parameter=name)
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int:
        """A parameter's integer from `least` to `most`. Raises HttpFault(400)."""
        value = self._query.get(name)
        if value is None:
            return default
        return number(value, name, most, least)

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """A parameter that is one of a list; None if it is not given. Raises HttpFault(400)."""
        value = self._query.get(name)
        if value is not None and value not in allowed:
            raise bad_request(f"{name}: one of {', '.join(allowed)}", parameter=name)
        return value

    def tag(self, view: PoolView) -> str:
        """The `ETag` of what is said about a pool now (rule 3)."""
        seen = sha256(self.below.encode("utf-8", "replace")).hexdigest()[:8]
        broken = "-broken" if view.broken is not None else ""
        return f'"{view.length}-{view.head.hex()[:16]}-{view.statements}-{seen}{broken}"'

    def answer(self, view: PoolView, value: object) -> web.Response:
        """An answer about a pool, tagged; raises 304 where the asker has it."""
        return json_answer(value, headers=self.tagged(view))

    def tagged(self, view: PoolView) -> dict[str, str]:
        """The headers of an answer about a pool. Raises HTTPNotModified."""
        tag = self.tag(view)
        headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
        known = self.request.headers.get("If-None-Match", "")
        if tag in (part.strip().removeprefix("W/") for part in known.split(",")):
            raise web.HTTPNotModified(headers=headers)
        return headers


def number(text: str, name: str, most: int = 2**63 - 1, least: int = 0) -> int:
    """A decimal integer without sign or leading zeros. Raises HttpFault(400)."""
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise bad_request(f"{name}: a whole number from {least} to {most}", parameter=name)
    return int(text)


def _query(request: web.Request, parameters: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise bad_request(f"unknown parameter; known here: {known}", parameter=name[:64])
        if name in found:
            raise bad_request(f"{name}: given twice", parameter=name)
        found[name] = value
    return found


__all__ = ["ACCESS", "GRANT", "SIDE", "Asked", "HttpFault", "number"]
