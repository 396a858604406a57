"""The commands on a real broker: topics made, a steward running, every question answered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.logs.kafka_options import Connection

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 120
OPENED = {
    "pool": "lab",
    "type": "pool.opened",
    "capacity": {"mdev": 4000, "uj": 10**12},
    "tree": [{"id": leaf, "guarantee": {"mdev": 2000, "uj": 10**11}} for leaf in ("a", "b")],
}


def _claim(name: str, devices: int) -> dict[str, Any]:
    return {
        "pool": "lab",
        "type": "claim.submitted",
        "claim": name,
        "leaf": "a",
        "gang": [{"mdev": 1000, "uj": 1}] * devices,
        "grade": "ModelBased",
    }


class Deployment:
    """`pool` against one prefix of a broker, as processes of their own."""

    def __init__(self, connection: Connection) -> None:
        self.where = ("--kafka", connection.bootstrap, "--prefix", connection.prefix)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "streams.cli.main", *map(str, arguments), *self.where],
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: object, given: str = "") -> tuple[int, list[dict[str, Any]]]:
        """Run a command with --json: its status and its answers."""
        running = self.start(*arguments, "--json")
        out, err = running.communicate(given, timeout=SECONDS_MAX)
        assert "Traceback" not in err, err
        return running.returncode, [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def deployed(empty: Connection, tmp_path: Path) -> Iterator[Deployment]:
    """Topics made by the command, and a steward that runs until the test is over."""
    pool = Deployment(empty)
    status, made = pool("topics", "create", "--partitions", 2, "--replicas", 1)
    assert status == 0
    assert all(one["created"] for one in made)
    assert not any(one["created"] for one in pool("topics", "create", "--partitions", 2)[1])
    key = tmp_path / "steward.pem"
    subprocess.run([sys.executable, "-m", "streams.cli.main", "keys", "new", key], check=True)
    steward = pool.start("run", "--key", key)
    yield pool
    steward.send_signal(signal.SIGTERM)
    _, said = steward.communicate(timeout=SECONDS_MAX)
    assert steward.returncode == 0, said


def test_every_command_works_on_kafka(deployed: Deployment, tmp_path: Path) -> None:
    """Events in, decisions back; then usage, why, claims, the ledger checked, moved and proved."""
    events = [OPENED, _claim("one", 2), _claim("two", 3), {"pool": "lab", "type": "nap"}]
    status, told = deployed("send", "-", given="\n".join(map(json.dumps, events)))
    assert status == 1
    kinds = [line["kind"] for line in told]
    assert kinds == ["pool.opened", "claim.admitted", "claim.waiting", "refused"]
    timed = json.dumps(_claim("three", 1) | {"at_ms": 1})
    assert deployed("send", "-", given=timed)[0] == 2

    status, nodes = deployed("usage")
    assert status == 0
    assert nodes[0]["resources"]["mdev"]["held"] == 2000
    assert deployed("explain", "two")[1][0]["why"]["reason"] == "share"
    assert deployed("explain", "nobody")[0] == 1
    assert [one["claim"] for one in deployed("claims", "--state", "waiting")[1]] == ["two"]
    watched = deployed("watch", "--no-follow", "--from", 1)[1]
    assert [line["seq"] for line in watched] == [1, 2, 3]

    status, (verdict,) = deployed("verify")
    assert (status, verdict["length"]) == (0, 4)
    assert deployed("audit")[1][0]["differs"] is None
    file = tmp_path / "lab.cbor"
    assert deployed("export", "lab", file)[1][0]["head"] == verdict["head"]
    assert deployed("prove", 1, "--out", tmp_path / "one.proof")[0] == 0
    status, findings = deployed("doctor")
    assert {one["check"] for one in findings} >= {"reachable", "topics", "fencing", "witness"}


def test_a_ledger_moves_from_kafka_into_a_directory(deployed: Deployment, tmp_path: Path) -> None:
    """The same bytes, the same head, and deciding goes on with the same key."""
    lines = "\n".join(map(json.dumps, [OPENED, _claim("one", 2)]))
    assert deployed("send", "-", given=lines)[0] == 0
    moved = deployed("export", "lab", tmp_path / "lab.cbor")[1][0]
    here = Deployment.__new__(Deployment)
    here.where = ("--data", str(tmp_path / "here"))  # type: ignore[assignment]
    assert here("import", tmp_path / "lab.cbor")[1][0]["head"] == moved["head"]
    sent = here("send", "-", "--key", tmp_path / "steward.pem", given=json.dumps(_claim("x", 1)))
    assert [line["seq"] for line in sent[1]] == [moved["length"]]
    assert here("audit")[0] == 0


def test_a_broker_that_is_not_there_is_trouble(empty: Connection) -> None:
    """Status 3, one line that names the address."""
    nowhere = Deployment(Connection(bootstrap="127.0.0.1:1"))
    for arguments in (("send", "-", "--no-wait"),):
        running = nowhere.start(*arguments)
        _, err = running.communicate(json.dumps(OPENED), timeout=SECONDS_MAX)
        assert running.returncode == 3
        assert "127.0.0.1:1" in err
        assert "Traceback" not in err
    assert nowhere("doctor")[0] == 1
