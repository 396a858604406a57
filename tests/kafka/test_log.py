"""What the log does on Kafka beyond the contract: transactions, trouble with topics, offsets."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from contract_suite import event, everything, receipt, values
from support import QUICK, committed_offsets, expire, set_topic, tuned

from streams import topics
from streams.logs.contract import Entry, Outgoing
from streams.logs.errors import (
    AppendFailed,
    Fenced,
    Misconfigured,
    Missing,
    Remedy,
    TooLarge,
    Unavailable,
)
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import SETTINGS, create_topics, view_topics
from streams.logs.kafka_client import place_of, transactional_producer
from streams.logs.kafka_options import BadConnection, Connection, parse_options
from streams.logs.kafka_writer import KafkaWriter


@pytest.fixture
async def other(connection: Connection) -> AsyncIterator[KafkaLog]:
    """Another process's view of the same log."""
    opened = KafkaLog(connection)
    yield opened
    await opened.close()


class HeldBack(KafkaWriter):
    """A writer that stops between sending and committing, until it is let go."""

    async def _commit(self) -> None:
        self.sent.set()
        await self.go.wait()
        await super()._commit()

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.sent, self.go = asyncio.Event(), asyncio.Event()


async def test_topics_get_their_settings(connection: Connection) -> None:
    """Every topic is created with the settings that the architecture names."""
    views = await view_topics(connection)
    assert set(views) == set(topics.ALL_TOPICS)
    for name, view in views.items():
        assert view is not None
        assert {key: view.settings[key] for key in SETTINGS[name]} == dict(SETTINGS[name])


async def test_creating_topics_again_changes_nothing(connection: Connection) -> None:
    """What exists is left alone; another partition count is refused."""
    again = await create_topics(connection, partitions=3, replicas=1)
    assert not any(topic.created for topic in again)
    with pytest.raises(Misconfigured, match="3 partitions"):
        await create_topics(connection, partitions=4, replicas=1)


async def test_too_many_replicas_are_refused_in_words(empty: Connection) -> None:
    """A replication factor above the number of brokers names the topic and what to check."""
    with pytest.raises(Misconfigured, match="--replicas"):
        await create_topics(empty, partitions=1, replicas=9)


async def test_without_topics_the_log_says_so(empty: Connection) -> None:
    """A deployment that was never created is `Missing`, with the command to run."""
    log = KafkaLog(empty)
    with pytest.raises(Missing, match="pool topics create"):
        await log.partitions()
    await log.close()


async def test_an_open_batch_is_seen_by_nobody(log: KafkaLog, other: KafkaLog) -> None:
    """Records of a transaction that is open, and later fenced, are never returned."""
    held = await HeldBack.open(log.connection, 0)
    appending = asyncio.create_task(held.append([receipt(0), receipt(1)]))
    await held.sent.wait()
    assert await other.end(topics.LEDGER, 0) >= 2
    stalled = await other.read(topics.LEDGER, 0, offset_next=0, timeout_ms=300)
    assert (stalled.records, stalled.offset_next) == ((), 0)
    successor = await other.open_writer(0)
    held.go.set()
    with pytest.raises(Fenced):
        await appending
    await successor.append([receipt(2)])
    assert await values(other, topics.LEDGER, 0) == [b"receipt 2"]
    assert await values(log, topics.LEDGER, 0) == [b"receipt 2"]
    await held.close()
    await successor.close()


async def test_a_reader_gets_past_the_markers(log: KafkaLog) -> None:
    """The end is reached though the last thing in the partition is an abort marker."""
    held = await HeldBack.open(log.connection, 0)
    appending = asyncio.create_task(held.append([receipt(0)]))
    await held.sent.wait()
    successor = await log.open_writer(0)
    assert await everything(log, topics.LEDGER, 0) == []
    held.go.set()
    with pytest.raises(Fenced):
        await appending
    await held.close()
    await successor.close()


async def test_a_cancelled_append_is_aborted_by_the_next_writer(log: KafkaLog) -> None:
    """Cancelling between send and commit leaves nothing behind, and the writer is dead."""
    held = await HeldBack.open(log.connection, 0)
    appending = asyncio.create_task(held.append([receipt(0)]))
    await held.sent.wait()
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    with pytest.raises(AppendFailed):
        await held.append([receipt(1)])
    await held.close()
    async with asyncio.timeout(10):
        writer = await log.open_writer(0)
    await writer.append([receipt(2)])
    assert await values(log, topics.LEDGER, 0) == [b"receipt 2"]
    await writer.close()


async def test_a_send_that_the_broker_refuses_is_not_committed(empty: Connection) -> None:
    """With a topic too narrow for a batch nothing of it is visible, and the topic is named."""
    await create_topics(empty, partitions=1, replicas=1)
    for topic in (topics.LEDGER, topics.CLAIMS):
        await set_topic(empty, topic, {"max.message.bytes": "2000"})
    log = KafkaLog(empty)
    writer = await log.open_writer(0)
    large = Entry(topic=topics.LEDGER, key=b"p", value=bytes(3000))
    with pytest.raises(AppendFailed, match=r"max\.message\.bytes") as failed:
        await writer.append([receipt(0, topic=topics.HEADS), large])
    assert failed.value.remedy is Remedy.REOPEN
    with pytest.raises(AppendFailed):
        await writer.append([receipt(1)])
    await writer.close()
    again = await log.open_writer(0)
    await again.append([receipt(2)])
    assert await values(log, topics.HEADS, 0) == []
    assert await values(log, topics.LEDGER, 0) == [b"receipt 2"]
    await again.close()
    with pytest.raises(TooLarge):
        await log.publish([Outgoing(topic=topics.CLAIMS, key=b"p", value=bytes(3000))])
    assert await log.publish([event(0)])
    await log.close()


async def test_a_transaction_that_times_out_is_the_brokers_to_abort(log: KafkaLog) -> None:
    """Past its timeout the broker aborts the transaction and refuses its commit."""
    short = tuned(log.connection, transaction_ms=1_000)
    held = await HeldBack.open(short, 0)
    appending = asyncio.create_task(held.append([receipt(0)]))
    await held.sent.wait()
    async with asyncio.timeout(20):
        while (await log.read(topics.LEDGER, 0, offset_next=0, timeout_ms=500)).offset_next == 0:
            pass
    held.go.set()
    with pytest.raises(Fenced):
        await appending
    assert await values(log, topics.LEDGER, 0) == []
    await held.close()


async def test_a_stamping_topic_takes_no_given_time(log: KafkaLog) -> None:
    """A time that the broker would overwrite is refused, naming the setting."""
    given = Outgoing(topic=topics.CLAIMS, key=b"p", value=b"x", timestamp_ms=1_000)
    with pytest.raises(Misconfigured, match=r"message\.timestamp\.type"):
        await log.publish([given])


async def test_reading_below_the_start_goes_on_at_the_start(log: KafkaLog) -> None:
    """Where inputs expired a reader is moved to the first that is left, and can tell."""
    positions = await log.publish([event(number) for number in range(10)])
    home = positions[0].partition
    await expire(log.connection, topics.CLAIMS, home, below=7)
    assert await log.start(topics.CLAIMS, home) == 7
    found, offset_next = [], 0
    while offset_next < 10:
        fetched = await log.read(topics.CLAIMS, home, offset_next=offset_next, timeout_ms=500)
        assert fetched.offset_next > offset_next
        offset_next = fetched.offset_next
        found += [record.offset for record in fetched.records]
    assert found == [7, 8, 9]


async def test_reading_past_the_end_waits_there(log: KafkaLog) -> None:
    """An offset that does not exist yet gives nothing, and is not moved."""
    await log.publish([event(0)])
    fetched = await log.read(topics.CLAIMS, 0, offset_next=50, timeout_ms=100)
    assert (fetched.records, fetched.offset_next) == ((), 50)


async def test_a_strangers_headers_are_kept(log: KafkaLog, connection: Connection) -> None:
    """Whatever a producer sends is a record: no value, odd headers, no UTF-8."""
    producer = transactional_producer(connection, "stranger")
    await producer.start()
    await producer.begin_transaction()
    headers = [("content-type", b"\xff"), ("x", b"1"), ("content-type", b"again")]
    pending = await producer.send(
        connection.topic(topics.CLAIMS),
        value=None,  # type: ignore[arg-type]
        key=b"p",
        partition=0,
        timestamp_ms=None,
        headers=headers,
    )
    await pending
    await producer.commit_transaction()
    await producer.stop()
    (record,) = await everything(log, topics.CLAIMS, 0)
    assert (record.value, record.content_type) == (b"", "")
    assert record.headers == (("x", b"1"), ("content-type", b"again"))


async def test_positions_for_dashboards_are_committed(
    log: KafkaLog, connection: Connection
) -> None:
    """A lag dashboard finds the positions under a group of their own."""
    await log.note_positions(0, {topics.CLAIMS: 5, topics.ADMIN: 2})
    committed = await committed_offsets(connection, connection.prefix + "pool-steward.positions")
    assert committed[place_of(connection, topics.CLAIMS, 0)] == 5
    assert committed[place_of(connection, topics.ADMIN, 0)] == 2


async def test_a_broker_that_is_not_there_is_unavailable_in_time() -> None:
    """Nothing listens: every call says so within its limit, and closing does not hang."""
    tuning = replace(QUICK, request_ms=500, open_ms=1_000, stop_ms=500)
    nowhere = Connection(bootstrap="127.0.0.1:1", tuning=tuning)
    log = KafkaLog(nowhere)
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable, match="check that the broker runs"):
            await log.partitions()
        await log.close()


def test_options_are_read_and_checked() -> None:
    """Options are `name = value` lines; what is unknown or impossible is refused in words."""
    text = (
        "# how to get in\nsecurity.protocol = SASL_SSL\n\nsasl.username=me\nsasl.password= a=b \n"
    )
    options = parse_options(text)
    assert options["sasl.password"] == "a=b"
    connection = Connection(bootstrap="x", options=options)
    assert "a=b" not in repr(connection)
    for wrong in ("acks=0", "security.protocol=NONE", "sasl.mechanism=GSSAPI", "no value"):
        with pytest.raises(BadConnection):
            parse_options(wrong)
    with pytest.raises(BadConnection, match="TLS"):
        Connection(
            bootstrap="x", options={"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"}
        ).client_arguments()
