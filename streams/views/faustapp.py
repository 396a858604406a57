"""A Faust application that can be trusted with a ledger: committed records only, small tables.

Not here: what is done with the records (`worker`).

1. Faust's consumer reads uncommitted records unless it runs its own exactly-once mode, which the
   read side does not need: rows know the last `seq` they took. So the consumer is made to read
   committed ones, and `check_isolation` says so of the consumer that really runs.
2. Tables are RocksDB by rocksdict. Its defaults take 2 GiB of cache a partition; ours take 16 MiB.
3. A table's changelog goes to the partition of the event that is current. A batch holds events of
   several partitions, so `as_if_in` makes one of the right partition current for the writes.

Invariant: no receipt of a transaction that was not committed reaches a row.
Source: faust-streaming 0.15.3 (`transport/drivers/aiokafka.py`, `stores/rocksdb.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import faust
from faust.streams import _current_event
from faust.transport.drivers import aiokafka as driver

from streams.logs.errors import Misconfigured
from streams.logs.kafka_options import Connection
from streams.views.place import Place

READ_COMMITTED: Final = "read_committed"
BLOCK_CACHE_BYTES: Final = 16 * 1024 * 1024
WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024


class _Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = READ_COMMITTED
        return consumer


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> Any:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


class _Transport(driver.Transport):
    Consumer = _Consumer


def make_faust(connection: Connection, place: Place, partitions: int) -> faust.App:
    """The application, not started. Raises: BadConnection."""
    tuning = connection.tuning
    app = faust.App(
        connection.prefix + place.group,
        broker=f"kafka://{connection.bootstrap}",
        broker_credentials=_credentials(connection),
        store="rocksdb://",
        datadir=str(place.datadir),
        canonical_url=place.url,
        web_enabled=False,
        topic_partitions=partitions,
        topic_replication_factor=place.replicas,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=tuning.session_ms / 1000,
        broker_heartbeat_interval=tuning.heartbeat_ms / 1000,
        broker_rebalance_timeout=tuning.rebalance_ms / 1000,
        broker_max_poll_interval=tuning.poll_interval_ms / 1000,
        # Faust wants a request to have longer than a session.
        broker_request_timeout=max(tuning.request_ms, 2 * tuning.session_ms) / 1000,
        broker_max_poll_records=2000,
        stream_buffer_maxsize=16384,
        stream_wait_empty=False,
        table_standby_replicas=0,
        producer_acks=-1,
        key_serializer="raw",
        value_serializer="raw",
        debug=False,
    )
    app.transport = _Transport(app.conf.broker, app)
    return app


def make_table(app: faust.App, name: str, partitions: int) -> FaustTable:
    """A table of bytes by text."""
    table = app.Table(
        name,
        partitions=partitions,
        key_type=bytes,
        value_type=bytes,
        # Faust takes members out of this map: each table has its own.
        options={
            "driver": "rocksdict",
            "block_cache_size": BLOCK_CACHE_BYTES,
            "write_buffer_size": WRITE_BUFFER_BYTES,
            "max_write_buffer_number": 2,
            "max_open_files": 64,
        },
    )
    return FaustTable(table)


class FaustTable(MutableMapping[str, bytes]):
    """A Faust table as a mapping from text. Written inside `as_if_in` only."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __getitem__(self, key: str) -> bytes:
        found: bytes = self.table[key.encode()]
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        self.table[key.encode()] = value

    def __delitem__(self, key: str) -> None:
        del self.table[key.encode()]

    def __iter__(self) -> Iterator[str]:
        return (key.decode() for key in self.table)

    def __len__(self) -> int:
        return len(self.table)


@contextmanager
def as_if_in(topic: str, partition: int) -> Iterator[None]:
    """Let tables be written as if an event of this partition were current (rule 3)."""
    event = _Current(SimpleNamespace(topic=topic, partition=partition))
    # Faust keeps a weak reference; `event` lives as long as this block.
    token = _current_event.set(weakref.ref(event))  # type: ignore[arg-type]
    try:
        yield
    finally:
        _current_event.reset(token)


class _Current:
    def __init__(self, message: SimpleNamespace) -> None:
        self.message = message


def check_isolation(app: faust.App) -> None:
    """Raises Misconfigured where the running consumer reads uncommitted records."""
    consumer: Any = app.consumer
    level = consumer._thread._consumer._fetcher._isolation_level
    if level not in (1, READ_COMMITTED):
        raise Misconfigured(
            f"the consumer's isolation level is {level!r}",
            where=str(app.conf.broker),
            todo="this version of Faust needs another way to read committed records",
        )


def _credentials(connection: Connection) -> Any:
    arguments = connection.client_arguments()
    protocol = arguments["security_protocol"]
    context = arguments.get("ssl_context")
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=arguments["sasl_plain_username"],
            password=arguments["sasl_plain_password"],
            mechanism=arguments["sasl_mechanism"],
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if protocol == "SSL" else None
