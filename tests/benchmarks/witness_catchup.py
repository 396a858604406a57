"""How fast a witness catches up from zero, beside the raw rate of Ed25519 verification.

    python -m tests.benchmarks.witness_catchup [--receipts N] [--threads T]

It makes a ledger of N receipts in an embedded log (a head at every 500), then lets a witness follow
it to the end, everything included: reading, strict decoding, chain, tree, signatures, the store's
synced commits and the outbox. The raw rate is libsodium's over the same messages.

Rates are given by the clock, and by the process's own processor time: what one core does in a
second that it has for itself. One JSON object is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from schemas import cose
from schemas.batch import verify_signatures
from schemas.chain import ChainReader
from tests.witness.ledger import STEWARD, WITNESS, Ledger
from tests.witness.support import Steward, new_state
from witness.embedded import EmbeddedReader
from witness.outbox import Outbox
from witness.runner import Runner
from witness.witness import Witness

HEAD_EVERY = 500


@dataclass(frozen=True, slots=True)
class Rate:
    """How many in a second of the clock, and in a second of one core."""

    by_clock: int
    by_core: int


@contextmanager
def timed(count: int, into: dict[str, Rate], name: str) -> Iterator[None]:
    """Measure what is inside, which handles `count` receipts."""
    clock, core = time.perf_counter(), time.process_time()
    yield
    clock, core = time.perf_counter() - clock, time.process_time() - core
    into[name] = Rate(round(count / clock), round(count / core))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--receipts", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    count, threads = arguments.receipts, arguments.threads
    ledger = Ledger().grow(count)
    rates: dict[str, Rate] = {}
    with tempfile.TemporaryDirectory() as name:
        steward = Steward(Path(name) / "log")
        steward.write_ledger(ledger, every=HEAD_EVERY)
        for number in sorted({1, threads}):
            follow(Path(name), ledger, number, rates)
        steward.close()
    tasks = [cose.signature_task(cose.split(one), STEWARD.public_key) for one in ledger.receipts]
    for number in sorted({1, threads}):
        with timed(count, rates, f"raw_verify_{number}_threads"):
            assert verify_signatures(tasks, threads=number) is None
    reader = ChainReader(check_signatures=False)
    with timed(count, rates, "all_but_signatures"):
        for receipt in ledger.receipts:
            reader.push(receipt)
    answer = {
        "receipts": count,
        "bytes_per_receipt": sum(map(len, ledger.receipts)) // count,
        "per_second": {name: asdict(rate) for name, rate in rates.items()},
    }
    print(json.dumps(answer, indent=2))


def follow(directory: Path, ledger: Ledger, threads: int, rates: dict[str, Rate]) -> None:
    """A witness with an empty store follows the whole ledger."""
    shutil.rmtree(directory / "log" / "witness", ignore_errors=True)
    state = new_state(directory, name=f"witness-{threads}.db")
    witness = Witness.open(
        state, WITNESS, clock=lambda: time.time_ns() // 1_000_000, threads=threads
    )
    with closing(witness):
        with timed(ledger.length, rates, f"witness_{threads}_threads"):
            asyncio.run(run(directory / "log", witness))
        assert witness.pools["alpha"].record.length == ledger.length


async def run(log: Path, witness: Witness) -> None:
    reader, publisher = EmbeddedReader(log), Outbox(log, witness.public_key)
    await Runner(witness, reader, publisher).once()
    await publisher.close()
    await reader.close()


if __name__ == "__main__":
    main()
