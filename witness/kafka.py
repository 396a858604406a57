"""Following a ledger on Kafka, and publishing statements there.

The runner's needs are `witness.sources`; how stewards write is their business.

1. Read committed, always: a receipt of an aborted transaction never happened.
2. One consumer for each topic's partition, assigned by hand, in no group, committing nothing: the
   library fetches nothing for one partition while another's records lie unread.
3. Ends are the read-uncommitted ones: a reader that has reached one has passed every marker.
4. Statements are sent with acks from all in-sync replicas, keyed by the pool's id; the library's
   partitioner is the one of Kafka's own clients, so they are in the pool's partition.
5. Whatever the client raises leaves as Trouble(`log-unavailable`), is told, and is tried again.

Source: aiokafka 0.14.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

# aiokafka has no annotations and no marker file.
import aiokafka  # type: ignore[import-untyped]
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]

from witness.sources import CONTENT_TYPE, READ_MAX, TOPICS, WITNESS, Batch, LogRecord
from witness.trouble import Reason, Trouble

REQUEST_SECONDS: Final = 10.0
OPTIONS: Final = frozenset(
    (
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    )
)

_CLIENT_ERRORS: Final = (
    errors.KafkaError,
    errors.ConsumerStoppedError,
    errors.IllegalOperation,
    AssertionError,
    OSError,
    TimeoutError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Which cluster, what its topics' names begin with, and how to get in (librdkafka's names)."""

    bootstrap: str
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """What to call it in a message."""
        return f"kafka {self.bootstrap}"

    def arguments(self) -> dict[str, Any]:
        """What every client takes. Raises Trouble(`bad-input`): a file cannot be used."""
        protocol = self.options.get("security.protocol", "PLAINTEXT")
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": "pool-witness",
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if protocol.startswith("SASL"):
            arguments["sasl_mechanism"] = self.options.get("sasl.mechanism", "PLAIN")
            arguments["sasl_plain_username"] = self.options.get("sasl.username", "")
            arguments["sasl_plain_password"] = self.options.get("sasl.password", "")
        return arguments

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.options.get("ssl.ca.location"))
            certificate = self.options.get("ssl.certificate.location")
            if certificate is not None:
                key = self.options.get("ssl.key.location")
                context.load_cert_chain(certificate, key, self.options.get("ssl.key.password"))
        except OSError as error:
            todo = "check the ssl.* options"
            raise Trouble(Reason.BAD_INPUT, str(error), where=self.where, todo=todo) from error
        return context


def parse_options(text: str) -> dict[str, str]:
    """`name = value` lines with `#` comments. Raises Trouble(`bad-input`) for any other line."""
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        name, equals, value = (part.strip() for part in content.partition("="))
        if not equals or name not in OPTIONS:
            raise Trouble(
                Reason.BAD_INPUT,
                f"not an option: {name}",
                where=f"line {number}",
                todo=f"options are {', '.join(sorted(OPTIONS))}",
            )
        options[name] = value
    return options


class KafkaReader:
    """A `sources.Reader` of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumers: dict[aiokafka.TopicPartition, Any] = {}
        self._offsets: Any = None

    @property
    def where(self) -> str:
        """The cluster."""
        return self._cluster.where

    async def partitions(self) -> int:
        """How many partitions the topics have. Raises Trouble(`log-missing`): none, or unlike."""
        names = [self._cluster.prefix + topic for topic in TOPICS]
        async with self._asking("asking for the topics"):
            admin = AIOKafkaAdminClient(**self._cluster.arguments())
            try:
                await admin.start()
                described = await admin.describe_topics(names)
            finally:
                await admin.close()
        counts = {topic["topic"]: len(topic["partitions"]) for topic in described}
        for name in names:
            if not counts.get(name) or counts[name] != counts.get(names[0]):
                what = f"{name} has {counts.get(name, 0)} partitions"
                todo = "run `pool topics create` first, and `pool doctor`"
                raise Trouble(Reason.LOG_MISSING, what, where=self.where, todo=todo)
        return counts[names[0]]

    async def end(self, topic: str, partition: int) -> int:
        """The read-uncommitted end offset."""
        place = self._place(topic, partition)
        async with self._asking(f"asking for the end of {topic}/{partition}"):
            ends = await (await self._offsets_consumer()).end_offsets([place])
        return int(ends[place])

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = READ_MAX,
        timeout_ms: int = 0,
    ) -> Batch:
        """Committed records at and after `offset_next`; steps over markers and what expired."""
        place = self._place(topic, partition)
        async with self._asking(f"reading {topic}/{partition}", more_s=timeout_ms / 1000):
            consumer = await self._consumer(place)
            try:
                if await consumer.position(place) != offset_next:
                    consumer.seek(place, offset_next)
                found = await consumer.getmany(
                    place, timeout_ms=timeout_ms, max_records=max_records
                )
                position = await consumer.position(place)
            except errors.OffsetOutOfRangeError:
                starts = await consumer.beginning_offsets([place])
                return Batch((), max(offset_next, starts[place]))
        records = (LogRecord(one.offset, one.key, one.value or b"") for one in found.get(place, ()))
        return Batch(tuple(records), int(position))

    async def close(self) -> None:
        """Close every connection; never raises."""
        consumers = [*self._consumers.values(), self._offsets]
        self._consumers, self._offsets = {}, None
        await asyncio.gather(*(_stop(consumer) for consumer in consumers if consumer is not None))

    def _place(self, topic: str, partition: int) -> aiokafka.TopicPartition:
        return aiokafka.TopicPartition(self._cluster.prefix + topic, partition)

    async def _consumer(self, place: aiokafka.TopicPartition) -> Any:
        if place not in self._consumers:
            consumer = await self._started("read_committed")
            consumer.assign([place])
            consumer.seek(place, 0)
            self._consumers[place] = consumer
        return self._consumers[place]

    async def _offsets_consumer(self) -> Any:
        if self._offsets is None:
            self._offsets = await self._started("read_uncommitted")
        return self._offsets

    async def _started(self, isolation: str) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            **self._cluster.arguments(),
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=250,
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        try:
            await consumer.start()
        except BaseException:
            await _stop(consumer)
            raise
        return consumer

    @asynccontextmanager
    async def _asking(self, doing: str, *, more_s: float = 0.0) -> AsyncIterator[None]:
        """The request's time limit, and what its errors mean; a client in doubt is dropped."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS + more_s):
                yield
        except _CLIENT_ERRORS as error:
            await self.close()
            raise _unavailable(self._cluster, doing, error) from error


class KafkaPublisher:
    """A `sources.Publisher` on the cluster's `pool.witness`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer: Any = None

    async def published(self) -> None:
        """All that was published is in the topic."""

    async def publish(self, pool: str, statement: bytes) -> None:
        """Send a statement and wait until every in-sync replica has it."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                producer = await self._started()
                await producer.send_and_wait(
                    self._cluster.prefix + WITNESS,
                    value=statement,
                    key=pool.encode(),
                    headers=[("content-type", CONTENT_TYPE.encode())],
                )
        except _CLIENT_ERRORS as error:
            await self.close()
            raise _unavailable(self._cluster, f"publishing for {pool}", error) from error

    async def close(self) -> None:
        """Close the connection; never raises."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stop(producer)

    async def _started(self) -> Any:
        if self._producer is None:
            producer = aiokafka.AIOKafkaProducer(
                **self._cluster.arguments(), enable_idempotence=True
            )
            try:
                await producer.start()
            except BaseException:
                await _stop(producer)
                raise
            self._producer = producer
        return self._producer


async def _stop(client: Any) -> None:
    try:
        async with asyncio.timeout(REQUEST_SECONDS / 2):
            await client.stop()
    except _CLIENT_ERRORS:
        return


def _unavailable(cluster: Cluster, doing: str, error: BaseException) -> Trouble:
    words = " ".join(str(error).split()) or "timed out"
    return Trouble(
        Reason.LOG_UNAVAILABLE,
        f"no answer while {doing}: {type(error).__name__}: {words}",
        where=cluster.where,
        todo="check that the broker runs and can be reached; it is tried again",
    )
