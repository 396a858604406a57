"""`pool topics create` and `pool doctor`: a deployment's topics, and whether it is in order.

1. `doctor` looks, tries, and changes nothing. The status is 1 if there is a problem, 0 if there are
   warnings only.
2. An embedded log has no settings; there the doctor replays the ledgers, looks for inputs that
   wait, and for a key file that others may read or that is not the ledgers' current steward's.
3. On either, how far witnesses are, and whether they accuse (`streams.witness_lag`).

Not here: the checks on Kafka (`streams.logs.kafka_doctor`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.text import Text

from schemas.chain import ChainReader
from schemas.keys import did_key
from streams.cli.keys import password_option, read_key
from streams.cli.screen import table
from streams.cli.session import Answered, Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE
from streams.cli.where import Where, on_a_log
from streams.logs.contract import LogReader
from streams.logs.errors import LogTrouble, Misconfigured
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
    try:
        made: Sequence[Created] = asyncio.run(
            create_topics(where.kafka, partitions=partitions, replicas=replicas)
        )
    except Misconfigured as error:
        # Of topics that are not made yet, only what was asked for can be wrong.
        raise Failure(
            error.what, where=error.where, todo=error.todo, status=Status.USAGE
        ) from error
    for one in made:
        if session.json:
            session.line({"topic": one.topic, "created": one.created})
        else:
            session.say(f"{one.topic}: {'created' if one.created else 'there already'}")


@click.command()
@on_a_log
@password_option
@common
@click.pass_obj
def doctor(session: Session, where: Where, password_file: Path | None) -> None:
    """Check a deployment, and say what to do about each finding."""
    findings = asyncio.run(_examined(where, password_file))
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


async def _examined(where: Where, password_file: Path | None) -> list[Finding]:
    if where.data is None:
        return await _on_kafka(where)
    async with where.reader() as log:
        return [one async for one in _embedded(where.data, password_file, log)]


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


async def _embedded(
    data: Path, password_file: Path | None, log: LogReader
) -> AsyncIterator[Finding]:
    """Rule 2."""
    yield _fine(Check.REACHABLE, str(data), "a log is there")
    chains: dict[str, ChainReader] = {}
    for number in range(await log.partitions()):
        partition = Partition(number=number)
        try:
            await replay(log, partition, Observer())
        except (StewardStopped, LogTrouble) as trouble:
            yield _problem(Check.PARTITIONS, f"partition {number}", str(trouble), "see the line")
            continue
        chains |= {name: pool.chain for name, pool in sorted(partition.pools.items())}
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
    if (data / KEY_FILE).exists():
        for finding in _key(data / KEY_FILE, password_file, chains):
            yield finding
    ends = {name: (chain.length, chain.closed_at_ms) for name, chain in chains.items()}
    for finding in await witness_lag(log, beside=_statements(data), ends=ends):
        yield finding


def _key(
    file: Path, password_file: Path | None, chains: Mapping[str, ChainReader]
) -> Iterator[Finding]:
    """Whether the key that a steward here signs with may be read, and is the one due."""
    try:
        own = read_key(file, password_file).public_key
    except Failure as failure:
        yield _problem(Check.SETTINGS, KEY_FILE, str(failure), "mend it before the next start")
        return
    others = [(name, chain.steward) for name, chain in chains.items() if chain.steward != own]
    if not others:
        due = ", and it is the ledgers' key" if chains else ""
        yield _fine(Check.SETTINGS, KEY_FILE, f"only its owner may read it{due}")
    for name, steward in others:
        assert steward is not None, "a ledger that was replayed has a steward"
        yield Finding(
            check=Check.SETTINGS,
            level=Level.WARNING,
            where=KEY_FILE,
            what=f"not the key of {name}'s current steward: nothing is written there with it",
            todo=f"name the file of {did_key(steward)} with --key, or put it in this place",
        )


def _statements(data: Path) -> Iterator[bytes]:
    """All that witnesses have put beside the log."""
    outboxes = Outboxes(data)
    while found := outboxes.look():
        yield from found


def _fine(check: Check, where: str, what: str) -> Finding:
    return Finding(check=check, level=Level.FINE, where=where, what=what)


def _problem(check: Check, where: str, what: str, todo: str) -> Finding:
    return Finding(check=check, level=Level.PROBLEM, where=where, what=what, todo=todo)
