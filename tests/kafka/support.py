"""What the Kafka tests do to a deployment that the project itself never does."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete

from streams.logs.kafka_admin import view_topics
from streams.logs.kafka_options import Connection, Tuning

QUICK = Tuning(
    request_ms=5_000,
    transaction_ms=6_000,
    append_ms=10_000,
    open_ms=20_000,
    stop_ms=2_000,
    session_ms=6_000,
    heartbeat_ms=500,
    rebalance_ms=10_000,
    poll_interval_ms=30_000,
    fetch_wait_ms=100,
)


@asynccontextmanager
async def admin(connection: Connection) -> AsyncIterator[Any]:
    """The client library's admin client."""
    client = AIOKafkaAdminClient(**connection.client_arguments())
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def set_topic(connection: Connection, topic: str, settings: Mapping[str, str]) -> None:
    """Set a topic's settings; those not named go back to the broker's defaults."""
    resource = ConfigResource(ConfigResourceType.TOPIC, connection.topic(topic), dict(settings))
    async with admin(connection) as client:
        await client.alter_configs([resource])
    # Brokers take a change up a moment after it was acknowledged.
    async with asyncio.timeout(10):
        while not await _has(connection, topic, settings):
            await asyncio.sleep(0.05)


async def _has(connection: Connection, topic: str, settings: Mapping[str, str]) -> bool:
    view = (await view_topics(connection))[topic]
    return view is not None and settings.items() <= view.settings.items()


async def expire(connection: Connection, topic: str, partition: int, *, below: int) -> None:
    """Delete a partition's records below an offset, as retention does."""
    place = TopicPartition(connection.topic(topic), partition)
    async with admin(connection) as client:
        await client.delete_records({place: RecordsToDelete(before_offset=below)})


async def committed_offsets(connection: Connection, group: str) -> dict[TopicPartition, int]:
    """A group's committed offsets."""
    async with admin(connection) as client:
        found = await client.list_consumer_group_offsets(group)
    return {place: committed.offset for place, committed in found.items()}


def tuned(connection: Connection, **limits: int) -> Connection:
    """The same deployment with other time limits."""
    return replace(connection, tuning=replace(connection.tuning, **limits))
