"""A ledger that is not what it should be stops the steward at its index, and nothing is written."""

import asyncio
from pathlib import Path

import pytest
from steward_support import (
    OTHER,
    POOL,
    SIGNER,
    TIMELESS,
    audit_clean,
    busy_day,
    claim,
    decide,
    ledger,
    opened,
    published,
    records,
    steward,
    verified,
)

from schemas import cose
from schemas.keys import did_key
from schemas.receipts import core_of
from schemas.records import Kind
from streams import topics
from streams.logs import layout
from streams.logs.contract import Entry
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import Damaged
from streams.steward import Keyring, LedgerRefused, Observer, StewardStopped, WrongKey

COUNT = 30


async def rewritten(source: Path, target: Path, change: object, pool: str = POOL) -> EmbeddedLog:
    """A log with the source's inputs and its receipts as `change` makes them of the list."""
    old, new = EmbeddedLog(source), EmbeddedLog(target)
    for topic in topics.INPUT_TOPICS:
        for record in await records(old, topic):
            new._database.write([(layout.record_key(topic, 0, record.offset), stored(record))])
    receipts = await ledger(old, pool)
    await old.close()
    await new.close()
    new = EmbeddedLog(target)
    writer = await new.open_writer(0)
    await writer.append(
        [
            Entry(topic=topics.LEDGER, key=pool.encode(), value=data)
            for data in change(list(receipts))  # type: ignore[operator]
        ]
    )
    await writer.close()
    return new


def stored(record: object) -> bytes:
    """A record as the layout stores it."""
    names = ("timestamp_ms", "order", "key", "content_type", "headers")
    return layout.pack_record(
        record.value,  # type: ignore[attr-defined]
        **{name: getattr(record, name) for name in names},
    )


def flipped(index: int, byte: int) -> object:
    """A change that flips a bit of one receipt."""

    def change(receipts: list[bytes]) -> list[bytes]:
        data = bytearray(receipts[index])
        data[byte] ^= 1
        return [*receipts[:index], bytes(data), *receipts[index + 1 :]]

    return change


def resealed(index: int, **changes: object) -> object:
    """A change that seals one receipt's core anew, by the same key, with other members."""

    def change(receipts: list[bytes]) -> list[bytes]:
        _, parsed = verified(receipts)
        data = cose.seal(SIGNER, core_of(parsed[index]) | changes)
        return [*receipts[:index], data, *receipts[index + 1 :]]

    return change


TAMPERED = {
    "a flipped bit in the signature": (flipped(5, -1), 5, "signature"),
    "a flipped bit in the core": (flipped(5, 200), 5, None),
    "a flipped bit in the last receipt": (flipped(-1, -1), None, "signature"),
    "a dropped receipt": (lambda r: r[:5] + r[6:], 5, "sequence"),
    "two swapped": (lambda r: [*r[:5], r[6], r[5], *r[7:]], 5, "sequence"),
    "the first missing": (lambda r: r[1:], 0, "sequence"),
    "another core under the same seq": (resealed(5, body={"event": {}}), 5, "replay"),
    "no receipt at all": (lambda r: [*r[:5], b"what", *r[5:]], 5, "decode"),
    "cut inside an event": (None, None, "sequence"),
}


def cut_inside_an_event(receipts: list[bytes]) -> list[bytes]:
    """The ledger up to the first receipt of the last event that has several."""
    _, parsed = verified(receipts)
    at = max(r.seq for r in parsed if r.cause.count > 1 and r.cause.index == 0)
    return receipts[: at + 1]


@pytest.mark.parametrize("name", TAMPERED)
async def test_a_tampered_ledger_is_refused_at_its_index(name: str, tmp_path: Path) -> None:
    """The steward says which receipt and which check, and appends nothing."""
    change, index, check = TAMPERED[name]
    source = EmbeddedLog(tmp_path / "source")
    await decide(source, busy_day(COUNT))
    length = len(await ledger(source))
    await source.close()
    log = await rewritten(tmp_path / "source", tmp_path / "changed", change or cut_inside_an_event)
    await log.publish([claim("new", 9000)])
    before = await records(log, topics.LEDGER)
    with pytest.raises(LedgerRefused) as refused:
        await steward(log).decide_all()
    broken = refused.value.broken
    if change is not None:
        assert broken.index == (length - 1 if index is None else index)
    assert check is None or broken.check == check
    assert f"receipt {broken.index}: {broken.check}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert await records(log, topics.LEDGER) == before
    await log.close()


class Counting(Observer):
    """Counts the records of the ledger that do not count."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        self.offsets.append(offset)


async def test_a_record_whose_place_is_taken_does_not_count(tmp_path: Path) -> None:
    """A receipt repeated, or a second one for a place that is taken, is counted and ignored."""
    source = EmbeddedLog(tmp_path / "source")
    await decide(source, busy_day(COUNT))
    original = await ledger(source)
    await source.close()

    def late(receipts: list[bytes]) -> list[bytes]:
        _, parsed = verified(receipts)
        second = cose.seal(SIGNER, core_of(parsed[3]) | {"body": {"event": {}}})
        return [*receipts[:8], receipts[7], second, *receipts[8:]]

    log = await rewritten(tmp_path / "source", tmp_path / "changed", late)
    counting = Counting()
    one = steward(log, observer=counting)
    await one.decide_all()
    assert counting.offsets == [8, 9]
    await decide(log, [claim("new", 9000)])
    sealed = await ledger(log)
    counted = sealed[:8] + sealed[10:]
    assert counted[: len(original)] == original
    audit_clean(counted)
    await one.close()
    await log.close()


async def test_inputs_that_are_gone_are_named(tmp_path: Path) -> None:
    """A ledger that was decided further than its inputs reach is an error, not a new start."""
    source = EmbeddedLog(tmp_path / "source")
    await decide(source, busy_day(COUNT))
    receipts = await ledger(source)
    await source.close()
    log = EmbeddedLog(tmp_path / "changed")
    writer = await log.open_writer(0)
    await writer.append([Entry(topic=topics.LEDGER, key=b"p", value=data) for data in receipts])
    with pytest.raises(Damaged, match="was decided up to"):
        await steward(log).decide_all()
    await log.close()


async def test_another_keys_ledger_is_refused(tmp_path: Path) -> None:
    """A steward without the ledger's key writes nothing and names the key."""
    log = EmbeddedLog(tmp_path)
    await decide(log, busy_day(COUNT))
    before = await records(log, topics.LEDGER)
    await log.publish([claim("new", 9000)])
    with pytest.raises(WrongKey) as wrong:
        await steward(log, keys=Keyring([OTHER])).decide_all()
    assert did_key(SIGNER.public_key) in str(wrong.value)
    assert await records(log, topics.LEDGER) == before
    await decide(log, keys=Keyring([OTHER, SIGNER]))
    assert len(await records(log, topics.LEDGER)) > len(before)
    audit_clean(await ledger(log))
    await log.close()


def rotate(at_ms: int) -> object:
    """The handover to the other key."""
    steward_key = did_key(OTHER.public_key)
    return published({"type": "steward.rotate", "pool": POOL, "steward": steward_key}, at_ms)


async def test_a_handover_is_the_old_keys_last_word(tmp_path: Path) -> None:
    """The old key signs the handover, then stops; the new one goes on; later receipts are its."""
    log = EmbeddedLog(tmp_path)
    events = [opened(), claim("a", 2000), rotate(2001), claim("b", 2002), claim("c", 2003)]
    await log.publish(events)  # type: ignore[arg-type]
    one = steward(log)
    with pytest.raises(WrongKey):
        await one.decide_all()
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts][-1] is Kind.STEWARD_ROTATED
    with pytest.raises(WrongKey):
        await steward(log).decide_all()
    await decide(log, keys=Keyring([OTHER]))
    _, receipts = verified(await ledger(log))
    keys = [receipt.steward for receipt in receipts]
    assert keys == [did_key(SIGNER.public_key)] * 3 + [did_key(OTHER.public_key)] * 2
    audit_clean(await ledger(log))
    await log.close()


async def test_a_steward_with_both_keys_hands_over_in_passing(tmp_path: Path) -> None:
    """With both keys at hand no event waits, within one batch."""
    log = EmbeddedLog(tmp_path)
    events = [opened(), rotate(2001), claim("b", 2002)]
    await decide(log, events, keys=Keyring([SIGNER, OTHER]))  # type: ignore[arg-type]
    reader, receipts = verified(await ledger(log))
    assert receipts[-1].steward == did_key(OTHER.public_key)
    assert reader.steward == OTHER.public_key
    await log.close()


def test_a_witness_key_is_no_stewards(tmp_path: Path) -> None:
    """A steward does not start with a key that countersigns its own heads."""
    with pytest.raises(StewardStopped, match="witness"):
        Keyring([SIGNER], witnesses=[OTHER.public_key, SIGNER.public_key])


async def test_a_broken_pool_stops_before_anything_of_the_batch(tmp_path: Path) -> None:
    """Running until stopped, a steward that refuses a ledger raises and lets the writer go."""
    log = EmbeddedLog(tmp_path)
    await decide(log, busy_day(COUNT))
    writer = await log.open_writer(0)
    await writer.append([Entry(topic=topics.LEDGER, key=b"p", value=b"what")])
    with pytest.raises(LedgerRefused):
        await steward(log, settings=TIMELESS).run(asyncio.Event())
    await log.close()
