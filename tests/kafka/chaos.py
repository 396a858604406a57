"""The long chaos runs: `python -m tests.kafka.chaos [--minutes N] [--seed N]`.

Rounds on three local nodes. In each, two to four stewards share six partitions under a steady feed
while faults are drawn at random: stewards killed between any two steps, frozen past their session
and resumed, told to stop, started; nodes killed, frozen, restarted; a topic too narrow for a while.
Then everything heals, and the verifier compares the ledgers with the inputs: each event decided
once, in order, chains unbroken, audits clean. A round that fails prints its seed and its logs.
"""

# ruff: noqa: E402 - the helpers of these tests are found once the path is set

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "logs")]

from brokers import LocalCluster, local_cluster
from chaos_support import Deployment, StewardProcess
from support import QUICK, set_topic

from streams import topics
from streams.faults import Point
from streams.logs.kafka_admin import SETTINGS
from streams.logs.kafka_options import Connection

PARTITIONS = 6
STEWARDS_MAX = 4
ROUND_SECONDS = 60
POINTS = (
    Point.BEFORE_DECIDE,
    Point.BEFORE_APPEND,
    Point.BEFORE_SEND,
    Point.AFTER_SEND,
    Point.INSIDE_COMMIT,
    Point.AFTER_COMMIT,
    Point.AFTER_APPEND,
    Point.BEFORE_SNAPSHOT,
    Point.INSIDE_SNAPSHOT,
)


class Round:
    """One round of faults on one deployment."""

    def __init__(
        self, cluster: LocalCluster, deployment: Deployment, chance: random.Random
    ) -> None:
        self.cluster = cluster
        self.deployment = deployment
        self.chance = chance
        self.faults: Counter[str] = Counter()
        self._alive: list[StewardProcess] = []
        self._frozen: list[StewardProcess] = []
        self._down: str | None = None
        self._frozen_node: str | None = None
        self._count = 0

    def start(self) -> None:
        """Start a steward; one in two carries a fault that kills or freezes it at some step."""
        self._count += 1
        fault = None
        if self.chance.random() < 0.5:
            how = "" if self.chance.random() < 0.7 else ":stop"
            fault = f"{self.chance.choice(POINTS)}:{self.chance.randint(1, 60)}{how}"
        snapshots = self.deployment.directory / f"snapshots-{self._count % STEWARDS_MAX}"
        self._alive.append(
            self.deployment.steward(
                f"steward-{self._count}",
                fault=fault,
                snapshots=snapshots,
                settings={"snapshot_receipts": 200},
            )
        )
        self.faults["start" if fault is None else fault.split(":")[0]] += 1

    async def kill(self) -> None:
        """kill -9 a steward."""
        if self._alive:
            self._alive.pop(self.chance.randrange(len(self._alive))).end()

    async def stop(self) -> None:
        """Tell a steward to stop."""
        if self._alive:
            self._alive.pop(0).send(signal.SIGTERM)

    async def freeze(self) -> None:
        """SIGSTOP a steward; it is resumed some faults later, or at the end."""
        if self._alive:
            frozen = self._alive.pop(0)
            frozen.send(signal.SIGSTOP)
            self._frozen.append(frozen)

    async def thaw(self) -> None:
        """SIGCONT whatever was frozen, also by its own fault."""
        for steward in self.deployment.stewards:
            steward.send(signal.SIGCONT)
        self._alive += self._frozen
        self._frozen.clear()

    async def kill_node(self) -> None:
        """kill -9 a node, and restart it with the next such fault."""
        if self._down is None and self._frozen_node is None:
            self._down = self.chance.choice("123")
            await asyncio.to_thread(self.cluster.do, "kill", self._down)
        else:
            await self.heal_nodes()

    async def freeze_node(self) -> None:
        """SIGSTOP a node, and resume it with the next such fault."""
        if self._down is None and self._frozen_node is None:
            self._frozen_node = self.chance.choice("123")
            await asyncio.to_thread(self.cluster.do, "pause", self._frozen_node)
        else:
            await self.heal_nodes()

    async def heal_nodes(self) -> None:
        """Every node runs again."""
        if self._down is not None:
            await asyncio.to_thread(self.cluster.do, "restart", self._down)
            self._down = None
        if self._frozen_node is not None:
            await asyncio.to_thread(self.cluster.do, "resume", self._frozen_node)
            self._frozen_node = None

    async def narrow(self) -> None:
        """For a moment the ledger's topic takes no batch."""
        connection = self.deployment.connection
        settings = SETTINGS[topics.LEDGER] | {"min.insync.replicas": "2"}
        with contextlib.suppress(Exception):
            # With a node down the change itself may fail: then there was no fault.
            await set_topic(connection, topics.LEDGER, settings | {"max.message.bytes": "400"})
            await asyncio.sleep(2)
        await asyncio.wait_for(self._widen(settings), 60)

    async def _widen(self, settings: dict[str, str]) -> None:
        while True:
            try:
                await set_topic(self.deployment.connection, topics.LEDGER, settings)
            except Exception:
                await asyncio.sleep(1)
            else:
                return

    async def run(self, seconds: float) -> None:
        """Draw faults until the time is over, then heal everything."""
        draws: list[Callable[[], Awaitable[None]]] = [
            *(self.kill, self.kill, self.stop, self.freeze, self.thaw, self.thaw),
            *(self.kill_node, self.freeze_node, self.narrow),
        ]
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            while len(self._alive) < self.chance.randint(2, STEWARDS_MAX):
                self.start()
            await asyncio.sleep(self.chance.uniform(0.5, 4))
            fault = self.chance.choice(draws)
            self.faults[fault.__name__] += 1
            await fault()
        await self.heal_nodes()
        await self.thaw()
        self.deployment.steward("last")


async def one_round(cluster: LocalCluster, seed: int, seconds: float) -> None:
    """A round on a deployment of its own; prints a line about it."""
    chance = random.Random(seed)
    connection = Connection(bootstrap=cluster.address, prefix=f"chaos-{seed}.", tuning=QUICK)
    with tempfile.TemporaryDirectory() as scratch:
        deployment = Deployment(connection, Path(scratch), partitions=PARTITIONS)
        deployment.feed.chance.seed(seed)
        played = Round(cluster, deployment, chance)
        try:
            await deployment.open(replicas=3)
            await played.run(seconds)
            decided = await deployment.verify()
            fenced = sum(one.count("reopening", trouble="Fenced") for one in deployment.stewards)
            faults = " ".join(f"{name}={count}" for name, count in sorted(played.faults.items()))
            print(
                f"seed {seed}: {decided} events decided once, {fenced} fenced; {faults}", flush=True
            )
        finally:
            await played.heal_nodes()
            await deployment.close()


def main() -> None:
    """Play rounds until the time is over; a failure ends it, with the seed to play it again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    ends = time.monotonic() + options.minutes * 60
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    with (
        tempfile.TemporaryDirectory() as scratch,
        local_cluster(Path(scratch) / "kafka", nodes=3) as cluster,
    ):
        while True:
            try:
                asyncio.run(one_round(cluster, seed, ROUND_SECONDS))
            except BaseException:
                print(f"failed: play it again with --seed {seed}", file=sys.stderr)
                raise
            seed += 1
            if time.monotonic() > ends:
                return


if __name__ == "__main__":
    main()
