"""What compose's services run works on a broker: the same scripts, with this machine's paths."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())[
    "services"
]
SECONDS_MAX = 90
OPENED = {
    "type": "pool.opened",
    "capacity": {"mdev": 2000, "uj": 10**12},
    "tree": [{"id": "a", "guarantee": {"mdev": 2000, "uj": 10**12}}],
}


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Machine:
    """Paths and ports of this machine for those of the containers, on a deployment of its own."""

    def __init__(self, broker: str, directory: Path) -> None:
        self.directory = directory
        self.steward_port, self.views_port = free_port(), free_port()
        self._prefix = f"t{uuid.uuid4().hex[:10]}."
        self._environment = {
            **os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "KAFKA": broker,
            "HOSTNAME": "127.0.0.1",
        }  # fmt: skip
        for name in ("keys", "snapshots", "tables"):
            (directory / name).mkdir()
        self._instead = {
            "$$": "$",
            '--kafka "$KAFKA"': f'--kafka "$KAFKA" --prefix {self._prefix}',
            "--replicas 3": "--replicas 1",
            "/run/secrets/tokens": str(directory / "tokens.toml"),
            **{f" /{name}": f" {directory / name}" for name in ("keys", "snapshots", "tables")},
            "0.0.0.0": "127.0.0.1",
            "9400": str(self.steward_port),
            "8321": str(self.views_port),
        }

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """The service's script in a shell; told to stop at the end, which it does well."""
        script = SERVICES[service]["command"][-1]
        for there, here in self._instead.items():
            script = script.replace(there, here)
        with (self.directory / f"{service}.log").open("wb") as output:
            running = subprocess.Popen(
                ["sh", "-c", script], env=self._environment, stdout=output, stderr=output
            )
        try:
            yield running
            running.send_signal(signal.SIGTERM)
            assert running.wait(SECONDS_MAX) == 0
        finally:
            running.kill()
            running.wait()

    def log(self, service: str) -> str:
        """What a service said."""
        return (self.directory / f"{service}.log").read_text()

    def token(self) -> str:
        """Make the token file as the text says; what opens the door."""
        made = subprocess.run(
            [BIN / "pool", "token", "me", "--role", "admin"], capture_output=True, text=True
        )
        (self.directory / "tokens.toml").write_text(made.stdout)
        return made.stderr.split()[-1]


def ask(url: str, token: str | None = None, body: Any = None) -> tuple[int, bytes]:
    """The status and the answer; 0 where nobody answers."""
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def await_200(url: str, said: Callable[[], str]) -> None:
    """Ask until it is well."""
    deadline = time.monotonic() + SECONDS_MAX
    while ask(url)[0] != 200:
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)


@pytest.fixture
def machine(broker: str, tmp_path: Path) -> Machine:
    """This machine, with topics that compose's own service made."""
    made = Machine(broker, tmp_path)
    with made.running("topics") as topics:
        assert topics.wait(SECONDS_MAX) == 0, made.log("topics")
    return made


def test_a_pool_is_opened_through_the_read_side_and_decided_by_the_steward(
    machine: Machine,
) -> None:
    """Both probes turn good, a token opens the door, nobody gets in without; both stop in order."""
    token = machine.token()
    with machine.running("steward"), machine.running("views"):
        await_200(
            f"http://127.0.0.1:{machine.steward_port}/healthz", lambda: machine.log("steward")
        )
        views = f"http://127.0.0.1:{machine.views_port}"
        await_200(f"{views}/health", lambda: machine.log("views"))
        assert ask(f"{views}/compute-pools")[0] == 401
        status, said = ask(f"{views}/compute-pools/p/events", token, OPENED)
        assert (status, json.loads(said)["decision"]["kind"]) == (201, "pool.opened"), said
        status, said = ask(f"{views}/compute-pools", token)
        assert [one["pool_id"] for one in json.loads(said)["pools"]] == ["p"]
        assert ask(f"{views}/metrics", token)[0] == 200
        metrics = ask(f"http://127.0.0.1:{machine.steward_port}/metrics")[1].decode()
        assert re.search(r'^pool_input_lag_offsets\{.*topic="pool.admin"\} 0.0$', metrics, re.M)
    assert (machine.directory / "keys" / "steward.pem").stat().st_mode & 0o777 == 0o600
