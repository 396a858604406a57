"""Snapshots: a partition's replayed state in a file, so that a restart need not read everything.

A snapshot is a cache. It is used only if, for every pool in it, the ledger has at that very offset
the receipt whose hash the snapshot names; otherwise, or if anything about it is odd, the next older
one is tried, and then the ledger is read from its start. Deleting one costs time only.

1. A file is: `MAGIC`, SHA-256 of the rest (32 bytes), one CBOR map. Nothing in it is ever executed:
   plain CBOR, tags refused but big integers.
2. It is written under another name, synced, renamed; so a file of the right name is whole.
3. `KEEP` are kept for each partition; a name ends in the ledger offset, so the largest is newest.
4. What it says was read back from the ledger before it was written: the last receipts' hashes are
   compared with the chains' ends.

Invariant: a partition from a snapshot equals the one that a whole replay gives, `now` of pools that
saw ticks without effect apart.
Source: architecture.md "State".
"""

import asyncio
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import cbor2

from schemas.chain import ChainReader
from streams import faults, topics
from streams.kernel import PoolState
from streams.logs.contract import LogReader
from streams.logs.errors import LogTrouble, Remedy
from streams.steward.observer import Observer
from streams.steward.pools import Partition, Pool

MAGIC: Final = b"pool-snapshot-1\n"
KEEP: Final = 2
MAX_BYTES: Final = 4 * 1024 * 1024 * 1024
_HASH_BYTES: Final = 32
_NAME: Final = re.compile(r"p(\d+)-(\d+)\.snapshot")


class Unusable(Exception):
    """A snapshot that is no use; the reason in words."""


class Snapshots:
    """The snapshots in a directory, which is made when the first one is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def load(self, log: LogReader, number: int, observer: Observer) -> Partition:
        """The newest snapshot that the ledger bears out; an empty partition if there is none."""
        for path in self._newest_first(number):
            try:
                partition = _restored(path.read_bytes(), number)
                await _bear_out(log, partition)
                return partition
            except (Unusable, OSError) as error:
                observer.snapshot_ignored(number, f"{path.name}: {error}")
        return Partition(number=number)

    async def save(self, log: LogReader, partition: Partition, observer: Observer) -> int:
        """Write a snapshot of a partition between two batches; its bytes, 0 if it was not written.

        Trouble is told, not raised, unless a person has to see to it: a steward that reads a
        damaged ledger here must not go on behind it. Raises: LogTrouble that stops.
        """
        try:
            await _locate(log, partition)
            content = _packed(partition)
            path = self.directory / f"p{partition.number}-{partition.ledger_next}.snapshot"
            faults.reach(faults.Point.BEFORE_SNAPSHOT)
            await asyncio.to_thread(_write, path, content)
            for old in list(self._newest_first(partition.number))[KEEP:]:
                old.unlink(missing_ok=True)
            return len(content)
        except (Unusable, OSError, LogTrouble) as error:
            if isinstance(error, LogTrouble) and error.remedy is Remedy.STOP:
                raise
            observer.snapshot_ignored(partition.number, f"not written: {error}")
            return 0

    def _newest_first(self, number: int) -> Iterator[Path]:
        found = []
        if self.directory.is_dir():
            for path in self.directory.iterdir():
                match = _NAME.fullmatch(path.name)
                if match and int(match[1]) == number:
                    found.append((int(match[2]), path))
        return (path for _, path in sorted(found, reverse=True))


async def _locate(log: LogReader, partition: Partition) -> None:
    """Find where the pools' last receipts lie, reading on from where it was last known."""
    number = partition.number
    end = await log.end(topics.LEDGER, number)
    partition.dead_next = await log.end(topics.DEAD, number)
    last: dict[bytes, tuple[int, bytes]] = {}
    while partition.ledger_next < end:
        fetched = await log.read(
            topics.LEDGER, number, offset_next=partition.ledger_next, timeout_ms=1000
        )
        if fetched.offset_next == partition.ledger_next:
            raise Unusable("the ledger does not reach its end")
        for record in fetched.records:
            last[record.key or b""] = (record.offset, record.value)
        partition.ledger_next = fetched.offset_next
    for pool in partition.pools.values():
        if pool.key in last:
            offset, value = last[pool.key]
            if sha256(value).digest() != pool.chain.head:
                raise Unusable(f"the ledger of pool {pool.name!r} ends otherwise")
            pool.offset = offset


async def _bear_out(log: LogReader, partition: Partition) -> None:
    """Raises Unusable unless the ledger has the receipts that the snapshot names."""
    number = partition.number
    if partition.ledger_next > await log.end(topics.LEDGER, number):
        raise Unusable("the ledger is shorter")
    if partition.dead_next > await log.end(topics.DEAD, number):
        raise Unusable("there are fewer dead letters")
    for pool in partition.pools.values():
        fetched = await log.read(
            topics.LEDGER, number, offset_next=pool.offset, max_records=1, timeout_ms=1000
        )
        for record in fetched.records[:1]:
            if record.offset == pool.offset and sha256(record.value).digest() == pool.chain.head:
                break
        else:
            raise Unusable(f"the ledger of pool {pool.name!r} is another")


def _packed(partition: Partition) -> bytes:
    plain = {
        "partition": partition.number,
        "positions": partition.positions,
        "ledger_next": partition.ledger_next,
        "dead_next": partition.dead_next,
        "pools": [
            {
                "name": pool.name,
                "offset": pool.offset,
                "chain": pool.chain.to_plain(),
                "state": pool.state.to_plain(),
            }
            for pool in partition.pools.values()
        ],
    }
    content: bytes = cbor2.dumps(plain)
    return content


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(MAGIC + sha256(content).digest())
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    faults.reach(faults.Point.INSIDE_SNAPSHOT)
    partial.replace(path)


def _restored(data: bytes, number: int) -> Partition:
    start = len(MAGIC) + _HASH_BYTES
    content = data[start:]
    if not data.startswith(MAGIC) or len(data) > MAX_BYTES:
        raise Unusable("not a snapshot of this version")
    if sha256(content).digest() != data[len(MAGIC) : start]:
        raise Unusable("its hash does not fit its content")
    try:
        return _partition_of(cbor2.loads(content, tag_hook=_no_tags), number)
    except Exception as error:
        # Whatever goes wrong in reading a cache, there is none; the ledger says the same.
        raise Unusable(f"not readable: {error!r}") from error


def _partition_of(plain: Any, number: int) -> Partition:
    if plain["partition"] != number or plain["positions"].keys() != set(topics.INPUT_TOPICS):
        raise Unusable("of another partition")
    partition = Partition(
        number=number,
        positions=dict(plain["positions"]),
        ledger_next=plain["ledger_next"],
        dead_next=plain["dead_next"],
    )
    for one in plain["pools"]:
        name = one["name"]
        partition.pools[name] = Pool(
            name=name,
            key=name.encode(),
            chain=ChainReader.from_plain(one["chain"]),
            state=PoolState.from_plain(one["state"]),
            offset=one["offset"],
        )
    return partition


def _no_tags(*_: object) -> Any:
    raise Unusable("a tag in a snapshot")
