"""One Kafka node: its settings, its directory, its process.

Not here: which nodes there are (`cluster`), whether they answer (`probe`).

1. A node is broker and controller at once, on 127.0.0.1 only; its controller port is its client
   port plus one.
2. A process is signalled only while its command line names this node's directory: a number from a
   stale file may belong to somebody else by now.

Invariant: heap, metaspace, code cache and direct memory are bounded: below 512 MiB a node.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from kafka_local.jars import Trouble

STOP_SECONDS_MAX = 20
FORMAT_SECONDS_MAX = 60
HEAP_MIB = 256

SETTINGS = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "1",
    # A topic that springs up by itself has none of the settings that the profile needs.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.segment.bytes": "67108864",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.initial.task.delay.ms": "100",
}

LOG4J = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1} %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where one node lives; `peers` are the controller ports of all nodes, in number order."""

    number: int
    directory: Path
    port: int
    peers: tuple[int, ...]
    extra: tuple[str, ...] = ()
    listener: str | None = None

    @property
    def output(self) -> Path:
        """The file with everything the node printed."""
        return self.directory / "output.log"

    def properties(self) -> str:
        """The node's server.properties."""
        count = len(self.peers)
        names = {"PLAINTEXT": self.port, "CONTROLLER": self.port + 1}
        if self.listener:
            names[self.listener] = self.port + 2
        listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in names.items()}
        own = {
            "node.id": str(self.number),
            "controller.quorum.voters": ",".join(
                f"{index}@127.0.0.1:{port}" for index, port in enumerate(self.peers, 1)
            ),
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(
                text for name, text in listeners.items() if name != "CONTROLLER"
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in names
            ),
            "log.dirs": str(self.directory / "data"),
        }
        for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            own[f"{topic}.replication.factor"] = str(count)
        # With one node these must be 1, or a transactional producer never gets its id.
        quorum = str(min(2, count))
        own["transaction.state.log.min.isr"] = quorum
        own["share.coordinator.state.topic.min.isr"] = quorum
        own["default.replication.factor"] = str(count)
        own["min.insync.replicas"] = quorum
        lines = [f"{name}={value}" for name, value in (SETTINGS | own).items()]
        return "\n".join([*lines, *self.extra, ""])

    def format(self, libs: Path, cluster_id: str) -> None:
        """Write the node's settings, and format its directory if that was not done before."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = self.directory / "server.properties"
        settings.write_text(self.properties())
        (self.directory / "log4j2.properties").write_text(LOG4J)
        tool = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        tool += ["-cp", f"{libs}/*", "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        tool += ["-t", cluster_id, "-c", str(settings)]
        done = subprocess.run(
            tool,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_SECONDS_MAX,
        )
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines() or ["(it printed nothing)"]
            raise Trouble(f"node {self.number} could not be formatted: {lines[-1]}")

    def launch(self, libs: Path, *, full_jit: bool) -> None:
        """Start the node's process in a session of its own; returns before it is ready."""
        command = ["java", "-Xms64m", f"-Xmx{HEAP_MIB}m", "-XX:+UseSerialGC", "-Xss512k"]
        command += ["-XX:MaxMetaspaceSize=128m", "-XX:MaxDirectMemorySize=64m"]
        command += ["-XX:ActiveProcessorCount=2", "-Djava.awt.headless=true"]
        if not full_jit:
            command += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=48m"]
        command.append(f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}")
        command += ["-cp", f"{libs}/*", "kafka.Kafka", str(self.directory / "server.properties")]
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        (self.directory / "pid").write_text(str(process.pid))

    def pid(self) -> int | None:
        """The number of the node's process, if it lives."""
        try:
            number = int((self.directory / "pid").read_text())
        except (OSError, ValueError):
            return None
        shown = subprocess.run(
            ["ps", "-ww", "-o", "stat=,args=", "-p", str(number)], capture_output=True, text=True
        ).stdout.strip()
        alive = shown and not shown.startswith("Z")
        return number if alive and str(self.directory / "server.properties") in shown else None

    def send(self, what: signal.Signals) -> None:
        """Send a signal to the node's process. Raises Trouble if there is none."""
        number = self.pid()
        if number is None:
            raise Trouble(f"node {self.number} is not running")
        os.kill(number, what)

    def end(self, what: signal.Signals) -> None:
        """End the node's process with a signal, by force if it does not go, and wait for it.

        A node that does not run is left as it is.
        """
        number = self.pid()
        if number is None:
            return
        # A paused process would only take the signal once it is resumed.
        os.kill(number, what)
        os.kill(number, signal.SIGCONT)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while self.pid() is not None:
            if time.monotonic() > deadline:
                os.kill(number, signal.SIGKILL)
            time.sleep(0.05)
