"""`deploy/kafka-local`: what it says it did is so, and a cluster keeps its data and its address."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers import KAFKA_LOCAL, LocalCluster, NoBroker, local_cluster
from contract_suite import event, values
from support import QUICK

from streams import topics
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One node."""
    try:
        with local_cluster(tmp_path / "kafka") as made:
            yield made
    except NoBroker as nothing:
        pytest.fail(str(nothing), pytrace=False)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a narrow terminal, which must not matter."""
    return subprocess.run(
        [str(KAFKA_LOCAL), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "40"},
    )


async def test_a_killed_node_comes_back_with_its_data(cluster: LocalCluster) -> None:
    """Killed, it is down and cannot be killed again; restarted, it has what it acknowledged."""
    where = ["--dir", str(cluster.directory)]
    connection = Connection(bootstrap=cluster.address, tuning=QUICK)
    await create_topics(connection, partitions=1, replicas=1)
    log = KafkaLog(connection)
    await log.publish([event(0)])
    assert run("status", *where).returncode == 0
    assert run("kill", "1", *where).returncode == 0
    status = run("status", *where)
    assert (status.returncode, "down" in status.stdout) == (1, True)
    again = run("kill", "1", *where)
    assert (again.returncode, "not running" in again.stderr) == (3, True)
    assert run("restart", "1", *where).returncode == 0
    assert run("address", *where).stdout.strip() == cluster.address
    assert await values(log, topics.CLAIMS, 0) == [b"event 0"]
    await log.close()


def test_what_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    """No cluster, no such node, no such verb: a line and a status, no traceback."""
    missing = run("status", "--dir", str(tmp_path))
    assert (missing.returncode, missing.stderr.count("\n")) == (3, 1)
    assert "start one first" in missing.stderr
    assert run("restart", "7", "--dir", str(tmp_path)).returncode == 3
    assert run("explode").returncode == 2
