"""A broker for the Kafka tests, and a deployment of its own for each test.

A broker is taken in this order: `POOL_TEST_KAFKA` (an address), a local JVM through
`deploy/kafka-local`, Docker. With none of them the tests fail and say what to install: a run
without a broker is no run. Tests that kill nodes start a local cluster of their own.
"""

import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from brokers import LocalCluster, NoBroker, local_cluster, one_broker
from support import QUICK

from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection

# The suite that every log runs lives with the embedded log's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))

PARTITIONS = 3


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker, one for the whole run."""
    try:
        with one_broker(tmp_path_factory.mktemp("kafka")) as address:
            yield address
    except NoBroker as nothing:
        pytest.fail(str(nothing), pytrace=False)


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three local nodes, to be killed and restarted."""
    try:
        with local_cluster(tmp_path_factory.mktemp("kafka-3"), nodes=3) as cluster:
            yield cluster
    except NoBroker as nothing:
        pytest.fail(str(nothing), pytrace=False)


@pytest.fixture
def empty(broker: str) -> Connection:
    """A deployment on the broker whose topics do not exist yet."""
    return Connection(bootstrap=broker, prefix=f"t{uuid.uuid4().hex[:10]}.", tuning=QUICK)


@pytest.fixture
async def connection(empty: Connection) -> Connection:
    """A deployment on the broker with its topics, `PARTITIONS` partitions each."""
    await create_topics(empty, partitions=PARTITIONS, replicas=1)
    return empty


@pytest.fixture
async def log(connection: Connection) -> AsyncIterator[KafkaLog]:
    """An empty log on the broker."""
    opened = KafkaLog(connection)
    yield opened
    await opened.close()
