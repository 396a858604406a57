"""`pool export` and `pool import`: a ledger as a file, receipts byte for byte.

1. A file is a CBOR sequence (RFC 8742). It is written beside its name and then renamed: there is
   never half of one.
2. What is exported is a verified ledger, and so is what is imported: a broken one is neither.
3. Imported receipts keep their causes, so the inputs of the new log go on after the offsets that
   they name. A pool that has a ledger already is left alone, unless it is a beginning of this one:
   an import that was stopped is finished by the next.

Not here: heads and countersignatures; the next steward publishes its own head.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from schemas.cbor import split_sequence
from schemas.receipts import Cause, open_receipt
from streams import topics
from streams.cli.checking import Checker, Verdict
from streams.cli.ledgers import check, ledger, read_file
from streams.cli.session import Failure, Session, Status, common
from streams.cli.where import Where, on_a_log, values
from streams.logs.contract import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Entry
from streams.logs.embedded import EmbeddedLog
from streams.topics import partition_for


@click.command("export")
@click.argument("pool")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@on_a_log
@common
@click.pass_obj
def export_command(session: Session, pool: str, file: Path, where: Where) -> None:
    """Write the ledger of POOL to FILE, replacing it."""
    verdict = asyncio.run(_export(session, pool, file, where))
    _report(session, verdict, f"{verdict.length:,} receipts written to {file}", str(file))


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@on_a_log
@common
@click.pass_obj
def import_command(session: Session, file: Path, where: Where) -> None:
    """Put the ledger in FILE into an embedded log, where deciding can go on."""
    if where.data is None:
        raise Failure(
            "a ledger is imported into an embedded log", todo="use --data DIR", status=Status.USAGE
        )
    verdict = asyncio.run(_import(session, file, where.data))
    _report(session, verdict, f"{verdict.length:,} receipts now in {where.data}", str(file))


def _report(session: Session, verdict: Verdict, words: str, file: str) -> None:
    session.answer(
        {"pool": verdict.pool, "length": verdict.length, "head": verdict.head, "file": file},
        lambda out: out.print(f"{words}\nhead {verdict.head.hex() if verdict.head else ''}"),
    )


async def _export(session: Session, pool: str, file: Path, where: Where) -> Verdict:
    async with ledger(where, None, pool) as one:
        checker = Checker(pool=pool, replay=False, in_log=True)
        partial = file.with_name(file.name + ".partial")
        try:
            with partial.open("wb") as stream:
                verdict = await check(
                    session, one, checker, title="exporting", accepted=stream.write
                )
                _durable(stream)
            _check_whole(verdict, pool)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    return verdict


async def _import(session: Session, file: Path, data: Path) -> Verdict:
    async with ledger(Where(data=data, kafka=None), file, None) as one:
        checker = Checker(pool=one.pool or None, replay=True)
        verdict = await check(session, one, checker, title="verifying")
        _check_whole(verdict, str(file))
    log = EmbeddedLog(data)
    try:
        await _append(session, log, one.pool, file)
    finally:
        await log.close()
    return verdict


def _check_whole(verdict: Verdict, what: str) -> None:
    if verdict.broken is not None:
        raise Failure(
            f"the ledger is broken: {verdict.broken}", where=what,
            todo="nothing was written", status=Status.NO,
        )  # fmt: skip
    if verdict.length == 0:
        raise Failure("the ledger is empty", where=what, status=Status.NO)


async def _append(session: Session, log: EmbeddedLog, pool: str, file: Path) -> None:
    """Reserve the inputs' offsets, then append what is not there yet. Raises: Failure, LogTrouble.

    In this order a stopped import leaves a log that can decide nothing wrong.
    """
    key = pool.encode()
    partition = partition_for(key, await log.partitions())
    items = list(split_sequence(read_file(file)))
    standing = [value async for value in values(log, topics.LEDGER, pool)]
    if items[: len(standing)] != standing:
        raise Failure(
            f"pool {pool!r} has another ledger here", where=str(file),
            todo="import into a new directory", status=Status.NO,
        )  # fmt: skip
    causes = [open_receipt(item)[1].cause for item in items]
    for cause in causes:
        if cause.partition == partition:
            await log.reserve(cause.topic, partition, cause.offset + 1)
    writer = await log.open_writer(partition)
    with session.progress() as progress:
        task = progress.add_task("importing", total=len(items), completed=len(standing))
        for batch in _batches(items, causes, len(standing)):
            await writer.append([Entry(topic=topics.LEDGER, key=key, value=one) for one in batch])
            progress.advance(task, len(batch))
    await writer.close()


def _batches(items: list[bytes], causes: list[Cause], start: int) -> Iterator[list[bytes]]:
    """The receipts from `start` on, in batches that split no event."""
    first, size = start, 0
    event, event_size = start, 0
    for at, cause in enumerate(causes[start:], start=start):
        event_size += len(items[at])
        if cause.index + 1 < cause.count:
            continue
        if at + 1 - first > MAX_BATCH_RECORDS or size + event_size > MAX_BATCH_BYTES:
            yield items[first:event]
            first, size = event, 0
        event, size, event_size = at + 1, size + event_size, 0
    if first < event:
        yield items[first:event]


def _durable(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())
