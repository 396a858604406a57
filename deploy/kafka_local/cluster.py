"""The nodes of one local cluster and what can be done to them.

Not here: a single node's settings and process (`node`), the command line (`main`).

1. A cluster is a directory: `cluster.json` says what it is, `node-N` holds node N. Starting an
   existing one keeps its data, its ports and its node count.
2. Two clusters in two directories on free ports do not meet.

Invariant: a verb returns only when what it says is so: `start` and `restart` when the cluster
serves transactions, `stop` and `kill` when the process is gone.
"""

import base64
import json
import os
import random
import shutil
import signal
import socket
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kafka_local import jars, probe
from kafka_local.jars import Trouble
from kafka_local.node import Node

READY_SECONDS_MAX = 90.0
PORTS_A_NODE = 3
BASE_PORTS = (20000, 32000)
BASE_PORT_TRIES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a cluster is made of; kept as `cluster.json`."""

    nodes: int
    base_port: int
    version: str
    cluster_id: str
    extra: tuple[str, ...]
    listener: str | None
    full_jit: bool


def default_directory() -> Path:
    """Where a cluster lives unless told otherwise."""
    return jars.cache_directory() / "kafka-local"


class Cluster:
    """A cluster in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @property
    def plan(self) -> Plan:
        """What the cluster is. Raises Trouble if there is none in the directory."""
        try:
            fields = json.loads((self.directory / "cluster.json").read_text())
        except FileNotFoundError as error:
            raise Trouble(f"no cluster in {self.directory}; start one first") from error
        return Plan(**(fields | {"extra": tuple(fields["extra"])}))

    @property
    def nodes(self) -> list[Node]:
        """The nodes, by number from 1."""
        plan = self.plan
        ports = [plan.base_port + PORTS_A_NODE * index for index in range(plan.nodes)]
        peers = tuple(port + 1 for port in ports)
        return [
            Node(
                number=number,
                directory=self.directory / f"node-{number}",
                port=port,
                peers=peers,
                extra=plan.extra,
                listener=plan.listener,
            )
            for number, port in enumerate(ports, 1)
        ]

    @property
    def address(self) -> str:
        """The bootstrap servers, as clients take them."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def node(self, number: int) -> Node:
        """One node. Raises Trouble if the cluster has no such node."""
        for node in self.nodes:
            if node.number == number:
                return node
        raise Trouble(f"this cluster has nodes 1 to {self.plan.nodes}, no node {number}")

    def start(
        self,
        *,
        nodes: int,
        base_port: int,
        version: str,
        extra: Sequence[str],
        listener: str | None,
        full_jit: bool,
    ) -> None:
        """Start the cluster, made first if there is none; nodes that run already are left alone."""
        libs = jars.resolve(version)
        if not (self.directory / "cluster.json").exists():
            raw = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
            plan = Plan(
                nodes=nodes,
                base_port=base_port or _free_base_port(nodes),
                version=version,
                # A leading dash would read as an option of the storage tool.
                cluster_id="k" + raw[1:],
                extra=tuple(extra),
                listener=listener,
                full_jit=full_jit,
            )
            self.directory.mkdir(parents=True, exist_ok=True)
            scratch = self.directory / "cluster.json.new"
            scratch.write_text(json.dumps(asdict(plan), indent=1) + "\n")
            os.replace(scratch, self.directory / "cluster.json")
        for node in self.nodes:
            if node.pid() is None:
                node.format(libs, self.plan.cluster_id)
                node.launch(libs, full_jit=self.plan.full_jit)
        self._await(self.nodes)

    def kill(self, number: int) -> None:
        """kill -9 a node. Raises Trouble if it does not run: nothing would have been killed."""
        node = self.node(number)
        if node.pid() is None:
            raise Trouble(f"node {number} is not running")
        node.end(signal.SIGKILL)

    def restart(self, number: int) -> None:
        """Start a node that was stopped or killed; one that runs is stopped first."""
        node = self.node(number)
        node.end(signal.SIGTERM)
        node.launch(jars.resolve(self.plan.version), full_jit=self.plan.full_jit)
        self._await([node])

    def stop(self, *, remove: bool) -> None:
        """Stop all nodes; with `remove` delete the directory too."""
        plan_exists = (self.directory / "cluster.json").exists()
        for node in self.nodes if plan_exists else []:
            # Asked one after the other, the last ones would wait for a quorum that is gone.
            if node.pid() is not None:
                node.send(signal.SIGTERM)
                node.send(signal.SIGCONT)
        for node in self.nodes if plan_exists else []:
            node.end(signal.SIGTERM)
        if remove and plan_exists:
            shutil.rmtree(self.directory)

    def _await(self, nodes: Sequence[Node]) -> None:
        alive = {node.number for node in self.nodes if node.pid() is not None}
        for node in nodes:
            if not probe.wait_ready(node.port, alive, seconds_max=READY_SECONDS_MAX):
                raise Trouble(
                    f"node {node.number} was not ready within {READY_SECONDS_MAX:.0f} s; "
                    f"its output is in {node.output}"
                )


def _free_base_port(nodes: int) -> int:
    """The first port of a free block on loopback, as far as one can tell without holding it.

    Taken below the range from which systems draw the ports of outgoing connections: there, a
    client could sit on the port of a node that is down for a moment.
    """
    for _ in range(BASE_PORT_TRIES):
        base = random.randrange(*BASE_PORTS)
        if all(_is_free(base + index) for index in range(PORTS_A_NODE * nodes)):
            return base
    raise Trouble("no free block of ports on loopback; give one with --base-port")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
