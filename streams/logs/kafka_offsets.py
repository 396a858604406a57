"""Where Kafka's partitions start and end, and the time limit of every question to a broker.

Not here: reading records (`kafka_cursor`).

1. The end that a reader must get to is the read-uncommitted one; how far committed records reach
   now is another question, asked by those who wait for more.
2. Every question ends within the connection's limit, and its errors are the contract's.

Invariant: the consumers here are assigned nothing and read nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from streams.logs.errors import LogTrouble
from streams.logs.kafka_client import (
    Consumer,
    TopicPartition,
    committed_consumer,
    offsets_consumer,
    start_consumer,
    stop_consumer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, translate
from streams.logs.kafka_options import Connection


class Limit:
    """The request's time limit, and what its errors mean."""

    def __init__(self, connection: Connection, doing: str, *, more_s: float = 0.0) -> None:
        self._connection = connection
        self._doing = doing
        self._timeout = asyncio.timeout(connection.tuning.request_ms / 1000 + more_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise self._told(late) from late
        if isinstance(error, CLIENT_ERRORS) and not isinstance(error, LogTrouble):
            raise self._told(error) from error

    def _told(self, error: BaseException) -> LogTrouble:
        return translate(error, doing=self._doing, where=self._connection.where)


class Offsets:
    """Where partitions start and end; two consumers that never read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumers: dict[bool, Consumer] = {}
        self._starting = asyncio.Lock()

    async def starts(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The smallest offsets that may still be read."""
        async with self._limit(places):
            return await (await self._consumer(False)).beginning_offsets(list(places))

    async def ends(
        self, places: Sequence[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, int]:
        """The read-uncommitted ends, or how far committed records reach now."""
        async with self._limit(places):
            return await (await self._consumer(committed)).end_offsets(list(places))

    def _limit(self, places: Sequence[TopicPartition]) -> Limit:
        names = ", ".join(f"{place.topic}/{place.partition}" for place in places)
        return Limit(self._connection, f"asking for the offsets of {names}")

    async def _consumer(self, committed: bool) -> Consumer:
        async with self._starting:
            if committed not in self._consumers:
                make = committed_consumer if committed else offsets_consumer
                self._consumers[committed] = await start_consumer(make(self._connection))
            return self._consumers[committed]

    async def close(self) -> None:
        """Close the connections; never raises."""
        consumers, self._consumers = list(self._consumers.values()), {}
        await asyncio.gather(*(stop_consumer(one, self._connection) for one in consumers))
