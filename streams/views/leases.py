"""Lease ids: a claim's id with its pool's, as one text that can stand in a URL.

`<pool>:<claim>`, each percent-encoded, so that neither can hold the colon between them.
"""

from __future__ import annotations

from urllib.parse import quote, unquote


def lease_id(pool: str, claim: str) -> str:
    """The lease of a pool's claim."""
    return f"{quote(pool, safe='')}:{quote(claim, safe='')}"


def split(text: str) -> tuple[str, str] | None:
    """The pool and the claim of a lease id; None if it is none."""
    pool, colon, claim = text.partition(":")
    if not colon:
        return None
    names = unquote(pool, errors="replace"), unquote(claim, errors="replace")
    return names if lease_id(*names) == text else None


def in_path(lease: str) -> str:
    """A lease id as it stands in a URL's path."""
    return quote(lease, safe=":")
