"""The brokers that the Kafka tests run on."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy"))

from kafka_local.jars import KAFKA_VERSION  # noqa: E402 - it is found by the line above

KAFKA_LOCAL = ROOT / "deploy" / "kafka-local"
START_SECONDS_MAX = 1200
DOCKER_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
NOTHING_TO_RUN_ON = (
    "no Kafka broker for the tests: install Java 17 or later and Maven "
    "(Debian: apt-get install openjdk-17-jre-headless maven), or start a Docker engine, "
    "or set POOL_TEST_KAFKA to a broker's address"
)


class NoBroker(Exception):
    """There is nothing that a broker could be started with; the message says what to install."""


class LocalCluster:
    """Nodes of `deploy/kafka-local` in a directory, which tests may kill, pause and restart."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 1,
        settings: tuple[str, ...] = (),
        listener: str | None = None,
    ) -> None:
        self.directory = directory
        arguments = ["--nodes", str(nodes), "--base-port", "0"]
        if listener is not None:
            arguments += ["--listener", listener]
        for setting in settings:
            arguments += ["--set", setting]
        self.address = self.do("start", *arguments)

    def do(self, verb: str, *arguments: str) -> str:
        """Run a verb of `kafka-local`; returns what it printed."""
        command = [str(KAFKA_LOCAL), verb, "--dir", str(self.directory), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS_MAX)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def stop(self) -> None:
        """Stop all nodes and delete their data."""
        self.do("stop", "--remove")


@contextlib.contextmanager
def one_broker(directory: Path) -> Iterator[str]:
    """The address of a broker: a given one, a local JVM, a container. Raises NoBroker."""
    given = os.environ.get("POOL_TEST_KAFKA")
    if given:
        yield given
    elif shutil.which("java") and shutil.which("mvn"):
        with local_cluster(directory) as cluster:
            yield cluster.address
    elif _docker_answers():
        with _container() as address:
            yield address
    else:
        raise NoBroker(NOTHING_TO_RUN_ON)


@contextlib.contextmanager
def local_cluster(
    directory: Path,
    *,
    nodes: int = 1,
    settings: tuple[str, ...] = (),
    listener: str | None = None,
) -> Iterator[LocalCluster]:
    """A local cluster for tests that kill nodes. Raises NoBroker."""
    if not (shutil.which("java") and shutil.which("mvn")):
        raise NoBroker(NOTHING_TO_RUN_ON)
    cluster = LocalCluster(directory, nodes=nodes, settings=settings, listener=listener)
    try:
        yield cluster
    finally:
        cluster.stop()


def _docker_answers() -> bool:
    try:
        import docker

        return bool(docker.from_env(timeout=2).ping())
    except Exception:
        # Whatever is missing (package, socket, rights, engine), there is no Docker to run on.
        return False


@contextlib.contextmanager
def _container() -> Iterator[str]:
    """Apache Kafka's own image. Its advertised address must be known before it starts."""
    from testcontainers.core.container import DockerContainer

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "1",
    }
    container = DockerContainer(DOCKER_IMAGE).with_bind_ports(port, port)
    for name, value in settings.items():
        container = container.with_env(name, value)
    with container:
        _await_port(port)
        yield f"127.0.0.1:{port}"


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise NoBroker(f"the container's port {port} did not open within 120 s")
