"""The strict CBOR codec: values of the profile's data model, to bytes and back.

Which members a receipt or an event has is not looked at here (`schemas.receipts`,
`schemas.events`), nor is COSE, whose headers have integer labels (`schemas.cose`).

The data model (§6.6): integers -2**64 to 2**64 - 1, byte strings, UTF-8 texts, arrays, maps with
text keys, false, true, null. No floats, tags, bignums, undefined or other simple values. Arrays
and maps nest at most `DEPTH_MAX` deep, the outermost counted, in at most `BYTES_MAX` bytes.

`decode` checks in this order, and the first fault is what it raises:
1. `decode`: the bytes are one well-formed item of that model, with nothing after it. A walk over
   the bytes, in a loop with bounds, comes before any library sees them.
2. `canonical`: they are its deterministic encoding (RFC 8949 §4.2.1): shortest heads, definite
   lengths, keys in bytewise order and unique. The value is written again and compared.

cbor2 sorts keys length-first (RFC 7049); for text keys alone, with shortest heads, that is the
bytewise order of their encodings, because a longer text has the greater head.

Invariant: `encode(decode(data)) == data` for all bytes that `decode` accepts.
Profile: §6.6. RFC 8742 for sequences.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import cbor2

from schemas.records import DEPTH_MAX, Value
from schemas.wellformed import CborError, deterministic_form, first_difference, item_end

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "CborError",
    "Value",
    "check_value",
    "decode",
    "decode_loose",
    "encode",
    "split_sequence",
]

BYTES_MAX = 1_048_576
_INT_MAX = 2**64 - 1
_INT_MIN = -(2**64)
_KEY_ORDERS_MAX = 4096
_PLAIN = frozenset((str, bytes, bool, type(None)))


def _step_of(initial: int) -> int:
    """Bytes that an item with this initial byte takes, where that byte alone says so; else 0."""
    major, info = initial >> 5, initial & 31
    if major < 2 and info < 28:
        return 1 if info < 24 else 1 + (1 << (info - 24))
    if major in (2, 3) and info < 24:
        return 1 + info
    return 1 if initial in (0xF4, 0xF5, 0xF6) else 0


_STEP = tuple(_step_of(initial) for initial in range(256))
_KEY_STEP = tuple(step if initial >> 5 == 3 else 0 for initial, step in enumerate(_STEP))


class _IndefiniteLength(CborError):
    """An item of no stated length: well-formed CBOR perhaps, never the deterministic form."""


def encode(value: object) -> bytes:
    """The deterministic encoding of a value of the data model.

    Tuples count as arrays, enumerations as the text or integer they are. Raises
    `CborError("decode")` for anything outside the model or larger than `BYTES_MAX`.
    """
    data = _write(value, DEPTH_MAX)
    if len(data) > BYTES_MAX:
        raise CborError("decode", f"{len(data)} bytes are more than {BYTES_MAX}")
    return data


def check_value(value: object, *, depth_used: int = 0) -> None:
    """Raises `CborError` unless `encode` can write the value `depth_used` containers deep.

    The size of what it would be written as is not looked at.
    """
    _write(value, DEPTH_MAX - depth_used)


def decode(data: bytes) -> Value:
    """The value of exactly one deterministically encoded item. Raises `CborError`."""
    try:
        _walk(data)
    except _IndefiniteLength as error:
        form = deterministic_form(data)
        _walk(form)
        _load(form)
        raise CborError("canonical", error.detail, error.position) from error
    value = _load(data)
    again = _write(value, DEPTH_MAX)
    if again != data:
        at = first_difference(again, data)
        raise CborError("canonical", "not the deterministic encoding of what it says", at)
    return value


def decode_loose(data: bytes) -> Value:
    """The value of one item of the data model, as producers may write it.

    Map keys may come in any order and heads may be longer than need be; the rest of `decode`'s
    rules stands, unique keys included. Raises `CborError("decode")`.
    """
    _walk(data)
    return _load(data, unique=True)


def split_sequence(data: bytes) -> Iterator[bytes]:
    """The items of a CBOR sequence (RFC 8742), each as the bytes it has there.

    Items need only be well-formed: what they are is for whoever gets them. Raises
    `CborError("decode")` at the first position where no item begins.
    """
    position = 0
    while position < len(data):
        end = item_end(data, position)
        yield data[position:end]
        position = end


def _walk(data: bytes) -> None:
    """Raises `CborError("decode")` unless `data` is one item of the data model.

    Not checked: that texts are UTF-8 (the decoder does), that keys are unique and in order. This
    is one long function on purpose: every receipt passes here, and a call costs as much as a step.
    """
    size = len(data)
    if size > BYTES_MAX:
        raise CborError("decode", f"{size} bytes are more than {BYTES_MAX}", BYTES_MAX)
    position, left, in_map = 0, 1, False
    outer: list[tuple[int, bool]] = []
    try:
        while True:
            if not left:
                if not outer:
                    break
                left, in_map = outer.pop()
                continue
            left -= 1
            if in_map:
                step = _KEY_STEP[data[position]]
                position = position + step if step else _past_long_key(data, position)
            step = _STEP[data[position]]
            if step:
                position += step
                continue
            major, argument, position = _long_head(data, position)
            if major < 4:
                position += argument
                continue
            outer.append((left, in_map))
            if len(outer) > DEPTH_MAX:
                raise CborError("decode", f"nested deeper than {DEPTH_MAX}", position)
            left, in_map = argument, major == 5
    except IndexError:
        raise CborError("decode", "the bytes end inside an item", size) from None
    if position != size:
        detail = "bytes after the item" if position < size else "the bytes end inside a string"
        raise CborError("decode", detail, min(position, size))


def _long_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Major type (2 to 5), argument and end of a head that the step table does not settle."""
    major, info = data[position] >> 5, data[position] & 31
    if major in (2, 3, 4, 5):
        if info < 24:
            return major, info, position + 1
        if info < 28:
            after = position + 1 + (1 << (info - 24))
            if after > len(data):
                raise CborError("decode", "the bytes end inside a head", position)
            return major, int.from_bytes(data[position + 1 : after], "big"), after
        if info == 31:
            raise _IndefiniteLength("canonical", "an indefinite length", position)
    raise CborError("decode", _why_refused(data[position]), position)


def _past_long_key(data: bytes, position: int) -> int:
    """Where a map key ends that is longer than 23 bytes, or no text at all."""
    if data[position] >> 5 != 3:
        raise CborError("decode", "a map key that is not a text", position)
    _, length, after = _long_head(data, position)
    return after + length


def _why_refused(initial: int) -> str:
    """Words for an initial byte that begins no item of the data model."""
    if initial >> 5 == 6:
        return "a tag"
    if initial in (0xF9, 0xFA, 0xFB):
        return "a float"
    if initial == 0xF7:
        return "undefined"
    if initial == 0xFF:
        return "a break where an item is due"
    return "a reserved head" if initial & 31 > 27 else "a simple value"


def _load(data: bytes, *, unique: bool = False) -> Value:
    """What cbor2 makes of walked bytes; it finds texts that are not UTF-8 (and repeated keys)."""
    try:
        value: Value = cbor2.loads(data, allow_duplicate_keys=not unique)
    except cbor2.CBORDecodeError as error:
        raise CborError("decode", str(error)) from error
    return value


def _write(value: object, depth_left: int) -> bytes:
    """The value's encoding, of whatever length; raises what `encode` raises."""
    try:
        data: bytes = cbor2.dumps(_ordered(value, depth_left))
    except UnicodeEncodeError as error:
        raise CborError("decode", "a text with a lone surrogate") from error
    return data


def _ordered(value: object, depth_left: int) -> object:
    """The value with its maps in encoding order; raises for what is outside the model."""
    if isinstance(value, dict):
        return _ordered_map(value, depth_left)
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise CborError("decode", "an integer beyond 64 bits")
        return value
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, list | tuple):
        if not depth_left:
            raise CborError("decode", f"nested deeper than {DEPTH_MAX}")
        return [_ordered(member, depth_left - 1) for member in value]
    if isinstance(value, Mapping):
        return _ordered_map(value, depth_left)
    raise CborError("decode", f"a {type(value).__name__} is not in the data model")


def _ordered_map(value: Mapping[object, object], depth_left: int) -> dict[str, object]:
    """The map in encoding order. What needs no look is not passed on: this is the hot path."""
    if not depth_left:
        raise CborError("decode", f"nested deeper than {DEPTH_MAX}")
    ordered: dict[str, object] = {}
    for key in _key_order(tuple(value)):
        member = value[key]
        kind = type(member)
        if kind in _PLAIN or (kind is int and 0 <= member <= _INT_MAX):  # type: ignore[operator]
            ordered[key] = member
        else:
            ordered[key] = _ordered(member, depth_left - 1)
    return ordered


@lru_cache(maxsize=_KEY_ORDERS_MAX)
def _key_order(keys: tuple[object, ...]) -> tuple[str, ...]:
    """Map keys in the bytewise order of their encodings; few maps have new sets of keys."""
    texts = [key for key in keys if isinstance(key, str)]
    if len(texts) != len(keys):
        raise CborError("decode", "a map key that is not a text")
    try:
        return tuple(sorted(texts, key=lambda key: (len(key.encode()), key.encode())))
    except UnicodeEncodeError as error:
        raise CborError("decode", "a text with a lone surrogate") from error
