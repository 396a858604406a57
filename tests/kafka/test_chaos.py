"""Whatever dies, and whenever: each event is decided once, in order, in one unbroken chain.

Real processes, real signals, real brokers. Longer runs of the same: `chaos.py`.
"""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from brokers import LocalCluster, local_cluster
from chaos_support import Deployment
from support import QUICK, set_topic, tuned

from streams import topics
from streams.faults import Point
from streams.logs.kafka_admin import SETTINGS
from streams.logs.kafka_options import Connection

POINTS = (
    Point.BEFORE_DECIDE,
    Point.BEFORE_SEND,
    Point.AFTER_SEND,
    Point.INSIDE_COMMIT,
    Point.AFTER_COMMIT,
    Point.AFTER_APPEND,
)


@pytest.fixture
async def deployment(broker: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    """Three partitions on the session's broker."""
    prefix = f"t{uuid.uuid4().hex[:10]}."
    connection = Connection(bootstrap=broker, prefix=prefix, tuning=QUICK)
    made = Deployment(connection, tmp_path, partitions=3)
    yield made
    await made.close()


async def test_killed_between_any_two_steps(deployment: Deployment) -> None:
    """kill -9 at every step of a batch; the next steward goes on as if nothing had been."""
    await deployment.open()
    for number, point in enumerate(POINTS):
        victim = deployment.steward(
            point, partitions=[0, 1, 2], fault=f"{point}:{2 + number}", snapshots=None
        )
        assert await victim.ended() == -signal.SIGKILL, victim.tail()
    deployment.steward("last", partitions=[0, 1, 2])
    assert await deployment.verify() > 100


async def test_a_zombie_is_fenced(deployment: Deployment) -> None:
    """Stopped in the middle of a batch, replaced, resumed: it is fenced and says so."""
    await deployment.open()
    zombie = deployment.steward("zombie", fault=f"{Point.AFTER_SEND}:12:stop")
    await zombie.frozen()
    successor = deployment.steward("successor")
    for partition in range(3):
        await successor.says("opened", partition=partition)
    zombie.send(signal.SIGCONT)
    await zombie.says("reopening", trouble="Fenced")
    await deployment.verify()


async def test_a_transaction_that_times_out_is_given_up(deployment: Deployment) -> None:
    """Asleep past its transaction, a steward finds it aborted and goes on from the ledger."""
    await deployment.open()
    alone = tuned(deployment.connection, transaction_ms=1_500)
    deployment.connection = alone
    sleeper = deployment.steward(
        "sleeper", partitions=[0, 1, 2], fault=f"{Point.AFTER_SEND}:9:stop"
    )
    await sleeper.frozen()
    await asyncio.sleep(3)
    sleeper.send(signal.SIGCONT)
    await sleeper.says("reopening", trouble="Fenced")
    await deployment.verify()


async def test_a_send_that_fails_is_tried_again(deployment: Deployment) -> None:
    """While the ledger's topic refuses a batch nothing is lost; widened, all goes on."""
    await deployment.open()
    steward = deployment.steward("steward", partitions=[0, 1, 2])
    await steward.says("appended", times=5)
    narrow = SETTINGS[topics.LEDGER] | {"max.message.bytes": "400"}
    await set_topic(deployment.connection, topics.LEDGER, narrow)
    await steward.says("reopening", times=3, trouble="AppendFailed")
    await set_topic(deployment.connection, topics.LEDGER, SETTINGS[topics.LEDGER])
    await deployment.verify()


async def test_work_that_hangs_is_handed_on(deployment: Deployment) -> None:
    """A steward slower than its poll interval loses its partitions, and decides nothing twice."""
    await deployment.open()
    deployment.connection = tuned(deployment.connection, poll_interval_ms=3_000)
    other = deployment.steward("other")
    await other.says("appended", times=5)
    slow = deployment.steward("slow", hang=(5, 20.0))
    await slow.says("hanging")
    (hung,) = (line["partition"] for line in slow.told() if line["what"] == "hanging")
    before = other.count("opened", partition=hung)
    await other.says("opened", partition=hung, times=before + 1)
    assert slow.count("awake") == 0
    await deployment.verify()


async def test_a_storm_of_rebalances(deployment: Deployment) -> None:
    """Stewards come, go politely and are killed, all the time; then one is left, and catches up."""
    await deployment.open()
    running = [deployment.steward("first")]
    for number in range(8):
        running.append(deployment.steward(f"storm-{number}"))
        await asyncio.sleep(1.2)
        if len(running) > 3 or number % 3 == 0:
            leaving = running.pop(0)
            leaving.send(signal.SIGKILL if number % 2 else signal.SIGTERM)
    for steward in running[1:]:
        steward.send(signal.SIGTERM)
    await deployment.verify()


async def test_the_only_broker_is_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """kill -9 of a single broker, twice; decisions wait for it, none is lost."""
    with local_cluster(tmp_path_factory.mktemp("kafka-1")) as cluster:
        deployment = Deployment(
            Connection(bootstrap=cluster.address, tuning=QUICK), tmp_path, partitions=3
        )
        try:
            await deployment.open()
            deployment.steward("one")
            other = deployment.steward("other")
            await other.says("started")
            for _ in range(2):
                await asyncio.sleep(2)
                await asyncio.to_thread(cluster.do, "kill", "1")
                await asyncio.sleep(1)
                await asyncio.to_thread(cluster.do, "restart", "1")
            await asyncio.sleep(2)
            assert await deployment.verify() > 100
        finally:
            await deployment.close()


async def test_leaders_and_coordinators_are_killed(
    three_nodes: LocalCluster, tmp_path: Path
) -> None:
    """On three nodes each one is killed in turn, whatever it leads or coordinates."""
    deployment = Deployment(
        Connection(bootstrap=three_nodes.address, tuning=QUICK), tmp_path, partitions=6
    )
    try:
        await deployment.open(replicas=3)
        deployment.steward("one")
        deployment.steward("other")
        for number in ("1", "2", "3"):
            await asyncio.sleep(1)
            await asyncio.to_thread(three_nodes.do, "kill", number)
            await asyncio.sleep(4)
            await asyncio.to_thread(three_nodes.do, "restart", number)
        await asyncio.sleep(2)
        assert await deployment.verify() > 100
    finally:
        await deployment.close()
