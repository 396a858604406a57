"""The one writer of a partition on Kafka: a batch is a transaction, its holder is fenced by epoch.

Not here: reading; deciding when to open another writer (the steward does, on any error).

1. Opening starts a new transactional producer with the partition's id. The broker fences whoever
   held it, and answers only when that one's last transaction is finished, markers included.
2. A batch: begin, send everything, await **every** record's future, and only then commit: the
   library commits happily after a failed send.
3. Any error is the end of this writer. It never aborts and goes on: after a failed send the
   producer's sequence numbers are off, after a failed commit nobody knows. The next one's opening
   aborts what is open.
4. Before the commit was begun a failure is certain (`AppendFailed`), after that it is not
   (`OutcomeUnknown`).
5. A producer is not used past `RECORDS_MAX` records: the library's sequence number would wrap below
   zero. It must not renew itself either: a writer that was replaced would fence its successor.

Invariant: no call waits longer than its deadline, brokers or no brokers.
Invariant: after the first error every call raises.
Source: notes on aiokafka 0.14, traps A to T; architecture.md "One writer, exactly once".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from streams import faults
from streams.logs import limits
from streams.logs.contract import (
    CONTENT_CBOR,
    CONTENT_TYPE_HEADER,
    Entry,
)
from streams.logs.errors import AppendFailed, Fenced, LogTrouble, OutcomeUnknown
from streams.logs.kafka_client import (
    BatchBuilder,
    Pending,
    Producer,
    transactional_producer,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, FENCED, TOO_LARGE, translate, words
from streams.logs.kafka_options import Connection
from streams.topics import WRITER_TOPICS

RECORDS_MAX = 1_000_000_000
END_TRIES_MAX = 20
TURNS_TO_SEND = 10

_Headers = list[tuple[str, bytes]]


class KafkaWriter:
    """See the contract's `Writer`. Made by `KafkaWriter.open`."""

    def __init__(self, connection: Connection, partition: int, producer: Producer) -> None:
        self._connection = connection
        self._partition = partition
        self._producer = producer
        self._records = 0
        self._dead: str | None = None
        self._is_fenced = False
        self._is_closed = False

    @classmethod
    async def open(cls, connection: Connection, partition: int) -> KafkaWriter:
        """Fence whoever holds the partition, and take it.

        Raises: Unavailable (it may be tried again), Forbidden.
        """
        producer = transactional_producer(connection, connection.transactional_id(partition))
        try:
            async with asyncio.timeout(connection.tuning.open_ms / 1000):
                await producer.start()
        except BaseException as error:
            await end_producer(producer, connection)
            if not isinstance(error, CLIENT_ERRORS):
                raise
            doing = f"opening the writer of partition {partition}"
            raise translate(error, doing=doing, where=connection.where) from error
        return cls(connection, partition, producer)

    @property
    def partition(self) -> int:
        """The partition that it holds."""
        return self._partition

    async def append(self, batch: Sequence[Entry]) -> None:
        """Append a batch atomically; see the contract."""
        self._check_usable()
        try:
            limits.check_batch(batch, self._where)
        except LogTrouble as trouble:
            self._dead = trouble.what
            raise
        self._records += len(batch)
        is_committing = False
        try:
            async with asyncio.timeout(self._connection.tuning.append_ms / 1000):
                await self._producer.begin_transaction()
                faults.reach(faults.Point.BEFORE_SEND)
                await self._send(batch)
                faults.reach(faults.Point.AFTER_SEND)
                is_committing = True
                await self._commit()
                faults.reach(faults.Point.AFTER_COMMIT)
        except BaseException as error:
            self._dead = words(error)
            self._is_fenced = isinstance(error, FENCED)
            if not isinstance(error, CLIENT_ERRORS):
                raise
            raise self._failure(error, is_committing) from error

    async def _send(self, batch: Sequence[Entry]) -> None:
        """Send all entries of the open transaction and wait until each is acknowledged."""
        pending: list[Pending] = []
        for topic in WRITER_TOPICS:
            entries = [entry for entry in batch if entry.topic == topic]
            for builder in self._filled(entries):
                pending.append(
                    await self._producer.send_batch(
                        builder, self._connection.topic(topic), partition=self._partition
                    )
                )
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    def _filled(self, entries: Sequence[Entry]) -> list[BatchBuilder]:
        """The entries in as many of the client's batches as they need."""
        builders: list[BatchBuilder] = []
        for entry in entries:
            if not builders or not _take(builders[-1], entry):
                builders.append(self._producer.create_batch())
                # An empty one takes any entry, however large.
                assert _take(builders[-1], entry)
        return builders

    async def _commit(self) -> None:
        commit = asyncio.ensure_future(self._producer.commit_transaction())
        try:
            # One turn of the loop each for the flush, the sender and its socket.
            for _ in range(TURNS_TO_SEND):
                await asyncio.sleep(0)
            faults.reach(faults.Point.INSIDE_COMMIT)
            await commit
        finally:
            commit.cancel()

    def _check_usable(self) -> None:
        where, todo = self._where, "open a new writer and replay"
        if self._dead is not None:
            kind = Fenced if self._is_fenced else AppendFailed
            raise kind(f"this writer ended: {self._dead}", where=where, todo=todo)
        if self._is_closed:
            raise AppendFailed("this writer is closed", where=where, todo=todo)
        if self._records >= RECORDS_MAX:
            raise AppendFailed("this writer's numbers are used up", where=where, todo=todo)

    def _failure(self, error: BaseException, is_committing: bool) -> LogTrouble:
        where = self._where
        if isinstance(error, FENCED):
            return translate(error, doing="appending", where=where)
        if is_committing:
            return OutcomeUnknown(
                f"a commit did not finish: {words(error)}",
                where=where,
                todo="open a new writer and replay: the ledger says whether it happened",
            )
        if isinstance(error, TOO_LARGE):
            return AppendFailed(
                f"the broker refused a batch as too large: {words(error)}",
                where=where,
                todo="raise max.message.bytes of the topic; `pool doctor` says to what",
            )
        return AppendFailed(
            f"a batch was not sent: {words(error)}",
            where=where,
            todo="open a new writer and replay; nothing of it is visible",
        )

    @property
    def _where(self) -> str:
        return f"{self._connection.where}, partition {self._partition}"

    async def close(self) -> None:
        """Let go of the partition; never raises, may be called twice."""
        if not self._is_closed:
            self._is_closed = True
            await end_producer(self._producer, self._connection)


def _take(builder: BatchBuilder, entry: Entry) -> bool:
    headers: _Headers = []
    if entry.content_type != CONTENT_CBOR:
        headers.append((CONTENT_TYPE_HEADER, entry.content_type.encode()))
    headers.extend(entry.headers)
    taken = builder.append(timestamp=None, key=entry.key, value=entry.value, headers=headers)
    return taken is not None


async def end_producer(producer: Producer, connection: Connection) -> None:
    """End a producer within its time, whatever state it is in; never raises.

    A polite stop waits for brokers without a limit. When it does not come back, the sender's task
    is cancelled: once for itself, and once more for each request that it insists on waiting for.
    """
    limit_s = connection.tuning.stop_ms / 1000
    with contextlib.suppress(*CLIENT_ERRORS):
        async with asyncio.timeout(limit_s):
            await producer.stop()
            return
    sender = getattr(getattr(producer, "_sender", None), "sender_task", None)
    for _ in range(END_TRIES_MAX):
        if sender is None or sender.done():
            break
        sender.cancel()
        await asyncio.wait([sender], timeout=limit_s / END_TRIES_MAX)
    client = getattr(producer, "client", None)
    if client is not None:
        with contextlib.suppress(*CLIENT_ERRORS):
            async with asyncio.timeout(limit_s):
                await client.close()
