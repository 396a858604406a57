"""What `streams.logs.contract` promises, as tests that every log runs.

A module subclasses `LogContract` and gives the fixture `log`: an empty log with `PARTITIONS`
partitions, open for writing. `KEEPS_GIVEN_TIME` says whether a record may bring its own time.
"""

import asyncio
from typing import ClassVar

import pytest

from streams import topics
from streams.logs.contract import (
    CONTENT_CBOR,
    CONTENT_COSE,
    CONTENT_JSON,
    MAX_RECORD_BYTES,
    Entry,
    Log,
    Outgoing,
    Record,
)
from streams.logs.errors import AppendFailed, Fenced, LogTrouble, Missing, Remedy, TooLarge

PARTITIONS = 3
WAIT_MS = 10_000


def event(number: int, *, topic: str = topics.CLAIMS, key: bytes | None = b"p") -> Outgoing:
    """A numbered input."""
    return Outgoing(topic=topic, key=key, value=b"event %d" % number)


def receipt(number: int, *, topic: str = topics.LEDGER) -> Entry:
    """A numbered record of a batch."""
    return Entry(topic=topic, key=b"p", value=b"receipt %d" % number)


async def everything(log: Log, topic: str, partition: int) -> list[Record]:
    """All records of a topic's partition, as a reader gets them."""
    end = await log.end(topic, partition)
    offset_next = await log.start(topic, partition)
    found: list[Record] = []
    async with asyncio.timeout(WAIT_MS / 1000):
        while offset_next < end:
            fetched = await log.read(topic, partition, offset_next=offset_next, timeout_ms=200)
            found += fetched.records
            offset_next = fetched.offset_next
    return found


async def values(log: Log, topic: str, partition: int) -> list[bytes]:
    """The values of `everything`."""
    return [record.value for record in await everything(log, topic, partition)]


class LogContract:
    """The suite. Partition `HOME` is where the key `p` lives."""

    KEEPS_GIVEN_TIME: ClassVar[bool] = True
    HOME: ClassVar[int] = topics.partition_for(b"p", PARTITIONS)

    async def test_every_topic_has_the_same_partitions(self, log: Log) -> None:
        """An empty log has its partitions, and each is empty."""
        assert await log.partitions() == PARTITIONS
        for topic in topics.ALL_TOPICS:
            for partition in range(PARTITIONS):
                assert await log.start(topic, partition) == 0
                assert await log.end(topic, partition) == 0

    async def test_a_published_record_reads_back(self, log: Log) -> None:
        """Key, value, content type and position are what was published and answered."""
        outgoing = Outgoing(topic=topics.METERS, key=b"p", value=b"{}", content_type=CONTENT_JSON)
        (position,) = await log.publish([outgoing])
        (record,) = await everything(log, topics.METERS, self.HOME)
        assert (position.topic, position.partition) == (topics.METERS, self.HOME)
        assert (record.offset, record.timestamp_ms) == (position.offset, position.timestamp_ms)
        assert (record.topic, record.partition) == (topics.METERS, self.HOME)
        assert (record.key, record.value) == (b"p", b"{}")
        assert (record.content_type, record.headers) == (CONTENT_JSON, ())

    async def test_a_record_without_content_type_is_cbor(self, log: Log) -> None:
        """The default content type is CBOR."""
        await log.publish([event(0)])
        (record,) = await everything(log, topics.CLAIMS, self.HOME)
        assert record.content_type == CONTENT_CBOR

    async def test_a_record_without_a_key_is_kept(self, log: Log) -> None:
        """A record without a key is in partition 0, its key None."""
        await log.publish([event(0, key=None)])
        (record,) = await everything(log, topics.CLAIMS, 0)
        assert record.key is None

    async def test_the_order_of_publication_is_kept(self, log: Log) -> None:
        """Within a topic's partition, order and offsets are those of publication."""
        first = await log.publish([event(number) for number in range(20)])
        second = await log.publish([event(number) for number in range(20, 40)])
        records = await everything(log, topics.CLAIMS, self.HOME)
        assert [record.value for record in records] == [b"event %d" % n for n in range(40)]
        assert [record.offset for record in records] == [p.offset for p in first + second]
        assert sorted(record.offset for record in records) == [r.offset for r in records]
        assert sorted(record.order for record in records) == [r.order for r in records]

    async def test_keys_choose_partitions(self, log: Log) -> None:
        """Every topic puts a key in the same partition, the one that `topics` computes."""
        keys = [b"pool-%d" % number for number in range(12)]
        for topic in topics.INPUT_TOPICS:
            positions = await log.publish([event(0, topic=topic, key=key) for key in keys])
            expected = [topics.partition_for(key, PARTITIONS) for key in keys]
            assert [position.partition for position in positions] == expected

    async def test_a_given_time_is_kept(self, log: Log) -> None:
        """A record may bring its own time, where the log allows it; else it is an error."""
        outgoing = Outgoing(topic=topics.ADMIN, key=b"p", value=b"x", timestamp_ms=1_000)
        if not self.KEEPS_GIVEN_TIME:
            with pytest.raises(LogTrouble):
                await log.publish([outgoing])
            return
        (position,) = await log.publish([outgoing])
        (record,) = await everything(log, topics.ADMIN, self.HOME)
        assert position.timestamp_ms == record.timestamp_ms == 1_000

    async def test_reading_goes_on_from_an_offset(self, log: Log) -> None:
        """Reading in small steps gives every record once."""
        await log.publish([event(number) for number in range(25)])
        end = await log.end(topics.CLAIMS, self.HOME)
        offset_next, found = 0, []
        while offset_next < end:
            fetched = await log.read(
                topics.CLAIMS, self.HOME, offset_next=offset_next, max_records=4, timeout_ms=WAIT_MS
            )
            assert len(fetched.records) <= 4
            assert fetched.offset_next > offset_next
            offset_next = fetched.offset_next
            found += [record.value for record in fetched.records]
        assert found == [b"event %d" % number for number in range(25)]

    async def test_reading_jumps_back_and_forth(self, log: Log) -> None:
        """Any offset may be read at any time."""
        positions = await log.publish([event(number) for number in range(10)])
        for number in (7, 2, 9, 0, 3):
            fetched = await log.read(
                topics.CLAIMS,
                self.HOME,
                offset_next=positions[number].offset,
                max_records=1,
                timeout_ms=WAIT_MS,
            )
            assert [record.value for record in fetched.records] == [b"event %d" % number]

    async def test_reading_at_the_end_gives_nothing(self, log: Log) -> None:
        """At the end there is nothing, and that is no error."""
        await log.publish([event(0)])
        end = await log.end(topics.CLAIMS, self.HOME)
        fetched = await log.read(topics.CLAIMS, self.HOME, offset_next=end, timeout_ms=50)
        assert fetched.records == ()
        assert fetched.offset_next >= end

    async def test_a_waiting_reader_wakes(self, log: Log) -> None:
        """A read that waits returns when something is published."""
        waiting = asyncio.create_task(
            log.read(topics.CLAIMS, self.HOME, offset_next=0, timeout_ms=WAIT_MS)
        )
        await asyncio.sleep(0.05)
        await log.publish([event(0)])
        assert [record.value for record in (await waiting).records] == [b"event 0"]

    async def test_a_cancelled_read_leaves_nothing_behind(self, log: Log) -> None:
        """After a cancelled read the next one gives every record."""
        waiting = asyncio.create_task(
            log.read(topics.CLAIMS, self.HOME, offset_next=0, timeout_ms=WAIT_MS)
        )
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await log.publish([event(number) for number in range(3)])
        assert await values(log, topics.CLAIMS, self.HOME) == [b"event 0", b"event 1", b"event 2"]

    async def test_several_topics_are_read_together(self, log: Log) -> None:
        """`read_any` answers for every topic, and waits for the first that has a record."""
        asked = dict.fromkeys(topics.INPUT_TOPICS, 0)
        nothing = await log.read_any(self.HOME, asked, timeout_ms=20)
        assert set(nothing) == set(asked)
        assert not any(fetched.records for fetched in nothing.values())
        waiting = asyncio.create_task(log.read_any(self.HOME, asked, timeout_ms=WAIT_MS))
        await asyncio.sleep(0.05)
        await log.publish([event(1, topic=topics.METERS)])
        found = await waiting
        assert [record.value for record in found[topics.METERS].records] == [b"event 1"]
        assert found[topics.CLAIMS].records == ()

    async def test_a_batch_is_one(self, log: Log) -> None:
        """A batch's records are all there, in order, with keys, headers and content types."""
        writer = await log.open_writer(1)
        dead = Entry(
            topic=topics.DEAD,
            key=None,
            value=b"what",
            content_type=CONTENT_JSON,
            headers=(("reason", b"malformed"), ("source-offset", b"7")),
        )
        await writer.append([receipt(0), receipt(0, topic=topics.HEADS), dead, receipt(1)])
        assert writer.partition == 1
        assert await values(log, topics.LEDGER, 1) == [b"receipt 0", b"receipt 1"]
        (head,) = await everything(log, topics.HEADS, 1)
        assert head.content_type == CONTENT_COSE
        (letter,) = await everything(log, topics.DEAD, 1)
        assert (letter.key, letter.value) == (None, b"what")
        assert (letter.content_type, letter.headers) == (CONTENT_JSON, dead.headers)
        await writer.close()

    async def test_an_opened_writer_fences_the_one_before(self, log: Log) -> None:
        """Of two writers of a partition, the earlier can append nothing, now or later."""
        earlier = await log.open_writer(0)
        await earlier.append([receipt(0)])
        later = await log.open_writer(0)
        with pytest.raises(Fenced) as fenced:
            await earlier.append([receipt(1)])
        assert fenced.value.remedy is Remedy.REOPEN
        await later.append([receipt(2)])
        with pytest.raises((Fenced, AppendFailed)):
            await earlier.append([receipt(3)])
        assert await values(log, topics.LEDGER, 0) == [b"receipt 0", b"receipt 2"]
        await earlier.close()
        await later.append([receipt(4)])
        await later.close()

    async def test_writers_of_other_partitions_are_left_alone(self, log: Log) -> None:
        """Fencing is by partition."""
        one, other = await log.open_writer(0), await log.open_writer(1)
        await one.append([receipt(0)])
        await other.append([receipt(1)])
        assert await values(log, topics.LEDGER, 0) == [b"receipt 0"]
        assert await values(log, topics.LEDGER, 1) == [b"receipt 1"]
        await one.close()
        await other.close()

    async def test_a_closed_writer_appends_nothing(self, log: Log) -> None:
        """Closing twice is allowed; appending afterwards is an error that says so."""
        writer = await log.open_writer(0)
        await writer.close()
        await writer.close()
        with pytest.raises((AppendFailed, Fenced)):
            await writer.append([receipt(0)])
        assert await values(log, topics.LEDGER, 0) == []

    async def test_a_batch_beyond_the_bounds_leaves_no_trace(self, log: Log) -> None:
        """One record too large, and nothing of the batch is there; the writer is dead."""
        writer = await log.open_writer(0)
        large = Entry(topic=topics.LEDGER, key=b"p", value=bytes(MAX_RECORD_BYTES + 1))
        with pytest.raises(TooLarge):
            await writer.append([receipt(0), large])
        with pytest.raises((AppendFailed, Fenced)):
            await writer.append([receipt(1)])
        await writer.close()
        again = await log.open_writer(0)
        await again.append([receipt(2)])
        assert await values(log, topics.LEDGER, 0) == [b"receipt 2"]
        await again.close()

    async def test_the_largest_record_fits(self, log: Log) -> None:
        """A record at the bound is written and read."""
        writer = await log.open_writer(0)
        largest = Entry(topic=topics.LEDGER, key=b"p", value=bytes(MAX_RECORD_BYTES))
        await writer.append([largest])
        assert await values(log, topics.LEDGER, 0) == [largest.value]
        await writer.close()

    async def test_who_writes_what_is_kept_apart(self, log: Log) -> None:
        """Receipts are not published, and inputs are not in a steward's batch."""
        with pytest.raises(Missing):
            await log.publish([event(0, topic=topics.LEDGER)])
        writer = await log.open_writer(0)
        with pytest.raises(Missing):
            await writer.append([receipt(0, topic=topics.CLAIMS)])
        await writer.close()

    async def test_what_is_not_there_is_named(self, log: Log) -> None:
        """A topic or partition that does not exist is `Missing`, in one line."""
        with pytest.raises(Missing) as missing:
            await log.read("pool.nothing", 0, offset_next=0)
        assert "pool.nothing" in str(missing.value)
        with pytest.raises(Missing):
            await log.end(topics.LEDGER, PARTITIONS)
        with pytest.raises(Missing):
            await log.open_writer(PARTITIONS)

    async def test_noting_positions_never_raises(self, log: Log) -> None:
        """Positions for dashboards are taken and never asked for again."""
        await log.note_positions(0, {topics.CLAIMS: 5})
        await log.note_positions(0, {})

    async def test_closing_twice_is_allowed(self, log: Log) -> None:
        """A log may be closed more than once."""
        await log.close()
        await log.close()
