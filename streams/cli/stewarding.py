"""A steward inside the command, on an embedded log: what `send`, `replay` and the demo decide with.

Not here: how a steward works (`streams.steward`), and running one for good (`streams.cli.running`).

1. Its key is `DIR/steward.pem`, made when it is first needed, or the file that `--key` names; a
   password opens either, and encrypts a new one.
2. Where events bring their own time nobody ticks; else time passes as on any live log.
3. It holds DIR while the command runs; what it leaves is a ledger with its heads and a snapshot.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from schemas.keys import SeedSigner, new_pem
from streams.cli.keys import read_key, read_password, write_key
from streams.cli.trouble import named
from streams.logs.embedded import SNAPSHOT_DIRECTORY, EmbeddedLog
from streams.steward import Keyring, Observer, Settings, Snapshots, Steward

KEY_FILE = "steward.pem"


class Stewards:
    """One steward for each partition of an embedded log."""

    def __init__(self, log: EmbeddedLog, each: list[Steward]) -> None:
        self.log = log
        self.each = each

    async def decide_all(self) -> None:
        """Decide everything that stands in the inputs. Raises: LogTrouble, StewardStopped."""
        for steward in self.each:
            await steward.decide_all()

    async def finish(self) -> None:
        """Publish owed heads and write snapshots. Raises LogTrouble."""
        for steward in self.each:
            await steward.finish()


@asynccontextmanager
async def embedded(
    data: Path,
    *,
    signer: SeedSigner | None = None,
    password_file: Path | None = None,
    observer: Observer | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[Stewards]:
    """The log in DIR, made if there is none, with its stewards; they finish at the end.

    `signer` None: `DIR/steward.pem`, which `password_file` opens.
    Raises: LogTrouble, StewardStopped, Failure (the key).
    """
    log = EmbeddedLog(data)
    try:
        keyring = Keyring([signer or steward_key(data, password_file)])
        each = await stewards_of(log, keyring, observer, settings or Settings(tick_ms=None))
        stewards = Stewards(log, each)
        try:
            with named(data):
                yield stewards
                await stewards.finish()
        finally:
            for steward in stewards.each:
                await steward.close()
    finally:
        await log.close()


async def stewards_of(
    log: EmbeddedLog,
    keyring: Keyring,
    observer: Observer | None,
    settings: Settings,
) -> list[Steward]:
    """A steward for each of the log's partitions."""
    return [
        Steward(
            log,
            partition,
            keyring,
            settings=settings,
            snapshots=Snapshots(log.directory / SNAPSHOT_DIRECTORY),
            observer=observer,
        )
        for partition in range(await log.partitions())
    ]


def steward_key(
    data: Path,
    password_file: Path | None = None,
    make: Callable[[bytes | None], bytes] = new_pem,
) -> SeedSigner:
    """The key in `DIR/steward.pem`; if there is none, `make` gives its PEM for a password."""
    file = data / KEY_FILE
    if not file.exists():
        data.mkdir(parents=True, exist_ok=True)
        write_key(file, make(read_password(password_file)))
    return read_key(file, password_file)
