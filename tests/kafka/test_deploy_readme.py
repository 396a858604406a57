"""deploy/README.md, "Without Docker": its commands work when they are pasted into one shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from brokers import KAFKA_LOCAL, NOTHING_TO_RUN_ON
from kafka_local.jars import missing_tools

ROOT = Path(__file__).parents[2]
README = ROOT / "deploy" / "README.md"
BIN = Path(sys.executable).parent
SECONDS_MAX = 300
STRICT = 'set -e\ncurl() { command curl --fail-with-body "$@"; }\n'


def free_ports(count: int) -> list[int]:
    """Ports that nobody has."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]


def test_the_commands_without_docker_work_when_pasted(tmp_path: Path) -> None:
    """A broker, topics, a steward, a witness, the read side; a node dies; all is put away."""
    if missing_tools():
        pytest.fail(NOTHING_TO_RUN_ON, pytrace=False)
    section = README.read_text().split("## Without Docker")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    steward, views = free_ports(2)
    cluster = tmp_path / "cluster"
    local = f"{KAFKA_LOCAL} \\1 --dir {cluster}"
    given = re.sub(r"^deploy/kafka-local (\w+)", local, block, flags=re.MULTILINE)
    given = given.replace(f" start --dir {cluster}", f" start --dir {cluster} --base-port 0")
    given = given.replace("127.0.0.1:19092", f"$({KAFKA_LOCAL} address --dir {cluster})")
    given = given.replace("9400", str(steward)).replace("8321", str(views))
    given = given.replace("pool serve", f"pool serve --port {views}")
    given = given.replace("$PWD/.venv/bin", str(BIN))
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as told, err.open("wb") as said:
        shell = subprocess.Popen(
            ["sh", "-c", STRICT + given], cwd=tmp_path, env=environment, stdout=told, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = shell.wait(SECONDS_MAX)
        finally:
            # What a failed command left running is in the shell's session, but for the broker.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            stop = [KAFKA_LOCAL, "stop", "--remove", "--dir", cluster]
            subprocess.run(stop, capture_output=True)
    answered = out.read_text()
    assert status == 0, answered[-2000:] + err.read_text()[-2000:]
    assert "admitted" in answered
    assert '"claim":"train-1"' in answered and '"state":"held"' in answered
    assert 'pool_chain_length{pool="lab"} 2.0' in answered
    assert not cluster.exists()
