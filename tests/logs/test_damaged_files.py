"""An embedded log that is damaged, or may not be written to: said at once, never waited for."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from contract_suite import event, receipt, values

from streams import topics
from streams.logs import layout
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.logs.errors import Damaged, LogTrouble, Remedy
from streams.logs.wal import BLOCK_BYTES, unreadable_record
from tests.logs.test_embedded import WRITES_AND_VANISHES, python

RECEIPTS = 60
BYTES = 500


async def written(directory: Path, tables: int = 2) -> Path:
    """A log of so many tables, each with inputs and receipts; returns the last one's file."""
    log = EmbeddedLog(directory)
    writer = await log.open_writer(0)
    for _ in range(tables):
        for _ in range(RECEIPTS):
            await log.publish([event(0)])
            value = os.urandom(BYTES)
            await writer.append([Entry(topic=topics.LEDGER, key=b"p", value=value)])
        log._database._open().flush()
    await log.close()
    return max((directory / "log").glob("*.sst"))


def flip(file: Path, at: int) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("kind", [EmbeddedLog, EmbeddedReader])
async def test_a_damaged_block_is_named_with_the_offset(
    tmp_path: Path, kind: type[EmbeddedLog | EmbeddedReader]
) -> None:
    """What lies before it is read; then it is `Damaged` with the offset and RocksDB's own words."""
    table = await written(tmp_path)
    flip(table, table.stat().st_size // 2)
    log = kind(tmp_path)
    before = await log.read(topics.LEDGER, 0, offset_next=0, max_records=RECEIPTS)
    assert before.offset_next == RECEIPTS
    with pytest.raises(Damaged, match=r"pool\.ledger/0 .* from offset \d+: Corruption") as damaged:
        await values(log, topics.LEDGER, 0)
    assert damaged.value.remedy is Remedy.STOP
    await log.close()
    await EmbeddedLog(tmp_path).close()


@pytest.mark.parametrize("cut", [30, 0])
async def test_a_table_that_is_missing_or_unreadable_is_no_earlier_log(
    tmp_path: Path, cut: int
) -> None:
    """A reader does not take the log for what it was before that table was written."""
    table = await written(tmp_path)
    if cut:
        flip(table, table.stat().st_size - cut)
    else:
        table.unlink()
    for kind in (EmbeddedReader, EmbeddedLog):
        with pytest.raises(Damaged):
            kind(tmp_path)


async def test_tables_that_no_manifest_names_are_no_new_log(tmp_path: Path) -> None:
    """The length of the manifest's record of a table, damaged, passes for a write that was cut off.

    To RocksDB the log is empty then: opened for writing its tables would be deleted.
    """
    await written(tmp_path, tables=1)
    log = tmp_path / "log"
    manifest = log / (log / "CURRENT").read_text().strip()
    content = bytearray(manifest.read_bytes())
    table = next(log.glob("*.sst"))
    starts = [0]
    while starts[-1] < len(content):
        starts.append(starts[-1] + _record_bytes(content, starts[-1]))
    longest = max(starts[:-1], key=lambda start: _record_bytes(content, start))
    content[longest + 5] ^= 1
    manifest.write_bytes(content)
    before = table.read_bytes()
    with pytest.raises(Damaged, match="there are tables"):
        EmbeddedLog(tmp_path)
    assert table.read_bytes() == before


def _record_bytes(content: bytearray, at: int) -> int:
    """The bytes of a record of RocksDB's log format: checksum, length, type, content."""
    return 7 + int.from_bytes(content[at + 4 : at + 6], "little")


OPENS = """
    import sys
    from pathlib import Path
    from streams.logs.embedded import EmbeddedLog, EmbeddedReader
    from streams.logs.errors import Damaged
    try:
        {"log": EmbeddedLog, "reader": EmbeddedReader}[sys.argv[2]](Path(sys.argv[1]))
    except Damaged as damaged:
        print(damaged)
"""


@pytest.mark.parametrize("kind", ["log", "reader"])
@pytest.mark.parametrize("name", ["*.log", "MANIFEST-*"])
async def test_a_record_type_that_rocksdb_loops_on_is_damage(
    tmp_path: Path, name: str, kind: str
) -> None:
    """One bit of a record's type in a log file: in another process, which could be ended."""
    python(WRITES_AND_VANISHES, str(tmp_path)).communicate(timeout=30)
    file = max((tmp_path / "log").glob(name), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    type_at = 7 + int.from_bytes(content[4:6], "little") + 6
    content[type_at] ^= 4
    file.write_bytes(content)
    opening = python(OPENS, str(tmp_path), kind)
    try:
        said, trouble = opening.communicate(timeout=20)
    finally:
        opening.kill()
    assert f"{file.name} has a record at {type_at - 6}" in said, trouble


def test_only_the_types_of_a_log_file_are_judged(tmp_path: Path) -> None:
    """Padding, an unwritten block, and a last record cut off or too long are RocksDB's to judge."""

    def record(length: int, kind: int) -> bytes:
        return bytes(4) + length.to_bytes(2, "little") + bytes([kind]) + bytes(length)

    block = record(BLOCK_BYTES - 7 - 7 - 3, 1) + record(0, 1)
    whole = block + b"\5\5\5"
    table = [
        (b"", None),
        (record(10, 1) * 3, None),
        (record(10, 1) + record(10, 5), 17),
        (record(10, 8), 0),
        (whole + record(5, 6), BLOCK_BYTES),
        (block + bytes(3) + bytes(BLOCK_BYTES) + record(1, 7), 2 * BLOCK_BYTES),
        (record(10, 1)[:-1] + b"", None),
        (record(10, 1)[:6], None),
        (record(10, 1) + b"\0\0\0\0\xff\xff\1" + record(3, 5), None),
        (record(10, 1) + record(10, 5)[:7], 17),
    ]
    file = tmp_path / "000001.log"
    for content, found in table:
        file.write_bytes(content)
        assert unreadable_record(file) == found, content[:40]


@pytest.mark.parametrize("topic", [topics.LEDGER, topics.DEAD, topics.HEADS])
async def test_a_missing_record_is_named(tmp_path: Path, topic: str) -> None:
    """Of what stewards write every offset is there; one that is not is `Damaged`, for all."""
    log = EmbeddedLog(tmp_path)
    stored = layout.pack_record(b"", timestamp_ms=0, order=0, key=b"p", content_type="", headers=())
    for offset in (0, 1, 4):
        log._database.write([(layout.record_key(topic, 0, offset), stored)])
    reader = EmbeddedReader(tmp_path)
    for one in (log, reader):
        for offset in (0, 2):
            with pytest.raises(Damaged, match=f"{topic}/0 lacks its records from 2 to 3"):
                await one.read(topic, 0, offset_next=offset)
        await one.close()


async def test_a_read_below_the_end_never_waits(tmp_path: Path) -> None:
    """It finds a record, goes past a reserved start, or says what is missing."""
    log = EmbeddedLog(tmp_path)
    await log.publish([event(0)])
    await log.reserve(topics.CLAIMS, 0, 100)
    reader = EmbeddedReader(tmp_path)
    for one in (log, reader):
        end = await one.end(topics.CLAIMS, 0)
        assert end == (await one.read(topics.CLAIMS, 0, offset_next=1)).offset_next == 100
    await reader.close()
    log._offsets[topics.CLAIMS, 0] += 5
    with pytest.raises(Damaged, match="lacks its records from 100 to 104"):
        await log.read(topics.CLAIMS, 0, offset_next=100)
    await log.close()


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


async def test_a_reader_touches_no_file(tmp_path: Path) -> None:
    """Names, bytes and times of the directory stay as they were, with a log written to or not."""
    await written(tmp_path)
    log = EmbeddedLog(tmp_path)
    writer = await log.open_writer(0)
    await writer.append([receipt(0)])
    for _ in range(2):
        before = state(tmp_path)
        reader = EmbeddedReader(tmp_path)
        assert len(await values(reader, topics.LEDGER, 0)) == 2 * RECEIPTS + 1
        await reader.close()
        assert state(tmp_path) == before
        await log.close()


async def test_a_reader_that_is_refused_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own directory goes with it, whatever it was refused for."""
    (tmp_path / "own").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    log = EmbeddedLog(tmp_path)
    log._database.write([(layout.FORMAT_KEY, b"no format")])
    with pytest.raises(Damaged):
        EmbeddedReader(tmp_path)
    await log.close()
    manifest = max((tmp_path / "log").glob("MANIFEST-*"))
    flip(manifest, manifest.stat().st_size // 2)
    with pytest.raises(Damaged):
        EmbeddedReader(tmp_path)
    assert os.listdir(tmp_path / "own") == []


READS = """
    import asyncio, sys
    from pathlib import Path
    from streams import topics
    from streams.logs.embedded import EmbeddedReader
    reader = EmbeddedReader(Path(sys.argv[1]))
    print(asyncio.run(reader.end(topics.LEDGER, 0)))
"""


async def test_a_read_only_file_system_is_read(tmp_path: Path) -> None:
    """A directory that nobody can write to, not even root, is a log like any other to a reader."""
    unshare = shutil.which("unshare")
    mount = 'mount --bind -o ro "$0" "$0" && mount -o remount,bind,ro "$0"'
    assert unshare is not None, "install util-linux"
    tried = subprocess.run([unshare, "-rm", "true"], capture_output=True, text=True)
    assert tried.returncode == 0, f"mount namespaces are needed here: {tried.stderr}"
    await written(tmp_path / "data", tables=1)
    data = str(tmp_path / "data")
    reading = [sys.executable, "-c", textwrap.dedent(READS), data]
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", f'{mount} && ! touch "$0/x" && exec "$@"', data, *reading],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(RECEIPTS), done.stderr


async def test_a_reader_follows_a_log_that_is_opened_anew(tmp_path: Path) -> None:
    """The writer's next process writes another manifest; a reader beside goes on with it."""
    log = EmbeddedLog(tmp_path)
    await log.publish([event(0)])
    reader = EmbeddedReader(tmp_path)
    for count in range(1, 4):
        assert await reader.end(topics.CLAIMS, 0) == count
        assert len(await values(reader, topics.CLAIMS, 0)) == count
        log._database._open().flush()
        await log.close()
        log = EmbeddedLog(tmp_path)
        await log.publish([event(count)])
    await log.close()
    await reader.close()


async def test_trouble_without_a_temporary_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader's own files need a place; where there is none it says so."""
    await EmbeddedLog(tmp_path).close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(LogTrouble, match="TMPDIR"):
        EmbeddedReader(tmp_path)
