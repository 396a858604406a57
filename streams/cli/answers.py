"""The answers to published records: receipts by their cause, dead letters by their source.

Not here: publishing, and deciding. For a program's own use there is `streams.client`, which asks
one pool; this reads whatever was published, in any partition.

Invariant: an answer is complete: all receipts of its event, in order, or the one dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schemas.receipts import Receipt
from streams import topics
from streams.logs.contract import DEAD_DETAIL, DEAD_REASON, LogReader, Position, Record
from streams.receiving import Link
from streams.steward.deadletters import source_of

READ_MS = 250
Place = tuple[str, int, int]
"""Topic, partition and offset of an input record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an input came to: its receipts, or why it is a dead letter; neither: nothing at all."""

    receipts: tuple[Receipt, ...] = ()
    dead_reason: str | None = None
    dead_detail: str = ""


NOTHING = Answer()


class Answers:
    """Reads what is written to ledgers and dead letters from `begin` on."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._next: dict[int, dict[str, int]] = {}
        self._links: dict[bytes, Link] = {}
        self._open: dict[bytes, list[Receipt]] = {}
        self._found: dict[Place, Answer] = {}

    async def begin(self) -> None:
        """Look where ledgers and dead letters end now. Raises LogTrouble."""
        for partition in range(await self._log.partitions()):
            self._next[partition] = {
                topic: await self._log.end(topic, partition)
                for topic in (topics.LEDGER, topics.DEAD)
            }

    async def of(self, positions: Sequence[Position], *, timeout_s: float) -> list[Answer | None]:
        """The answers to what was published there, in order; None: none within the time."""
        places = [(place.topic, place.partition, place.offset) for place in positions]
        deadline = asyncio.get_running_loop().time() + timeout_s
        missing = {place for place in places if place not in self._found}
        while missing:
            await self._read({partition for _, partition, _ in missing})
            missing -= self._found.keys()
            if asyncio.get_running_loop().time() >= deadline:
                break
        return [self._found.pop(place, None) for place in places]

    async def _read(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            found = await self._log.read_any(partition, self._next[partition], timeout_ms=READ_MS)
            for record in found[topics.LEDGER].records:
                self._hear(record)
            for record in found[topics.DEAD].records:
                self._bury(record)
            self._next[partition] = {topic: fetched.offset_next for topic, fetched in found.items()}

    def _hear(self, record: Record) -> None:
        key = record.key or b""
        link = self._links.setdefault(key, Link(key.decode("utf-8", "replace")))
        receipt = link.push(record)
        if receipt is None:
            return
        cause = receipt.cause
        if cause.index == 0:
            self._open[key] = []
        receipts = self._open.setdefault(key, [])
        receipts.append(receipt)
        if cause.index + 1 == cause.count:
            place = (cause.topic, cause.partition, cause.offset)
            self._found[place] = Answer(receipts=tuple(receipts))

    def _bury(self, record: Record) -> None:
        place = source_of(record)
        if place is not None:
            headers = dict(record.headers)
            self._found[place] = Answer(
                dead_reason=headers.get(DEAD_REASON, b"").decode("utf-8", "replace"),
                dead_detail=headers.get(DEAD_DETAIL, b"").decode("utf-8", "replace"),
            )
