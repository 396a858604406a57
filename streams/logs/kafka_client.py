"""Typed doors to aiokafka: the consumers and producers that this project uses, as it uses them.

Not here: what is read or written with them (`kafka_reader`, `kafka_writer`, `kafka_publisher`),
what their errors mean (`kafka_errors`), where they connect (`kafka_options`). aiokafka is untyped:
its classes are made here alone, so that another client could take its place.

1. Every consumer reads committed records only, unless it asks for offsets alone.
2. Producers wait for every in-sync replica and repeat nothing on a retry.

Invariant: no consumer commits by itself, and none picks an offset by itself.
Source: notes on aiokafka 0.14, the settings of the reference loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

# aiokafka has no annotations and no marker file.
import aiokafka  # type: ignore[import-untyped]
from aiokafka.abc import ConsumerRebalanceListener  # type: ignore[import-untyped]
from aiokafka.conn import collect_hosts, create_conn  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (  # type: ignore[import-untyped]
    StickyPartitionAssignor,
)

from streams.logs.kafka_errors import CLIENT_ERRORS
from streams.logs.kafka_options import Connection

# The library logs every retry. What matters is raised or observed here; who sets up logging gets
# its lines all the same, and nobody else gets them on stderr.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())

if TYPE_CHECKING:

    class TopicPartition(NamedTuple):
        """A topic's partition, as the client library names it."""

        topic: str
        partition: int

    class RebalanceListener:
        """What a group consumer calls when partitions come and go."""

else:
    TopicPartition = aiokafka.TopicPartition
    RebalanceListener = ConsumerRebalanceListener

PARTITION_FETCH_BYTES = 4 * 1024 * 1024
BATCH_BYTES = 1024 * 1024
"""A batch that a writer sends in one piece; below `max.message.bytes` of its topics."""
PUBLISH_BATCH_BYTES = 256 * 1024


def place_of(connection: Connection, topic: str, partition: int) -> TopicPartition:
    """A topic's partition in the cluster."""
    return TopicPartition(connection.topic(topic), partition)


class Consumed(Protocol):
    """A record as the library returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Produced(Protocol):
    """Where a record went. `timestamp_type` 1: the broker gave the time; `offset` -1: unknown."""

    offset: int
    timestamp: int
    timestamp_type: int


class Pending(Protocol):
    """A future of the library: awaited for a `Produced`."""

    def __await__(self) -> Any: ...


class Consumer(Protocol):
    """The part of aiokafka's consumer that is used."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def assign(self, places: list[TopicPartition]) -> None: ...
    def subscribe(self, topics: list[str], *, listener: RebalanceListener) -> None: ...
    def seek(self, place: TopicPartition, offset: int) -> None: ...
    def pause(self, *places: TopicPartition) -> None: ...
    async def position(self, place: TopicPartition) -> int: ...
    def last_stable_offset(self, place: TopicPartition) -> int | None: ...
    def last_poll_timestamp(self, place: TopicPartition) -> int | None: ...
    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...
    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]: ...
    async def beginning_offsets(
        self, places: list[TopicPartition]
    ) -> dict[TopicPartition, int]: ...
    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Consumed]]: ...


class BatchBuilder(Protocol):
    """The part of aiokafka's batch builder that is used; `append` gives None once it is full."""

    def append(
        self,
        *,
        timestamp: int | None,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes]],
    ) -> object | None: ...


class Producer(Protocol):
    """The part of aiokafka's producer that is used."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    def create_batch(self) -> BatchBuilder: ...
    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> Pending: ...
    async def send(
        self,
        topic: str,
        *,
        value: bytes,
        key: bytes | None,
        partition: int,
        timestamp_ms: int | None,
        headers: Sequence[tuple[str, bytes]],
    ) -> Pending: ...


def committed_consumer(connection: Connection) -> Consumer:
    """A consumer of committed records, in no group, to be assigned places by hand."""
    return _consumer(connection, "read_committed")


def offsets_consumer(connection: Connection) -> Consumer:
    """A consumer that is only asked for offsets: its ends are the read-uncommitted ones."""
    return _consumer(connection, "read_uncommitted")


def _consumer(connection: Connection, isolation: str, **more: Any) -> Consumer:
    made = aiokafka.AIOKafkaConsumer(
        **connection.client_arguments(),
        isolation_level=isolation,
        enable_auto_commit=False,
        fetch_max_wait_ms=connection.tuning.fetch_wait_ms,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        **({"auto_offset_reset": "none"} | more),
    )
    return cast(Consumer, made)


def positions_consumer(connection: Connection, group: str) -> Consumer:
    """A consumer that only commits offsets for a group that nobody joins."""
    return _consumer(connection, "read_committed", group_id=connection.prefix + group)


def group_consumer(connection: Connection) -> Consumer:
    """A member of the stewards' group: it is handed partitions and never reads a record."""
    tuning = connection.tuning
    return _consumer(
        connection,
        "read_committed",
        group_id=connection.prefix + connection.group,
        # It reads nothing, but the library wants a position for what it is handed.
        auto_offset_reset="earliest",
        session_timeout_ms=tuning.session_ms,
        heartbeat_interval_ms=tuning.heartbeat_ms,
        rebalance_timeout_ms=tuning.rebalance_ms,
        max_poll_interval_ms=tuning.poll_interval_ms,
        # The library keeps this assignor's memory on the class: each consumer gets its own.
        partition_assignment_strategy=(type("Sticky", (StickyPartitionAssignor,), {}),),
    )


def transactional_producer(connection: Connection, transactional_id: str) -> Producer:
    """A new transactional producer; it cannot be started twice."""
    made = aiokafka.AIOKafkaProducer(
        **connection.client_arguments(),
        transactional_id=transactional_id,
        transaction_timeout_ms=connection.tuning.transaction_ms,
        max_batch_size=BATCH_BYTES,
        max_request_size=2 * BATCH_BYTES,
    )
    return cast(Producer, made)


def idempotent_producer(connection: Connection) -> Producer:
    """A producer for published records, which repeats none of them on a retry."""
    made = aiokafka.AIOKafkaProducer(
        **connection.client_arguments(),
        enable_idempotence=True,
        max_batch_size=PUBLISH_BATCH_BYTES,
        max_request_size=2 * BATCH_BYTES,
        linger_ms=2,
    )
    return cast(Producer, made)


async def start_consumer(consumer: Consumer) -> Consumer:
    """Start a consumer; one that could not be started is closed, so that nothing of it stays."""
    try:
        await consumer.start()
    except BaseException:
        with contextlib.suppress(*CLIENT_ERRORS):
            await consumer.stop()
        raise
    return consumer


async def stop_consumer(consumer: Consumer, connection: Connection) -> None:
    """Stop a consumer within its time; never raises.

    Whatever: a stop also hands out what had killed the library's own tasks, a KeyError included.
    """
    with contextlib.suppress(Exception):
        async with asyncio.timeout(connection.tuning.stop_ms / 1000):
            await consumer.stop()


async def refusal(connection: Connection) -> BaseException | None:
    """Why a first connection fails; None if it does not, or nothing can be learnt.

    The library tries every address, logs why each refused, and raises that none was left.
    """
    arguments = connection.client_arguments()
    hosts = collect_hosts(arguments.pop("bootstrap_servers"))
    why: BaseException | None = None
    for host, port, _ in hosts:
        try:
            made = await create_conn(host, port, **arguments)
        except CLIENT_ERRORS as error:
            why = error
        else:
            made.close()
            return None
    return why
