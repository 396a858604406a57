"""The chain: whatever is done to a ledger is found at its index, by the right check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import cbor, chain
from schemas.cbor import CborError
from schemas.chain import CHECKS, Broken, ChainReader, verify_chain
from schemas.cose import is_signed
from schemas.keys import SeedSigner, did_key
from schemas.merkle import leaf_hash, root_of
from schemas.receipts import Receipt, ReceiptError, open_receipt
from schemas.records import Kind
from tests.schemas.ledgers import STEWARD, STRANGER, SUCCESSOR, Writer
from tests.schemas.refusals import FAULTS, HANDOVER, LEDGER, RECEIPTS, resealed


def broken(items: list[bytes], **trust: Any) -> tuple[int, str]:
    """Index and check of the first broken receipt; the same however signatures are checked."""
    found = set()
    for threads in (1, 2):
        with pytest.raises(Broken) as caught:
            verify_chain(items, threads=threads, **trust)
        found.add((caught.value.index, caught.value.check))
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_good_ledger_verifies(threads: int) -> None:
    """Length, head, root, holder and positions are those of the whole ledger."""
    reader = verify_chain(LEDGER, "acme", [STEWARD.public_key], threads=threads)
    assert reader.pool == "acme"
    assert reader.length == len(LEDGER) == 10
    assert reader.head == sha256(LEDGER[-1]).digest()
    assert reader.root() == root_of(map(leaf_hash, LEDGER))
    assert reader.steward == SUCCESSOR.public_key
    assert reader.closed_at_ms == RECEIPTS[-1].closed_at_ms
    assert reader.positions == {
        ("pool.admin", 3): 1002,
        ("pool.claims", 3): 2011,
        ("pool.meters", 3): 6,
    }
    assert not reader.event_open


def test_an_empty_ledger_is_one() -> None:
    """Nothing was decided: length 0, no holder, 32 zero bytes for a head."""
    reader = verify_chain([], "acme")
    assert (reader.length, reader.head, reader.steward) == (0, bytes(32), None)


def test_positions_move_when_an_event_is_complete() -> None:
    """An input is read on after the last event whose receipts are all there."""
    reader = ChainReader()
    seen = []
    for data in LEDGER[:4]:
        reader.push(data)
        seen.append((reader.positions.get(("pool.claims", 3), 0), reader.event_open))
    assert seen == [(0, False), (1, False), (1, True), (2, False)]


@pytest.mark.parametrize("index", range(len(LEDGER)))
def test_any_flipped_bit_is_found_where_it_is(index: int) -> None:
    """One bit of every byte of every receipt, each flip found at its index, at steps 1 to 4."""
    reader = ChainReader("acme", [STEWARD.public_key])
    for data in LEDGER[:index]:
        reader.push(data)
    before = reader.head
    checks = set()
    for at in range(len(LEDGER[index])):
        data = bytearray(LEDGER[index])
        data[at] ^= 1 << (at % 8)
        with pytest.raises(Broken) as caught:
            reader.push(bytes(data))
        assert caught.value.index == index
        checks.add(caught.value.check)
        assert (reader.head, reader.length) == (before, index)
    assert {"decode", "signature"} <= checks <= set(CHECKS[:4])
    reader.push(LEDGER[index])


@settings(max_examples=150)
@given(st.data())
def test_any_changed_byte_of_an_exported_ledger_is_found(data: st.DataObject) -> None:
    """In a file the framing may suffer, too: it is still the changed receipt that is named."""
    index = data.draw(st.integers(0, len(LEDGER) - 1))
    at = data.draw(st.integers(0, len(LEDGER[index]) - 1))
    other = data.draw(st.binary(max_size=2).filter(lambda b: b != LEDGER[index][at : at + 1]))
    changed = LEDGER[index][:at] + other + LEDGER[index][at + 1 :]
    export = b"".join([*LEDGER[:index], changed, *LEDGER[index + 1 :]])
    with pytest.raises(Broken) as caught:
        verify_chain(cbor.split_sequence(export))
    assert caught.value.index == index


@pytest.mark.parametrize("index", range(len(LEDGER)))
def test_a_dropped_receipt_is_missed(index: int) -> None:
    """The next one's `seq` tells; the last one dropped, the receipts of its event, or a head."""
    items = LEDGER[:index] + LEDGER[index + 1 :]
    if index == len(LEDGER) - 1:
        assert verify_chain(items).length == index
    elif index == 0:
        assert broken(items) == (0, "sequence")
    elif index == HANDOVER:
        assert broken(items) == (HANDOVER, "signature")
    else:
        assert broken(items) == (index, "sequence")


@pytest.mark.parametrize("index", range(len(LEDGER)))
def test_a_repeated_receipt_is_found(index: int) -> None:
    """A receipt written twice breaks the sequence; the handover's old key breaks first."""
    items = [*LEDGER[: index + 1], LEDGER[index], *LEDGER[index + 1 :]]
    assert broken(items) == (index + 1, "signature" if index == HANDOVER else "sequence")


@pytest.mark.parametrize("index", range(len(LEDGER) - 1))
def test_swapped_receipts_are_found(index: int) -> None:
    """Two neighbours in the wrong order break at the first of them."""
    items = LEDGER.copy()
    items[index], items[index + 1] = items[index + 1], items[index]
    assert broken(items) == (index, "signature" if index == HANDOVER else "sequence")


@pytest.mark.parametrize("length", range(1, len(LEDGER)))
def test_a_cut_ledger_is_a_shorter_one_unless_cut_in_an_event(length: int) -> None:
    """Without a signed head nobody can miss what was cut off, but half an event is missed."""
    last = RECEIPTS[length - 1].cause
    if last.index + 1 == last.count:
        assert verify_chain(LEDGER[:length]).length == length
    else:
        assert broken(LEDGER[:length]) == (length, "sequence")


@pytest.mark.parametrize(
    ("index", "check", "ledger"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_faults(index: int, check: str, ledger: Callable[[], list[bytes]]) -> None:
    """A receipt that is right in itself may still not belong where it is."""
    assert broken(ledger()) == (index, check)


def test_every_check_but_replay_has_a_row() -> None:
    """All but `replay`, which is the steward's to find, in the order that the checks have."""
    assert {row[2] for row in FAULTS} == set(CHECKS) - {"replay"}


@pytest.mark.parametrize(
    ("trust", "answer"),
    [
        ({"stewards": [STRANGER.public_key]}, (0, "signature")),
        ({"stewards": []}, (0, "signature")),
        # Whoever trusts the successor alone has no reason to believe the beginning.
        ({"stewards": [SUCCESSOR.public_key]}, (0, "signature")),
        ({"pool": "other"}, (0, "sequence")),
        ({"pool": "other", "stewards": [STRANGER.public_key]}, (0, "signature")),
    ],
)
def test_what_the_reader_trusts_decides(trust: dict[str, Any], answer: tuple[int, str]) -> None:
    """Another pool's ledger, or one begun by an unknown key, is broken from the start."""
    assert broken(LEDGER, **trust) == answer


def test_a_ledger_whose_first_receipt_hands_over() -> None:
    """The handover counts from the very next receipt, also when it is the first."""
    writer = Writer()
    writer.event([(Kind.STEWARD_ROTATED, {"steward": did_key(SUCCESSOR.public_key)})], "pool.admin")
    assert verify_chain(writer.sealed).steward == SUCCESSOR.public_key
    writer.event([(Kind.REFUSED, {})])
    assert open_receipt(writer.sealed[-1])[1].steward == did_key(SUCCESSOR.public_key)
    assert verify_chain(writer.sealed, stewards=[STEWARD.public_key]).length == 2


def test_a_reader_that_skips_what_does_not_extend_finds_the_first_that_does() -> None:
    """Push changes nothing when it raises: duplicates between receipts can be passed over."""
    reader = ChainReader("acme", [STEWARD.public_key])
    read = 0
    for data in [item for item in LEDGER for _ in range(2)]:
        try:
            reader.push(data)
            read += 1
        except Broken:
            continue
    assert (read, reader.head) == (len(LEDGER), sha256(LEDGER[-1]).digest())


def test_signatures_left_to_the_caller() -> None:
    """Every accepted receipt leaves one task, and so does one that breaks after step 4."""
    reader = ChainReader(check_signatures=False)
    for data in LEDGER[:4]:
        reader.push(data)
    start, tasks = reader.take_deferred()
    assert (start, len(tasks)) == (0, 4)
    assert all(map(is_signed, tasks))
    reader.push(LEDGER[4])
    with pytest.raises(Broken):
        reader.push(resealed(5, prev=b"x" * 32)[5])
    start, tasks = reader.take_deferred()
    assert (start, len(tasks)) == (4, 2)
    assert reader.take_deferred() == (5, [])
    forged = ChainReader(check_signatures=False)
    forged.push(LEDGER[0][:-64] + bytes(64))
    assert [is_signed(task) for task in forged.take_deferred()[1]] == [False]


BATCH = 64
"""Receipts a batch in the next test, so that a small ledger has several."""


class Forger(SeedSigner):
    """Signs as the steward does, but some of its signatures are none."""

    __slots__ = ("bad", "signed")

    def __init__(self, bad: set[int]) -> None:
        super().__init__(STEWARD.seed)
        self.bad = bad
        self.signed = -1

    def sign(self, message: bytes) -> bytes:
        self.signed += 1
        return bytes(64) if self.signed in self.bad else super().sign(message)


@pytest.mark.parametrize(
    ("forged", "garbage_at", "answer"),
    [
        ({0}, None, (0, "signature")),
        ({BATCH - 1}, None, (BATCH - 1, "signature")),
        ({BATCH}, None, (BATCH, "signature")),
        ({BATCH + 40}, None, (BATCH + 40, "signature")),
        ({30, 40, BATCH + 1}, None, (30, "signature")),
        ({30}, 40, (30, "signature")),
        ({40}, 30, (30, "decode")),
        ({40}, BATCH, (40, "signature")),
        ({BATCH + 3}, BATCH + 3, (BATCH + 3, "decode")),
        ({BATCH + 3}, BATCH + 5, (BATCH + 3, "signature")),
    ],
)
def test_batches_report_the_first_fault(
    forged: set[int],
    garbage_at: int | None,
    answer: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bad signature is found before whatever breaks after it, in whichever batch it is."""
    monkeypatch.setattr(chain, "BATCH_TASKS", BATCH)
    writer = Writer(Forger(forged))
    for _ in range(BATCH + 50):
        writer.event([(Kind.REFUSED, {})])
    if garbage_at is not None:
        writer.sealed[garbage_at] = b"\xff"
    assert broken(writer.sealed) == answer


@pytest.mark.parametrize("threads", [1, 2])
def test_an_iterator_that_cannot_go_on_breaks_the_ledger_there(threads: int) -> None:
    """A file whose framing ends in garbage is broken at the first receipt that is none."""
    export = b"".join(LEDGER[:4]) + b"\x9b\xff\xff"
    with pytest.raises(Broken) as caught:
        verify_chain(cbor.split_sequence(export), threads=threads)
    assert (caught.value.index, caught.value.check) == (4, "decode")

    def bad_then_stuck() -> Iterator[bytes]:
        yield LEDGER[0][:-64] + bytes(64)
        raise CborError("decode", "no item")

    with pytest.raises(Broken) as caught:
        verify_chain(bad_then_stuck(), threads=threads)
    assert (caught.value.index, caught.value.check) == (0, "signature")


@pytest.mark.parametrize("length", [1, 2, 4, 5, 7, 9, 10])
def test_a_place_is_kept_and_taken_up_again(length: int) -> None:
    """A snapshot of the place reads the rest of the ledger as the reader itself would."""
    reader = verify_chain(LEDGER[:length], "acme")
    plain = cbor.decode(cbor.encode(reader.to_plain()))
    again = ChainReader.from_plain(plain)
    for data in LEDGER[length:]:
        again.push(data)
    whole = verify_chain(LEDGER)
    assert again.to_plain() == whole.to_plain()
    assert again.steward == whole.steward
    if length < len(LEDGER):
        with pytest.raises(Broken) as caught:
            ChainReader.from_plain(plain).push(LEDGER[0])
        assert caught.value.index == length


PLAIN: Any = verify_chain(LEDGER).to_plain()


@pytest.mark.parametrize(
    "plain",
    [
        None,
        {},
        {**PLAIN, "length": 9},
        {**PLAIN, "length": "10"},
        {**PLAIN, "head": b"short"},
        {**PLAIN, "head": None},
        {**PLAIN, "pool": None},
        {**PLAIN, "steward": "did:key:z6Mk"},
        {**PLAIN, "steward": None},
        {**PLAIN, "closed_at_ms": None},
        {**PLAIN, "positions": [["pool.claims", 3]]},
        {**PLAIN, "positions": [["pool.claims", "3", 5]]},
        {**PLAIN, "positions": {}},
        {**PLAIN, "frontier": {}},
        {**PLAIN, "frontier": {**PLAIN["frontier"], "size": 11}},
        {**PLAIN, "length": 0, "frontier": {"size": 0, "peaks": []}},
    ],
)
def test_other_maps_are_no_place(plain: object) -> None:
    """A snapshot that was not written by a reader is refused, not guessed at."""
    with pytest.raises(ReceiptError):
        ChainReader.from_plain(plain)


def test_a_copy_goes_its_own_way() -> None:
    """A batch is tried on a copy; dropping it leaves the reader where it was."""
    reader = verify_chain(LEDGER[:4])
    before = reader.to_plain()
    twin = reader.copy()
    for data in LEDGER[4:]:
        twin.push(data)
    assert reader.to_plain() == before
    assert twin.to_plain() == PLAIN


def test_the_writer_advances_without_checking_itself() -> None:
    """Whoever sealed a receipt moves on with it; the place is the same as a reader's."""
    reader = ChainReader()
    for data, receipt in zip(LEDGER, RECEIPTS, strict=True):
        reader.advance(data, receipt)
    assert reader.to_plain() == PLAIN


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(LEDGER) - 1), max_size=14))
def test_no_other_arrangement_verifies(order: list[int]) -> None:
    """Of all lists of a ledger's receipts only its own beginnings verify."""
    items = [LEDGER[index] for index in order]
    ends_well = not order or RECEIPTS[order[-1]].cause.index + 1 == RECEIPTS[order[-1]].cause.count
    if order == list(range(len(order))) and ends_well:
        assert verify_chain(items).length == len(order)
    else:
        with pytest.raises(Broken):
            verify_chain(items)


def test_push_returns_the_receipt() -> None:
    """The reader hands out what it has accepted, typed."""
    receipt: Receipt = ChainReader().push(LEDGER[0])
    assert receipt == RECEIPTS[0]
