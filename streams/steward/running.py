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
from collections.abc import Callable, Collection

from streams.logs.contract import Log
from streams.logs.errors import Missing
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_group import Membership
from streams.logs.kafka_options import Connection
from streams.steward.group import Crew
from streams.steward.keyring import Keyring
from streams.steward.loop import Steward, run_all
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
    open_log: Callable[[Connection], Log] = KafkaLog,
) -> None:
    """Work until `stopping` is set. `partitions` None: share them with the group.

    `on_stopped` hears of a partition that stopped for good while others go on.
    Raises: LogTrouble, StewardStopped: when nothing is left that works, or at the start.
    """

    def make(on: Log, number: int) -> Steward:
        return Steward(
            on, number, keyring, settings=settings, snapshots=snapshots, observer=observer
        )

    log = open_log(connection)
    try:
        count = await log.partitions()
        if partitions is not None:
            _check(partitions, count, log.where)
            await run_all([make(log, number) for number in sorted(partitions)], stopping)
            return
        tuning = connection.tuning
        crew = Crew(
            log,
            make,
            silence_ms=tuning.poll_interval_ms,
            fenced_pause_ms=FENCED_PAUSE_HEARTBEATS * tuning.heartbeat_ms,
            on_stopped=on_stopped,
        )
        await crew.run(Membership(connection, crew), stopping)
    finally:
        await log.close()


def _check(partitions: Collection[int], count: int, where: str) -> None:
    for number in sorted(partitions):
        if not 0 <= number < count:
            raise Missing(
                f"no partition {number}", where=where, todo=f"choose among 0 to {count - 1}"
            )
