"""A snapshot is a cache: it saves reading, is not believed without the ledger, is never needed."""

from dataclasses import replace
from pathlib import Path

import pytest
from steward_support import (
    POOL,
    SIGNER,
    TIMELESS,
    busy_day,
    claim,
    decide,
    ledger,
    opened,
    records,
    steward,
)

from schemas.heads import open_head
from streams import topics
from streams.logs import layout
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import Damaged
from streams.steward import Observer, Snapshots
from streams.steward.pools import Partition
from streams.steward.replay import replay


class Watching(Observer):
    """Remembers what became of snapshots and how much of the ledger was read."""

    def __init__(self) -> None:
        self.ignored_snapshots: list[str] = []
        self.first_read: int | None = None

    def snapshot_ignored(self, partition: int, detail: str) -> None:
        self.ignored_snapshots.append(detail)

    def replaying(self, partition: int, offset: int, end: int) -> None:
        if self.first_read is None:
            self.first_read = offset


def plain(partition: Partition) -> dict[str, object]:
    """Everything that a partition is, to be compared."""
    return {
        "positions": partition.positions,
        "ledger_next": partition.ledger_next,
        "pools": {
            name: (pool.state.to_plain(), pool.chain.to_plain(), pool.offset)
            for name, pool in partition.pools.items()
        },
    }


async def with_snapshots(tmp_path: Path, *, pools: tuple[str, ...] = (POOL, "q")) -> EmbeddedLog:
    """A log of several pools with a snapshot in the middle and receipts after it."""
    log = EmbeddedLog(tmp_path)
    for pool in pools:
        await decide(log, busy_day(40, pool=pool), snapshots=tmp_path / "snapshots")
    await decide(log, [claim("late", 90_000, pool=pool) for pool in pools])
    return log


async def replayed(log: EmbeddedLog, snapshots: Path | None) -> tuple[Partition, Watching]:
    """A partition as a starting steward gets it."""
    watching = Watching()
    partition = Partition(number=0)
    if snapshots is not None:
        partition = await Snapshots(snapshots).load(log, 0, watching)
    await replay(log, partition, watching)
    return partition, watching


def newest(tmp_path: Path) -> int:
    """The ledger offset of the newest snapshot."""
    return max(int(path.stem.split("-")[1]) for path in (tmp_path / "snapshots").iterdir())


async def test_a_snapshot_and_a_whole_replay_are_one(tmp_path: Path) -> None:
    """From the newest snapshot or from the start: the same pools, chains and positions."""
    log = await with_snapshots(tmp_path)
    whole, from_start = await replayed(log, None)
    short, from_snapshot = await replayed(log, tmp_path / "snapshots")
    assert plain(short) == plain(whole)
    assert from_start.first_read == 0
    assert from_snapshot.first_read == newest(tmp_path)
    assert 0 < newest(tmp_path) < await log.end(topics.LEDGER, 0)
    assert from_snapshot.ignored_snapshots == []
    await log.close()


async def test_deciding_goes_on_alike_from_a_snapshot(tmp_path: Path) -> None:
    """What is decided after a snapshot is what is decided after a whole replay."""
    ledgers = []
    for name, snapshots in (("with", "snapshots"), ("without", None)):
        directory = tmp_path / name
        events = busy_day(60)
        for start in range(0, len(events), 40):
            log = EmbeddedLog(directory)
            where = directory / snapshots if snapshots else None
            await decide(log, events[start : start + 40], snapshots=where)
            ledgers.append(await ledger(log))
            await log.close()
    half = len(ledgers) // 2
    assert ledgers[half - 1] == ledgers[-1]


async def test_a_damaged_snapshot_is_ignored(tmp_path: Path) -> None:
    """A flipped byte, a cut file or another file: the ledger is read from further back instead."""
    log = await with_snapshots(tmp_path)
    whole, _ = await replayed(log, None)
    older, newest = sorted(
        (tmp_path / "snapshots").iterdir(), key=lambda path: int(path.stem.split("-")[1])
    )
    good = newest.read_bytes()
    for bad in (b"", good[:-1], good[:100], good[:200] + b"\0" + good[201:], b"x" + good[1:]):
        newest.write_bytes(bad)
        partition, watching = await replayed(log, tmp_path / "snapshots")
        assert plain(partition) == plain(whole)
        assert len(watching.ignored_snapshots) == 1
        assert newest.name in watching.ignored_snapshots[0]
        assert watching.first_read == int(older.stem.split("-")[1])
    older.write_bytes(b"")
    partition, watching = await replayed(log, tmp_path / "snapshots")
    assert plain(partition) == plain(whole)
    assert (len(watching.ignored_snapshots), watching.first_read) == (2, 0)
    await log.close()


async def test_another_ledgers_snapshot_is_ignored(tmp_path: Path) -> None:
    """A snapshot whose last receipts are not in this ledger is no use, however whole it is."""
    log = await with_snapshots(tmp_path / "one")
    await log.close()
    other = EmbeddedLog(tmp_path / "other")
    events = [opened(), *(claim(f"other{number}", 2000 + number) for number in range(300))]
    await decide(other, events)
    partition, watching = await replayed(other, tmp_path / "one" / "snapshots")
    whole, _ = await replayed(other, None)
    assert plain(partition) == plain(whole)
    assert len(watching.ignored_snapshots) == 2
    short = EmbeddedLog(tmp_path / "short")
    _, watching = await replayed(short, tmp_path / "one" / "snapshots")
    assert all("shorter" in detail for detail in watching.ignored_snapshots)
    await short.close()
    await other.close()


async def test_two_are_kept_and_no_partial_file(tmp_path: Path) -> None:
    """Old snapshots are removed; what was being written when killed is no snapshot."""
    log = EmbeddedLog(tmp_path)
    directory = tmp_path / "snapshots"
    settings = replace(TIMELESS, batch_events=10, snapshot_receipts=10)
    await decide(log, busy_day(60), settings=settings, snapshots=directory)
    names = sorted(path.name for path in directory.iterdir())
    assert len(names) == 2
    (directory / "p0-999999.partial").write_bytes(b"half")
    _, watching = await replayed(log, directory)
    assert watching.ignored_snapshots == []
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in directory.glob("*.snapshot"))
    await log.close()


async def test_a_snapshot_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """No room or no leave for a snapshot stops nobody."""
    log = EmbeddedLog(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    watching = Watching()
    await decide(log, busy_day(5), snapshots=tmp_path / "file" / "snapshots", observer=watching)
    assert len(watching.ignored_snapshots) == 1
    await log.close()


async def test_a_snapshot_does_not_say_what_the_ledger_does_not(tmp_path: Path) -> None:
    """If the ledger ends otherwise than the steward believes, no snapshot is written."""
    log = EmbeddedLog(tmp_path)
    await log.publish(busy_day(5))
    watching = Watching()
    one = steward(log, snapshots=tmp_path / "snapshots", observer=watching)
    await one.decide_all()
    intruder = await log.open_writer(0)
    await intruder.append([Entry(topic=topics.LEDGER, key=b"p", value=b"what")])
    assert one.partition is not None
    await Snapshots(tmp_path / "snapshots").save(log, one.partition, watching)
    assert "ends otherwise" in watching.ignored_snapshots[0]
    assert list((tmp_path / "snapshots").glob("*")) == []
    await one.close()
    await log.close()


async def test_no_head_is_lost_with_a_snapshot(tmp_path: Path) -> None:
    """Whatever a steward was killed after, the next one's last head covers the whole ledger."""
    settings = replace(TIMELESS, batch_events=7, snapshot_receipts=30, head_receipts=10_000)
    for count in (9, 10, 11, 12):
        directory = tmp_path / str(count)
        log = EmbeddedLog(directory)
        await log.publish(busy_day(count))
        dropped = steward(log, settings=settings, snapshots=directory / "snapshots")
        await dropped.decide_all()
        await dropped.close()
        await decide(log, settings=settings, snapshots=directory / "snapshots")
        last = (await records(log, topics.HEADS))[-1]
        head = open_head(last.value, [SIGNER.public_key]).statement
        assert head.end.length == len(await ledger(log))
        await log.close()


async def test_a_steward_stops_at_damage_that_it_reads(tmp_path: Path) -> None:
    """A ledger damaged behind the snapshot: nothing is appended, and no snapshot is made of it."""
    log = await with_snapshots(tmp_path)
    snapshots, end = tmp_path / "snapshots", await log.end(topics.LEDGER, 0)
    log._database._open().delete(layout.record_key(topics.LEDGER, 0, newest(tmp_path)))
    with pytest.raises(Damaged, match="lacks its records"):
        await decide(log, [claim("new", 99_000)], snapshots=snapshots)
    partition = await Snapshots(snapshots).load(log, 0, Observer())
    with pytest.raises(Damaged, match="lacks its records"):
        await Snapshots(snapshots).save(log, partition, Observer())
    assert await log.end(topics.LEDGER, 0) == end
    await log.close()
