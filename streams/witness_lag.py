"""How far witnesses are behind the heads that stewards publish, as findings for the doctor.

Not here: whether a countersignature counts (`schemas.grading` with a trust file says); a
deployment's settings (`streams.logs.kafka_doctor`).

1. Only the newest statements are read: a pool that was quiet for long is not looked at, and does
   not fall behind either.
2. A head younger than `GRACE_MS` is not missed yet: witnesses follow, they do not go ahead.
3. Fork evidence is a problem whatever else is found; it says that a steward contradicted itself.

Invariant: works on any log; changes nothing.
Profile: §6.7, §6.8.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from schemas.heads import (
    FORK_KIND,
    WITNESS_KIND,
    Countersignature,
    Head,
    StatementError,
    kind_of,
    open_countersignature,
    open_head,
)
from streams import topics
from streams.logs.contract import LogReader, Record
from streams.logs.kafka_findings import Check, Finding, Level

TAIL_OFFSETS: Final = 2000
GRACE_MS: Final = 60_000
READ_MS: Final = 1000
READS_MAX: Final = 100


async def witness_lag(
    log: LogReader, *, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
) -> list[Finding]:
    """A finding for every pool with recent heads. Raises LogTrouble."""
    findings: list[Finding] = []
    for partition in range(await log.partitions()):
        heads = _heads([record async for record in _tail(log, topics.HEADS, partition)])
        said = [record async for record in _tail(log, topics.WITNESS, partition)]
        findings += _judged(heads, said, clock_ms())
    return findings


async def _tail(log: LogReader, topic: str, partition: int) -> AsyncIterator[Record]:
    """The records of a partition's last `TAIL_OFFSETS` offsets."""
    start, end = await log.start(topic, partition), await log.end(topic, partition)
    offset = max(start, end - TAIL_OFFSETS)
    for _ in range(READS_MAX):
        if offset >= end:
            return
        fetched = await log.read(topic, partition, offset_next=offset, timeout_ms=READ_MS)
        offset = fetched.offset_next
        for record in fetched.records:
            yield record


def _heads(records: list[Record]) -> dict[str, list[Head]]:
    heads: dict[str, list[Head]] = defaultdict(list)
    for record in records:
        try:
            head = open_head(record.value).statement
        except StatementError:
            continue
        heads[head.end.pool].append(head)
    return heads


def _judged(heads: dict[str, list[Head]], said: list[Record], now_ms: int) -> Iterator[Finding]:
    witnessed: dict[str, dict[str, Countersignature]] = defaultdict(dict)
    for record in said:
        try:
            kind = kind_of(record.value)
            if kind == FORK_KIND:
                yield _forked(record)
            if kind == WITNESS_KIND:
                one = open_countersignature(record.value).statement
                witnessed[one.end.pool][one.witness] = one
        except StatementError:
            continue
    for pool, its_heads in sorted(heads.items()):
        yield _pool(pool, its_heads, list(witnessed[pool].values()), now_ms)


def _pool(pool: str, heads: list[Head], said: list[Countersignature], now_ms: int) -> Finding:
    length = max(head.end.length for head in heads)
    if not said:
        return Finding(
            check=Check.WITNESS,
            level=Level.WARNING,
            where=pool,
            what=f"no witness has signed a recent head; its {length} receipts are self-attested",
            todo="run `pool-witness run` with a key of its own, on another machine",
        )
    reached = max(one.end.length for one in said)
    due = [head for head in heads if head.closed_at_ms < now_ms - GRACE_MS]
    owed = max((head.end.length for head in due), default=0)
    if reached < owed:
        return Finding(
            check=Check.WITNESS,
            level=Level.WARNING,
            where=pool,
            what=f"the farthest witness is at {reached} of {length} receipts",
            todo="check that the witnesses run, and what their log says of this pool",
        )
    return Finding(
        check=Check.WITNESS,
        level=Level.FINE,
        where=pool,
        what=f"{len(said)} witnesses, the farthest at {reached} of {length} receipts",
    )


def _forked(record: Record) -> Finding:
    pool = (record.key or b"").decode("utf-8", "replace")
    return Finding(
        check=Check.WITNESS,
        level=Level.PROBLEM,
        where=pool,
        what=f"fork evidence was published ({record.topic}/{record.partition} {record.offset})",
        todo="verify the ledger with `pool verify --trust FILE`; do not trust what follows",
    )
