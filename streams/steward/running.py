"""A steward process on Kafka: the group's share of the partitions, or fixed ones.

Not here: a partition's work (`loop`), sharing (`group`), what a person sees of it (`observer`,
`metrics`, the command line).

1. With fixed partitions there is no group: whoever places the processes decides. Two that are given
   the same partition fence each other for ever, and both say so.
2. Trouble at the start is raised: a wrong address should not look like a slow broker. What is
   trouble later is got over.

Invariant: `stopping` ends it in order: heads and snapshots are written, then the group is left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from functools import partial

from streams.logs.contract import Log
from streams.logs.errors import Missing
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_group import Membership
from streams.logs.kafka_options import Connection
from streams.steward.group import Crew
from streams.steward.health import serve_health
from streams.steward.keyring import Keyring
from streams.steward.loop import Steward, run_all
from streams.steward.metrics import Metrics, Observers
from streams.steward.observer import Observer
from streams.steward.settings import Settings
from streams.steward.snapshots import Snapshots

FENCED_PAUSE_HEARTBEATS = 3


async def run_on_kafka(
    connection: Connection,
    keyring: Keyring,
    stopping: asyncio.Event,
    *,
    partitions: Collection[int] | None = None,
    settings: Settings | None = None,
    snapshots: Snapshots | None = None,
    observer: Observer | None = None,
    on_stopped: Callable[[int, BaseException], None] = lambda partition, error: None,
    health: tuple[str, int] | None = None,
    on_served: Callable[[int], None] = lambda port: None,
    open_log: Callable[[Connection], Log] = KafkaLog,
) -> None:
    """Work until `stopping` is set. `partitions` None: share them with the group.

    `on_stopped` hears of a partition that stopped for good while others go on. `health`: where to
    serve health and metrics, host and port; `on_served` hears which port it became.
    Raises: LogTrouble, StewardStopped: when nothing is left that works, or at the start; OSError
    where `health` cannot be served.
    """
    metrics = Metrics()
    watching = Observers([metrics, *([observer] if observer is not None else [])])

    def make(on: Log, number: int) -> Steward:
        return Steward(
            on, number, keyring, settings=settings, snapshots=snapshots, observer=watching
        )

    def stopped(number: int, error: BaseException) -> None:
        metrics.stopped(number, error)
        on_stopped(number, error)

    log = open_log(connection)
    try:
        count = await log.partitions()
        async with contextlib.AsyncExitStack() as stack:
            if health is not None:
                measure = partial(metrics.measure, log)
                served = serve_health(metrics, host=health[0], port=health[1], measure=measure)
                on_served(await stack.enter_async_context(served))
            if partitions is not None:
                _check(partitions, count, log.where)
                await run_all([make(log, number) for number in sorted(partitions)], stopping)
            else:
                crew = _crew(log, make, connection, stopped, metrics.let_go)
                await crew.run(Membership(connection, crew), stopping)
    finally:
        await log.close()


def _crew(
    log: Log,
    make: Callable[[Log, int], Steward],
    connection: Connection,
    on_stopped: Callable[[int, BaseException], None],
    on_let_go: Callable[[int], None],
) -> Crew:
    tuning = connection.tuning
    return Crew(
        log,
        make,
        silence_ms=tuning.poll_interval_ms,
        fenced_pause_ms=FENCED_PAUSE_HEARTBEATS * tuning.heartbeat_ms,
        on_stopped=on_stopped,
        on_let_go=on_let_go,
    )


def _check(partitions: Collection[int], count: int, where: str) -> None:
    for number in sorted(partitions):
        if not 0 <= number < count:
            raise Missing(
                f"no partition {number}", where=where, todo=f"choose among 0 to {count - 1}"
            )
