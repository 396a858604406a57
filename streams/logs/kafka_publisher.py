"""Publishing on Kafka: what producers and witnesses send, record by record.

Not here: what stewards append (`kafka_writer`); the contract's bounds (`limits`).

1. The producer is idempotent: its retries repeat nothing. It knows no transaction, so records of
   one call are acknowledged one by one.
2. After any failed record the producer is replaced: its sequence numbers are off by then.
3. A call whose records may or may not have been taken says so (`OutcomeUnknown`); only when the
   broker refused every one of them is it `AppendFailed` or `TooLarge`.

Invariant: records of one call reach a topic's partition in the order given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from streams.logs.contract import (
    CONTENT_CBOR,
    CONTENT_TYPE_HEADER,
    Outgoing,
    Position,
)
from streams.logs.errors import AppendFailed, LogTrouble, OutcomeUnknown, Remedy, TooLarge
from streams.logs.kafka_client import (
    Pending,
    Produced,
    Producer,
    idempotent_producer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, TOO_LARGE, translate, words
from streams.logs.kafka_options import Connection
from streams.logs.kafka_writer import end_producer
from streams.topics import partition_for


class Publisher:
    """The publishing half of a log; connects at the first record."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producer: Producer | None = None
        self._starting = asyncio.Lock()

    async def publish(self, records: Sequence[Outgoing], partitions: int) -> list[Position]:
        """Send records to their keys' partitions; see the contract's `publish`."""
        producer = await self._started()
        pending: list[Pending] = []
        now_ms = time.time_ns() // 1_000_000
        try:
            async with asyncio.timeout(self._connection.tuning.append_ms / 1000):
                for record in records:
                    pending.append(await self._send(producer, record, partitions, now_ms))
                outcomes = await asyncio.gather(*pending, return_exceptions=True)
        except CLIENT_ERRORS as error:
            await self._replace(producer)
            raise self._unknown(error) from error
        except BaseException:
            # Cancelled: some may be on their way, and this producer's numbers with them.
            await self._replace(producer)
            raise
        failures: list[BaseException] = []
        produced: list[Produced] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                failures.append(outcome)
            else:
                produced.append(outcome)
        if failures:
            await self._replace(producer)
            raise self._failure(failures, len(outcomes)) from failures[0]
        return [
            self._position(record, partitions, place, now_ms)
            for record, place in zip(records, produced, strict=True)
        ]

    async def _send(
        self, producer: Producer, record: Outgoing, partitions: int, now_ms: int
    ) -> Pending:
        headers = []
        if record.content_type != CONTENT_CBOR:
            headers.append((CONTENT_TYPE_HEADER, record.content_type.encode()))
        return await producer.send(
            self._connection.topic(record.topic),
            value=record.value,
            key=record.key,
            partition=partition_for(record.key, partitions),
            timestamp_ms=_time_of(record, now_ms),
            headers=headers,
        )

    def _position(
        self, record: Outgoing, partitions: int, produced: Produced, now_ms: int
    ) -> Position:
        if produced.offset < 0:
            # The broker took it before and does not remember where.
            raise self._unknown(AppendFailed("no offset was returned", where="", todo=""))
        stamped = produced.timestamp_type == 1
        return Position(
            topic=record.topic,
            partition=partition_for(record.key, partitions),
            offset=produced.offset,
            timestamp_ms=produced.timestamp if stamped else _time_of(record, now_ms),
        )

    async def _started(self) -> Producer:
        connection = self._connection
        async with self._starting:
            if self._producer is not None:
                return self._producer
            producer = idempotent_producer(connection)
            try:
                async with asyncio.timeout(connection.tuning.open_ms / 1000):
                    await producer.start()
            except BaseException as error:
                await end_producer(producer, connection)
                if not isinstance(error, CLIENT_ERRORS):
                    raise
                raise translate(error, doing="connecting", where=connection.where) from error
            self._producer = producer
            return producer

    async def _replace(self, producer: Producer) -> None:
        if self._producer is producer:
            self._producer = None
            await end_producer(producer, self._connection)

    def _failure(self, failures: Sequence[BaseException], count: int) -> LogTrouble:
        where = self._connection.where
        if len(failures) == count and all(isinstance(error, TOO_LARGE) for error in failures):
            return TooLarge(
                f"the broker refused {count} records: {words(failures[0])}",
                where=where,
                todo="send smaller events, or raise max.message.bytes of the topic",
            )
        for error in failures:
            told = translate(error, doing="publishing", where=where)
            if told.remedy is Remedy.STOP:
                return told
        return self._unknown(failures[0])

    def _unknown(self, error: BaseException) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"some records may not have been published: {words(error)}",
            where=self._connection.where,
            todo="send them again; events that carry an id are taken once",
        )

    async def close(self) -> None:
        """Close the connection; never raises."""
        if self._producer is not None:
            await self._replace(self._producer)


def _time_of(record: Outgoing, now_ms: int) -> int:
    return now_ms if record.timestamp_ms is None else record.timestamp_ms
