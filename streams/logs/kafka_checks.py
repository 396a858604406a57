"""What a deployment's topics and brokers must be, as functions from what they are to findings.

Not here: asking the cluster and trying things out (`kafka_doctor`).

1. Inputs may expire once they are decided; what stewards and witnesses write must never.
2. Room to spare is not wrong: a larger `max.message.bytes` is fine.

Invariant: no I/O; every finding that is not fine says what to do.
Source: architecture.md "Topics".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from streams import topics
from streams.logs.kafka_admin import (
    IN_SYNC_MIN,
    REPLICAS_MIN,
    SETTINGS,
    PartitionView,
    TopicView,
)
from streams.logs.kafka_findings import Check, Finding, Level

_Test = Callable[[str], bool]
_Views = Mapping[str, TopicView | None]
_PERMANENT: Final = (topics.LEDGER, topics.HEADS, topics.WITNESS, topics.DEAD)


def check_topics(views: _Views) -> Iterator[Finding]:
    """Every topic is there and may be seen."""
    for name in topics.ALL_TOPICS:
        if views.get(name) is None:
            seen = name in views
            yield Finding(
                check=Check.TOPICS,
                level=Level.PROBLEM,
                where=name,
                what="it does not exist" if seen else "this user may not see it",
                todo="run `pool topics create`" if seen else "let this user describe it",
            )
    if all(views.get(name) is not None for name in topics.ALL_TOPICS):
        yield Finding(check=Check.TOPICS, level=Level.FINE, where="all", what="they exist")


def check_partitions(views: _Views) -> Iterator[Finding]:
    """All topics have the same number of partitions, and each partition has a leader."""
    present = [view for view in views.values() if view is not None]
    counts = {view.name: len(view.partitions) for view in present}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        yield Finding(
            check=Check.PARTITIONS,
            level=Level.PROBLEM,
            where="all",
            what=f"the counts differ: {told}",
            todo="a pool's topics must be co-partitioned: create the deployment anew and import",
        )
    elif counts:
        count = next(iter(counts.values()))
        yield Finding(check=Check.PARTITIONS, level=Level.FINE, where="all", what=f"{count} each")
    for view in present:
        for part in view.partitions:
            if part.leader < 0:
                yield Finding(
                    check=Check.PARTITIONS,
                    level=Level.PROBLEM,
                    where=f"{view.name}/{part.partition}",
                    what="it has no leader",
                    todo=f"bring back a broker that holds it: {_numbers(part.replicas)}",
                )


def check_settings(views: _Views) -> Iterator[Finding]:
    """Every topic has the settings of `SETTINGS`."""
    for name, wanted in SETTINGS.items():
        view = views.get(name)
        if view is None:
            continue
        if not view.settings:
            yield Finding(
                check=Check.SETTINGS,
                level=Level.WARNING,
                where=name,
                what="its settings may not be seen",
                todo="let this user describe the topic's configuration",
            )
            continue
        faults = [
            _setting_fault(name, setting, value, view.settings.get(setting, ""))
            for setting, value in wanted.items()
        ]
        found = [fault for fault in faults if fault is not None]
        yield from found
        if not found:
            yield Finding(
                check=Check.SETTINGS, level=Level.FINE, where=name, what="as they must be"
            )


def _setting_fault(topic: str, setting: str, wanted: str, actual: str) -> Finding | None:
    """What is wrong with one setting. Room to spare is not wrong, nor is an input that expires."""
    level = Level.PROBLEM
    if actual == wanted:
        return None
    if setting == "max.message.bytes" and actual.isdecimal() and int(actual) > int(wanted):
        return None
    if setting.startswith("retention.") and topic not in _PERMANENT:
        level = Level.WARNING
    why = {
        "cleanup.policy": "records would vanish from the middle",
        "retention.ms": "records would expire",
        "retention.bytes": "records would expire",
        "unclean.leader.election.enable": "acknowledged records could be lost",
        "message.timestamp.type": "the time would be the producer's word"
        if wanted == "LogAppendTime"
        else "the time would not be the writer's",
        "max.message.bytes": "a record that the profile allows would be refused",
    }[setting]
    return Finding(
        check=Check.SETTINGS,
        level=level,
        where=topic,
        what=f"{setting} is {actual or 'unknown'}, not {wanted}: {why}",
        todo=f"set {setting}={wanted} on the topic",
    )


def check_replication(views: _Views) -> Iterator[Finding]:
    """Enough replicas, enough of them in sync, and an acknowledgement that means two disks."""
    for name, view in views.items():
        if view is None:
            continue
        found = list(_replication_faults(view))
        yield from found
        if not found:
            yield Finding(
                check=Check.REPLICATION,
                level=Level.FINE,
                where=name,
                what=f"{len(view.partitions[0].replicas)} replicas, all in sync",
            )


def _replication_faults(view: TopicView) -> Iterator[Finding]:
    def fault(level: Level, what: str, todo: str) -> Finding:
        return Finding(check=Check.REPLICATION, level=level, where=view.name, what=what, todo=todo)

    fewest = min(len(part.replicas) for part in view.partitions)
    needed_text = view.settings.get("min.insync.replicas", "")
    needed = int(needed_text) if needed_text.isdecimal() else IN_SYNC_MIN
    if fewest < REPLICAS_MIN:
        yield fault(
            Level.WARNING,
            f"{fewest} replicas, not {REPLICAS_MIN}: a lost disk may be a lost record",
            f"run at least {REPLICAS_MIN} brokers and reassign the topic's partitions",
        )
    elif needed < IN_SYNC_MIN:
        yield fault(
            Level.PROBLEM,
            f"min.insync.replicas is {needed}: an acknowledged record may be on one disk only",
            f"set min.insync.replicas={IN_SYNC_MIN} on the topic",
        )
    if needed > fewest:
        yield fault(
            Level.PROBLEM,
            f"min.insync.replicas {needed} is more than the {fewest} replicas: no write succeeds",
            "lower min.insync.replicas or add replicas",
        )
    lagging = [part for part in view.partitions if len(part.in_sync) < len(part.replicas)]
    short = [part for part in lagging if len(part.in_sync) < needed]
    if lagging:
        yield fault(
            Level.PROBLEM if short else Level.WARNING,
            f"partitions {_partitions(lagging)} lack in-sync replicas"
            + (f"; {_partitions(short)} take no write" if short else ""),
            "bring back the missing brokers",
        )


def check_brokers(
    brokers: Mapping[int, Mapping[str, str]], transaction_ms: int
) -> Iterator[Finding]:
    """Every broker's settings that transactions depend on."""
    for number, settings in sorted(brokers.items()):
        found = [
            Finding(
                check=Check.BROKERS,
                level=level,
                where=f"broker {number}",
                what=f"{setting} is {settings.get(setting, 'unknown')}: {why}",
                todo=todo,
            )
            for setting, is_good, level, why, todo in _broker_rules(len(brokers), transaction_ms)
            if setting in settings and not is_good(settings[setting])
        ]
        yield from found
        if not found:
            yield Finding(
                check=Check.BROKERS,
                level=Level.FINE,
                where=f"broker {number}",
                what="as it must be",
            )


def _broker_rules(count: int, transaction_ms: int) -> Iterator[tuple[str, _Test, Level, str, str]]:
    copies = min(REPLICAS_MIN, count)
    yield (
        "transaction.partition.verification.enable",
        lambda value: value == "true",
        Level.PROBLEM,
        "a late record of a dead steward could hang a partition",
        "set it to true",
    )
    yield (
        "transaction.max.timeout.ms",
        lambda value: int(value) >= transaction_ms,
        Level.PROBLEM,
        "stewards ask for more and would be refused",
        f"set it to at least {transaction_ms}",
    )
    yield (
        "transaction.state.log.replication.factor",
        lambda value: int(value) >= copies,
        Level.WARNING,
        "the record of transactions is on fewer disks than the ledger",
        f"set it to {copies} before the cluster's first transaction",
    )
    yield (
        "auto.create.topics.enable",
        lambda value: value == "false",
        Level.WARNING,
        "a misspelt topic springs up with settings that lose records",
        "set it to false",
    )


def _numbers(brokers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in brokers)


def _partitions(parts: Sequence[PartitionView]) -> str:
    return ", ".join(str(part.partition) for part in parts)
