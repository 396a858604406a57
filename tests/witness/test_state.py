"""What survives, and what a witness refuses to start on: scenarios T6 to T10, T18, T20 and T21."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schemas.heads import StatementError, open_countersignature
from tests.witness.ledger import OTHER_WITNESS, WITNESS, Ledger
from tests.witness.support import (
    Clock,
    Process,
    Steward,
    environment,
    follow_once,
    new_state,
    opened,
    published,
)
from witness import faults, outbox, store
from witness.cli import main
from witness.outcome import Kind
from witness.trouble import Reason, Trouble


@pytest.fixture
def ledger() -> Ledger:
    return Ledger().grow(30)


@pytest.fixture
def steward(tmp_path: Path) -> Iterator[Steward]:
    steward = Steward(tmp_path / "log")
    yield steward
    steward.close()


def refused(state: Path, key=WITNESS) -> Reason:
    with pytest.raises(Trouble) as trouble:
        opened(state, key)
    return trouble.value.reason


def ends(directory: Path) -> list[tuple[int, bytes]]:
    """Length and root of every countersignature in the outboxes."""
    statements = [open_countersignature(data).statement for data in published(directory)]
    return [(one.end.length, one.end.root) for one in statements]


@pytest.mark.parametrize("point", list(faults.Point), ids=str)
def test_t06_killed_anywhere_it_never_signs_two_heads_of_one_length(
    tmp_path: Path, steward: Steward, ledger: Ledger, point: faults.Point
) -> None:
    """T6: SIGKILL between check, sign, persist and publish; the next start makes it good.

    Between the two runs the steward rewrites nothing, but grows: a witness that forgot what it had
    let out would show it.
    """
    steward.write_ledger(ledger)
    process = Process(tmp_path, tmp_path / "log")
    process.init()
    killed = process.once(fault=point)
    assert killed.returncode == -9, killed.stderr
    durable = point in (faults.Point.PERSISTED, faults.Point.PUBLISHING, faults.Point.PUBLISHED)
    with closing(store.inspect(process.state)) as kept:
        assert ("alpha" in kept.records()) == durable
    assert ends(tmp_path / "log") == ([(30, ledger.leaves.root())] if point == "published" else [])
    steward.write_ledger(ledger.grow(5), 30)
    again = process.once()
    assert again.returncode == 0, again.stderr
    signed = ends(tmp_path / "log")
    expected = {(35, ledger.leaves.root(35))}
    if durable:
        expected.add((30, ledger.leaves.root(30)))
    assert set(signed) == expected
    assert len(signed) == len(expected)


def test_t07_an_older_copy_of_the_store_is_refused(
    tmp_path: Path, steward: Steward, ledger: Ledger
) -> None:
    """T7: a restored store does not know what was published since."""
    state, copy = new_state(tmp_path), tmp_path / "copy.db"
    steward.write_ledger(ledger)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    shutil.copy(state, copy)
    steward.write_ledger(ledger.grow(5), 30)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    shutil.copy(copy, state)
    with closing(opened(state)) as witness, pytest.raises(Trouble) as trouble:
        follow_once(tmp_path / "log", witness)
    assert trouble.value.reason is Reason.STORE_BEHIND
    assert [length for length, _ in ends(tmp_path / "log")] == [30, 35]


def test_t08_a_missing_store_is_refused_and_never_made(tmp_path: Path) -> None:
    """T8: only `init` makes one, and only once."""
    assert refused(tmp_path / "none.db") is Reason.STORE_MISSING
    assert not (tmp_path / "none.db").exists()
    state = new_state(tmp_path)
    with pytest.raises(Trouble) as trouble:
        store.create(state, WITNESS.public_key)
    assert trouble.value.reason is Reason.STORE_EXISTS


def test_t08_a_new_store_under_an_old_key_is_refused(
    tmp_path: Path, steward: Steward, ledger: Ledger
) -> None:
    """T8: a lost store means a new key: the old one has published what the new store lacks."""
    state = new_state(tmp_path)
    steward.write_ledger(ledger)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    state.unlink()
    with closing(opened(new_state(tmp_path))) as witness, pytest.raises(Trouble) as trouble:
        follow_once(tmp_path / "log", witness)
    assert trouble.value.reason is Reason.STORE_BEHIND
    fresh = new_state(tmp_path, OTHER_WITNESS, "fresh.db")
    with closing(opened(fresh, OTHER_WITNESS)) as witness:
        assert follow_once(tmp_path / "log", witness)[-1].kind is Kind.SIGNED


def test_t09_a_store_that_is_held_is_refused(tmp_path: Path) -> None:
    """T9: a second process on the same store does not start; after the first it may."""
    state = new_state(tmp_path)
    with closing(opened(state)):
        assert refused(state) is Reason.STORE_HELD
    opened(state).close()


def test_t09_of_two_that_race_one_gets_a_conflict_and_no_signature(
    tmp_path: Path, ledger: Ledger
) -> None:
    """T9: N and N+K at once, the lock out of the way: the compare-and-swap decides."""
    state = new_state(tmp_path)
    slow = opened(state)
    (tmp_path / "witness.db.lock").unlink()
    fast = opened(state)
    slow.take_receipts("alpha", enumerate(ledger.receipts[:20]))
    slow.take_head("alpha", ledger.head(20))
    assert fast.step(ledger.head(30), ledger.receipts).kind is Kind.SIGNED
    with pytest.raises(Trouble) as trouble:
        slow.judge("alpha")
    assert trouble.value.reason is Reason.STORE_CHANGED
    with pytest.raises(Trouble) as trouble:
        slow.step(ledger.head(30), ledger.receipts)
    assert trouble.value.reason is Reason.STORE_FAILED
    fast.close()
    slow.close()
    assert opened(state).pools["alpha"].record.length == 30


def test_t10_one_key_in_two_stores_is_found_by_what_was_published(
    tmp_path: Path, steward: Steward, ledger: Ledger
) -> None:
    """T10: the second store does not know the first one's statements, and stops."""
    one, two = new_state(tmp_path, name="one.db"), new_state(tmp_path, name="two.db")
    steward.write_ledger(ledger)
    with closing(opened(one)) as witness:
        follow_once(tmp_path / "log", witness)
    with closing(opened(two)) as witness, pytest.raises(Trouble) as trouble:
        follow_once(tmp_path / "log", witness)
    assert trouble.value.reason is Reason.STORE_BEHIND


def test_t10_one_key_publishes_from_one_process(tmp_path: Path, steward: Steward) -> None:
    """T10: the outbox beside an embedded log is held, too."""
    held = outbox.Outbox(tmp_path / "log", WITNESS.public_key)
    with pytest.raises(Trouble) as trouble:
        outbox.Outbox(tmp_path / "log", WITNESS.public_key)
    assert trouble.value.reason is Reason.STORE_HELD
    asyncio.run(held.close())
    asyncio.run(outbox.Outbox(tmp_path / "log", WITNESS.public_key).close())


def test_t10_a_statement_of_another_history_under_our_key_stops_us(
    tmp_path: Path, ledger: Ledger
) -> None:
    """T10: a shorter statement whose root is not the one that our leaves have there."""
    other = ledger.branch(5).grow(5)
    impostor = opened(new_state(tmp_path, name="other.db"))
    statement = impostor.step(other.head(), other.receipts).statement
    witness = opened(new_state(tmp_path))
    own = witness.step(ledger.head(), ledger.receipts).statement
    assert statement is not None
    assert own is not None
    witness.check_published(own)
    with pytest.raises(Trouble) as trouble:
        witness.check_published(statement)
    assert trouble.value.reason is Reason.STORE_BEHIND


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("what", ["leaf", "tile root", "frontier", "head", "countersignature"])
def test_t18_a_flipped_bit_in_the_store_is_found_at_the_start(tmp_path: Path, what: str) -> None:
    """T18: leaves, frontier and signatures must agree, or nothing is signed."""
    ledger = Ledger().grow(300)
    state = new_state(tmp_path)
    with closing(opened(state)) as witness:
        witness.step(ledger.head(), ledger.receipts)
        body = witness.store.record("alpha")
    assert body is not None
    with closing(sqlite3.connect(state)) as database, database:
        if what == "leaf":
            tile = database.execute("SELECT leaves FROM tiles WHERE tile = 1").fetchone()[0]
            database.execute("UPDATE tiles SET leaves = ? WHERE tile = 1", (flipped(tile, 40),))
        elif what == "tile root":
            root = database.execute("SELECT root FROM tiles WHERE tile = 0").fetchone()[0]
            database.execute("UPDATE tiles SET root = ? WHERE tile = 0", (flipped(root, 5),))
        else:
            at = body.index(b"peaks" if what == "frontier" else what.encode()) + 60
            database.execute("UPDATE records SET body = ?", (flipped(body, at),))
    assert refused(state) is Reason.STORE_DAMAGED


def test_t18_a_flipped_bit_in_a_receipt_is_not_signed_over(tmp_path: Path, ledger: Ledger) -> None:
    """T18: every bit of a receipt is under its signature or refused by its form."""
    bent = flipped(ledger.receipts[11], 200)
    receipts = [*ledger.receipts[:11], bent, *ledger.receipts[12:]]
    witness = opened(new_state(tmp_path))
    outcome = witness.step(ledger.head(), receipts)
    assert outcome.kind is Kind.NOT_YET
    assert outcome.detail.startswith("receipt 11: ")
    assert witness.step(ledger.head(), ledger.receipts[11:]).kind is Kind.SIGNED


def test_t18_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """T18: garbage, and a store of another format."""
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"not a database" * 1000)
    assert refused(garbage) is Reason.STORE_DAMAGED
    state = new_state(tmp_path)
    with closing(sqlite3.connect(state)) as database, database:
        database.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
    assert refused(state) is Reason.STORE_DAMAGED


def test_t20_a_full_disk_keeps_the_signature_in(
    tmp_path: Path, steward: Steward, ledger: Ledger
) -> None:
    """T20: no room for the record: nothing is published, nothing is lost, and it ends with 3."""
    steward.write_ledger(ledger)
    process = Process(tmp_path, tmp_path / "log")
    process.init()
    room = process.state.stat().st_size

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(
        process.arguments("run", "--data", str(process.data), "--once"),
        env=environment(),
        preexec_fn=no_room,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done
    assert done.stderr.count("\n") == 1
    assert published(tmp_path / "log") == []
    assert process.once().returncode == 0
    assert [length for length, _ in ends(tmp_path / "log")] == [30]


def test_t20_an_fsync_that_fails_stops_it_and_the_next_start_publishes(
    tmp_path: Path, steward: Steward, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T20: whether the outbox has the statement is unclear: the store has, and says it again."""
    steward.write_ledger(ledger)
    state = new_state(tmp_path)
    real = os.fsync
    with closing(opened(state)) as witness:

        def failing(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        original = outbox.Outbox.publish

        async def publish(self: outbox.Outbox, pool: str, statement: bytes) -> None:
            monkeypatch.setattr(os, "fsync", failing)
            await original(self, pool, statement)

        monkeypatch.setattr(outbox.Outbox, "publish", publish)
        with pytest.raises(Trouble) as trouble:
            follow_once(tmp_path / "log", witness)
        assert trouble.value.reason is Reason.STORE_FAILED
    monkeypatch.setattr(os, "fsync", real)
    monkeypatch.setattr(outbox.Outbox, "publish", original)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    assert {length for length, _ in ends(tmp_path / "log")} == {30}


def test_t21_looking_changes_nothing(
    tmp_path: Path, steward: Steward, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """T21: `status` and `show` twice, and a run with nothing new, leave every byte as it was."""
    steward.write_ledger(ledger)
    state = new_state(tmp_path)
    with closing(opened(state, refresh_ms=1)) as witness:
        follow_once(tmp_path / "log", witness)

    def bytes_now() -> tuple[bytes, list[bytes], list[tuple[str, bytes]]]:
        log = sorted((tmp_path / "log" / "log").glob("*.log"))
        kept = [(path.name, path.read_bytes()) for path in log]
        return state.read_bytes(), published(tmp_path / "log"), kept

    def looked() -> str:
        for arguments in (["status"], ["show"], ["show", "alpha"]):
            with pytest.raises(SystemExit) as ended:
                main([*arguments, "--state", str(state), "--json"])
            assert ended.value.code == 0
        return capsys.readouterr().out

    before = bytes_now()
    assert looked() == looked()
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    assert bytes_now() == before


def test_a_torn_statement_is_cut_off_and_the_rest_is_read(
    tmp_path: Path, steward: Steward, ledger: Ledger
) -> None:
    """A process that died while writing leaves half a statement; nobody reads it as one."""
    steward.write_ledger(ledger)
    state = new_state(tmp_path)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    (file,) = (tmp_path / "log" / "witness").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:100])
    assert published(tmp_path / "log") == [whole]
    steward.write_ledger(ledger.grow(1), 30)
    with closing(opened(state)) as witness:
        follow_once(tmp_path / "log", witness)
    assert [length for length, _ in ends(tmp_path / "log")] == [30, 31]


def test_a_run_can_be_looked_at_while_it_holds_the_store(tmp_path: Path, ledger: Ledger) -> None:
    """`status` reads beside the holder."""
    state = new_state(tmp_path)
    with closing(opened(state)) as witness:
        witness.step(ledger.head(), ledger.receipts)
        with closing(store.inspect(state)) as beside:
            assert list(beside.records()) == ["alpha"]
            with pytest.raises(Trouble):
                beside.note({("pool.ledger", 0): 1}, [])


def test_a_write_that_was_cut_off_is_undone_by_whoever_looks_first(
    tmp_path: Path, ledger: Ledger
) -> None:
    """A journal that a killed process left is rolled back, by `status` as by the next start."""
    state, torn = new_state(tmp_path), tmp_path / "torn.db"
    with closing(opened(state)) as witness:
        witness.step(ledger.head(), ledger.receipts)
    with closing(sqlite3.connect(state, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE records SET body = zeroblob(20000)")
        database.execute("CREATE TABLE filler AS SELECT zeroblob(200000) AS filler")
        shutil.copy(state, torn)
        shutil.copy(tmp_path / "witness.db-journal", tmp_path / "torn.db-journal")
        database.execute("ROLLBACK")
    assert torn.read_bytes() != state.read_bytes()
    with closing(store.inspect(torn)) as looked, closing(store.inspect(state)) as untouched:
        assert looked.record("alpha") == untouched.record("alpha")


def test_records_of_tiles_grow_with_the_ledger(tmp_path: Path) -> None:
    """Across tile borders, one signature or many, a start finds the leaves that were left."""
    ledger = Ledger()
    state = new_state(tmp_path)
    for step in (1, 254, 1, 1, 255, 256, 3):
        start = ledger.length
        ledger.grow(step)
        with closing(opened(state, clock=Clock())) as witness:
            outcome = witness.step(ledger.head(), ledger.receipts[start:])
            assert outcome.kind is Kind.SIGNED
    with closing(opened(state)) as witness:
        leaves = witness.pools["alpha"].feed.leaves
        for length in (1, 2, 255, 256, 257, 511, 512, 513, 767, 768, 771):
            assert leaves.root_at(length) == ledger.leaves.root(length)
        assert leaves.hash_store(600).root() == ledger.leaves.root(600)
        assert leaves.leaf(700) == ledger.leaves.leaf(700)


def test_statements_of_others_say_nothing_about_our_store(tmp_path: Path, ledger: Ledger) -> None:
    """Other witnesses, other kinds and junk in the topic are not ours to judge."""
    other = opened(new_state(tmp_path, OTHER_WITNESS, "other.db"), OTHER_WITNESS)
    statement = other.step(ledger.head(), ledger.receipts).statement
    assert statement is not None
    witness = opened(new_state(tmp_path))
    for data in (statement, b"junk", ledger.head()):
        witness.check_published(data)
    with pytest.raises(StatementError):
        open_countersignature(statement, {WITNESS.public_key})
