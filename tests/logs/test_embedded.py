"""The embedded log keeps the contract, on disk, whoever is killed or reads beside it."""

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contract_suite import PARTITIONS, LogContract, event, everything, receipt, values

from streams import topics
from streams.logs import layout
from streams.logs.contract import CONTENT_JSON, Entry, Outgoing
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.logs.errors import Damaged, Held, LogTrouble, Misconfigured, Missing, Remedy

ROOT = Path(__file__).parents[2]
KILLS = 6


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """An empty embedded log."""
    opened = EmbeddedLog(tmp_path, partitions=PARTITIONS)
    yield opened
    await opened.close()


class TestEmbedded(LogContract):
    """The suite on RocksDB."""


def python(code: str, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    """Another process that runs `code` with this project importable."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_what_was_written_is_there_after_a_reopening(tmp_path: Path) -> None:
    """Records, ends, orders and partitions are recovered from the directory alone."""
    log = EmbeddedLog(tmp_path, partitions=PARTITIONS)
    home = topics.partition_for(b"p", PARTITIONS)
    await log.publish([event(0), event(1, topic=topics.ADMIN)])
    writer = await log.open_writer(home)
    await writer.append([receipt(0)])
    before = [await everything(log, topic, home) for topic in topics.ALL_TOPICS]
    await log.close()

    log = EmbeddedLog(tmp_path)
    assert await log.partitions() == PARTITIONS
    assert [await everything(log, topic, home) for topic in topics.ALL_TOPICS] == before
    await log.publish([event(2)])
    orders = [record.order for record in await everything(log, topics.CLAIMS, home)]
    assert orders == [0, 3]
    await log.close()


async def test_the_order_of_publication_holds_between_topics(log: EmbeddedLog) -> None:
    """`order` tells which of two topics' records came first, whatever their times."""
    home = topics.partition_for(b"p", PARTITIONS)
    chosen = [topics.METERS, topics.ADMIN, topics.CLAIMS, topics.ADMIN]
    await log.publish(
        [
            Outgoing(topic=topic, key=b"p", value=bytes([number]), timestamp_ms=9 - number)
            for number, topic in enumerate(chosen)
        ]
    )
    found = [
        record for topic in topics.INPUT_TOPICS for record in await everything(log, topic, home)
    ]
    assert [r.value[0] for r in sorted(found, key=lambda record: record.order)] == [0, 1, 2, 3]


async def test_a_publication_with_one_bad_record_leaves_no_trace(log: EmbeddedLog) -> None:
    """All records of one call are published, or none."""
    bad = Outgoing(topic=topics.CLAIMS, key=bytes(2000), value=b"")
    with pytest.raises(LogTrouble):
        await log.publish([event(0), bad])
    for partition in range(PARTITIONS):
        assert await log.end(topics.CLAIMS, partition) == 0


async def test_an_impossible_time_is_refused(log: EmbeddedLog) -> None:
    """A given time is an instant from 1970 to 9999."""
    for timestamp_ms in (-1, 253_402_300_800_000):
        with pytest.raises(LogTrouble):
            await log.publish(
                [Outgoing(topic=topics.ADMIN, key=b"p", value=b"", timestamp_ms=timestamp_ms)]
            )


async def test_a_reserved_start_leaves_a_hole(tmp_path: Path) -> None:
    """After a reservation the next offset is the reserved one, also after a reopening."""
    log = EmbeddedLog(tmp_path)
    await log.publish([event(0)])
    await log.reserve(topics.CLAIMS, 0, 100)
    await log.reserve(topics.CLAIMS, 0, 50)
    await log.close()
    log = EmbeddedLog(tmp_path)
    (position,) = await log.publish([event(1)])
    assert position.offset == 100
    fetched = await log.read(topics.CLAIMS, 0, offset_next=1)
    assert [record.offset for record in fetched.records] == [100]
    await log.close()


async def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    """Opening what another process has open is `Held`, in one line; so it is in one process."""
    log = EmbeddedLog(tmp_path)
    with pytest.raises(Held) as held:
        EmbeddedLog(tmp_path)
    assert held.value.remedy is Remedy.STOP
    code = """
        import sys
        from pathlib import Path
        from streams.logs.embedded import EmbeddedLog
        from streams.logs.errors import Held
        try:
            EmbeddedLog(Path(sys.argv[1]))
        except Held as held:
            print(held)
    """
    said, _ = python(code, str(tmp_path)).communicate(timeout=30)
    assert said.startswith("another process holds this directory")
    assert str(tmp_path) in said
    await log.close()
    await EmbeddedLog(tmp_path).close()


async def test_a_reader_beside_the_writer_sees_what_is_written(tmp_path: Path) -> None:
    """A reader follows a live writer, batch by batch, and changes no file of the log."""
    log = EmbeddedLog(tmp_path)
    await log.publish([event(0)])
    before = {path.name: path.read_bytes() for path in (tmp_path / "log").glob("*")}
    reader = EmbeddedReader(tmp_path)
    assert await values(reader, topics.CLAIMS, 0) == [b"event 0"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "log").glob("*")} == before
    waiting = asyncio.create_task(reader.read(topics.LEDGER, 0, offset_next=0, timeout_ms=10_000))
    await asyncio.sleep(0.02)
    writer = await log.open_writer(0)
    await writer.append([receipt(0), receipt(1)])
    assert [record.value for record in (await waiting).records] == [b"receipt 0", b"receipt 1"]
    await log.publish([event(number) for number in range(1, 200)])
    assert await reader.end(topics.CLAIMS, 0) == 200
    assert len(await values(reader, topics.CLAIMS, 0)) == 200
    await reader.close()
    await log.close()


async def test_a_reader_needs_a_log(tmp_path: Path) -> None:
    """Where there is no log a reader says so and makes nothing."""
    with pytest.raises(Missing):
        EmbeddedReader(tmp_path / "none")
    with pytest.raises(Missing):
        EmbeddedLog(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


async def test_another_number_of_partitions_is_refused(tmp_path: Path) -> None:
    """An existing log keeps its partitions; asking for others is an error, and frees the lock."""
    await EmbeddedLog(tmp_path, partitions=2).close()
    with pytest.raises(Misconfigured):
        EmbeddedLog(tmp_path, partitions=3)
    with pytest.raises(Misconfigured):
        EmbeddedLog(tmp_path / "other", partitions=0)
    log = EmbeddedLog(tmp_path)
    assert await log.partitions() == 2
    await log.close()


WRITES_AND_VANISHES = """
    import asyncio, os, sys
    from pathlib import Path
    from streams import topics
    from streams.logs.contract import Outgoing
    from streams.logs.embedded import EmbeddedLog

    async def main():
        log = EmbeddedLog(Path(sys.argv[1]))
        for number in range(50):
            await log.publish([Outgoing(topic=topics.CLAIMS, key=b"p", value=bytes(50))])
        os._exit(0)

    asyncio.run(main())
"""


@pytest.mark.parametrize("part", [3, 2])
async def test_damage_inside_the_write_ahead_log_is_no_silent_end(
    tmp_path: Path, part: int
) -> None:
    """A flipped byte before the last write is `Damaged`: acknowledged records are not dropped."""
    python(WRITES_AND_VANISHES, str(tmp_path)).communicate(timeout=30)
    wal = max((tmp_path / "log").glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(wal.read_bytes())
    content[len(content) // part] ^= 1
    wal.write_bytes(content)
    with pytest.raises(Damaged):
        EmbeddedLog(tmp_path)


async def test_a_cut_off_last_write_is_a_write_that_never_was(tmp_path: Path) -> None:
    """What a lost power supply cuts off at the end was not acknowledged, and the rest stands."""
    python(WRITES_AND_VANISHES, str(tmp_path)).communicate(timeout=30)
    wal = max((tmp_path / "log").glob("*.log"), key=lambda path: path.stat().st_size)
    wal.write_bytes(wal.read_bytes()[:-3])
    log = EmbeddedLog(tmp_path)
    assert len(await values(log, topics.CLAIMS, 0)) == 49
    await log.close()


async def test_a_stored_record_that_ends_early_is_named(tmp_path: Path) -> None:
    """A value that the layout never writes is `Damaged`, with its key."""
    log = EmbeddedLog(tmp_path)
    key = layout.record_key(topics.CLAIMS, 0, 0)
    log._database.write([(key, b"\0" * 19 + b"\xff")])
    with pytest.raises(Damaged, match=key.hex()):
        await log.read(topics.CLAIMS, 0, offset_next=0)
    await log.close()


def test_the_layout_keeps_every_record() -> None:
    """Packing and unpacking a record gives it back, for every content type and header."""
    for content_type in ("application/cbor", CONTENT_JSON, "text/x-odd; a=ä", ""):
        for key in (None, b"", b"pool"):
            for headers in ((), (("reason", b"x"), ("ä", b""))):
                stored = layout.pack_record(
                    b"value",
                    timestamp_ms=-1,
                    order=2**40,
                    key=key,
                    content_type=content_type,
                    headers=headers,
                )
                record = layout.unpack_record(topics.DEAD, 3, 2**63, stored)
                assert (record.key, record.value, record.headers) == (key, b"value", headers)
                assert (record.content_type, record.timestamp_ms) == (content_type, -1)
                assert record.order == layout.order_of(stored) == 2**40


async def test_a_full_disk_is_named_and_latched(tmp_path: Path) -> None:
    """No room: `DiskFull`, nothing of the batch, and nothing more until it is opened anew."""
    await EmbeddedLog(tmp_path).close()
    code = """
        import asyncio, os, sys
        from pathlib import Path
        from streams import topics
        from streams.logs.contract import Entry
        from streams.logs.embedded import EmbeddedLog
        from streams.logs.errors import LogTrouble

        async def main():
            log = EmbeddedLog(Path(sys.argv[1]))
            writer = await log.open_writer(0)
            written = 0
            try:
                while True:
                    entry = Entry(topic=topics.LEDGER, key=b"p", value=os.urandom(5000))
                    await writer.append([entry])
                    written += 1
            except LogTrouble as trouble:
                end = await log.end(topics.LEDGER, 0)
                print(type(trouble).__name__, trouble.remedy, written, end)
            try:
                await log.open_writer(0)
            except LogTrouble as trouble:
                print(type(trouble).__name__)
            os._exit(0)

        asyncio.run(main())
    """
    limit = 64 * 1024
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.stdout, process.stderr
    first, second = process.stdout.splitlines()
    name, remedy, written, end = first.split()
    assert (name, remedy, written, second) == ("DiskFull", "stop", end, "Damaged")
    log = EmbeddedLog(tmp_path)
    assert len(await values(log, topics.LEDGER, 0)) == int(written) > 0
    await log.close()


WRITES_UNTIL_KILLED = """
    import asyncio, sys
    from pathlib import Path
    from streams import topics
    from streams.logs.contract import Entry
    from streams.logs.embedded import EmbeddedLog

    async def main():
        log = EmbeddedLog(Path(sys.argv[1]))
        writer = await log.open_writer(0)
        number = await log.end(topics.LEDGER, 0) // 10
        while True:
            value = number.to_bytes(4, "big")
            batch = [Entry(topic=topics.LEDGER, key=b"p", value=value + bytes(500))] * 10
            batch += [Entry(topic=topics.HEADS, key=b"p", value=value)]
            await writer.append(batch)
            print(number, flush=True)
            number += 1

    asyncio.run(main())
"""


async def test_kill_9_tears_no_batch_and_loses_no_acknowledged_one(tmp_path: Path) -> None:
    """Killed at random moments and started again, the log holds whole batches, none missing."""
    acknowledged = 0
    for _ in range(KILLS):
        process = python(WRITES_UNTIL_KILLED, str(tmp_path))
        assert process.stdout is not None
        assert process.stdout.readline(), process.stderr and process.stderr.read()
        time.sleep(random.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split()
        process.communicate(timeout=30)
        log = EmbeddedLog(tmp_path)
        receipts = [value[:4] for value in await values(log, topics.LEDGER, 0)]
        heads = await values(log, topics.HEADS, 0)
        await log.close()
        acknowledged = max(acknowledged, *(int(number) + 1 for number in said[:-1] or ["0"]))
        assert len(heads) >= acknowledged
        assert heads == [number.to_bytes(4, "big") for number in range(len(heads))]
        assert receipts == [head for head in heads for _ in range(10)]
    assert acknowledged > 0


def test_an_entry_is_cose_unless_it_says_otherwise() -> None:
    """What a steward appends is sealed, dead letters apart."""
    assert Entry(topic=topics.LEDGER, key=None, value=b"").content_type == "application/cose"
