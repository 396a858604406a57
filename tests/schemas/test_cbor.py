"""The strict codec: what it takes, what it refuses, at which check, and nothing else."""

from __future__ import annotations

import contextlib

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import cbor, wellformed
from schemas.cbor import BYTES_MAX, CborError
from schemas.records import DEPTH_MAX, Grade

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.binary(max_size=40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5)
)


def nested(depth: int) -> bytes:
    return b"\x81" * (depth - 1) + b"\x80"


REFUSED = [
    # What is one well-formed item of the data model passes `decode`; the rest is refused there.
    ("", "decode", "the bytes end"),
    ("18", "decode", "the bytes end"),
    ("19ff", "decode", "the bytes end"),
    ("59ff", "decode", "the bytes end"),
    ("6261", "decode", "the bytes end"),
    ("5bffffffffffffffff00", "decode", "the bytes end"),
    ("9bffffffffffffffff00", "decode", "the bytes end"),
    ("bbffffffffffffffff", "decode", "the bytes end"),
    ("a16161", "decode", "the bytes end"),
    ("0001", "decode", "bytes after the item"),
    ("a000", "decode", "bytes after the item"),
    ("1c", "decode", "a reserved head"),
    ("5d00", "decode", "a reserved head"),
    ("7e", "decode", "a reserved head"),
    ("9c", "decode", "a reserved head"),
    ("fc", "decode", "a reserved head"),
    ("1f", "decode", "a reserved head"),
    ("ff", "decode", "a break"),
    ("62c328", "decode", "UTF-8|utf-8|text string"),
    ("63eda080", "decode", "UTF-8|utf-8|text string"),
    ("f93c00", "decode", "a float"),
    ("fa00000000", "decode", "a float"),
    ("fb7ff8000000000000", "decode", "a float"),
    ("f7", "decode", "undefined"),
    ("e0", "decode", "a simple value"),
    ("f820", "decode", "a simple value"),
    ("f814", "decode", "a simple value"),
    ("c100", "decode", "a tag"),
    ("c249010000000000000000", "decode", "a tag"),
    ("d81c80", "decode", "a tag"),
    ("a10102", "decode", "a map key"),
    ("a1410102", "decode", "a map key"),
    ("a1f602", "decode", "a map key"),
    ("a18000", "decode", "a map key"),
    (nested(DEPTH_MAX + 1).hex(), "decode", "nested deeper than 16"),
    # What says something of the data model, in other bytes than the deterministic ones.
    ("1817", "canonical", "not the deterministic"),
    ("1900ff", "canonical", "not the deterministic"),
    ("1a0000ffff", "canonical", "not the deterministic"),
    ("1b00000000ffffffff", "canonical", "not the deterministic"),
    ("3800", "canonical", "not the deterministic"),
    ("5801aa", "canonical", "not the deterministic"),
    ("780161", "canonical", "not the deterministic"),
    ("980100", "canonical", "not the deterministic"),
    ("b801616100", "canonical", "not the deterministic"),
    ("a1780161 00", "canonical", "not the deterministic"),
    ("a2616200616100", "canonical", "not the deterministic"),
    ("a262616100616200", "canonical", "not the deterministic"),
    ("a2616100616100", "canonical", "not the deterministic"),
    ("5f4101ff", "canonical", "an indefinite length"),
    ("7f6161ff", "canonical", "an indefinite length"),
    ("9fff", "canonical", "an indefinite length"),
    ("bf616100ff", "canonical", "an indefinite length"),
    ("a17f6161ff00", "canonical", "an indefinite length"),
    # Two faults: `decode` comes first, wherever they stand.
    ("82 1800 f93c00", "decode", "a float"),
    ("82 9fff f93c00", "decode", "a float"),
    ("82 9fff c100", "decode", "a tag"),
    ("82 9fff 62c328", "decode", "not UTF-8"),
    ("9f00", "decode", "the bytes end"),
    ("9f00ff00", "decode", "bytes after the item"),
    ("5f6161ff", "decode", "not a chunk"),
    ("5f5f4101ffff", "decode", "not a chunk"),
    ("7f61c361a8ff", "decode", "not UTF-8"),
    ("bf6161ff", "decode", "without a value"),
    ("bf0100ff", "decode", "a map key"),
    ("9f1cff", "decode", "a reserved head"),
    ("1800 00", "decode", "bytes after the item"),
    ("a2616200616100 f6", "decode", "bytes after the item"),
    ("9f" * (DEPTH_MAX + 1) + "ff" * (DEPTH_MAX + 1), "decode", "nested deeper than 16"),
    ("9f" * 80 + "ff" * 80, "decode", "nested deeper than 64"),
]


@pytest.mark.parametrize(("given_hex", "check", "words"), REFUSED)
def test_refused_with_its_check(given_hex: str, check: str, words: str) -> None:
    """Every kind of fault is refused at its check, `decode` before `canonical`."""
    with pytest.raises(CborError, match=words) as caught:
        cbor.decode(bytes.fromhex(given_hex))
    assert caught.value.check == check


@pytest.mark.parametrize(
    ("given_hex", "value"),
    [
        ("a262616100616200", {"aa": 0, "b": 0}),
        ("1900ff", 255),
        ("b80261620061610a", {"b": 0, "a": 10}),
        ("980100", [0]),
        ("7803616161", "aaa"),
        ("bb0000000000000001616100", {"a": 0}),
    ],
)
def test_producers_may_order_and_pad(given_hex: str, value: object) -> None:
    """An event's keys come in any order, its heads in any length that fits."""
    assert cbor.decode_loose(bytes.fromhex(given_hex)) == value


LOOSELY_TAKEN = {
    row[0] for row in REFUSED if row[1] == "canonical" and row[2] != "an indefinite length"
} - {"a2616100616100"}


@pytest.mark.parametrize(("given_hex", "check", "words"), REFUSED)
def test_producers_may_do_nothing_else(given_hex: str, check: str, words: str) -> None:
    """Beyond order and padding an event obeys the same rules, unique keys included."""
    data = bytes.fromhex(given_hex)
    if given_hex in LOOSELY_TAKEN:
        cbor.decode_loose(data)
    else:
        with pytest.raises(CborError):
            cbor.decode_loose(data)


@given(VALUES)
def test_round_trip(value: object) -> None:
    """What is written is read back as it was, and cbor2's own canonical form is the same."""
    data = cbor.encode(value)
    assert cbor.decode(data) == value
    assert cbor.decode_loose(data) == value
    assert data == cbor2.dumps(value, canonical=True)
    assert wellformed.deterministic_form(data) == data


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_cbor_error(data: bytes) -> None:
    """Nothing but CborError comes out of the readers, and what they take is what they write."""
    with contextlib.suppress(CborError):
        assert cbor.encode(cbor.decode(data)) == data
    with contextlib.suppress(CborError):
        cbor.encode(cbor.decode_loose(data))


@given(VALUES, st.data())
def test_a_changed_encoding_is_another_value_or_refused(value: object, data: st.DataObject) -> None:
    """One byte more, less or other never gives the same value: encodings are unique."""
    good = cbor.encode(value)
    at = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    for changed in (good[:at], good[:at] + byte + good[at:], good[:at] + byte + good[at + 1 :]):
        if changed != good:
            try:
                # `==` takes 1 for True; their encodings tell them apart.
                assert cbor.encode(cbor.decode(changed)) != good
            except CborError:
                continue


@given(VALUES, st.data())
def test_the_two_readers_agree(value: object, data: st.DataObject) -> None:
    """The fast walk takes just what is in its own deterministic form by the slow reader."""
    good = cbor.encode(value)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + data.draw(st.binary(max_size=2)) + good[at + 1 :]
    try:
        cbor.decode(changed)
    except CborError as error:
        if error.check == "canonical":
            assert wellformed.deterministic_form(changed) != changed
    else:
        assert wellformed.deterministic_form(changed) == changed


def test_bounds() -> None:
    """Depth 16 and 1 MiB are allowed, in both directions; one more is not."""
    deep = nested(DEPTH_MAX)
    assert cbor.encode(cbor.decode(deep)) == deep
    with pytest.raises(CborError, match="nested deeper"):
        cbor.encode([cbor.decode(deep)])
    with pytest.raises(CborError, match="nested deeper"):
        cbor.encode({"a": cbor.decode(deep)})
    longest = cbor.encode(bytes(BYTES_MAX - 5))
    assert len(longest) == BYTES_MAX
    assert cbor.decode(longest) == bytes(BYTES_MAX - 5)
    with pytest.raises(CborError, match="more than 1048576"):
        cbor.encode(bytes(BYTES_MAX - 4))
    with pytest.raises(CborError, match="more than 1048576"):
        cbor.decode(longest + b"\x00")


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        2**64,
        -(2**64) - 1,
        {1: 2},
        {b"a": 2},
        {None: 0},
        {"a": {"b": 0.5}},
        [{"a": {1}}],
        object(),
        bytearray(b"a"),
        memoryview(b"a"),
        "\ud800",
        {"\ud800": 1},
        cbor2.CBORTag(1, 0),
        cbor2.undefined,
    ],
)
def test_encode_refuses_what_is_outside_the_model(value: object) -> None:
    """A value that could not be read back is not written."""
    with pytest.raises(CborError) as caught:
        cbor.encode(value)
    assert caught.value.check == "decode"
    with pytest.raises(CborError):
        cbor.check_value(value)


def test_enumerations_and_tuples_are_written_plainly() -> None:
    """Records hand over StrEnums and tuples; a reader sees texts and arrays."""
    assert cbor.decode(cbor.encode({"grade": Grade.HW_SHUNT, "of": (1, 2)})) == {
        "grade": "HwShunt",
        "of": [1, 2],
    }


def test_check_value_counts_the_containers_around_it() -> None:
    """A value that fits alone may be too deep where it is to stand."""
    value = cbor.decode(nested(14))
    cbor.check_value(value, depth_used=2)
    with pytest.raises(CborError, match="nested deeper"):
        cbor.check_value(value, depth_used=3)


def test_key_order_is_bytewise() -> None:
    """A shorter key comes first because its head is smaller, whatever its letters."""
    assert list(cbor.decode(cbor.encode({"aa": 1, "z": 2, "": 3, "ü": 4}))) == ["", "z", "aa", "ü"]


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        # RFC 8949 §4.2.1's own example, and one where cbor2's canonical mode sorts otherwise.
        ("0a 1864 20 617a 626161 811864 8120 f4", "0a 1864 20 617a 626161 811864 8120 f4"),
        ("f4 8120 811864 626161 617a 20 1864 0a", "0a 1864 20 617a 626161 811864 8120 f4"),
        ("01 04 0f 20 6161 19018b", "01 04 0f 19018b 20 6161"),
    ],
)
def test_the_slow_reader_sorts_any_keys_bytewise(keys: str, order: str) -> None:
    """Labels of COSE headers are integers: length-first would be another order for them."""

    def as_map(text: str) -> bytes:
        return bytes((0xA0 + len(text.split()),)) + bytes.fromhex(text.replace(" ", "f6")) + b"\xf6"

    assert wellformed.deterministic_form(as_map(keys)) == as_map(order)


def test_sequences_are_split_by_their_heads_alone() -> None:
    """Items come out as they are, whether or not the profile would take them."""
    items = ["a0", "d28443a10126a0f640", "9f01ff", "c1fb3ff199999999999a", "1817", "62c328", "f7"]
    data = bytes.fromhex("".join(items))
    assert [item.hex() for item in cbor.split_sequence(data)] == items
    assert list(cbor.split_sequence(b"")) == []


@pytest.mark.parametrize("tail", ["58ff00", "1c", "82", "9f00", "ff"])
def test_a_sequence_ends_where_no_item_begins(tail: str) -> None:
    """The items before a fault still come out, then CborError with the fault's check."""
    items = cbor.split_sequence(bytes.fromhex("a000" + tail))
    assert [next(items), next(items)] == [b"\xa0", b"\x00"]
    with pytest.raises(CborError) as caught:
        next(items)
    assert caught.value.check == "decode"


@given(st.binary(max_size=40))
def test_the_slow_reader_raises_nothing_else(data: bytes) -> None:
    """The reader for refused bytes is as closed as the fast one, and idempotent."""
    with contextlib.suppress(CborError):
        form = wellformed.deterministic_form(data)
        assert wellformed.deterministic_form(form) == form
        assert wellformed.item_end(data, 0) == len(data)
