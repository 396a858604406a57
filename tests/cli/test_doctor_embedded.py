"""What the doctor finds on an embedded log: how far the witness is, forks, whose key lies there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.heads import seal_head
from schemas.keys import did_key, new_pem, signer_from_pem
from streams import topics, witness_lag
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog
from tests.cli.calling import Outcome, Pool
from tests.witness.support import Process

OPENED = {
    "pool": "p",
    "type": "pool.opened",
    "capacity": {"mdev": 4000, "uj": 1000},
    "tree": [{"id": "acme", "guarantee": {"mdev": 2000, "uj": 1000}}],
}


class Deployment:
    """A directory with a steward's ledger and a witness; the doctor looks at it."""

    def __init__(self, pool: Pool, directory: Path) -> None:
        self.data = directory / "data"
        self._pool = pool
        self.send(OPENED)
        self.witness = Process(directory, self.data)
        assert self.witness.init().returncode == 0

    def send(self, *events: dict[str, Any]) -> Outcome:
        given = "".join(json.dumps(event) + "\n" for event in events)
        return self._pool("send", "-", "--data", self.data, "--json", given=given)

    def claim(self, count: int, start: int = 0) -> None:
        """So many receipts more."""
        claim = {"pool": "p", "type": "claim.submitted", "leaf": "acme", "grade": "ModelBased"}
        gang = [{"mdev": 1, "uj": 1}]
        names = [f"c{number}" for number in range(start, start + count)]
        assert self.send(*(claim | {"claim": name, "gang": gang} for name in names)).status == 0

    def doctor(self, status: int) -> dict[str, dict[str, Any]]:
        """The findings by where; the first of each place."""
        outcome = self._pool("doctor", "--data", self.data, "--json")
        assert outcome.status == status, outcome.out
        return {line["where"]: line for line in reversed(outcome.lines)}


@pytest.fixture
def deployment(pool: Pool, tmp_path: Path) -> Deployment:
    return Deployment(pool, tmp_path)


def test_the_witness_that_the_demo_ran_is_fine(pool: Pool, data: Path) -> None:
    """It signed for everything, and the key is the ledger's."""
    findings = {line["where"]: line for line in pool("doctor", "--data", data, "--json").lines}
    assert {line["level"] for line in findings.values()} == {"fine"}
    length = pool("verify", "--data", data, "--json").answer["length"]
    assert findings["demo"]["what"] == f"1 witness, at {length} of {length} receipts"
    assert "it is the ledgers' key" in findings["steward.pem"]["what"]


def test_the_lag_is_told_in_receipts_and_time(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody yet, some receipts behind, and longer than a witness may be."""
    assert "self-attested" in deployment.doctor(0)["p"]["what"]
    assert deployment.witness.once().returncode == 0
    assert deployment.doctor(0)["p"]["what"] == "1 witness, at 1 of 1 receipts"
    deployment.claim(39)
    behind = deployment.doctor(0)["p"]
    assert behind["level"] == "fine"
    assert behind["what"].startswith("1 witness, at 1 of 40 receipts: 39 receipts behind, for ")
    monkeypatch.setattr(witness_lag, "GRACE_MS", -1)
    behind = deployment.doctor(0)["p"]
    assert behind["level"] == "warning"
    assert "see that the witnesses run" in behind["todo"]


def test_a_forked_ledger_is_a_problem(deployment: Deployment) -> None:
    """Exit 1 and what to do, for as long as the evidence lies there."""
    deployment.claim(4)
    assert deployment.witness.once().returncode == 0
    asyncio.run(_second_head(deployment.data, length=5))
    assert deployment.witness.once().returncode == 1
    for _ in range(2):
        found = deployment.doctor(1)["p"]
        assert (found["check"], found["level"]) == ("witness", "problem")
        assert "two heads of its steward, of 5 and 5 receipts" in found["what"]
        assert "new pool with a new key" in found["todo"]
        deployment.claim(3, start=10)


async def _second_head(data: Path, *, length: int) -> None:
    """The steward signs another head of a length that it signed one of before."""
    steward = signer_from_pem((data / "steward.pem").read_bytes())
    head = seal_head(steward, "p", length, bytes(32), bytes(32), 1_700_000_000_000)
    log = EmbeddedLog(data)
    writer = await log.open_writer(0)
    await writer.append([Entry(topic=topics.HEADS, key=b"p", value=head)])
    await writer.close()
    await log.close()


def test_a_key_that_was_handed_over_is_a_finding(deployment: Deployment) -> None:
    """After `steward.rotate` the old key in DIR writes no more: whose it is now, and what to do."""
    pem = new_pem()
    new = did_key(signer_from_pem(pem).public_key)
    rotated = deployment.send({"pool": "p", "type": "steward.rotate", "steward": new})
    assert rotated.status == 0, rotated.err
    finding = deployment.doctor(0)["steward.pem"]
    assert finding["level"] == "warning"
    assert "not the key of p's current steward" in finding["what"]
    assert new in finding["todo"]
    file = deployment.data / "steward.pem"
    file.write_bytes(pem)
    assert deployment.doctor(0)["steward.pem"]["level"] == "fine"
    file.chmod(0o644)
    assert deployment.doctor(1)["steward.pem"]["level"] == "problem"
