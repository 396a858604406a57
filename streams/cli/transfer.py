"""`pool export` and `pool import`: a ledger as a file, receipts byte for byte.

1. A file is a CBOR sequence (RFC 8742), there as a whole or not at all (`streams.cli.outfile`).
   Where it is stdout, the answer goes to stderr.
2. What is exported is a verified ledger, and so is what is imported: a broken one is neither.
3. With `--heads`, what was signed about it goes into a second file, for whoever verifies the first
   one (`streams.cli.statements`). An import leaves that behind: the next steward signs its own.

Not here: how a ledger comes into a log (`streams.steward.transfer`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from schemas.cbor import split_sequence
from schemas.chain import Broken, ChainReader
from streams.cli.checking import Checker, Verdict
from streams.cli.ledgers import check, ledger, read_file
from streams.cli.outfile import is_stdout, written
from streams.cli.screen import say
from streams.cli.session import Failure, Session, Status, common
from streams.cli.statements import gather
from streams.cli.where import Where, on_a_log
from streams.logs.embedded import EmbeddedLog
from streams.steward.transfer import ImportRefused, import_ledger, verify_ledger


@click.command("export")
@click.argument("pool")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--heads", type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was signed about it, too: heads, countersignatures, fork evidence.",
)  # fmt: skip
@on_a_log
@common
@click.pass_obj
def export_command(
    session: Session, pool: str, file: Path, heads: Path | None, where: Where
) -> None:
    """Write the ledger of POOL to FILE, replacing it."""
    if heads is not None and heads.resolve() == file.resolve():
        raise click.UsageError("--heads names the ledger's own file: take another")
    verdict, count = asyncio.run(_export(session, pool, file, where, heads))
    beside = {} if heads is None else {"heads": str(heads), "statements": count}
    if is_stdout(file) or (heads is not None and is_stdout(heads)):
        session.note(_line(pool, verdict.length, verdict.head))
    else:
        _report(session, pool, verdict.length, verdict.head, file, **beside)


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
    chain = asyncio.run(_import(file, where.data))
    _report(session, chain.pool or "", chain.length, chain.head, file)


def _report(
    session: Session, pool: str, length: int, head: bytes | None, file: Path, **beside: object
) -> None:
    session.answer(
        {"pool": pool, "length": length, "head": head, "file": str(file), **beside},
        lambda out: say(out, _line(pool, length, head)),
    )


def _line(pool: str, length: int, head: bytes | None) -> str:
    return f"{pool}: {length:,} receipts, head {head.hex() if head else ''}"


async def _export(
    session: Session, pool: str, file: Path, where: Where, heads: Path | None
) -> tuple[Verdict, int]:
    """The verdict on what was exported, and how many statements were."""
    async with ledger(where, None, pool) as one:
        # Before the ledger, which may go on: what is signed then is of more than the file has.
        signed = [] if heads is None else await gather(one.statements(), pool)
        if heads is not None and not signed:
            raise Failure(
                f"nothing was signed about pool {pool} yet", todo="let its steward stop in order, "
                "or run on, or leave out --heads", status=Status.NO,
            )  # fmt: skip
        checker = Checker(pool=pool, replay=False, in_log=True)
        with written(file) as stream:
            verdict = await check(session, one, checker, title="exporting", accepted=stream.write)
            if verdict.broken is not None:
                raise _broken(verdict.broken, pool)
    if heads is not None:
        with written(heads) as stream:
            stream.write(b"".join(signed))
    return verdict, len(signed)


async def _import(file: Path, data: Path) -> ChainReader:
    content = read_file(file)
    if not content:
        raise Failure("no receipt to import", where=str(file), status=Status.USAGE)
    try:
        chain = verify_ledger(split_sequence(content))
    except Broken as broken:
        raise _broken(broken, str(file)) from broken
    log = EmbeddedLog(data)
    try:
        await import_ledger(log, chain, split_sequence(content))
    except ImportRefused as refused:
        raise Failure(
            refused.what, where=refused.where, todo=refused.todo, status=Status.NO
        ) from refused
    finally:
        await log.close()
    return chain


def _broken(broken: Broken, where: str) -> Failure:
    return Failure(
        f"the ledger is broken: {broken}", where=where, todo="nothing was written",
        status=Status.NO,
    )  # fmt: skip
