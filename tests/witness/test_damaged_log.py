"""A steward's log that is damaged, or may not be written to: not yet, with why; never a fork."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schemas.heads import open_countersignature
from streams import topics
from streams.logs import layout
from tests.witness.ledger import Ledger
from tests.witness.support import (
    Process,
    Steward,
    environment,
    lines,
    new_state,
    opened,
    published,
)
from witness.beside import BLOCK_BYTES, written_over
from witness.embedded import EmbeddedReader
from witness.health import Health
from witness.outbox import Outbox
from witness.runner import Runner
from witness.sources import HEADS, LEDGER
from witness.trouble import Reason, Trouble

FIRST, LENGTH = 30, 60


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def steward(log: Path) -> Iterator[Steward]:
    steward = Steward(log)
    yield steward
    steward.close()


def two_tables(steward: Steward) -> Path:
    """A ledger whose first `FIRST` receipts are in one table, the others in a second: its file."""
    ledger = Ledger().grow(FIRST)
    steward.write_ledger(ledger)
    steward.log._database._open().flush()
    steward.write_ledger(ledger.grow(LENGTH - FIRST), FIRST)
    steward.log._database._open().flush()
    return max((steward.directory / "log").glob("*.sst"))


def flip(file: Path, at: int, bit: int = 1) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[at] ^= bit
    file.write_bytes(content)


def a_killed_stewards(steward: Steward, copy: Path) -> Path:
    """A log whose records are in the write-ahead log; that log's file."""
    steward.write_ledger(Ledger().grow(LENGTH))
    shutil.copytree(steward.directory, copy)
    return max((copy / "log").glob("*.log"), key=lambda path: path.stat().st_size)


DAMAGES = {
    "a block": (lambda table: flip(table, table.stat().st_size // 3), "checksum mismatch"),
    "a table's end": (lambda table: flip(table, table.stat().st_size - 30), "checksum mismatch"),
    "a table": (Path.unlink, "No such file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_trouble_and_no_fork_until_the_log_is_restored(
    tmp_path: Path, log: Path, steward: Steward, damage: str
) -> None:
    """Exit 3 and one line each time, and nothing signed; then the same store signs all of it."""
    harm, words = DAMAGES[damage]
    table = two_tables(steward)
    steward.close()
    process = Process(tmp_path, log)
    process.init()
    content = table.read_bytes()
    harm(table)
    for _ in range(2):
        done = process.once()
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("pool-witness: ")
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    assert published(log) == []
    table.write_bytes(content)
    assert process.once().returncode == 0
    assert [line["forked"] for line in lines(process.call("status"))] == [False]
    newest = open_countersignature(published(log)[-1]).statement
    assert newest.end.length == LENGTH


@pytest.mark.parametrize("bit", [1, 4])
def test_damage_in_the_write_ahead_log_ends_the_look(
    tmp_path: Path, steward: Steward, bit: int
) -> None:
    """A record's type: some are a wrong checksum, on others RocksDB would never come back."""
    file = a_killed_stewards(steward, tmp_path / "killed")
    second = 7 + int.from_bytes(file.read_bytes()[4:6], "little")
    flip(file, second + 6, bit)
    process = Process(tmp_path, tmp_path / "killed")
    process.init()
    done = process.once()
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert (f"{file.name} has a record at {second}" if bit == 4 else "Corruption") in done.stderr
    assert published(process.data) == []


def test_only_the_types_of_a_log_file_are_judged(tmp_path: Path) -> None:
    """Padding, an unwritten block, and a record cut off or too long are RocksDB's to judge."""

    def record(length: int, kind: int) -> bytes:
        return bytes(4) + length.to_bytes(2, "little") + bytes([kind]) + bytes(length)

    block = record(BLOCK_BYTES - 7 - 7 - 3, 1) + record(0, 1)
    table = [
        (b"", None),
        (record(10, 1) * 3, None),
        (record(10, 1) + record(10, 5), 17),
        (block + b"\5\5\5" + record(5, 6), BLOCK_BYTES),
        (block + bytes(3) + bytes(BLOCK_BYTES) + record(1, 7), 2 * BLOCK_BYTES),
        (record(10, 1)[:6], None),
        (b"\0\0\0\0\xff\xff\1" + record(3, 5), None),
    ]
    file = tmp_path / "000001.log"
    for content, found in table:
        file.write_bytes(content)
        assert written_over(file) == found, content[:40]


def test_a_running_witness_tells_the_cause_and_goes_on_once_it_can_read(
    tmp_path: Path, log: Path, steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad health answer with the cause, each try a line; then signed, and nobody accused."""
    monkeypatch.setattr("witness.runner.RETRY_S_MAX", 0.05)
    table = two_tables(steward)
    content = table.read_bytes()
    flip(table, len(content) // 3)
    health, complaints = Health(patience_s=0.001), list[Trouble]()

    async def until_there_are(statements: int) -> None:
        async with asyncio.timeout(20):
            while len(published(log)) < statements:
                await asyncio.sleep(0.02)

    async def run(witness_state: Path) -> None:
        stop = asyncio.Event()
        with closing(opened(witness_state)) as witness:
            reader, publisher = EmbeddedReader(log), Outbox(log, witness.public_key)
            runner = Runner(witness, reader, publisher, health=health, complain=complaints.append)
            running = asyncio.create_task(runner.run(stop))
            async with asyncio.timeout(20):
                while len(complaints) < 3:
                    await asyncio.sleep(0.02)
            assert published(log) == []
            faults = {fault["code"]: fault["detail"] for fault in health.faults()}
            assert "cannot be read on from offset" in faults["log-unreadable"]
            shutil.move(log / "log", tmp_path / "elsewhere")
            told = len(complaints)
            async with asyncio.timeout(20):
                while len(complaints) < told + 2:
                    await asyncio.sleep(0.02)
            (tmp_path / "elsewhere" / table.name).write_bytes(content)
            shutil.move(tmp_path / "elsewhere", log / "log")
            await until_there_are(1)
            stop.set()
            await running
            await publisher.close()
            await reader.close()

    asyncio.run(run(new_state(tmp_path)))
    reasons = {trouble.reason for trouble in complaints}
    assert reasons == {Reason.LOG_DAMAGED, Reason.LOG_UNAVAILABLE}
    assert health.report()["pools"]["alpha"]["forked"] is False  # type: ignore[index]
    assert open_countersignature(published(log)[-1]).statement.end.length == LENGTH


def test_a_table_that_is_lost_beside_a_running_witness_is_no_gap(
    log: Path, steward: Steward
) -> None:
    """What was written there is missed with the next record, and by whoever opens the log."""
    ledger = Ledger().grow(FIRST)
    steward.write_ledger(ledger)
    reader = EmbeddedReader(log)
    before = set((log / "log").glob("*.sst"))
    steward.write_ledger(ledger.grow(10), FIRST)
    steward.log._database._open().flush()
    table = max(set((log / "log").glob("*.sst")) - before)
    content = table.read_bytes()
    table.unlink()
    steward.write_ledger(ledger.grow(10), FIRST + 10)
    for words in ("on from offset 30: the next record is 40", table.name):
        with pytest.raises(Trouble, match=words) as trouble:
            asyncio.run(reader.read(LEDGER, 0, offset_next=FIRST))
        assert trouble.value.reason is Reason.LOG_DAMAGED
    table.write_bytes(content)
    assert asyncio.run(reader.read(LEDGER, 0, offset_next=FIRST)).offset_next == FIRST + 20
    asyncio.run(reader.close())


@pytest.mark.parametrize("topic", [LEDGER, HEADS])
def test_a_missing_record_is_damage(log: Path, steward: Steward, topic: str) -> None:
    """Stewards leave no hole in what a witness reads."""
    steward.write_ledger(Ledger().grow(FIRST), every=1)
    steward.log._database._open().delete(layout.record_key(topic, 0, 7))
    reader = EmbeddedReader(log)
    with pytest.raises(Trouble, match=f"{topic}/0 .* offset 7: the next record is 8"):
        asyncio.run(reader.read(topic, 0, offset_next=0))
    asyncio.run(reader.close())


def state(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and directory with its times and bytes."""
    return {
        str(path): (
            path.stat().st_mtime_ns,
            path.stat().st_ctime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (directory, *sorted(directory.rglob("*")))
    }


def test_nothing_is_touched_where_it_reads(
    tmp_path: Path, log: Path, steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names, bytes and times of the log stay, and nothing of the reader's stays elsewhere."""
    (tmp_path / "own").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    two_tables(steward)
    for _ in range(2):
        before = state(log)
        reader = EmbeddedReader(log)
        assert asyncio.run(reader.end(topics.LEDGER, 0)) == LENGTH
        asyncio.run(reader.close())
        assert state(log) == before
        steward.close()
    max((log / "log").glob("*.sst")).unlink()
    with pytest.raises(Trouble):
        EmbeddedReader(log)
    assert os.listdir(tmp_path / "own") == []


def test_a_read_only_log_is_followed(tmp_path: Path, log: Path, steward: Steward) -> None:
    """The log's directory may be mounted so that not even root can write; the outbox is beside."""
    unshare = shutil.which("unshare")
    assert unshare is not None, "install util-linux"
    tried = subprocess.run([unshare, "-rm", "true"], capture_output=True, text=True)
    assert tried.returncode == 0, f"mount namespaces are needed here: {tried.stderr}"
    two_tables(steward)
    process = Process(tmp_path, log)
    process.init()
    mount = 'mount --bind -o ro "$0" "$0" && mount -o remount,bind,ro "$0"'
    script = f'{mount} && ! touch "$0/x" && exec "$@"'
    line = process.arguments("run", "--data", str(log), "--once")
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", script, str(log / "log"), *line],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert open_countersignature(published(log)[-1]).statement.end.length == LENGTH


def test_no_place_for_temporary_files_is_trouble(
    tmp_path: Path, log: Path, steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which, and what to do."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(Trouble, match="TMPDIR") as trouble:
        EmbeddedReader(log)
    assert trouble.value.exit_code == 3
