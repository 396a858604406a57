"""A broker that hears and does not answer: every call ends in its time, and says what is known."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from brokers import LocalCluster, NoBroker, local_cluster
from contract_suite import event, receipt, values
from support import QUICK

from streams import topics
from streams.logs.errors import AppendFailed, OutcomeUnknown, Remedy, Unavailable
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection
from streams.logs.kafka_writer import KafkaWriter

IMPATIENT = replace(QUICK, request_ms=1_000, append_ms=1_500, open_ms=2_000, stop_ms=500)
IN_TIME_S = 6.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A node of its own, to be frozen."""
    try:
        with local_cluster(tmp_path_factory.mktemp("frozen")) as made:
            yield made
    except NoBroker as nothing:
        pytest.fail(str(nothing), pytrace=False)


@pytest.fixture
async def log(cluster: LocalCluster, tmp_path: Path) -> AsyncIterator[KafkaLog]:
    """A log with little patience on a deployment of its own."""
    connection = Connection(bootstrap=cluster.address, prefix=f"{tmp_path.name}.", tuning=IMPATIENT)
    patient = replace(connection, tuning=QUICK)
    await create_topics(patient, partitions=1, replicas=1)
    opened = KafkaLog(connection)
    await opened.publish([event(0)])
    assert await values(opened, topics.CLAIMS, 0) == [b"event 0"]
    yield opened
    await opened.close()


async def test_calls_end_in_their_time(cluster: LocalCluster, log: KafkaLog) -> None:
    """Frozen: reads are unavailable, what was sent is unknown; thawed: all goes on."""
    writer = await log.open_writer(0)
    await writer.append([receipt(0)])
    cluster.do("pause", "1")
    try:
        async with asyncio.timeout(IN_TIME_S):
            with pytest.raises(Unavailable):
                await log.read(topics.CLAIMS, 0, offset_next=1, timeout_ms=100)
        async with asyncio.timeout(IN_TIME_S):
            with pytest.raises(OutcomeUnknown):
                await log.publish([event(1)])
        async with asyncio.timeout(IN_TIME_S):
            with pytest.raises(AppendFailed) as failed:
                await writer.append([receipt(1)])
        assert failed.value.remedy is Remedy.REOPEN
        async with asyncio.timeout(IN_TIME_S):
            await writer.close()
        async with asyncio.timeout(IN_TIME_S):
            with pytest.raises(Unavailable):
                await log.open_writer(0)
    finally:
        cluster.do("resume", "1")
    again = await opened_at_last(log)
    await again.append([receipt(2)])
    assert await values(log, topics.LEDGER, 0) == [b"receipt 0", b"receipt 2"]
    assert (await values(log, topics.CLAIMS, 0))[0] == b"event 0"
    await again.close()


async def test_a_commit_without_an_answer_is_unknown(cluster: LocalCluster, log: KafkaLog) -> None:
    """Frozen between send and answer to the commit: unknown, and the ledger tells afterwards."""

    class Freezing(KafkaWriter):
        async def _commit(self) -> None:
            cluster.do("pause", "1")
            await super()._commit()

    writer = await Freezing.open(log.connection, 0)
    try:
        with pytest.raises(OutcomeUnknown):
            await writer.append([receipt(0), receipt(1)])
        await writer.close()
    finally:
        cluster.do("resume", "1")
    again = await opened_at_last(log)
    await again.append([receipt(2)])
    found = await values(log, topics.LEDGER, 0)
    assert found in ([b"receipt 2"], [b"receipt 0", b"receipt 1", b"receipt 2"])
    await again.close()


async def opened_at_last(log: KafkaLog) -> KafkaWriter:
    """Open a writer, as a steward does: again and again while the broker comes to itself."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await log.open_writer(0)
            except Unavailable:
                await asyncio.sleep(0.2)
