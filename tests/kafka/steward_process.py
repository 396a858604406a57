"""A steward process for the chaos tests: the project's own, with a plain log of what it meets.

`python steward_process.py JSON`: `bootstrap`, `prefix`, `tuning`, `partitions` (null: the group),
`snapshots` (a directory or null), `seed`, `settings`, `hang` (null, or after how many batches the
work on a partition sleeps, and for how many seconds).
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.keys import SeedSigner
from streams.logs.contract import Fetched
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_options import Connection, Tuning
from streams.steward import Appended, Keyring, Observer, Settings, Snapshots
from streams.steward.running import run_on_kafka


def say(what: str, **fields: object) -> None:
    """One line of JSON on stdout."""
    print(json.dumps({"at": round(time.time(), 3), "what": what, **fields}), flush=True)


class Told(Observer):
    """Says what happens."""

    def opened(self, partition: int, pools: Mapping[str, int]) -> None:
        """A partition is open and replayed."""
        say("opened", partition=partition, receipts=sum(pools.values()))

    def appended(self, batch: Appended) -> None:
        """A batch is in the log."""
        say("appended", partition=batch.partition, events=batch.events, us=batch.elapsed_us)

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        """Writer and state were dropped."""
        say("reopening", partition=partition, trouble=type(trouble).__name__, text=str(trouble))

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        """A ledger record that does not count."""
        say("ignored", partition=partition, offset=offset, detail=detail)


class Hanging(KafkaLog):
    """A log whose reader falls asleep once, as a consumer that is slower than its poll interval."""

    reads = 0
    after = 0
    seconds = 0.0

    async def read_any(
        self,
        partition: int,
        positions: Mapping[str, int],
        *,
        max_records: int = 8192,
        timeout_ms: int = 0,
    ) -> Mapping[str, Fetched]:
        """Read; the one read after which it hangs does so with records in hand."""
        found = await super().read_any(
            partition, positions, max_records=max_records, timeout_ms=timeout_ms
        )
        Hanging.reads += any(fetched.records for fetched in found.values())
        if Hanging.reads == Hanging.after:
            Hanging.reads += 1
            say("hanging", partition=partition)
            await asyncio.sleep(Hanging.seconds)
            say("awake", partition=partition)
        return found


async def main(plan: dict[str, object]) -> None:
    """Run until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    connection = Connection(
        bootstrap=str(plan["bootstrap"]),
        prefix=str(plan["prefix"]),
        tuning=Tuning(**plan["tuning"]),  # type: ignore[arg-type]
    )
    partitions: Sequence[int] | None = plan["partitions"]  # type: ignore[assignment]
    snapshots = plan["snapshots"]
    hang = plan["hang"]
    if isinstance(hang, list):
        Hanging.after, Hanging.seconds = hang
    say("started")
    await run_on_kafka(
        connection,
        Keyring([SeedSigner(bytes.fromhex(str(plan["seed"])))]),
        stopping,
        partitions=partitions,
        settings=Settings(**plan["settings"]),  # type: ignore[arg-type]
        snapshots=None if snapshots is None else Snapshots(Path(str(snapshots))),
        observer=Told(),
        on_stopped=lambda partition, error: say("stopped", partition=partition, text=str(error)),
        open_log=Hanging if hang else KafkaLog,
    )
    say("ended")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
