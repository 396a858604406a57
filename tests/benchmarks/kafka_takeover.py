"""How long taking over a partition takes: `python -m tests.benchmarks.kafka_takeover`.

A ledger grows on Kafka; at each length a new steward opens the partition: it fences, replays and
verifies, without a snapshot, with one at the end, and with one `BEHIND` receipts behind. The time
is from opening to ready to decide. A killed steward's partitions are handed out after its session
(12 s by default) beside that; one that stops in order leaves at once.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from schemas import cbor
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import Outgoing
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection
from streams.steward import Keyring, Settings, Snapshots, Steward
from tests.benchmarks.kafka_end_to_end import SEED, broker, load, opening, pools

LENGTHS = (10_000, 40_000)
BEHIND = 2_000
CALL_RECORDS = 2_000


class Ledger:
    """A ledger that grows, and the times to take it over."""

    def __init__(self, log: KafkaLog, directory: Path) -> None:
        self._log = log
        self._directory = directory
        self._pool = pools()[0]
        self._load = (event for pool, event in load(10**9) if pool == self._pool)
        self.length = 0

    async def grow(self, receipts: int, *, snapshot: bool) -> None:
        """Publish and decide until the ledger has so many receipts more."""
        ends = self.length + receipts
        while self.length < ends:
            batch = [next(self._load) for _ in range(min(CALL_RECORDS, ends - self.length))]
            await self._log.publish([self._outgoing(event) for event in batch])
            self.length += len(batch)
        steward = self._steward(self._directory if snapshot else None)
        await steward.decide_all()
        await steward.finish()

    async def takeover_s(self, snapshots: Path | None) -> float:
        """Seconds until a new steward is ready."""
        steward = self._steward(snapshots)
        started = time.perf_counter()
        await steward.decide_all()
        seconds = time.perf_counter() - started
        await steward.close()
        return seconds

    def _steward(self, snapshots: Path | None) -> Steward:
        return Steward(
            self._log,
            0,
            Keyring([SeedSigner(SEED)]),
            settings=Settings(tick_ms=None),
            snapshots=None if snapshots is None else Snapshots(snapshots),
        )

    def _outgoing(self, event: dict[str, object]) -> Outgoing:
        value = cbor.encode({"pool": self._pool, **event})
        return Outgoing(topic=topics.CLAIMS, key=self._pool.encode(), value=value)


async def measure(bootstrap: str, lengths: list[int]) -> None:
    """One row for each length."""
    where = Connection(bootstrap=bootstrap, prefix=f"takeover-{time.time_ns()}.")
    await create_topics(where, partitions=1, replicas=1)
    log = KafkaLog(where)
    with tempfile.TemporaryDirectory() as scratch:
        snapshots, older = Path(scratch) / "newest", Path(scratch) / "older"
        ledger = Ledger(log, snapshots)
        await log.publish([opening(pools()[0])])
        for length in lengths:
            await ledger.grow(length - BEHIND - ledger.length, snapshot=True)
            shutil.rmtree(older, ignore_errors=True)
            shutil.copytree(snapshots, older)
            await ledger.grow(BEHIND, snapshot=True)
            times = [await ledger.takeover_s(directory) for directory in (None, older, snapshots)]
            cells = " | ".join(f"{seconds:.2f} s" for seconds in times)
            print(f"| {length} receipts | {cells} |", flush=True)
    await log.close()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options = parser.parse_args()
    print(f"| ledger | no snapshot | snapshot {BEHIND} behind | snapshot at the end |")
    with broker() as (address, _):
        asyncio.run(measure(address, options.lengths))


if __name__ == "__main__":
    main()
