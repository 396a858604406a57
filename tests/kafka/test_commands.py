"""The `pool` command on Kafka: a deployment from its first topic to a ledger that moves away."""

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.cbor import split_sequence

POOL = Path(sys.executable).parent / "pool"
ROOT = Path(__file__).parents[2]
OPENED = {
    "pool": "p",
    "type": "pool.opened",
    "capacity": {"mdev": 2000, "uj": 10**12},
    "tree": [{"id": "a", "guarantee": {"mdev": 2000, "uj": 10**12}}],
}


def claim(number: int) -> dict[str, Any]:
    """A claim of one of two devices."""
    gang = [{"mdev": 1000, "uj": 1000}]
    event = {"pool": "p", "type": "claim.submitted", "claim": f"c{number}", "leaf": "a"}
    return event | {"gang": gang, "grade": "HwShunt"}


class Command:
    """`pool`, always with the same log named."""

    def __init__(self, *where: str) -> None:
        self.where = where

    def __call__(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Run it; what it answered, line by line."""
        done = subprocess.run(
            [str(POOL), *arguments, *self.where, "--json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == status, f"{arguments}: {done.stdout}\n{done.stderr}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Start it, and let it run."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [str(POOL), *arguments, *self.where], cwd=ROOT, stdout=output, stderr=output
            )


@pytest.fixture
def on_kafka(broker: str) -> Command:
    """The command on a deployment of its own."""
    return Command("--kafka", broker, "--prefix", f"t{uuid.uuid4().hex[:10]}.")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The steward's key."""
    made = tmp_path / "steward.pem"
    subprocess.run([str(POOL), "keys", "new", str(made)], check=True, capture_output=True)
    return made


@pytest.fixture
def steward(on_kafka: Command, key: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`pool run` on two partitions."""
    created = on_kafka("topics", "create", "--partitions", "2", "--replicas", "1")
    assert all(topic["created"] for topic in created)
    running = on_kafka.start("run", "--key", str(key), log=tmp_path / "steward.log")
    yield running
    running.kill()
    running.wait()


def events(path: Path, *given: dict[str, Any]) -> str:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(event) + "\n" for event in given))
    return str(path)


def test_a_deployment_from_first_to_last(
    on_kafka: Command, steward: subprocess.Popen[bytes], key: Path, tmp_path: Path
) -> None:
    """Send, verify, audit, examine; stop; move the ledger to a directory, and go on there."""
    file = events(tmp_path / "events.jsonl", OPENED, claim(1), claim(2), claim(3))
    kinds = [line["kind"] for line in on_kafka("send", file)]
    assert kinds == ["pool.opened", "claim.admitted", "claim.admitted", "claim.waiting"]
    (verified,) = on_kafka("verify")
    assert (verified["ok"], verified["length"]) == (True, 4)
    on_kafka("audit")
    levels = {finding["level"] for finding in on_kafka("doctor")}
    assert "problem" not in levels
    steward.send_signal(signal.SIGTERM)
    assert steward.wait(30) == 0

    exported = tmp_path / "p.cborseq"
    on_kafka("export", "p", str(exported))
    embedded = Command("--data", str(tmp_path / "data"))
    embedded("import", str(exported))
    again = tmp_path / "again.cborseq"
    embedded("export", "p", str(again))
    assert again.read_bytes() == exported.read_bytes()
    (moved,) = embedded("verify")
    assert (moved["head"], moved["root"]) == (verified["head"], verified["root"])

    more = events(tmp_path / "more.jsonl", claim(4))
    (line,) = embedded("send", more, "--key", str(key))
    assert line["kind"] == "claim.waiting"
    (longer,) = embedded("verify")
    assert (longer["ok"], longer["length"]) == (True, 5)
    embedded("audit")


def test_a_stranger_gets_witnessed_with_files_alone(
    on_kafka: Command, steward: subprocess.Popen[bytes], key: Path, tmp_path: Path
) -> None:
    """Ledger, heads and proofs leave the cluster as files; a trust file grades them, and a cut."""
    on_kafka("send", events(tmp_path / "events.jsonl", OPENED, claim(1), claim(2), claim(3)))
    steward.send_signal(signal.SIGTERM)
    assert steward.wait(30) == 0
    seal, store = str(tmp_path / "witness.pem"), str(tmp_path / "witness.db")
    witness = str(POOL.with_name("pool-witness"))
    begun = subprocess.run(
        [witness, "init", "--key", seal, "--state", store, "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    run = [witness, "run", *on_kafka.where, "--key", seal, "--state", store, "--once"]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True, timeout=90)

    ledger, heads, proof = (str(tmp_path / name) for name in ("ledger", "heads", "proof"))
    (exported,) = on_kafka("export", "p", ledger, "--heads", heads)
    assert exported["length"] == 4 and exported["statements"] >= 2
    on_kafka("prove", "2", "--out", proof, "--key", str(key))

    alone = Command()
    dids = [alone("keys", "show", str(key))[0]["did"], json.loads(begun.stdout)["did"]]
    trust = tmp_path / "trust.toml"
    trust.write_text(f'[pools.p]\nstewards = ["{dids[0]}"]\nwitnesses = {{ours = "{dids[1]}"}}\n')
    (answer,) = alone("verify", ledger, "--heads", heads, "--trust", str(trust))
    assert (answer["grade"], answer["witnessed"]) == ("witnessed", 4)
    (answer,) = alone("check-proof", proof, "--heads", heads, "--trust", str(trust))
    assert (answer["grade"], answer["witnessed_by"]) == ("witnessed", ["ours"])
    cut = list(split_sequence(Path(ledger).read_bytes()))[:3]
    Path(ledger).write_bytes(b"".join(cut))
    (answer,) = alone("verify", ledger, "--heads", heads, "--trust", str(trust), status=1)
    assert {one["by"] for one in answer["objections"]} == {"ours", "steward"}


def test_trouble_is_one_line_and_a_status(on_kafka: Command) -> None:
    """No topics, no broker: a status and a line that says what to do."""
    nowhere = Command("--kafka", "127.0.0.1:1")
    for command, status, todo in (
        (on_kafka, 2, "pool topics create"),
        (nowhere, 3, "check that the broker"),
    ):
        done = subprocess.run(
            [str(POOL), "verify", *command.where], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout) == (status, "")
        assert (todo in done.stderr, done.stderr.count("\n")) == (True, 1)
