"""Whether a witness keeps up with a steward that decides as fast as it can.

    python -m tests.benchmarks.witness_keeps_up [--claims N]

A steward in this process decides N claims, their commits and their releases on an embedded log,
flat out; a `pool-witness run` in another process follows the same directory meanwhile. Printed, as
one JSON object: what the steward wrote in a second, how much of it was signed for when the last was
decided (its head comes after that), and how long it took for the rest from the last head on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from schemas import cbor
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import MAX_PUBLISH_RECORDS, Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.steward import Keyring, Settings, Snapshots, Steward
from tests.witness.support import Process, environment
from witness import showing, store

POOL = "busy"
LEAVES = 50
WAIT_S_MAX = 120.0
START_MS = 1_750_000_000_000


def events(claims: int) -> list[Outgoing]:
    """An opened pool, and each claim submitted, committed and released."""
    tree = [{"id": f"t{n}", "guarantee": {"mdev": 1000, "uj": 10**12}} for n in range(LEAVES)]
    capacity = {"mdev": 1000 * LEAVES, "uj": LEAVES * 10**12}
    made = [event("pool.opened", 0, capacity=capacity, tree=tree)]
    for number in range(claims):
        claim, at = f"c{number}", number
        gang = [{"mdev": 1000, "uj": 10**6}]
        leaf = f"t{number % LEAVES}"
        made.append(
            event("claim.submitted", at, claim=claim, leaf=leaf, gang=gang, grade="ModelBased")
        )
        made.append(event("claim.committed", at, claim=claim))
        actual = {"uj": 900_000, "grade": "ModelBased"}
        made.append(event("claim.released", at, claim=claim, outcome="completed", actual=actual))
    return made


def event(kind: str, at: int, **fields: Any) -> Outgoing:
    """An event on its topic."""
    topic = topics.CLAIMS if kind.startswith("claim.") else topics.ADMIN
    value = cbor.encode({"pool": POOL, "type": kind, **fields})
    return Outgoing(topic=topic, key=POOL.encode(), value=value, timestamp_ms=START_MS + at)


async def decide(data: Path, claims: int, process: Process) -> dict[str, object]:
    """Publish first, then decide flat out while the witness follows."""
    log = EmbeddedLog(data)
    made = events(claims)
    for start in range(0, len(made), MAX_PUBLISH_RECORDS):
        await log.publish(made[start : start + MAX_PUBLISH_RECORDS])
    steward = Steward(
        log,
        0,
        Keyring([SeedSigner(bytes(range(32)))]),
        settings=Settings(tick_ms=None),
        snapshots=Snapshots(data / "snapshots"),
    )
    witness = subprocess.Popen(
        process.arguments("run", "--data", str(data)), env=environment(), stdout=subprocess.DEVNULL
    )
    try:
        started = time.perf_counter()
        await steward.decide_all()
        took_s = time.perf_counter() - started
        signed = signed_length(process.state)
        written = await log.end(topics.LEDGER, 0)
        await steward.finish()
        waited = time.perf_counter()
        while signed_length(process.state) < written:
            assert time.perf_counter() - waited < WAIT_S_MAX, "the witness did not catch up"
            await asyncio.sleep(0.01)
        lag_s = time.perf_counter() - waited
    finally:
        witness.terminate()
        witness.wait()
        await steward.close()
        await log.close()
    return {
        "receipts": written,
        "steward_receipts_per_s": round(written / took_s),
        "signed_when_the_last_was_decided": signed,
        "behind_receipts": written - signed,
        "caught_up_after_s": round(lag_s, 3),
    }


def signed_length(state: Path) -> int:
    """How many receipts the witness has signed for."""
    with closing(store.inspect(state)) as opened:
        known = POOL in opened.records()
    length = showing.pool(state, POOL)[0]["length"] if known else 0
    assert isinstance(length, int)
    return length


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "log"
        process = Process(Path(name), data)
        process.init()
        print(json.dumps(asyncio.run(decide(data, arguments.claims, process)), indent=2))


if __name__ == "__main__":
    main()
