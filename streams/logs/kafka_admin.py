"""The topics of a deployment on Kafka: what they must be, how they are made, what they are.

Not here: judging a running deployment (`kafka_doctor`).

1. `SETTINGS` is the one place that names the topics' settings; creating and checking both read it.
2. Creating never changes a topic that exists: a wrong one is the doctor's finding and a person's
   decision, since changing it may lose records.

Invariant: nothing here deletes a topic or a record.
Source: architecture.md "Topics".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

# aiokafka has no annotations and no marker file.
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped]
    ConfigResource,
    ConfigResourceType,
)

from streams import topics
from streams.logs.contract import MAX_EVENT_BYTES, MAX_RECORD_BYTES, RECORD_OVERHEAD_BYTES
from streams.logs.errors import LogTrouble, Misconfigured, Unavailable
from streams.logs.kafka_client import (
    BATCH_BYTES,
    refusal,
)
from streams.logs.kafka_errors import CLIENT_ERRORS, Forbidden, missing, translate
from streams.logs.kafka_options import Connection

INPUT_BYTES_MAX: Final = MAX_EVENT_BYTES + RECORD_OVERHEAD_BYTES
WRITTEN_BYTES_MAX: Final = max(MAX_RECORD_BYTES, BATCH_BYTES) + RECORD_OVERHEAD_BYTES
REPLICAS_MIN: Final = 3
IN_SYNC_MIN: Final = 2
RETRY_SECONDS: Final = 0.2

_ALWAYS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}
_STAMPED: Final = {"message.timestamp.type": "LogAppendTime"}
_INPUT: Final = _ALWAYS | _STAMPED | {"max.message.bytes": str(INPUT_BYTES_MAX)}
_WRITTEN: Final = _ALWAYS | {
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(WRITTEN_BYTES_MAX),
}

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    topics.ADMIN: _INPUT,
    topics.CLAIMS: _INPUT,
    topics.METERS: _INPUT,
    topics.LEDGER: _WRITTEN,
    topics.HEADS: _WRITTEN,
    topics.WITNESS: _WRITTEN,
    # Stamped by the broker: when a letter died is nobody's claim, and the doctor's probe, which
    # goes here, reads the broker's clock from it.
    topics.DEAD: _WRITTEN | _STAMPED,
}
"""Topic to setting to value, without what depends on the number of replicas."""

_NO_ERROR, _UNKNOWN_TOPIC, _NO_LEADER, _FORBIDDEN_TOPIC, _EXISTS = 0, 3, 5, 29, 36


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as the cluster describes it; numbers of brokers, `leader` -1: none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic as the cluster describes it."""

    name: str
    partitions: tuple[PartitionView, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What clients need: the topics seen, their common partition count, which stamp records."""

    topics: tuple[str, ...]
    partitions: int
    stamping: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What `create_topics` did with one topic."""

    topic: str
    created: bool


async def create_topics(connection: Connection, *, partitions: int, replicas: int) -> list[Created]:
    """Create the topics that are missing, with their settings.

    Raises:
        Misconfigured: the cluster refuses, or existing topics have another partition count.
        Unavailable, Forbidden.
    """
    async with _admin(connection, "creating topics") as admin:
        existing = await _view(admin, connection)
        for name, view in existing.items():
            if view is not None and len(view.partitions) != partitions:
                raise Misconfigured(
                    f"{name} has {len(view.partitions)} partitions, not {partitions}",
                    where=connection.where,
                    todo=f"all topics must have the same number: use --partitions "
                    f"{len(view.partitions)}, or another --prefix",
                )
        absent = [name for name, view in existing.items() if view is None]
        new = [
            NewTopic(
                connection.topic(name),
                partitions,
                replicas,
                topic_configs=_settings(name, replicas),
            )
            for name in absent
        ]
        if new:
            _check_created(await admin.create_topics(new), connection)
        await _await_leaders(admin, connection)
    return [Created(topic=name, created=name in absent) for name in topics.ALL_TOPICS]


def _settings(name: str, replicas: int) -> dict[str, str]:
    return {**SETTINGS[name], "min.insync.replicas": str(min(IN_SYNC_MIN, max(1, replicas - 1)))}


def _check_created(response: Any, connection: Connection) -> None:
    for topic, code, message in (tuple(error)[:3] for error in response.topic_errors):
        # Somebody else may have created it a moment ago, with the same settings.
        if code not in (_NO_ERROR, _EXISTS):
            kind = Forbidden if code == _FORBIDDEN_TOPIC else Misconfigured
            raise kind(
                f"{topic} was not created: {message or f'error {code}'}",
                where=connection.where,
                todo="check the number of brokers against --replicas, and the user's rights",
            )


async def _await_leaders(admin: Any, connection: Connection) -> None:
    """Wait until every partition has a leader, so that what comes next finds the topics."""
    while True:
        views = await _view(admin, connection)
        if all(
            view is not None and all(part.leader >= 0 for part in view.partitions)
            for view in views.values()
        ):
            return
        await asyncio.sleep(RETRY_SECONDS)


async def describe(connection: Connection) -> Cluster:
    """The topics' partition count, and which stamp their records with the broker's clock.

    Topics that this user may not see are left out: a tenant sees fewer than a steward.

    Raises:
        Missing: a topic is not there. Misconfigured: partition counts differ.
        Unavailable, Forbidden.
    """
    views = await view_topics(connection)
    counts: dict[str, int] = {}
    for name, view in views.items():
        if view is None:
            raise missing(f"looking for {connection.topic(name)}", connection.where)
        counts[name] = len(view.partitions)
    if not counts:
        raise Forbidden(
            "none of the topics may be seen", where=connection.where, todo="check the user's rights"
        )
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise Misconfigured(
            f"partition counts differ: {told}",
            where=connection.where,
            todo="a pool's topics must be co-partitioned: create the deployment anew",
        )
    stamping = [
        name
        for name, view in views.items()
        if view is not None and view.settings.get("message.timestamp.type") == "LogAppendTime"
    ]
    return Cluster(
        topics=tuple(counts),
        partitions=next(iter(counts.values())),
        stamping=frozenset(stamping),
    )


async def view_topics(connection: Connection) -> dict[str, TopicView | None]:
    """Every topic that this user may see, by its own name; None where it does not exist."""
    async with _admin(connection, "describing topics") as admin:
        return await _view(admin, connection)


async def _view(admin: Any, connection: Connection) -> dict[str, TopicView | None]:
    names = {connection.topic(name): name for name in topics.ALL_TOPICS}
    described = await admin.describe_topics(list(names))
    found: dict[str, TopicView | None] = {}
    for topic in described:
        code, name = topic["error_code"], names[topic["topic"]]
        if code == _FORBIDDEN_TOPIC:
            continue
        if code not in (_NO_ERROR, _UNKNOWN_TOPIC, _NO_LEADER):
            raise Unavailable(
                f"{name} cannot be described: error {code}",
                where=connection.where,
                todo="trying again is safe",
            )
        found[name] = None if code == _UNKNOWN_TOPIC else _topic_view(name, topic)
    present = [connection.topic(name) for name, view in found.items() if view is not None]
    for topic_name, settings in (await _topic_settings(admin, present)).items():
        view = found[names[topic_name]]
        assert view is not None
        found[names[topic_name]] = TopicView(
            name=view.name, partitions=view.partitions, settings=settings
        )
    return {name: found[name] for name in topics.ALL_TOPICS if name in found}


def _topic_view(name: str, topic: Mapping[str, Any]) -> TopicView:
    parts = [
        PartitionView(
            partition=part["partition"],
            leader=part["leader"],
            replicas=tuple(part["replicas"]),
            in_sync=tuple(part["isr"]),
        )
        for part in topic["partitions"]
    ]
    parts.sort(key=lambda part: part.partition)
    return TopicView(name=name, partitions=tuple(parts), settings={})


async def _topic_settings(admin: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    settings: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(resources):
        for code, _, _, name, entries in (tuple(item)[:5] for item in response.resources):
            # Without the right to see settings a client goes on; the doctor says what is missing.
            if code == _NO_ERROR:
                settings[name] = {entry[0]: entry[1] for entry in entries}
    return settings


async def broker_settings(connection: Connection) -> dict[int, dict[str, str]]:
    """Every live broker's number and settings. Raises: Unavailable, Forbidden."""
    async with _admin(connection, "asking brokers for their settings") as admin:
        brokers = (await admin.describe_cluster())["brokers"]
        settings: dict[int, dict[str, str]] = {}
        for broker in brokers:
            number = broker["node_id"]
            resource = ConfigResource(ConfigResourceType.BROKER, str(number))
            for response in await admin.describe_configs([resource]):
                for item in response.resources:
                    settings[number] = {entry[0]: entry[1] for entry in tuple(item)[4]}
        return settings


@asynccontextmanager
async def _admin(connection: Connection, doing: str) -> AsyncIterator[Any]:
    """An admin client, within one deadline for all that is done with it."""
    try:
        async with asyncio.timeout(connection.tuning.open_ms / 1000):
            admin = AIOKafkaAdminClient(**connection.client_arguments())
            try:
                await admin.start()
                yield admin
            finally:
                await admin.close()
    except CLIENT_ERRORS as error:
        why = error if isinstance(error, LogTrouble) else await refusal(connection) or error
        raise translate(why, doing=doing, where=connection.where) from error
