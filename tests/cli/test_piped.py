"""Ledgers that come through pipes: read once, as they come."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.cbor import split_sequence
from schemas.wellformed import CborError
from streams.cli import ledgers
from streams.cli.checking import Checker
from streams.cli.ledgers import Ledger, check
from streams.cli.session import Session
from tests.cli.calling import ROOT, Pool, command


@pytest.fixture(scope="module")
def ledger(made: tuple[Path, object], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's ledger in a file. Tests do not change it."""
    from streams.cli.main import run

    file = tmp_path_factory.mktemp("piped") / "ledger.cbor"
    assert run(["export", "demo", str(file), "--data", str(made[0])]) == 0
    return file


@pytest.mark.parametrize("asked", ["verify", "audit"])
def test_a_ledger_out_of_a_pipe_is_the_one_in_the_file(
    pool: Pool, ledger: Path, tmp_path: Path, asked: str
) -> None:
    """A FIFO and stdin give the answer that the file gives; neither can be opened twice."""
    answer = pool(asked, ledger, "--json").answer
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    feeding = threading.Thread(target=fifo.write_bytes, args=(ledger.read_bytes(),))
    feeding.start()
    assert pool(asked, fifo, "--json").answer == answer
    feeding.join()
    piped = subprocess.run(
        command(asked, "/dev/stdin"), input=ledger.read_bytes(), capture_output=True, cwd=ROOT
    )
    assert piped.returncode == 0, piped.stderr


def test_an_import_takes_a_pipe(pool: Pool, ledger: Path, tmp_path: Path) -> None:
    """Read once, too, though it is verified before it is written."""
    os.mkfifo(tmp_path / "fifo")
    feeding = threading.Thread(target=(tmp_path / "fifo").write_bytes, args=(ledger.read_bytes(),))
    feeding.start()
    moved = pool("import", tmp_path / "fifo", "--data", tmp_path / "there", "--json")
    feeding.join()
    assert moved.answer["length"] == len(list(split_sequence(ledger.read_bytes())))


@pytest.mark.parametrize("asked", ["verify", "audit"])
def test_an_empty_ledger_is_a_broken_one(pool: Pool, tmp_path: Path, asked: str) -> None:
    """It fails at its first receipt, and `--json` says so in the form of every other failure."""
    (tmp_path / "empty").write_bytes(b"")
    outcome = pool(asked, tmp_path / "empty", "--json")
    assert outcome.status == 1
    broken = {"index": 0, "check": "decode", "detail": "the ledger is empty"}
    assert (outcome.answer["ok"], outcome.answer["length"]) == (False, 0)
    assert outcome.answer["broken"] == broken
    assert "the ledger is empty" in pool(asked, tmp_path / "empty").out


@pytest.mark.parametrize("tail", [b"", b"\x1a\x00", b"\xff", b"\x9f\x01\xff\x5b" + b"\xff" * 8])
def test_a_window_splits_as_the_whole_does(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes
) -> None:
    """Wherever the windows end: the same items, and the same end."""
    content = ledger.read_bytes()[:60_000] + tail
    monkeypatch.setattr(ledgers, "ITEM_BYTES_MAX", 20_000)

    def listed(items: Iterator[bytes]) -> tuple[list[bytes], str]:
        found = []
        try:
            for item in items:
                found.append(item)
        except CborError as error:
            return found, error.check
        return found, ""

    for window in (1_000, 7_777, 59_999, 60_000, 10**6):
        monkeypatch.setattr(ledgers, "WINDOW_BYTES", window)
        stream = io.BytesIO(content)
        got = listed(ledgers._items_in(stream, stream.read(window)))
        assert got == listed(split_sequence(content))


async def test_who_interrupts_is_heard(ledger: Path) -> None:
    """A check that waits for nothing still gives others their turn, so that it can be stopped."""
    one = Ledger("demo", items=iter(list(split_sequence(ledger.read_bytes()))))
    checking = asyncio.create_task(check(Session(), one, Checker(pool="demo"), title=""))
    await asyncio.sleep(0)
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
