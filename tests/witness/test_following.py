"""Following an embedded log: T3, T16, T17, T19 and T22; rewritten ledgers and restored backups."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schemas import rfc9942
from schemas.chain import ChainReader
from schemas.forks import open_fork
from schemas.heads import End, open_countersignature, open_head
from schemas.keys import SeedSigner, did_key
from schemas.merkle import ProofError, ProofFault, inclusion_proof, leaf_hash
from schemas.proofs import check_proof, make_proof
from schemas.trust import Grader, Grading, LedgerGrade, PoolTrust, parse_trust
from streams import topics
from streams.logs.contract import Entry
from tests.witness.ledger import (
    OTHER_WITNESS,
    STEWARD,
    THIRD_WITNESS,
    WITNESS,
    Ledger,
)
from tests.witness.support import Steward, follow_once, new_state, opened, published
from witness.embedded import EmbeddedReader
from witness.health import Health
from witness.outbox import Outbox
from witness.outcome import Kind, Outcome
from witness.runner import Runner
from witness.sources import LEDGER, Batch, LogRecord
from witness.trouble import Reason, Trouble
from witness.witness import Witness

KEYS = {"ada": WITNESS, "bob": OTHER_WITNESS, "cyd": THIRD_WITNESS}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def steward(log: Path) -> Iterator[Steward]:
    steward = Steward(log)
    yield steward
    steward.close()


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    with closing(opened(new_state(tmp_path))) as witness:
        yield witness


def trusted(*names: str, quorum: int = 1) -> PoolTrust:
    witnesses = ", ".join(f'{name} = "{did_key(KEYS[name].public_key)}"' for name in names)
    return parse_trust(
        f'[pools.alpha]\nstewards = ["{did_key(STEWARD.public_key)}"]\n'
        f"witnesses = {{{witnesses}}}\nquorum = {quorum}\n"
    ).pool("alpha")


def verified(ledger: Ledger, trust: PoolTrust, statements: list[bytes]) -> Grading:
    """What `pool verify --trust` does with a ledger and what witnesses have published."""
    grader = Grader(trust)
    for statement in statements:
        grader.add_statement(statement)
    reader = ChainReader("alpha", trust.stewards)
    for receipt in ledger.receipts:
        reader.push(receipt)
        if reader.length in grader.lengths:
            end = End(pool="alpha", length=reader.length, head=reader.head, root=reader.root())
            grader.observe(end)
    return grader.grading(reader.length)


def kinds(outcomes: list[Outcome]) -> list[tuple[Kind, int]]:
    return [(one.kind, one.length) for one in outcomes if one.kind is not Kind.PASSED]


def test_a_ledger_is_followed_as_it_grows(log: Path, steward: Steward, witness: Witness) -> None:
    """Each run signs the newest head, once, and publishes it beside the log."""
    ledger = Ledger()
    for _ in range(3):
        start = ledger.length
        steward.write_ledger(ledger.grow(25), start)
        assert kinds(follow_once(log, witness)) == [(Kind.SIGNED, ledger.length)]
        assert follow_once(log, witness) == []
    lengths = [open_countersignature(data).statement.end.length for data in published(log)]
    assert lengths == [25, 50, 75]


def test_many_pools_in_several_partitions(tmp_path: Path) -> None:
    """Pools share partitions; each is followed by itself."""
    steward = Steward(tmp_path / "many", partitions=3)
    ledgers = [Ledger(pool=f"pool-{number}").grow(10 + number) for number in range(7)]
    for ledger in ledgers:
        steward.write_ledger(ledger)
    with closing(opened(new_state(tmp_path))) as witness:
        outcomes = follow_once(tmp_path / "many", witness)
        signed = {one.pool: one.length for one in outcomes if one.kind is Kind.SIGNED}
        assert signed == {ledger.pool: ledger.length for ledger in ledgers}
        steward.write_ledger(ledgers[3].grow(5), 13)
        assert kinds(follow_once(tmp_path / "many", witness)) == [(Kind.SIGNED, 18)]
    steward.close()


def test_heads_that_come_with_nothing_else_wait(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """Receipts that are not there yet: "not yet", and signed once they are."""
    ledger = Ledger().grow(20)
    steward.write("alpha", ledger.receipts[:15], [ledger.head()])
    assert kinds(follow_once(log, witness)) == []
    steward.write("alpha", ledger.receipts[15:])
    assert kinds(follow_once(log, witness)) == [(Kind.SIGNED, 20)]


def test_what_does_not_extend_the_chain_is_passed_over(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """Repeats, junk, another pool's and an older steward's leftovers: the first extension wins."""
    ledger = Ledger().grow(20)
    leftover = ledger.branch(10).grow(5)
    noise = [b"junk", ledger.receipts[3], Ledger(pool="beta").grow(1).receipts[0]]
    steward.write("alpha", [*ledger.receipts[:12], *noise, *leftover.receipts[10:]])
    steward.write("alpha", ledger.receipts[12:], [ledger.head()])
    assert kinds(follow_once(log, witness)) == [(Kind.SIGNED, 20)]


def test_t03_a_rewritten_ledger_in_the_same_log_is_a_fork(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """T3: the steward appends another history past what was witnessed, and signs its heads."""
    ledger = Ledger().grow(30)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    rewritten = ledger.branch(12).grow(40)
    steward.write_ledger(rewritten, 12, every=100)
    assert (Kind.FORKED, 30) in kinds(follow_once(log, witness))
    evidence = published(log)[-1]
    fork = open_fork(evidence, {STEWARD.public_key}, {WITNESS.public_key}).statement
    assert (fork.first.data, fork.second.data) == (ledger.head(), rewritten.head())
    assert verified(ledger, trusted("ada"), [evidence]).grade is LedgerGrade.FORKED
    steward.write_ledger(ledger.grow(5), 30)
    assert kinds(follow_once(log, witness)) == [(Kind.HALTED, 35)]


def replace_log(log: Path, steward: Steward, ledgers: list[Ledger]) -> Steward:
    """The log's directory, made anew with other ledgers in it."""
    steward.close()
    shutil.rmtree(log / "log")
    again = Steward(log)
    for ledger in ledgers:
        again.write_ledger(ledger)
    return again


def test_a_steward_restored_from_a_backup_that_decides_on_is_found(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """Restored to 20 of 40, it decides on to 30: its new head contradicts what was signed at 40."""
    ledger = Ledger().grow(40)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    restored = ledger.branch(20).grow(10)
    again = replace_log(log, steward, [restored])
    outcomes = follow_once(log, witness)
    assert (Kind.FORKED, 30) in kinds(outcomes)
    fork = open_fork(published(log)[-1], {STEWARD.public_key}).statement
    assert (fork.first.data, fork.second.data) == (ledger.head(), restored.head())
    again.close()


def test_a_steward_restored_and_grown_past_is_found(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """Grown past the witnessed length before the witness looks: the longer tree convicts."""
    ledger = Ledger().grow(40)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    restored = ledger.branch(20).grow(300)
    again = replace_log(log, steward, [])
    again.write("alpha", restored.receipts, [restored.head()])
    assert (Kind.FORKED, 40) in kinds(follow_once(log, witness))
    fork = open_fork(published(log)[-1], {STEWARD.public_key}).statement
    assert (fork.first.data, fork.second.data) == (ledger.head(), restored.head())
    again.close()


def test_a_log_that_only_went_back_accuses_nobody(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """A backup that has not decided anything yet: its heads are our own history's."""
    ledger = Ledger().grow(40)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    again = replace_log(log, steward, [ledger.branch(20)])
    outcomes = follow_once(log, witness)
    assert {one.kind for one in outcomes} == {Kind.STALE}
    again.write_ledger(ledger.grow(5), 20)
    assert kinds(follow_once(log, witness))[-1] == (Kind.SIGNED, 45)
    again.close()


def test_a_pool_with_a_known_name_and_another_beginning_is_a_fork(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """A ledger begun anew under the same name and key is another history of it."""
    ledger = Ledger().grow(40)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    again = replace_log(log, steward, [Ledger(mark="anew").grow(50)])
    assert Kind.FORKED in [kind for kind, _ in kinds(follow_once(log, witness))]
    again.close()


class BadReads(EmbeddedReader):
    """A reader whose first reads of the ledger give one receipt bent."""

    bad_left = 1

    async def read(self, topic: str, partition: int, **options: int) -> Batch:
        batch = await super().read(topic, partition, **options)
        if topic != LEDGER or not self.bad_left or len(batch.records) < 8:
            return batch
        self.bad_left -= 1
        bent = bytearray(batch.records[7].value)
        bent[120] ^= 4
        record = LogRecord(batch.records[7].offset, batch.records[7].key, bytes(bent))
        records = (*batch.records[:7], record, *batch.records[8:])
        return Batch(records, batch.offset_next)


@pytest.mark.parametrize("bad", [1, 2])
def test_t19_a_bad_read_is_not_yet_and_is_got_over(
    log: Path, steward: Steward, witness: Witness, bad: int
) -> None:
    """T19: corrupt once, and once more at the second look; then good: signed, nobody accused."""
    ledger = Ledger().grow(20)
    steward.write_ledger(ledger, every=5)
    told: list[Outcome] = []

    async def run() -> None:
        reader, publisher = BadReads(log), Outbox(log, witness.public_key)
        reader.bad_left = bad
        await Runner(witness, reader, publisher, hear=told.append).once()
        await publisher.close()
        await reader.close()

    asyncio.run(run())
    assert {kind for kind, _ in kinds(told)} == {Kind.SIGNED}
    assert (kinds(told)[0][1], kinds(told)[-1][1]) == (5, 20)
    assert witness.pools["alpha"].feed.fault == ""


def test_t16_k_of_n_by_real_witnesses(log: Path, tmp_path: Path, steward: Steward) -> None:
    """T16: three witnesses at their own pace; an invalid statement and a stranger's do no harm."""
    ledger = Ledger().grow(10)
    lengths = {"ada": 10, "bob": 20, "cyd": 30}
    steward.write_ledger(ledger)
    for name, length in lengths.items():
        with closing(opened(new_state(tmp_path, KEYS[name], name), KEYS[name])) as witness:
            start = ledger.length
            steward.write_ledger(ledger.grow(length - start), start) if length > start else None
            follow_once(log, witness)
    bent = bytearray(published(log)[0])
    bent[-1] ^= 1
    statements = [bytes(bent), *published(log)]
    for quorum, witnessed, by in ((1, 30, 1), (2, 20, 2), (3, 10, 3)):
        grading = verified(ledger, trusted("ada", "bob", "cyd", quorum=quorum), statements)
        assert (grading.grade, grading.witnessed_length) == (LedgerGrade.WITNESSED, witnessed)
        assert len(grading.witnessed_by) == by
    assert verified(ledger, trusted("ada", "bob", quorum=2), statements).witnessed_length == 10


def test_t17_a_full_rewrite_contradicts_the_witness(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """T17: every receipt and head re-signed: alone it verifies; beside the witness it is forked."""
    ledger = Ledger().grow(30)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    rewritten = ledger.branch(5).grow(25)
    alone = verified(rewritten, trusted("ada"), [])
    assert alone.grade is LedgerGrade.SELF_ATTESTED
    beside = verified(rewritten, trusted("ada"), published(log))
    assert beside.grade is LedgerGrade.FORKED
    assert verified(ledger, trusted("ada"), published(log)).grade is LedgerGrade.WITNESSED


def test_t22_a_proof_is_good_only_for_the_witnessed_heads_length(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """T22: one path verifies at 5 and at 8; the witnessed head says which."""
    ledger = Ledger().grow(8)
    steward.write_ledger(ledger, every=5)
    follow_once(log, witness)
    path = inclusion_proof(ledger.leaves, 3, 5)
    receipt = rfc9942.seal_inclusion(
        STEWARD, root=ledger.leaves.root(5), size=5, index=3, path=path
    )
    edited = receipt.replace(bytes.fromhex("830503"), bytes.fromhex("830803"))
    assert edited != receipt
    leaf = leaf_hash(ledger.receipts[3])
    rfc9942.check_inclusion(receipt, leaf=leaf, index=3, head=open_head(ledger.head(5)))
    for head, reason in ((5, ProofFault.HEAD), (8, ProofFault.ROOT)):
        with pytest.raises(ProofError) as refused:
            rfc9942.check_inclusion(edited, leaf=leaf, index=3, head=open_head(ledger.head(head)))
        assert refused.value.reason is reason


def test_a_proof_with_what_a_witness_published(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """One receipt, one head, one countersignature and two keys: witnessed."""
    ledger = Ledger().grow(25)
    steward.write_ledger(ledger)
    follow_once(log, witness)
    data = make_proof(
        receipt=ledger.receipts[4],
        seq=4,
        leaves=ledger.leaves,
        heads=[ledger.head(10), ledger.head(20)],
        countersignatures=published(log),
        signer=STEWARD,
    )
    report = check_proof(data, trusted("ada"))
    assert (report.grade, report.witnessed_by) == (LedgerGrade.WITNESSED, ("ada",))


def test_where_to_read_on_is_remembered(log: Path, tmp_path: Path, steward: Steward) -> None:
    """A restart reads only what is not signed for, and all of that."""
    state = new_state(tmp_path)
    ledger = Ledger().grow(40)
    steward.write("alpha", ledger.receipts, [ledger.head(25)])
    with closing(opened(state)) as witness:
        follow_once(log, witness)
        assert witness.store.positions()["pool.ledger", 0] == 25
        assert witness.store.positions()["pool.heads", 0] == 1
    steward.write("alpha", [], [ledger.head()])
    with closing(opened(state)) as witness:
        assert kinds(follow_once(log, witness)) == [(Kind.SIGNED, 40)]
        assert witness.store.positions()["pool.ledger", 0] == 40


def test_a_long_ledger_without_heads_does_not_fill_the_memory(
    log: Path, steward: Steward, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts that no head covers are verified ahead once too many wait, and signed for later."""
    monkeypatch.setattr("witness.follow.WAITING_MAX", 50)
    ledger = Ledger().grow(400)
    steward.write("alpha", ledger.receipts)
    assert kinds(follow_once(log, witness)) == []
    assert witness.pools["alpha"].feed.waiting <= 50
    assert witness.pools["alpha"].feed.chain.length >= 350
    steward.write("alpha", [], [ledger.head(100), ledger.head()])
    assert kinds(follow_once(log, witness)) == [(Kind.SIGNED, 400)]


def test_a_missing_log_is_a_clear_error(tmp_path: Path) -> None:
    """A directory without a log is not made into one."""
    with pytest.raises(Trouble) as trouble:
        EmbeddedReader(tmp_path)
    assert trouble.value.reason is Reason.LOG_MISSING
    assert list(tmp_path.iterdir()) == []


def test_the_run_goes_on_until_it_is_told_to_stop(
    log: Path, steward: Steward, witness: Witness
) -> None:
    """The loop of the service: what comes while it runs is signed, and then it ends well."""
    ledger = Ledger().grow(10)
    steward.write_ledger(ledger)
    health = Health()
    told: list[Outcome] = []

    async def run() -> None:
        stop = asyncio.Event()
        reader, publisher = EmbeddedReader(log), Outbox(log, witness.public_key)
        runner = Runner(witness, reader, publisher, health=health, hear=told.append)
        running = asyncio.create_task(runner.run(stop))
        await until(lambda: kinds(told) == [(Kind.SIGNED, 10)])
        writer = await steward.log.open_writer(0)
        await writer.append(entries(ledger.grow(5), 10))
        await until(lambda: kinds(told)[-1] == (Kind.SIGNED, 15))
        stop.set()
        await running
        await publisher.close()
        await reader.close()

    asyncio.run(run())
    assert health.report()["ok"] is True
    assert witness.store.positions()["pool.ledger", 0] == 15


class Unsteady(EmbeddedReader):
    """A log that does not answer now and then."""

    calls = 0

    async def read(self, topic: str, partition: int, **options: int) -> Batch:
        self.calls += 1
        if self.calls in (2, 5):
            raise Trouble(Reason.LOG_UNAVAILABLE, "no answer", where=self.where, todo="wait")
        return await super().read(topic, partition, **options)


def test_a_log_that_does_not_answer_is_tried_again(
    log: Path, steward: Steward, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start and later: told, counted, and got over."""
    monkeypatch.setattr("witness.runner.RETRY_S_MAX", 0.05)
    ledger = Ledger().grow(10)
    steward.write_ledger(ledger)
    told: list[Outcome] = []

    async def run() -> None:
        stop = asyncio.Event()
        reader, publisher = Unsteady(log), Outbox(log, witness.public_key)
        runner = Runner(witness, reader, publisher, hear=told.append)
        running = asyncio.create_task(runner.run(stop))
        await until(lambda: kinds(told) == [(Kind.SIGNED, 10)])
        stop.set()
        await running
        await publisher.close()
        await reader.close()

    asyncio.run(run())
    assert len(published(log)) == 1


async def until(true: Callable[[], bool], *, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


def entries(ledger: Ledger, start: int) -> list[Entry]:
    key = ledger.pool.encode()
    batch = [Entry(topic=topics.LEDGER, key=key, value=one) for one in ledger.receipts[start:]]
    return [*batch, Entry(topic=topics.HEADS, key=key, value=ledger.head())]


def test_witnesses_are_strangers_to_each_other(log: Path, tmp_path: Path, steward: Steward) -> None:
    """Two witnesses on one log share nothing and disturb nothing."""
    ledger = Ledger().grow(10)
    steward.write_ledger(ledger)
    keys: list[SeedSigner] = [WITNESS, OTHER_WITNESS]
    states = [new_state(tmp_path, key, f"{number}.db") for number, key in enumerate(keys)]
    for key, state in zip(keys, states, strict=True):
        with closing(opened(state, key)) as witness:
            follow_once(log, witness)
    for key, state in zip(keys, states, strict=True):
        with closing(opened(state, key)) as witness:
            assert follow_once(log, witness) == []
    assert len(published(log)) == 2
