"""Examine a deployment on Kafka: look at it, try it out, and say what is wrong and what to do.

Not here: the rules (`kafka_checks`); the trial itself (`kafka_probe`); how far witnesses are,
which needs to know what a head is (`streams.witness_lag`); printing (the command line does).

1. First what the cluster says of itself, then what it does: fencing, isolation, its clock.
2. Trouble on the way is a finding like any other.

Invariant: nothing is changed; the trial's transaction is never committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams import topics
from streams.logs.errors import LogTrouble
from streams.logs.kafka_admin import broker_settings, view_topics
from streams.logs.kafka_checks import (
    check_brokers,
    check_partitions,
    check_replication,
    check_settings,
    check_topics,
)
from streams.logs.kafka_findings import Check, Finding, Level
from streams.logs.kafka_options import Connection
from streams.logs.kafka_probe import probe

CLOCK_WARNING_MS: Final = 1_000
CLOCK_PROBLEM_MS: Final = 10_000
"""The profile's default `meter_slack_ms`: a meter this far ahead is refused."""
UPGRADE: Final = "run Apache Kafka 3.6 or later; do not run stewards on this cluster"


async def examine(connection: Connection) -> list[Finding]:
    """All checks, in the order of `Check`; trouble on the way is a finding too. Never raises it."""
    try:
        views = await view_topics(connection)
    except LogTrouble as trouble:
        return [_trouble(Check.REACHABLE, trouble)]
    findings = [Finding(check=Check.REACHABLE, level=Level.FINE, where=connection.where, what="up")]
    for check in (check_topics, check_partitions, check_settings, check_replication):
        findings += check(views)
    try:
        findings += check_brokers(
            await broker_settings(connection), connection.tuning.transaction_ms
        )
    except LogTrouble as trouble:
        findings.append(_trouble(Check.BROKERS, trouble))
    if all(views.get(name) is not None for name in topics.ALL_TOPICS):
        findings += await _tried(connection)
    return findings


async def _tried(connection: Connection) -> list[Finding]:
    """The checks that try something: on the dead-letter topic, in a transaction that is aborted."""
    try:
        tried = await probe(connection)
    except LogTrouble as trouble:
        return [_trouble(Check.FENCING, trouble)]
    return [*_fencing(tried.is_fenced), *_isolation(tried.seen), *_clock(tried.skew_ms)]


def _fencing(is_fenced: bool) -> Iterator[Finding]:
    yield Finding(
        check=Check.FENCING,
        level=Level.FINE if is_fenced else Level.PROBLEM,
        where=topics.DEAD,
        what="a replaced writer was refused"
        if is_fenced
        else "a replaced writer could still commit: two stewards could write one ledger",
        todo="" if is_fenced else UPGRADE,
    )


def _isolation(seen: int) -> Iterator[Finding]:
    yield Finding(
        check=Check.ISOLATION,
        level=Level.PROBLEM if seen else Level.FINE,
        where=topics.DEAD,
        what=f"{seen} records of an aborted transaction were read as committed"
        if seen
        else "an aborted transaction stayed unseen",
        todo=UPGRADE if seen else "",
    )


def _clock(skew_ms: int | None) -> Iterator[Finding]:
    if skew_ms is None:
        yield Finding(
            check=Check.CLOCK,
            level=Level.WARNING,
            where=topics.DEAD,
            what="the broker's clock cannot be told: the topic does not stamp its records",
            todo="set message.timestamp.type=LogAppendTime on the topic",
        )
        return
    level = Level.FINE
    if abs(skew_ms) > CLOCK_WARNING_MS:
        level = Level.PROBLEM if abs(skew_ms) > CLOCK_PROBLEM_MS else Level.WARNING
    ahead = "ahead of" if skew_ms >= 0 else "behind"
    yield Finding(
        check=Check.CLOCK,
        level=level,
        where="broker",
        what=f"its clock is {abs(skew_ms)} ms {ahead} this machine's",
        todo="" if level is Level.FINE else "synchronise the clocks (NTP) of brokers and meters",
    )


def _trouble(check: Check, trouble: LogTrouble) -> Finding:
    return Finding(
        check=check, level=Level.PROBLEM, where=trouble.where, what=trouble.what, todo=trouble.todo
    )
