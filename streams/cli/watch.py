"""`pool watch`: follow a pool's decisions, from any receipt on.

1. It prints what stands from `--from` on and then what comes, until it is interrupted, which is how
   it ends well. With `--no-follow` it ends where the ledger ended when it began.
2. Every receipt that is printed was opened, its signature checked, and extends the one before.

Not here: whose key it should be (`pool verify --trust`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import click

from schemas.receipts import Receipt
from streams import topics
from streams.cli.lines import decision_line, show_decision
from streams.cli.session import TEXT, Session, common
from streams.cli.where import Where, on_a_log, records, the_pool
from streams.logs.contract import LogReader
from streams.receiving import Link, follow
from streams.topics import partition_for


@click.command()
@on_a_log
@click.option("--pool", type=TEXT, help="Which pool [the only one].")
@click.option("--from", "seq_from", type=click.IntRange(0), default=0, help="First receipt [0].")
@click.option("--no-follow", is_flag=True, help="End where the ledger ends now.")
@common
@click.pass_obj
def watch(session: Session, where: Where, pool: str | None, seq_from: int, no_follow: bool) -> None:
    """Follow the decisions of a pool."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_watch(session, where, pool, seq_from, no_follow))


async def _watch(
    session: Session, where: Where, pool: str | None, seq_from: int, no_follow: bool
) -> None:
    async with where.reader() as log:
        name = await the_pool(log, pool)
        following = follow(log, name, seq_from=seq_from)
        async for receipt in _standing(log, name, seq_from) if no_follow else following:
            line = decision_line(receipt)
            if session.json:
                session.line(line)
            else:
                session.say(show_decision(line))


async def _standing(log: LogReader, pool: str, seq_from: int) -> AsyncIterator[Receipt]:
    """The receipts that stand now, from a `seq` on."""
    link = Link(pool)
    partition = partition_for(pool.encode(), await log.partitions())
    async for record in records(log, topics.LEDGER, partition):
        receipt = link.push(record)
        if receipt is not None and receipt.seq >= seq_from:
            yield receipt
