"""Witnesses, stores and embedded logs for the tests, and a witness process that may be killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from schemas.heads import Countersignature, open_countersignature
from schemas.keys import SeedSigner, pem_of_seed
from streams import topics
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog
from tests.witness.ledger import WITNESS, Ledger
from witness import outbox, store
from witness.embedded import EmbeddedReader
from witness.outbox import Outbox
from witness.outcome import Outcome
from witness.runner import Runner
from witness.witness import Witness

NOW_MS = 1_760_000_000_000
ROOT = Path(__file__).resolve().parents[2]


class Clock:
    """A clock that tests set."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def new_state(directory: Path, key: SeedSigner = WITNESS, name: str = "witness.db") -> Path:
    """A new store for a key."""
    state = directory / name
    store.create(state, key.public_key)
    return state


def opened(
    state: Path,
    key: SeedSigner = WITNESS,
    *,
    clock: Clock | None = None,
    stewards: dict[str, frozenset[bytes]] | None = None,
    refresh_ms: int = 0,
) -> Witness:
    """A witness on an existing store."""
    return Witness.open(
        state, key, clock=clock or Clock(), stewards=stewards, threads=1, refresh_ms=refresh_ms
    )


def said(outcome: Outcome) -> Countersignature:
    """What a signed outcome's statement says."""
    assert outcome.statement is not None
    return open_countersignature(outcome.statement).statement


class Steward:
    """Writes ledgers into an embedded log, as a steward's process would."""

    def __init__(self, directory: Path, *, partitions: int = 1) -> None:
        self.directory = directory
        self.log = EmbeddedLog(directory, partitions=partitions)

    def write(self, pool: str, receipts: Iterable[bytes], heads: Iterable[bytes] = ()) -> None:
        """One atomic batch."""
        key = pool.encode()
        batch = [Entry(topic=topics.LEDGER, key=key, value=receipt) for receipt in receipts]
        batch += [Entry(topic=topics.HEADS, key=key, value=head) for head in heads]
        asyncio.run(self._append(key, batch))

    async def _append(self, key: bytes, batch: Sequence[Entry]) -> None:
        partitions = await self.log.partitions()
        writer = await self.log.open_writer(topics.partition_for(key, partitions))
        for start in range(0, len(batch), 2_000):
            await writer.append(batch[start : start + 2_000])
        await writer.close()

    def write_ledger(self, ledger: Ledger, start: int = 0, *, every: int = 10) -> None:
        """The ledger's receipts from `start`, with a head at every `every` and at the end."""
        marks = [n for n in range(start + 1, ledger.length + 1) if n % every == 0]
        if ledger.length not in marks:
            marks.append(ledger.length)
        self.write(ledger.pool, ledger.receipts[start:], [ledger.head(mark) for mark in marks])

    def close(self) -> None:
        asyncio.run(self.log.close())


def follow_once(directory: Path, witness: Witness) -> list[Outcome]:
    """What `pool-witness run --once` does, in this process."""
    told: list[Outcome] = []

    async def run() -> None:
        reader, publisher = EmbeddedReader(directory), Outbox(directory, witness.public_key)
        try:
            await Runner(witness, reader, publisher, hear=told.append).once()
        finally:
            await publisher.close()
            await reader.close()

    asyncio.run(run())
    return told


def published(directory: Path) -> list[bytes]:
    """Every statement in the outboxes beside an embedded log."""
    return list(outbox.read(directory))


class Process:
    """`pool-witness` as processes of their own, with one key, store and embedded log."""

    def __init__(self, directory: Path, data: Path, key: SeedSigner = WITNESS) -> None:
        self.data = data
        self.key = directory / "witness.pem"
        self.state = directory / "witness.db"
        self.key.write_bytes(pem_of_seed(key.seed))
        self.key.chmod(0o600)

    def init(self) -> subprocess.CompletedProcess[str]:
        return self.call("init", "--key-never-used")

    def once(self, fault: str = "") -> subprocess.CompletedProcess[str]:
        """`run --once --json`, killed at a named point."""
        return self.call("run", "--data", str(self.data), "--once", fault=fault)

    def call(
        self, command: str, *options: str, fault: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(command, *options),
            env=environment(fault),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def arguments(self, command: str, *options: str) -> list[str]:
        key = [] if command in ("status", "show") else ["--key", str(self.key)]
        line = [command, "--state", str(self.state), *key, "--json", *options]
        return [sys.executable, "-m", "witness", *line]


def environment(fault: str = "") -> dict[str, str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    variables.pop("POOL_WITNESS_FAULT", None)
    if fault:
        variables["POOL_WITNESS_FAULT"] = fault
    return variables


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    """The JSON objects on a process's stdout."""
    return [json.loads(line) for line in done.stdout.splitlines()]
