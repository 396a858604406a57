"""The read model: rows and figures are what the ledger says, however it was fed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

from views_support import DEVICES, POOL, SIGNER, copy_of, read

from schemas.keys import did_key
from schemas.receipts import open_receipt
from schemas.records import Kind
from schemas.trust import PoolTrust
from streams import topics
from streams.logs.contract import Record
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.steward.fold import replay_pool
from streams.views import energy, power, tables
from streams.views.fold import PoolView
from streams.views.readside import ReadSide


async def records(directory: Path, topic: str = topics.LEDGER) -> list[Record]:
    """All records of a topic."""
    reader = EmbeddedReader(directory)
    fetched = await reader.read(topic, 0, offset_next=0)
    await reader.close()
    return list(fetched.records)


async def folded(directory: Path, batches: list[list[Record]]) -> ReadSide:
    """A read side that was given the records in these batches."""
    side = ReadSide(EmbeddedReader(directory))
    for batch in batches:
        await side.take({topics.LEDGER: batch})
    return side


def stored(side: ReadSide) -> dict[str, dict[str, bytes]]:
    """Every row of every table."""
    return {name: dict(table) for name, table in side.tables.items()}


async def test_rows_do_not_depend_on_batches_or_repetitions(day_directory: Path) -> None:
    """A ledger in one batch, one by one, and with stretches repeated gives the same rows."""
    ledger = await records(day_directory)
    chance = random.Random(7)
    whole = await folded(day_directory, [ledger])
    single = await folded(day_directory, [[record] for record in ledger])
    repeated = []
    for start in range(0, len(ledger), 100):
        repeated.append(ledger[max(0, start - chance.randrange(150)) : start + 100])
    again = await folded(day_directory, repeated)
    assert stored(whole) == stored(single) == stored(again)
    assert whole.pools[POOL].state.to_plain() == again.pools[POOL].state.to_plain()
    assert again.pools[POOL].ignored > 0 and again.pools[POOL].broken is None


async def test_rows_that_outlived_their_reader_are_not_counted_twice(day_directory: Path) -> None:
    """A reader that starts anew over rows from a later time leaves them as they are."""
    ledger = await records(day_directory)
    first = await folded(day_directory, [ledger])
    before = stored(first)
    second = ReadSide(EmbeddedReader(day_directory), store=first.tables)
    for start in range(0, len(ledger), 333):
        await second.take({topics.LEDGER: ledger[start : start + 333]})
    assert stored(second) == before
    assert second.pools[POOL].index.count() == first.pools[POOL].index.count()


async def test_the_energy_of_every_leaf_adds_up_to_what_it_spent(day_directory: Path) -> None:
    """Measured, modelled, guessed and reserved are the leaf's `spent_uj`, after any receipt."""
    ledger = await records(day_directory)
    side = ReadSide(EmbeddedReader(day_directory))
    for start in range(0, len(ledger), 97):
        await side.take({topics.LEDGER: ledger[start : start + 97]})
        state = side.pools[POOL].state
        for leaf in state.tree.nodes.values():
            if leaf.is_leaf:
                row = side.tables[tables.ENERGY].get(tables.key(POOL, leaf.id))
                parts = energy.empty() if row is None else tables.load(row)
                assert sum(parts[part] for part in energy.PARTS) == leaf.spent_uj
                held = energy.held_by(leaf.live_claims.values())
                assert sum(held.values()) == leaf.usage[state.uj] - leaf.spent_uj


async def test_power_windows_sum_to_the_readings(day_directory: Path) -> None:
    """What the windows of a device hold is what its readings said, to the microjoule."""
    said: dict[str, int] = {}
    event: dict[str, Any] = {}
    for record in await records(day_directory):
        receipt = open_receipt(record.value)[1]
        event = cast(dict[str, Any], receipt.body.get("event", event))
        if receipt.kind is Kind.METER_SPLIT:
            said[event["device"]] = said.get(event["device"], 0) + event["uj"]
    async with read(day_directory) as side:
        found = {
            name.removeprefix("device:"): sum(series["uj"].values())
            for name, series in tables.rows_of(side.tables, tables.POWER, POOL)
            if name.startswith("device:")
        }
    assert found == said and len(said) == DEVICES


def test_a_series_stays_small_and_exact_whatever_it_is_given() -> None:
    """Years between two readings widen the windows; nothing is lost, gaps are counted."""
    series = power.empty()
    chance = random.Random(3)
    total, at_ms = 0, 1_748_822_400_000
    for number in range(400):
        span = chance.choice((1, 999, 60_000, 3_600_001, 86_400_000 * 9))
        uj = None if number % 11 == 0 else chance.randrange(2**40)
        power.add(series, at_ms, at_ms + span, uj)
        at_ms += span + chance.choice((0, 0, 5_000))
        total += uj or 0
    shown = power.windows(series)
    assert sum(window["uj"] or 0 for window in shown) == total
    assert len(shown) <= power.WINDOWS_MAX
    assert sum(window["gaps"] for window in shown) >= 400 // 11


async def test_a_claims_row_says_what_its_receipts_say(day_directory: Path) -> None:
    """History, state and figures of each claim agree with its receipts, one by one."""
    by_claim: dict[str, list[tuple[int, str]]] = {}
    for record in await records(day_directory):
        receipt = open_receipt(record.value)[1]
        if receipt.kind.value.startswith("claim."):
            place = (receipt.seq, receipt.kind.value)
            by_claim.setdefault(str(receipt.body["claim"]), []).append(place)
    async with read(day_directory) as side:
        rows = dict(tables.rows_of(side.tables, tables.CLAIMS, POOL))
        view = side.pools[POOL]
    assert rows.keys() == by_claim.keys() == set(view.index.ids)
    for claim, row in rows.items():
        told = [entry for entry in by_claim[claim] if entry[1] != "claim.progressed"]
        kept = [(seq, kind) for seq, kind, _, _ in row["history"] if kind != "claim.progressed"]
        assert kept == told
        known = view.state.claims.get(claim)
        if known is not None:
            assert row["state"] == known.state.value and row["metered_uj"] == known.metered_uj


async def test_a_forged_receipt_breaks_the_pool_where_it_stands(
    day_directory: Path, tmp_path: Path
) -> None:
    """After a signature that does not hold nothing is taken, and the index is named."""
    ledger = await records(day_directory)
    at = 700
    value = bytearray(ledger[at].value)
    value[-1] ^= 1
    forged = Record(
        topic=topics.LEDGER, partition=0, offset=ledger[at].offset, timestamp_ms=0, order=0,
        key=ledger[at].key, value=bytes(value),
    )  # fmt: skip
    side = await folded(day_directory, [[*ledger[:at], forged, *ledger[at + 1 :]]])
    view = side.pools[POOL]
    assert view.broken is not None and (view.broken.index, view.broken.check) == (at, "signature")
    assert view.length == at
    expected = replay_pool(open_receipt(record.value)[1] for record in ledger[:at])
    assert view.state.to_plain() == expected.to_plain()


async def test_heads_make_no_grade_without_witnesses(day_directory: Path) -> None:
    """A trust file without witnesses: self-attested; another steward's key: broken at 0."""
    trusted = PoolTrust(pool=POOL, stewards=frozenset({SIGNER.public_key}), witnesses={}, quorum=0)
    async with read(day_directory, trusted) as side:
        view = side.pools[POOL]
        grading = view.grading()
        assert grading is not None and grading.grade.value == "self-attested"
        assert grading.seen_length == view.length and view.heads
    other = PoolTrust(pool=POOL, stewards=frozenset({bytes(32)}), witnesses={}, quorum=0)
    async with read(day_directory, other) as side:
        view = side.pools[POOL]
        assert view.broken is not None and view.broken.index == 0
        assert did_key(SIGNER.public_key) in view.broken.detail


async def test_a_view_without_receipts_has_the_empty_head() -> None:
    """Before the first receipt the head is 32 zero bytes and the length 0."""
    view = PoolView("p")
    assert (view.length, view.head) == (0, bytes(32))


async def test_answers_come_when_the_rows_have_them(day_directory: Path, tmp_path: Path) -> None:
    """Who waits for an event's answer gets its receipts, and the rows have them by then."""
    log = EmbeddedLog(copy_of(day_directory, tmp_path / "data"))
    side = ReadSide(log)
    ledger = await records(day_directory)
    cause = open_receipt(ledger[-1].value)[1].cause
    await side.take({topics.LEDGER: ledger})
    heard = await side.answer((cause.topic, cause.partition, cause.offset), 1)
    assert heard is not None and len(heard.receipts) == cause.count
    assert await side.answer((cause.topic, cause.partition, cause.offset + 1), 0.01) is None
    await log.close()
