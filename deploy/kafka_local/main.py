"""The command line of `kafka-local`.

Exit codes: 0 done, 1 not running (`status`), 2 wrong use, 3 trouble.
"""

import argparse
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_local.cluster import Cluster, default_directory
from kafka_local.jars import KAFKA_VERSION, Trouble


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-local",
        description="One or three Apache Kafka nodes (KRaft) on loopback, without Docker: the jars "
        "come from Maven Central. Needs Java 17 or later and Maven.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--dir",
        type=Path,
        default=default_directory(),
        help="the cluster's directory (%(default)s)",
    )
    start = verbs.add_parser("start", parents=[common], help="start; returns when it is ready")
    start.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    start.add_argument("--base-port", type=int, default=19092, help="0 picks a free block")
    start.add_argument("--version", default=KAFKA_VERSION, help="of Apache Kafka (%(default)s)")
    start.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="extra")
    start.add_argument(
        "--listener", choices=("SSL", "SASL_PLAINTEXT", "SASL_SSL"), help="a third one, base + 2"
    )
    start.add_argument("--full-jit", action="store_true", help="compile hot code (benchmarks)")
    stop = verbs.add_parser("stop", parents=[common], help="stop all nodes")
    stop.add_argument("--remove", action="store_true", help="delete the cluster's directory too")
    for verb, text in _NODE_VERBS.items():
        verbs.add_parser(verb, parents=[common], help=text).add_argument("node", type=int)
    verbs.add_parser("status", parents=[common], help="which nodes run")
    verbs.add_parser("address", parents=[common], help="the bootstrap servers")
    return parser


_NODE_VERBS = {
    "kill": "kill -9 a node",
    "restart": "start a killed node again, or stop and start a running one",
    "pause": "SIGSTOP a node",
    "resume": "SIGCONT a node",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; trouble is one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        return _run(Cluster(options.dir), options)
    except Trouble as trouble:
        print(f"kafka-local: {trouble}", file=sys.stderr)
        return 3
    except (OSError, subprocess.SubprocessError) as error:
        print(f"kafka-local: {error}", file=sys.stderr)
        return 3


def _run(cluster: Cluster, options: argparse.Namespace) -> int:
    match options.verb:
        case "start":
            cluster.start(
                nodes=options.nodes,
                base_port=options.base_port,
                version=options.version,
                extra=options.extra,
                listener=options.listener,
                full_jit=options.full_jit,
            )
            print(cluster.address)
        case "stop":
            cluster.stop(remove=options.remove)
        case "kill":
            cluster.kill(options.node)
        case "restart":
            cluster.restart(options.node)
        case "pause":
            cluster.node(options.node).send(signal.SIGSTOP)
        case "resume":
            cluster.node(options.node).send(signal.SIGCONT)
        case "status":
            return _status(cluster)
        case "address":
            print(cluster.address)
    return 0


def _status(cluster: Cluster) -> int:
    numbers = {node.number: node.pid() for node in cluster.nodes}
    for node in cluster.nodes:
        pid = numbers[node.number]
        print(f"node {node.number} 127.0.0.1:{node.port} {'down' if pid is None else f'pid {pid}'}")
    return 0 if all(numbers.values()) else 1
