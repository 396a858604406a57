"""`pool run`: the steward, until it is told to stop (SIGTERM, SIGINT).

1. Stopped in order it publishes the heads that it owes and writes its snapshots, and ends with 0.
2. On Kafka stewards of one `--group` share the partitions; `--partitions` fixes them instead.
3. Time passes: what is due is settled though nobody sends anything (ticks).
4. `--port` serves metrics and health. It tells what it does on stderr, and prints nothing else.

Not here: the steward (`streams.steward`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from schemas.keys import KeyRefused, SeedSigner, did_key
from streams.cli.keys import password_option, read_key
from streams.cli.ledgers import read_trust_keys
from streams.cli.session import Failure, Session, Status, common
from streams.cli.stewarding import steward_key, stewards_of
from streams.cli.where import Where, on_a_log
from streams.logs.embedded import EmbeddedLog
from streams.logs.kafka_options import GROUP_DEFAULT
from streams.steward import Appended, Keyring, Observer, Settings, Snapshots, run_all
from streams.steward.health import serve_health
from streams.steward.metrics import Metrics, Observers
from streams.steward.running import run_on_kafka


class _Partitions(click.ParamType):
    """`0,3`: partition numbers."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> frozenset[int]:
        """The numbers, each once."""
        if isinstance(value, frozenset):
            return value
        texts = [text.strip() for text in str(value).split(",")]
        if not all(text.isascii() and text.isdigit() for text in texts):
            self.fail(f"{value!r} is no list of partition numbers", param, context)
        return frozenset(map(int, texts))


@click.command()
@on_a_log
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The steward's key file [DIR/steward.pem on an embedded log].",
)
@password_option
@click.option("--partitions", type=_Partitions(), help="These, without a group (Kafka).")
@click.option("--group", default=GROUP_DEFAULT, show_default=True, help="Who shares (Kafka).")
@click.option(
    "--snapshots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where snapshots are kept [DIR/snapshots; on Kafka none].",
)
@click.option(
    "--trust",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Refuse a key that this file names as a witness's.",
)
@click.option("--port", type=click.IntRange(0, 65_535), help="Serve /metrics, /healthz, /readyz.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to serve them.")
@common
@click.pass_obj
def run(
    session: Session,
    where: Where,
    key: Path | None,
    password_file: Path | None,
    partitions: frozenset[int] | None,
    group: str,
    snapshots: Path | None,
    trust: Path | None,
    port: int | None,
    host: str,
) -> None:
    """Run the steward until it is told to stop."""
    signer = _signer(where, key, password_file)
    keyring = _keyring(signer, trust)
    session.note(f"steward {did_key(signer.public_key)}")
    health = None if port is None else (host, port)
    if where.data is not None:
        asyncio.run(_embedded(session, where.data, keyring, health))
    else:
        asyncio.run(
            _kafka(
                session, where, keyring, health,
                partitions=partitions, group=group, snapshots=snapshots,
            )
        )  # fmt: skip


def _signer(where: Where, key: Path | None, password_file: Path | None) -> SeedSigner:
    if key is not None:
        return read_key(key, password_file)
    if where.data is not None:
        return steward_key(where.data, password_file)
    raise Failure("a steward needs a key", todo="name its file: --key FILE", status=Status.USAGE)


def _keyring(signer: SeedSigner, trust: Path | None) -> Keyring:
    try:
        return Keyring([signer], witnesses=() if trust is None else read_trust_keys(trust))
    except KeyRefused as refused:
        raise Failure(str(refused), where="--key", status=Status.USAGE) from refused


class _Told(Observer):
    """Says on stderr what a person should know of."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def opened(self, partition: int, pools: Any) -> None:
        """See `Observer`."""
        told = ", ".join(f"{name} at {length:,}" for name, length in sorted(pools.items()))
        self._session.note(f"partition {partition}: deciding; {told or 'no pool yet'}")

    def appended(self, batch: Appended) -> None:
        """See `Observer`."""
        if batch.dead_letters:
            self._session.warn(f"partition {batch.partition}: {batch.dead_letters} dead letters")

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        """See `Observer`."""
        self._session.warn(f"partition {partition}: ledger offset {offset} ignored: {detail}")

    def inputs_expired(self, topic: str, partition: int, offset_next: int, start: int) -> None:
        """See `Observer`."""
        self._session.warn(f"{topic}/{partition}: {offset_next} to {start} expired undecided")

    def snapshot_ignored(self, partition: int, detail: str) -> None:
        """See `Observer`."""
        self._session.warn(f"partition {partition}: snapshot not used: {detail}")

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        """See `Observer`."""
        self._session.warn(f"partition {partition}: {trouble}; again in {delay_ms} ms")


async def _embedded(
    session: Session, data: Path, keyring: Keyring, health: tuple[str, int] | None
) -> None:
    metrics = Metrics()
    log = EmbeddedLog(data)
    try:
        stewards = await stewards_of(log, keyring, Observers([metrics, _Told(session)]), Settings())
        async with AsyncExitStack() as stack:
            if health is not None:
                host, port = health
                measure = partial(metrics.measure, log)
                served = serve_health(metrics, host=host, port=port, measure=measure)
                _served(session, host, await stack.enter_async_context(served))
            await run_all(stewards, _stopping())
    finally:
        await log.close()


async def _kafka(
    session: Session,
    where: Where,
    keyring: Keyring,
    health: tuple[str, int] | None,
    *,
    partitions: Collection[int] | None,
    group: str,
    snapshots: Path | None,
) -> None:
    assert where.kafka is not None
    await run_on_kafka(
        replace(where.kafka, group=group),
        keyring,
        _stopping(),
        partitions=partitions,
        snapshots=None if snapshots is None else Snapshots(snapshots),
        observer=_Told(session),
        on_stopped=lambda partition, error: session.warn(
            f"partition {partition} stopped for good: {error}"
        ),
        health=health,
        on_served=lambda port: _served(session, health[0] if health else "", port),
    )


def _served(session: Session, host: str, port: int) -> None:
    session.note(f"health: http://{host}:{port}/healthz")


def _stopping() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
