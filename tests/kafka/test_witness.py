"""The witness on a real broker: the load-bearing scenarios of `tests/witness`, over Kafka."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from schemas.forks import open_fork
from schemas.heads import open_countersignature
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import Entry
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_client import transactional_producer
from streams.logs.kafka_findings import Level
from streams.logs.kafka_options import Connection
from streams.witness_lag import witness_lag
from tests.witness.ledger import OTHER_WITNESS, STEWARD, Ledger
from tests.witness.support import new_state, opened
from witness.kafka import Cluster, KafkaPublisher, KafkaReader
from witness.outcome import Kind, Outcome
from witness.runner import Runner
from witness.trouble import Reason, Trouble
from witness.witness import Witness


@pytest.fixture
def cluster(connection: Connection) -> Cluster:
    return Cluster(bootstrap=connection.bootstrap, prefix=connection.prefix)


async def write(log: KafkaLog, ledger: Ledger, start: int = 0, *, heads: bool = True) -> None:
    """Receipts from `start` and the ledger's head, in one transaction, as a steward does."""
    key = ledger.pool.encode()
    batch = [Entry(topic=topics.LEDGER, key=key, value=one) for one in ledger.receipts[start:]]
    if heads:
        batch.append(Entry(topic=topics.HEADS, key=key, value=ledger.head()))
    writer = await log.open_writer(topics.partition_for(key, await log.partitions()))
    await writer.append(batch)
    await writer.close()


async def follow(cluster: Cluster, witness: Witness) -> list[tuple[Kind, int]]:
    """What `pool-witness run --once --kafka` does."""
    told: list[Outcome] = []
    reader, publisher = KafkaReader(cluster), KafkaPublisher(cluster)
    try:
        await Runner(witness, reader, publisher, hear=told.append).once()
    finally:
        await publisher.close()
        await reader.close()
    return [(one.kind, one.length) for one in told if one.kind is not Kind.PASSED]


async def published(log: KafkaLog, pool: str = "alpha") -> list[bytes]:
    """The pool's statements in `pool.witness`, from the partition that is the pool's."""
    partition = topics.partition_for(pool.encode(), await log.partitions())
    end = await log.end(topics.WITNESS, partition)
    offset, found = 0, []
    while offset < end:
        fetched = await log.read(topics.WITNESS, partition, offset_next=offset, timeout_ms=1_000)
        found += [one.value for one in fetched.records if one.key == pool.encode()]
        offset = fetched.offset_next
    return found


def lengths(statements: list[bytes]) -> list[int]:
    return [open_countersignature(data).statement.end.length for data in statements]


async def test_a_ledger_is_followed_as_it_grows(
    log: KafkaLog, cluster: Cluster, tmp_path: Path
) -> None:
    """Receipts and heads of committed transactions are signed for, in the pool's partition."""
    ledger = Ledger().grow(20)
    await write(log, ledger)
    state = new_state(tmp_path)
    with closing(opened(state)) as witness:
        assert await follow(cluster, witness) == [(Kind.SIGNED, 20)]
        await write(log, ledger.grow(5), 20)
        (behind,) = await witness_lag(log)
        assert "at 20 of 25 receipts: 5 receipts behind, for " in behind.what
        assert await follow(cluster, witness) == [(Kind.SIGNED, 25)]
        (finding,) = await witness_lag(log)
        assert finding.what == "1 witness, at 25 of 25 receipts"
        assert await follow(cluster, witness) == []
    with closing(opened(state)) as witness:
        assert await follow(cluster, witness) == []
    assert lengths(await published(log)) == [20, 25]


async def test_many_pools_in_their_partitions(
    log: KafkaLog, cluster: Cluster, tmp_path: Path
) -> None:
    """Statements go where the pool's other records are."""
    ledgers = [Ledger(pool=f"pool-{number}").grow(3 + number) for number in range(6)]
    for ledger in ledgers:
        await write(log, ledger)
    with closing(opened(new_state(tmp_path))) as witness:
        await follow(cluster, witness)
    for ledger in ledgers:
        assert lengths(await published(log, ledger.pool)) == [ledger.length]


async def test_an_aborted_batch_is_never_seen(
    log: KafkaLog, cluster: Cluster, tmp_path: Path, connection: Connection
) -> None:
    """T3: a fenced steward's open transaction is no history, and accuses nobody."""
    ledger = Ledger().grow(10)
    await write(log, ledger)
    other = ledger.branch(4).grow(20)
    partition = topics.partition_for(b"alpha", await log.partitions())
    producer = transactional_producer(connection, connection.transactional_id(partition))
    await producer.start()
    await producer.begin_transaction()
    for topic, value in ((topics.LEDGER, other.receipts[-1]), (topics.HEADS, other.head())):
        await (
            await producer.send(
                connection.topic(topic),
                value=value,
                key=b"alpha",
                partition=partition,
                timestamp_ms=None,
                headers=[],
            )
        )
    await write(log, ledger.grow(5), 10)
    with closing(opened(new_state(tmp_path))) as witness:
        assert await follow(cluster, witness) == [(Kind.SIGNED, 15)]
    await producer.stop()


async def test_a_rewritten_ledger_is_found(log: KafkaLog, cluster: Cluster, tmp_path: Path) -> None:
    """T3: another history in the same topic, its head signed by the same steward."""
    ledger = Ledger().grow(20)
    await write(log, ledger)
    with closing(opened(new_state(tmp_path))) as witness:
        await follow(cluster, witness)
        rewritten = ledger.branch(7).grow(30)
        await write(log, rewritten, 7)
        assert await follow(cluster, witness) == [(Kind.FORKED, 20)]
    fork = open_fork((await published(log))[-1], {STEWARD.public_key}).statement
    assert (fork.first.data, fork.second.data) == (ledger.head(), rewritten.head())
    (finding,) = await witness_lag(log)
    assert (finding.where, finding.level) == ("alpha", Level.PROBLEM)
    assert "two heads of its steward, of 20 and 37 receipts" in finding.what


async def test_one_key_in_two_stores_and_an_older_store_are_found(
    log: KafkaLog, cluster: Cluster, tmp_path: Path
) -> None:
    """T7, T8, T10: what was published under the key is in the topic for whoever starts next."""
    ledger = Ledger().grow(20)
    await write(log, ledger)
    with closing(opened(new_state(tmp_path, name="one.db"))) as witness:
        await follow(cluster, witness)
    with closing(opened(new_state(tmp_path, name="two.db"))) as witness:
        with pytest.raises(Trouble) as trouble:
            await follow(cluster, witness)
        assert trouble.value.reason is Reason.STORE_BEHIND
    key: SeedSigner = OTHER_WITNESS
    with closing(opened(new_state(tmp_path, key, "other.db"), key)) as witness:
        assert await follow(cluster, witness) == [(Kind.SIGNED, 20)]


async def test_a_second_process_with_our_key_stops_a_running_one(
    log: KafkaLog, cluster: Cluster, tmp_path: Path
) -> None:
    """T10: found while running, too: our own topic is read on."""
    ledger = Ledger().grow(20)
    await write(log, ledger)
    with closing(opened(new_state(tmp_path, name="one.db"))) as witness:
        reader, publisher = KafkaReader(cluster), KafkaPublisher(cluster)
        runner = Runner(witness, reader, publisher)
        await runner.once()
        with closing(opened(new_state(tmp_path, name="two.db"))) as impostor:
            outcome = impostor.step(ledger.grow(5).head(), ledger.receipts)
            assert outcome.statement is not None
            await publisher.publish("alpha", outcome.statement)
        with pytest.raises(Trouble) as trouble:
            await runner.run(asyncio.Event())
        assert trouble.value.reason is Reason.STORE_BEHIND
        await publisher.close()
        await reader.close()


async def test_a_cluster_that_does_not_answer_is_told_and_tried_again(tmp_path: Path) -> None:
    """Trouble with the log has its reason; a topic that is missing, another."""
    reader = KafkaReader(Cluster(bootstrap="127.0.0.1:1"))
    with pytest.raises(Trouble) as trouble:
        await reader.partitions()
    assert trouble.value.reason is Reason.LOG_UNAVAILABLE
    await reader.close()


async def test_missing_topics_are_a_clear_error(empty: Connection) -> None:
    """`pool topics create` comes first."""
    reader = KafkaReader(Cluster(bootstrap=empty.bootstrap, prefix=empty.prefix))
    with pytest.raises(Trouble) as trouble:
        await reader.partitions()
    assert trouble.value.reason is Reason.LOG_MISSING
    await reader.close()
