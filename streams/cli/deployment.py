"""`pool topics create` and `pool doctor`: a deployment's topics, and whether it is in order.

1. `doctor` looks, tries, and changes nothing. The status is 1 if there is a problem, 0 if there are
   warnings only.
2. An embedded log has no settings; there the doctor replays the ledgers, looks for inputs that
   wait, for a key file that others may read, and for heads that no witness has signed.

Not here: the checks on Kafka (`streams.logs.kafka_doctor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click
from rich.text import Text

from streams import topics as names
from streams.cli.keys import read_key
from streams.cli.screen import table
from streams.cli.session import Answered, Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE
from streams.cli.where import Where, on_a_log
from streams.logs.contract import LogReader
from streams.logs.errors import LogTrouble
from streams.logs.kafka_admin import REPLICAS_MIN, Created, create_topics
from streams.logs.kafka_doctor import examine
from streams.logs.kafka_findings import Check, Finding, Level
from streams.steward import Observer, StewardStopped
from streams.steward.pools import Partition
from streams.steward.replay import replay
from streams.views.outboxes import Outboxes
from streams.witness_lag import witness_lag

PARTITIONS_DEFAULT = 6
_COLOURS = {Level.FINE: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


@click.group()
def topics() -> None:
    """The topics of a deployment on Kafka."""


@topics.command()
@on_a_log
@click.option("--partitions", type=click.IntRange(1, 10_000), default=PARTITIONS_DEFAULT)
@click.option("--replicas", type=click.IntRange(1, 100), default=REPLICAS_MIN)
@common
@click.pass_obj
def create(session: Session, where: Where, partitions: int, replicas: int) -> None:
    """Create the topics that are missing, with the settings that they need."""
    if where.kafka is None:
        raise Failure("an embedded log has its topics", todo="use --kafka", status=Status.USAGE)
    made: Sequence[Created] = asyncio.run(
        create_topics(where.kafka, partitions=partitions, replicas=replicas)
    )
    for one in made:
        if session.json:
            session.line({"topic": one.topic, "created": one.created})
        else:
            session.say(f"{one.topic}: {'created' if one.created else 'there already'}")


@click.command()
@on_a_log
@common
@click.pass_obj
def doctor(session: Session, where: Where) -> None:
    """Check a deployment, and say what to do about each finding."""
    findings = asyncio.run(_examined(where))
    if session.json:
        for one in findings:
            session.line(
                {
                    "check": one.check.value,
                    "level": one.level.value,
                    "where": one.where,
                    "what": one.what,
                    "todo": one.todo,
                }
            )
    else:
        shown = table("", "check", "", "where", "found", "do")
        for one in findings:
            colour = _COLOURS[one.level]
            level = Text(one.level.value, style=colour)
            shown.add_row(one.check.value, level, one.where, one.what, one.todo)
        session.out().print(shown)
    if any(one.level is Level.PROBLEM for one in findings):
        raise Answered


async def _examined(where: Where) -> list[Finding]:
    if where.data is None:
        return await _on_kafka(where)
    async with where.reader() as log:
        return [one async for one in _embedded(where.data, log)]


async def _on_kafka(where: Where) -> list[Finding]:
    """What the cluster says and does, and how far witnesses are behind."""
    assert where.kafka is not None
    findings = await examine(where.kafka)
    try:
        async with where.reader() as log:
            return findings + await witness_lag(log)
    except LogTrouble as trouble:
        # What keeps the log from being read is among the findings already; this says where it led.
        return [*findings, _problem(Check.WITNESS, trouble.where, trouble.what, trouble.todo)]


async def _embedded(data: Path, log: LogReader) -> AsyncIterator[Finding]:
    """Rule 2."""
    yield _fine(Check.REACHABLE, str(data), "a log is there")
    if (data / KEY_FILE).exists():
        try:
            read_key(data / KEY_FILE)
            yield _fine(Check.SETTINGS, KEY_FILE, "a key that only its owner may read")
        except Failure as failure:
            yield _problem(Check.SETTINGS, KEY_FILE, str(failure), "mend it before the next start")
    for number in range(await log.partitions()):
        partition = Partition(number=number)
        try:
            await replay(log, partition, Observer())
        except (StewardStopped, LogTrouble) as trouble:
            yield _problem(Check.PARTITIONS, f"partition {number}", str(trouble), "see the line")
            continue
        lengths = ", ".join(
            f"{name} {pool.chain.length}" for name, pool in sorted(partition.pools.items())
        )
        yield _fine(Check.PARTITIONS, f"partition {number}", f"verified: {lengths or 'no pool'}")
        for topic, offset_next in partition.positions.items():
            if (await log.end(topic, number)) > offset_next:
                yield Finding(
                    check=Check.TOPICS,
                    level=Level.WARNING,
                    where=topic,
                    what="events wait to be decided, or the last were ticks without effect",
                    todo="run the steward: pool run",
                )
    yield await _heads(data, log)


async def _heads(data: Path, log: LogReader) -> Finding:
    heads = sum([await log.end(names.HEADS, one) for one in range(await log.partitions())])
    statements = len(Outboxes(data).look())
    if statements:
        return _fine(Check.WITNESS, "witness/", f"{statements} statements of witnesses")
    return Finding(
        check=Check.WITNESS,
        level=Level.WARNING,
        where="witness/",
        what=f"{heads} heads, no witness has signed one: the ledger is self-attested",
        todo="run a witness: pool-witness run",
    )


def _fine(check: Check, where: str, what: str) -> Finding:
    return Finding(check=check, level=Level.FINE, where=where, what=what)


def _problem(check: Check, where: str, what: str, todo: str) -> Finding:
    return Finding(check=check, level=Level.PROBLEM, where=where, what=what, todo=todo)
