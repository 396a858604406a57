"""Readings onto a log, and on an embedded one decided at once by a steward within the command.

1. On Kafka a steward decides them wherever it runs; here it is enough that they are in the log.
   While it does not take them they are owed, up to `OWED_MAX`, and published with the next ones.
2. On an embedded log each batch is answered: an event that the pool refused is warned about, with
   its reason. The readings after it are published all the same.

A reading that is published twice is refused by its window (profile §2.5): sending again is safe.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from schemas import cbor
from schemas.records import Kind
from streams import topics
from streams.cli.answers import Answer, Answers
from streams.cli.keys import read_key
from streams.cli.stewarding import embedded
from streams.cli.where import Where
from streams.cli.words import because
from streams.logs.contract import MAX_PUBLISH_RECORDS, Log, Outgoing
from streams.logs.errors import LogTrouble, Remedy
from streams.meters.events import event_of
from streams.meters.records import Reading

OWED_MAX = 100_000
"""Readings that a log did not take yet; more of them are trouble."""


class Feed:
    """Publishes to one pool."""

    def __init__(
        self,
        log: Log,
        pool: str,
        warn: Callable[[str], None],
        clock: Callable[[], int] | None,
        decide: Callable[[], Awaitable[None]] | None,
        answers: Answers | None,
    ) -> None:
        self._log = log
        self._pool = pool
        self._warn = warn
        self._clock = clock
        self._decide = decide
        self._answers = answers
        self._owed: list[Reading] = []

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        where: Where,
        pool: str,
        key: Path | None,
        warn: Callable[[str], None],
        clock: Callable[[], int] | None = None,
        *,
        password_file: Path | None = None,
    ) -> AsyncIterator[Self]:
        """The log, with a steward if it is embedded. Without a `clock` the log gives the time.

        Raises: LogTrouble, StewardStopped, Failure.
        """
        if where.data is not None:
            signer = None if key is None else read_key(key, password_file)
            async with embedded(where.data, signer=signer, password_file=password_file) as stewards:
                answers = Answers(stewards.log)
                await answers.begin()
                yield cls(stewards.log, pool, warn, clock, stewards.decide_all, answers)
        else:
            async with where.log() as log:
                feed = cls(log, pool, warn, clock, None, None)
                yield feed
                await feed.finish()

    async def publish(self, readings: Sequence[Reading]) -> None:
        """Publish readings in their order. Raises: LogTrouble, StewardStopped."""
        self._owed += readings
        try:
            await self.finish()
        except LogTrouble as trouble:
            if self._decide is not None or trouble.remedy is Remedy.STOP:
                raise
            if len(self._owed) > OWED_MAX:
                raise
            self._warn(f"{len(self._owed)} readings are owed: {trouble}")

    async def finish(self) -> None:
        """Publish what is owed. Raises: LogTrouble, StewardStopped."""
        while self._owed:
            batch = self._owed[:MAX_PUBLISH_RECORDS]
            positions = await self._log.publish([self._outgoing(one) for one in batch])
            if self._decide is None or self._answers is None:
                del self._owed[: len(batch)]
                continue
            await self._decide()
            del self._owed[: len(batch)]
            found = await self._answers.of(positions, timeout_s=0)
            for reading, answer in zip(batch, found, strict=True):
                self._tell(reading, answer)

    def _outgoing(self, reading: Reading) -> Outgoing:
        value = cbor.encode(event_of(reading, self._pool))
        timestamp_ms = None if self._clock is None else self._clock()
        return Outgoing(
            topic=topics.METERS, key=self._pool.encode(), value=value, timestamp_ms=timestamp_ms
        )

    def _tell(self, reading: Reading, answer: Answer | None) -> None:
        if answer is None:
            return
        if answer.dead_reason is not None:
            self._warn(f"{reading.device}: {because({'reason': answer.dead_reason})}")
        for receipt in answer.receipts:
            if receipt.kind is Kind.REFUSED:
                self._warn(f"{reading.device}: {because(receipt.body)}")
