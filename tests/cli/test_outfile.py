"""What `pool export` writes to: a file is replaced, anything else is written to and stays."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from streams.cli.outfile import written
from tests.cli.calling import ROOT, Pool, command


@pytest.fixture(scope="module")
def ledger(made: tuple[Path, object], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The demo's ledger."""
    from streams.cli.main import run

    file = tmp_path_factory.mktemp("exported") / "ledger.cbor"
    assert run(["export", "demo", str(file), "--data", str(made[0])]) == 0
    return file.read_bytes()


def test_a_pipe_stays_one(pool: Pool, data: Path, ledger: bytes, tmp_path: Path) -> None:
    """A FIFO gets the ledger, and heads as well, and is still a FIFO."""
    got: dict[str, bytes] = {}
    readers = []
    for name in ("ledger", "heads"):
        os.mkfifo(tmp_path / name)
        readers.append(
            threading.Thread(target=lambda n=name: got.update({n: (tmp_path / n).read_bytes()}))
        )
        readers[-1].start()
    outcome = pool(
        "export", "demo", tmp_path / "ledger", "--heads", tmp_path / "heads", "--data", data
    )
    for reader in readers:
        reader.join()
    assert outcome.status == 0
    assert got["ledger"] == ledger and got["heads"]
    assert stat.S_ISFIFO((tmp_path / "ledger").lstat().st_mode)
    assert stat.S_ISFIFO((tmp_path / "heads").lstat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["heads", "ledger"]


@pytest.mark.parametrize("there", [True, False])
def test_a_symlink_stays_and_its_target_is_replaced(
    pool: Pool, data: Path, ledger: bytes, tmp_path: Path, there: bool
) -> None:
    """What it leads to is another file afterwards; who had the old one open has it still."""
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "ledger.cbor", tmp_path / "link"
    link.symlink_to(Path("far") / "ledger.cbor")
    if there:
        target.write_bytes(b"old")
        (tmp_path / "kept").hardlink_to(target)
    assert pool("export", "demo", link, "--data", data).status == 0
    assert link.is_symlink() and not target.is_symlink()
    assert target.read_bytes() == ledger
    assert not there or (tmp_path / "kept").read_bytes() == b"old"
    assert os.listdir(tmp_path / "far") == ["ledger.cbor"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_stdout_gets_the_ledger_and_nothing_else(
    data: Path, ledger: bytes, tmp_path: Path, name: str
) -> None:
    """Into a pipe and into a file that goes on; the answer is on stderr."""
    line = command("export", "demo", name, "--data", data, "--json")
    piped = subprocess.run(line, capture_output=True, cwd=ROOT)
    assert piped.stdout == ledger
    assert b"receipts, head" in piped.stderr
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before")
        file.flush()
        assert (
            subprocess.run(line, stdout=file, stderr=subprocess.DEVNULL, cwd=ROOT).returncode == 0
        )
    # As a shell's `>` after `printf before`: what was there stays, the ledger follows.
    assert (tmp_path / "file").read_bytes() == b"before" + ledger


@pytest.mark.parametrize("kind", ["file", "none", "fifo"])
def test_what_fails_lets_nothing_out(tmp_path: Path, kind: str) -> None:
    """A file keeps what it had, none is made, a pipe is not even opened."""
    file = tmp_path / "out"
    if kind == "file":
        file.write_bytes(b"old")
    elif kind == "fifo":
        os.mkfifo(file)
    before = os.listdir(tmp_path)

    def fail() -> None:
        with written(file) as stream:
            stream.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert os.listdir(tmp_path) == before
    assert kind != "file" or file.read_bytes() == b"old"
