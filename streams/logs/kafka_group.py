"""Which partitions are ours: membership in the stewards' consumer group.

Not here: what is done with a partition (`streams.steward`); fencing, which does not depend on this:
two stewards that both believe a partition theirs still write one ledger (`kafka_writer`).

1. The member reads no record and commits no offset; the group only hands out partitions.
2. Before partitions move, work on all of them is held: what is in flight ends, nothing begins. When
   it is told which ones are ours, those that stayed go on where they were, with their writers.
3. The library calls the second callback when the assignment already stands, and sends no heartbeat
   while it runs: nothing is awaited in it.
4. Errors in a callback are only logged by the library; so they are kept here, and end `run`.
5. A member whose work does not go on (`is_alive` is false) stops asking and so leaves the group
   after the poll interval: somebody else gets its partitions.

Invariant: `hold` was awaited before any partition of ours is another's, unless this process slept.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Iterable
from typing import Protocol

from streams import topics
from streams.logs.errors import LogTrouble, Remedy
from streams.logs.kafka_client import (
    Consumer,
    RebalanceListener,
    TopicPartition,
    group_consumer,
    start_consumer,
    stop_consumer,
)
from streams.logs.kafka_errors import translate
from streams.logs.kafka_options import Connection

_log = logging.getLogger(__name__)

POLL_MS = 250
REJOIN_SECONDS = (0.5, 2.0)


class Share(Protocol):
    """Whoever works on the partitions that this process is handed."""

    async def hold(self) -> None:
        """Partitions may move: end what is in flight and begin nothing until `take`."""
        ...

    def take(self, partitions: frozenset[int]) -> None:
        """These are ours from now on, and no others. Returns at once; what has to be opened or
        closed is started here and goes on elsewhere."""
        ...

    def is_alive(self) -> bool:
        """Whether the work goes on; if not, the partitions are better off with another."""
        ...


class Membership:
    """Membership of one process; `run` it until it is cancelled or raises."""

    def __init__(self, connection: Connection, share: Share) -> None:
        self._connection = connection
        self._share = share
        self._failure: BaseException | None = None
        self._has_belonged = False

    async def run(self) -> None:
        """Join, and pass on what is handed out. Leaves the group when cancelled.

        Once it was a member, trouble with the group only means joining anew, after a pause.
        Raises: Unavailable (it could not join at first), Forbidden; whatever `share` raises.
        """
        while True:
            try:
                await self._belong()
            except LogTrouble as trouble:
                if trouble.remedy is Remedy.STOP or not self._has_belonged:
                    raise
                _log.warning("joining anew: %s", trouble)
            await asyncio.sleep(random.uniform(*REJOIN_SECONDS))

    async def _belong(self) -> None:
        """Be a member for as long as the library keeps up. Raises as `run`."""
        connection = self._connection
        consumer = group_consumer(connection)
        try:
            async with asyncio.timeout(connection.tuning.open_ms / 1000):
                await start_consumer(consumer)
            listener = _Listener(self, consumer)
            consumer.subscribe([connection.topic(topics.CLAIMS)], listener=listener)
            while self._failure is None:
                if self._share.is_alive():
                    await consumer.getmany(timeout_ms=POLL_MS, max_records=1)
                else:
                    await asyncio.sleep(POLL_MS / 1000)
        except Exception as error:
            # Not only the library's own errors: its coordination task has died of a KeyError.
            doing = f"in group {connection.prefix}{connection.group}"
            raise translate(error, doing=doing, where=connection.where) from error
        finally:
            await self._share.hold()
            await stop_consumer(consumer, connection)
        raise self._failure

    async def revoked(self) -> None:
        """Partitions may move now."""
        await self._guard(self._share.hold())

    def assigned(self, partitions: Iterable[int]) -> None:
        """These are ours."""
        self._has_belonged = True
        try:
            self._share.take(frozenset(partitions))
        except BaseException as error:
            self._failure = error
            raise

    async def _guard(self, work: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._connection.tuning.rebalance_ms / 2000):
                await work
        except TimeoutError:
            # Going on is safe: whoever gets the partition fences what is still in flight here.
            _log.warning("work in flight did not end before partitions moved")
        except BaseException as error:
            self._failure = error
            raise


class _Listener(RebalanceListener):
    """Turns the library's callbacks into the membership's."""

    def __init__(self, membership: Membership, consumer: Consumer) -> None:
        self._membership = membership
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Called before every rebalance, and awaited by the library."""
        await self._membership.revoked()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Called after every rebalance."""
        places = list(assigned)
        # Nothing is read with this consumer; what it had fetched before this is thrown away.
        self._consumer.pause(*places)
        self._membership.assigned(place.partition for place in places)
