"""The doctor finds what is wrong with a deployment, and says what to do."""

import pytest
from support import QUICK, set_topic

from streams import topics
from streams.logs.kafka_admin import SETTINGS, PartitionView, TopicView, create_topics
from streams.logs.kafka_checks import (
    check_brokers,
    check_partitions,
    check_replication,
    check_settings,
    check_topics,
)
from streams.logs.kafka_doctor import examine
from streams.logs.kafka_findings import Check, Finding, Level
from streams.logs.kafka_options import Connection

GOOD_BROKER = {
    "transaction.partition.verification.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.replication.factor": "3",
    "auto.create.topics.enable": "false",
}


def view(
    name: str,
    *,
    count: int = 2,
    leader: int = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    in_sync: tuple[int, ...] = (1, 2, 3),
    **settings: str,
) -> TopicView:
    """A topic as a healthy cluster describes it, but for what is given."""
    wanted = {**SETTINGS[name], "min.insync.replicas": "2"}
    given = {key.replace("_", "."): value for key, value in settings.items()}
    parts = [
        PartitionView(partition=number, leader=leader, replicas=replicas, in_sync=in_sync)
        for number in range(count)
    ]
    return TopicView(name=name, partitions=tuple(parts), settings=wanted | given)


def healthy(**changed: TopicView | None) -> dict[str, TopicView | None]:
    """All topics, healthy, but for those given by the last part of their names."""
    views: dict[str, TopicView | None] = {name: view(name) for name in topics.ALL_TOPICS}
    return views | {f"pool.{name}": one for name, one in changed.items()}


def bad(findings: list[Finding]) -> list[tuple[Level, str]]:
    """The findings that are not fine; each of them says what to do."""
    assert all(finding.todo for finding in findings if finding.level is not Level.FINE)
    return [(one.level, one.where) for one in findings if one.level is not Level.FINE]


def test_a_healthy_deployment_is_fine() -> None:
    """Nothing is wrong with what is as it must be, and every check says so."""
    views = healthy()
    findings = [
        *check_topics(views),
        *check_partitions(views),
        *check_settings(views),
        *check_replication(views),
        *check_brokers({1: GOOD_BROKER, 2: GOOD_BROKER, 3: GOOD_BROKER}, 15_000),
    ]
    assert bad(findings) == []
    assert {finding.check for finding in findings} == {
        Check.TOPICS,
        Check.PARTITIONS,
        Check.SETTINGS,
        Check.REPLICATION,
        Check.BROKERS,
    }


@pytest.mark.parametrize(
    ("topic", "setting", "value", "level"),
    [
        (topics.LEDGER, "cleanup_policy", "compact", Level.PROBLEM),
        (topics.LEDGER, "cleanup_policy", "compact,delete", Level.PROBLEM),
        (topics.LEDGER, "retention_ms", "604800000", Level.PROBLEM),
        (topics.LEDGER, "retention_bytes", "1000000", Level.PROBLEM),
        (topics.WITNESS, "retention_ms", "604800000", Level.PROBLEM),
        (topics.CLAIMS, "retention_ms", "604800000", Level.WARNING),
        (topics.CLAIMS, "cleanup_policy", "compact", Level.PROBLEM),
        (topics.CLAIMS, "message_timestamp_type", "CreateTime", Level.PROBLEM),
        (topics.LEDGER, "unclean_leader_election_enable", "true", Level.PROBLEM),
        (topics.LEDGER, "max_message_bytes", "1000", Level.PROBLEM),
        (topics.LEDGER, "max_message_bytes", "99999999", Level.FINE),
    ],
)
def test_a_wrong_setting_is_found(topic: str, setting: str, value: str, level: Level) -> None:
    """A ledger must not expire, compact or lose; inputs may expire; room to spare is fine."""
    changed = view(topic, **{setting: value})
    found = bad(list(check_settings(healthy() | {topic: changed})))
    assert found == ([] if level is Level.FINE else [(level, topic)])


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"replicas": (1,), "in_sync": (1,), "min_insync_replicas": "1"}, Level.WARNING),
        ({"min_insync_replicas": "1"}, Level.PROBLEM),
        ({"min_insync_replicas": "4"}, Level.PROBLEM),
        ({"in_sync": (1, 2)}, Level.WARNING),
        ({"in_sync": (1,)}, Level.PROBLEM),
    ],
)
def test_too_few_copies_are_found(changes: dict[str, object], level: Level) -> None:
    """Fewer than three replicas warn; what can lose or refuse a record is a problem."""
    changed = view(topics.LEDGER, **changes)  # type: ignore[arg-type]
    found = bad(list(check_replication(healthy(ledger=changed))))
    assert (level, topics.LEDGER) in found
    assert {where for _, where in found} == {topics.LEDGER}


def test_a_missing_topic_and_a_lost_leader_are_found() -> None:
    """What is not there, what may not be seen, what has no leader, what is not co-partitioned."""
    views = healthy(heads=None, claims=view(topics.CLAIMS, count=4))
    del views[topics.WITNESS]
    assert bad(list(check_topics(views))) == [
        (Level.PROBLEM, topics.HEADS),
        (Level.PROBLEM, topics.WITNESS),
    ]
    assert bad(list(check_partitions(views))) == [(Level.PROBLEM, "all")]
    leaderless = healthy(ledger=view(topics.LEDGER, count=1, leader=-1))
    assert (Level.PROBLEM, "pool.ledger/0") in bad(list(check_partitions(leaderless)))


@pytest.mark.parametrize(
    ("setting", "value", "level"),
    [
        ("transaction.partition.verification.enable", "false", Level.PROBLEM),
        ("transaction.max.timeout.ms", "1000", Level.PROBLEM),
        ("transaction.state.log.replication.factor", "1", Level.WARNING),
        ("auto.create.topics.enable", "true", Level.WARNING),
    ],
)
def test_a_wrong_broker_is_found(setting: str, value: str, level: Level) -> None:
    """What transactions depend on, broker by broker."""
    brokers = {1: GOOD_BROKER, 2: GOOD_BROKER | {setting: value}, 3: GOOD_BROKER}
    assert bad(list(check_brokers(brokers, 15_000))) == [(level, "broker 2")]


async def test_a_real_deployment_is_examined(connection: Connection) -> None:
    """On a real broker fencing works, nothing aborted is seen, and the clocks agree."""
    findings = {finding.check: finding for finding in await examine(connection)}
    for check in (Check.FENCING, Check.ISOLATION, Check.CLOCK):
        assert findings[check].level is Level.FINE
    assert "a replaced writer was refused" in findings[Check.FENCING].what


async def test_a_real_ledger_that_expires_is_found(connection: Connection) -> None:
    """A setting changed on the broker is what the doctor sees."""
    await set_topic(connection, topics.LEDGER, SETTINGS[topics.LEDGER] | {"retention.ms": "1000"})
    problems = [one for one in await examine(connection) if one.level is Level.PROBLEM]
    assert [(one.check, one.where) for one in problems] == [(Check.SETTINGS, topics.LEDGER)]
    assert "retention.ms=-1" in problems[0].todo


async def test_trouble_is_a_finding(empty: Connection) -> None:
    """No topics, no broker: findings, not exceptions."""
    assert all(one.check is not Check.FENCING for one in await examine(empty))
    nowhere = Connection(bootstrap="127.0.0.1:1", tuning=QUICK)
    (only,) = await examine(nowhere)
    assert (only.check, only.level) == (Check.REACHABLE, Level.PROBLEM)
    await create_topics(empty, partitions=1, replicas=1)
