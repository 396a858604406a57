"""Heads, countersignatures and fork evidence as a file that travels beside a ledger.

1. The file is a CBOR sequence (RFC 8742) of the statements' exact bytes, in any order: what
   `pool export --heads` and `pool-witness show --out` write, and a witness's own
   `DIR/witness/*.cborseq`.
2. Written are the pool's statements that open, whoever signed them: whose word counts is for the
   reader's trust file to say. What was signed again with a newer time is written once, the newest.
3. A file without one statement about the pool is bad input, and the error says what is in it
   instead: left unsaid, a ledger would be graded as if nobody had witnessed it.

Not here: what statements are worth (`schemas.grading`).
Profile: §6.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from schemas import PROFILE, cbor, cose
from schemas.cose import CoseError
from schemas.forks import open_fork
from schemas.heads import (
    FORK_KIND,
    HEAD_KIND,
    WITNESS_KIND,
    Countersignature,
    Head,
    Signed,
    StatementError,
    kind_of,
    open_countersignature,
    open_head,
)
from schemas.wellformed import CborError
from streams import topics
from streams.cli.session import Failure, Status

_WORDS: Final = {
    HEAD_KIND: "heads",
    WITNESS_KIND: "countersignatures",
    FORK_KIND: "fork statements",
    PROFILE: "receipts",
}
_ORDER: Final = (HEAD_KIND, WITNESS_KIND, FORK_KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement that opened; two with the same `said` differ in nothing but their time."""

    kind: str
    pool: str
    length: int
    said: tuple[object, ...]
    closed_at_ms: int
    data: bytes


def read_statements(data: bytes, pool: str, where: str) -> list[tuple[str, bytes]]:
    """A file's statements about a pool, each with the topic that it belongs on.

    Raises Failure for what is no CBOR sequence, and by rule 3.
    """
    found: list[tuple[str, bytes]] = []
    others: Counter[str] = Counter()
    try:
        for item in cbor.split_sequence(data):
            kind, named = _told(item)
            if kind in _ORDER and named == pool:
                found.append((topics.HEADS if kind == HEAD_KIND else topics.WITNESS, item))
            else:
                others[f"{_WORDS[kind]} of pool {named}" if named else "other items"] += 1
    except CborError as error:
        raise Failure(
            f"not a CBOR sequence: {error.detail}", where=where, status=Status.USAGE
        ) from None
    if not found:
        inside = ", ".join(f"{words} ({count})" for words, count in others.most_common(5))
        raise Failure(
            f"no heads or countersignatures of pool {pool}, but {inside or 'nothing at all'}",
            where=where,
            todo="give what pool export --heads or pool-witness show --out wrote",
            status=Status.USAGE,
        )
    return found


async def gather(statements: AsyncIterator[tuple[str, bytes]], pool: str) -> list[bytes]:
    """What is worth keeping of a log's statements about a pool (rule 2), heads first, by length."""
    kept: dict[tuple[object, ...], Statement] = {}
    async for _, data in statements:
        try:
            one = _opened(data)
        except StatementError:
            continue
        known = kept.get(one.said)
        if one.pool == pool and (known is None or known.closed_at_ms < one.closed_at_ms):
            kept[one.said] = one
    ordered = sorted(kept.values(), key=lambda one: (_ORDER.index(one.kind), one.length, one.data))
    return [one.data for one in ordered]


def _opened(data: bytes) -> Statement:
    """Raises StatementError."""
    kind = kind_of(data)
    if kind == FORK_KIND:
        signed = open_fork(data)
        fork = signed.statement
        return Statement(
            kind=kind,
            pool=fork.pool,
            length=fork.length,
            said=(kind, signed.key, fork.first.digest, fork.second.digest),
            closed_at_ms=fork.closed_at_ms,
            data=data,
        )
    one: Signed[Head] | Signed[Countersignature]
    one = open_head(data) if kind == HEAD_KIND else open_countersignature(data)
    end = one.statement.end
    return Statement(
        kind=kind,
        pool=end.pool,
        length=end.length,
        said=(kind, one.key, end),
        closed_at_ms=one.statement.closed_at_ms,
        data=data,
    )


def _told(item: bytes) -> tuple[str, str]:
    """The kind and the pool that an item says it is of; ("", "") for what is nothing of these."""
    try:
        core = cbor.decode(cose.split(item).payload)
    except (CoseError, CborError):
        return "", ""
    kind, pool = (core.get("jc_receipt"), core.get("pool")) if isinstance(core, dict) else ("", "")
    known = isinstance(kind, str) and kind in _WORDS and isinstance(pool, str)
    return (str(kind), str(pool)) if known else ("", "")
