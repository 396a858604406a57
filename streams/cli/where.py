"""Which log a command is about: `--data DIR` or `--kafka HOST:PORT`, and opening it.

1. Neither named: `POOL_DATA` in the environment, else `pool-data` here. Both named: wrong use.
2. What only reads opens the log beside whoever writes it, and changes nothing in it.
3. A pool that is not named is the log's only one; with none or several, the error lists them.

Not here: running a steward on it (`streams.cli.stewarding`).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from streams import topics
from streams.cli.session import Failure, Status
from streams.logs.contract import Log, LogReader, Record
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.logs.kafka import KafkaLog, KafkaReader
from streams.logs.kafka_options import BadConnection, Connection, parse_options
from streams.topics import partition_for

DATA_DEFAULT = Path("pool-data")
_PORT = re.compile(r"[0-9]{1,5}")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A log as the command line names it: exactly one of the two is not None."""

    data: Path | None
    kafka: Connection | None

    @property
    def is_embedded(self) -> bool:
        """Whether it is a directory of this machine."""
        return self.data is not None

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[LogReader]:
        """The log, for reading only. Raises LogTrouble."""
        reader: LogReader
        if self.data is not None:
            reader = EmbeddedReader(self.data)
        else:
            assert self.kafka is not None
            reader = KafkaReader(self.kafka)
        try:
            yield reader
        finally:
            await reader.close()

    @asynccontextmanager
    async def log(self, *, create: bool = False) -> AsyncIterator[Log]:
        """The log, for publishing too; `create` makes a missing directory. Raises LogTrouble."""
        log: Log
        if self.data is not None:
            log = EmbeddedLog(self.data, create=create)
        else:
            assert self.kafka is not None
            log = KafkaLog(self.kafka)
        try:
            yield log
        finally:
            await log.close()


class _Address(click.ParamType):
    """A cluster's address: one broker, or several with commas."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        """The address as it is, if each part of it has a host and a port."""
        for one in str(value).split(","):
            host, _, port = one.strip().rpartition(":")
            if not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
                self.fail(f"{one!r} is no HOST:PORT", param, context)
        return str(value)


def on_a_log(command: Command) -> Command:
    """Give a command the options that name a log; it gets them as `where`."""

    @click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="The embedded log's directory [$POOL_DATA, or pool-data].",
    )
    @click.option("--kafka", type=_Address(), help="A Kafka cluster's address instead.")
    @click.option(
        "--kafka-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="`name = value` lines: security.protocol, sasl.*, ssl.*.",
    )
    @click.option("--prefix", default="", help="What the deployment's Kafka topics begin with.")
    @wraps(command)
    def with_where(
        *arguments: Any,
        data: Path | None,
        kafka: str | None,
        kafka_config: Path | None,
        prefix: str,
        **options: Any,
    ) -> Any:
        where = chosen(data, kafka, kafka_config, prefix)
        return command(*arguments, where=where, **options)

    return with_where  # type: ignore[return-value]


@click.pass_context
def chosen(
    context: click.Context, data: Path | None, kafka: str | None, config: Path | None, prefix: str
) -> Where:
    """The log that the options name. Raises UsageError for two of them."""
    if data is not None and kafka is not None:
        raise click.UsageError("name one log: --data or --kafka, not both", context)
    if kafka is not None:
        options = {} if config is None else _options(config)
        return Where(data=None, kafka=Connection(bootstrap=kafka, prefix=prefix, options=options))
    return Where(data=data or data_default(), kafka=None)


def _options(config: Path) -> dict[str, str]:
    """What a connection's file says. Raises Failure with its name."""
    try:
        return parse_options(config.read_text(encoding="utf-8"))
    except BadConnection as error:
        what, todo = error.what, error.todo
    except UnicodeDecodeError:
        what, todo = "is not UTF-8 text", "write one `name = value` a line"
    raise Failure(what, where=str(config), todo=todo, status=Status.USAGE)


def data_default() -> Path:
    """The directory of an embedded log that nobody named (rule 1)."""
    named = os.environ.get("POOL_DATA")
    return Path(named) if named else DATA_DEFAULT


async def records(log: LogReader, topic: str, partition: int) -> AsyncIterator[Record]:
    """A partition's records from its start to the end that it had at the call."""
    offset = await log.start(topic, partition)
    end = await log.end(topic, partition)
    while offset < end:
        # On Kafka a read may return nothing before the end is reached; on a directory it never
        # waits, since the end lies ahead.
        fetched = await log.read(topic, partition, offset_next=offset, timeout_ms=1_000)
        # A directory answers at once: without a pause an interrupt would be heard at the end only.
        await asyncio.sleep(0)
        offset = fetched.offset_next
        for record in fetched.records:
            if record.offset < end:
                yield record


async def values(log: LogReader, topic: str, pool: str) -> AsyncIterator[bytes]:
    """The values of a pool's records in a topic, as `records` gives them."""
    key = pool.encode()
    async for record in records(log, topic, partition_for(key, await log.partitions())):
        if record.key == key:
            yield record.value


async def pools_of(log: LogReader) -> list[str]:
    """The pools that have a ledger here, sorted."""
    found: set[bytes] = set()
    for partition in range(await log.partitions()):
        async for record in records(log, topics.LEDGER, partition):
            if record.key is not None:
                found.add(record.key)
    return sorted(key.decode("utf-8", "replace") for key in found)


async def the_pool(log: LogReader, named: str | None) -> str:
    """The pool asked for, or the only one. Raises Failure: none such, none, or several."""
    pools = await pools_of(log)
    if named is not None:
        if named in pools:
            return named
        known = f"it has {', '.join(pools)}" if pools else "it has none yet"
        raise Failure(f"no pool {named!r}", where=log.where, todo=known, status=Status.NO)
    if len(pools) == 1:
        return pools[0]
    if pools:
        raise Failure(
            "several pools", where=log.where, todo=f"--pool {' or '.join(pools)}",
            status=Status.USAGE,
        )  # fmt: skip
    raise Failure(
        "no pool has a ledger here", where=log.where, todo="send it a pool.opened",
        status=Status.NO,
    )  # fmt: skip
