"""A ledger moves into an embedded log as it is, and deciding goes on behind it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from steward_support import (
    POOL,
    audit_clean,
    busy_day,
    claim,
    decide,
    ledger,
    opened,
    steward,
    verified,
)

from schemas.chain import Broken, ChainReader
from streams import topics
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import Misconfigured
from streams.steward import transfer
from streams.steward.transfer import ImportRefused, import_ledger, verify_ledger


async def exported(directory: Path, count: int = 40, pool: str = POOL) -> list[bytes]:
    """A ledger written elsewhere."""
    log = EmbeddedLog(directory)
    await decide(log, busy_day(count, pool=pool))
    sealed = await ledger(log, pool)
    await log.close()
    return sealed


async def brought_in(log: EmbeddedLog, items: Callable[[], Iterable[bytes]]) -> ChainReader:
    """Verified, then imported; the ledger's end."""
    chain = verify_ledger(items())
    await import_ledger(log, chain, items())
    return chain


async def test_deciding_goes_on_from_an_imported_ledger(tmp_path: Path) -> None:
    """Same bytes, same head; the next event is decided behind it, and its cause is not behind."""
    sealed = await exported(tmp_path / "source")
    log = EmbeddedLog(tmp_path / "target")
    chain = await brought_in(log, lambda: sealed)
    assert await ledger(log) == sealed
    assert chain.head == verified(sealed)[0].head
    await decide(log, [claim("new", 99_000)])
    longer = await ledger(log)
    assert longer[: len(sealed)] == sealed
    assert len(longer) > len(sealed)
    audit_clean(longer)
    await log.close()


async def test_an_import_beside_another_pool(tmp_path: Path) -> None:
    """A log that has pools takes another; their ledgers go on, each its own."""
    sealed = await exported(tmp_path / "source")
    log = EmbeddedLog(tmp_path / "target")
    await decide(log, busy_day(90, pool="q"))
    await brought_in(log, lambda: sealed)
    await decide(log, [claim("new", 99_000), claim("new", 99_000, pool="q")])
    audit_clean(await ledger(log))
    audit_clean(await ledger(log, "q"), "q")
    await log.close()


async def test_an_interrupted_import_is_run_again(tmp_path: Path) -> None:
    """Cut at any place it leaves a log that refuses stewards until the same import ends."""
    sealed = await exported(tmp_path / "source")
    log = EmbeddedLog(tmp_path / "target")
    calls = 0

    def twice() -> Iterable[bytes]:
        nonlocal calls
        calls += 1
        return sealed if calls % 2 else cut_short()

    def cut_short() -> Iterable[bytes]:
        yield from sealed[:25]
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transfer, "BATCH_RECEIPTS", 10)
        with pytest.raises(KeyboardInterrupt):
            await brought_in(log, twice)
    assert await ledger(log) == sealed[:20]
    await log.close()
    log = EmbeddedLog(tmp_path / "target")
    with pytest.raises(Misconfigured, match="interrupted"):
        await steward(log).decide_all()
    other = await exported(tmp_path / "other", pool="q")
    with pytest.raises(Misconfigured, match="interrupted"):
        await brought_in(log, lambda: other)
    await brought_in(log, lambda: sealed)
    assert await ledger(log) == sealed
    await brought_in(log, lambda: sealed)
    assert await ledger(log) == sealed
    await decide(log, [claim("new", 99_000)])
    audit_clean(await ledger(log))
    await log.close()


async def test_what_may_not_be_imported(tmp_path: Path) -> None:
    """A broken ledger, an empty one, another ledger of the same pool, or beside waiting events."""
    sealed = await exported(tmp_path / "source")
    log = EmbeddedLog(tmp_path / "target")
    with pytest.raises(Broken):
        await brought_in(log, lambda: [*sealed[:5], *sealed[6:]])
    with pytest.raises(Broken, match="no receipt"):
        await brought_in(log, list)
    assert await log.end(topics.LEDGER, 0) == 0
    await decide(log, [opened(at_ms=5)])
    with pytest.raises(ImportRefused, match="another or longer ledger"):
        await brought_in(log, lambda: sealed)
    await decide(log, [claim("new", 99_000)])
    audit_clean(await ledger(log))
    await log.close()
    log = EmbeddedLog(tmp_path / "waiting")
    await log.publish([opened("q")])
    with pytest.raises(ImportRefused, match="wait to be decided"):
        await brought_in(log, lambda: sealed)
    await log.close()
