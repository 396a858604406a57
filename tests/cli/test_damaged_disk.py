"""A disk that gives back other bytes than it got: every command says so, and none goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.calling import Pool


@pytest.fixture
def damaged(data: Path, tmp_path: Path) -> Path:
    """The demo's directory with one bit changed, where its ledger lies."""
    copy = tmp_path / "damaged"
    shutil.copytree(data, copy)
    table = max((copy / "log").glob("*.sst"), key=lambda path: path.stat().st_size)
    content = bytearray(table.read_bytes())
    content[len(content) // 3] ^= 1
    table.write_bytes(content)
    return copy


@pytest.mark.parametrize(
    "asked",
    [["verify"], ["audit"], ["usage"], ["claims"], ["watch", "--no-follow"], ["export", "demo"]],
    ids=" ".join,
)
def test_every_question_is_answered_with_the_damage(
    pool: Pool, damaged: Path, tmp_path: Path, asked: list[str]
) -> None:
    """Status 3, the index of the receipt that cannot be read, and RocksDB's cause, in one line."""
    given = [tmp_path / "ledger.cbor"] if asked[0] == "export" else []
    outcome = pool(*asked, *given, "--data", damaged, "--json")
    assert outcome.status == 3
    assert "pool.ledger/0 cannot be read on from offset" in outcome.err
    assert "checksum" in outcome.err
    assert not list(tmp_path.glob("ledger.cbor*"))


def test_no_steward_goes_on_behind_damage_that_it_reads(pool: Pool, damaged: Path) -> None:
    """Without a snapshot it reads its ledger from the start: it decides and appends nothing."""
    shutil.rmtree(damaged / "snapshots")
    event = '{"pool": "demo", "type": "claim.cancelled", "claim": "night-big"}'
    for _ in range(2):
        outcome = pool("send", "-", "--data", damaged, given=event)
        assert (outcome.status, outcome.out) == (3, "")
        assert "pool.ledger/0 cannot be read on from offset" in outcome.err
