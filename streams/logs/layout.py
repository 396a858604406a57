"""How the embedded log lies on disk: keys, values and names, as functions from bytes to records.

Opening and writing the database is `streams.logs.embedded`. This page is complete, so that a reader
that may not import this package can be written from it.

Directory
1. `DIR/log/` is a RocksDB database, written by RocksDB's own defaults for file formats, opened raw
   (keys and values are bytes). One process may write; any number may read beside it as RocksDB
   secondaries, whose own files go elsewhere. `DIR/snapshots/` is a cache (`streams.steward`).
2. Everything is in the default column family.

Keys (integers are big-endian, unsigned)
3. A record: topic code (1 byte, `TOPIC_CODES`), partition (4 bytes), offset (8 bytes). So the
   records of a topic's partition are neighbours, in offset order.
4. A reserved start: 0xF0, topic code, partition; its value is 8 bytes, the smallest offset that the
   next record may get. It exists where a ledger was imported whose causes name such offsets.
5. `FORMAT_KEY` (0xF1): its value is the format (1 byte, 1) and the number of partitions (4 bytes).
   `IMPORT_KEY` (0xF2): the key of a pool whose ledger is being imported; with it the directory's
   ledgers are not to be gone on with, because that pool's may be cut short.

Value of a record, in order
6. content type (1 byte, `CONTENT_CODES`; 255: one length byte and text follow), timestamp in ms
   (8 bytes, signed), order (8 bytes), length of the key (2 bytes, 65535: none), the key, number of
   headers (1 byte), for each: length (2 bytes) and name in UTF-8, length (4 bytes) and value; the
   rest is the record's value.
7. `order` counts the partition's records over all topics in the order of their publication.

Invariant: a record's bytes never change after they were written, and no record is ever deleted.
"""

import struct
from typing import Final

from streams import topics
from streams.logs.contract import CONTENT_CBOR, CONTENT_COSE, CONTENT_JSON, Headers, Record

TOPIC_CODES: Final = {
    topics.ADMIN: 1,
    topics.CLAIMS: 2,
    topics.METERS: 3,
    topics.LEDGER: 4,
    topics.HEADS: 5,
    topics.WITNESS: 6,
    topics.DEAD: 7,
}
CONTENT_CODES: Final = {CONTENT_CBOR: 0, CONTENT_JSON: 1, CONTENT_COSE: 2}
FORMAT_KEY: Final = b"\xf1"
IMPORT_KEY: Final = b"\xf2"
FORMAT: Final = 1
RECORD_KEY_BYTES: Final = 13

_CONTENT_TYPES: Final = {code: name for name, code in CONTENT_CODES.items()}
_OTHER_CONTENT: Final = 255
_NO_KEY: Final = 0xFFFF
_RECORD_KEY: Final = struct.Struct(">BIQ")
_RESERVED_KEY: Final = struct.Struct(">BBI")
_RESERVED: Final = 0xF0
_FORMAT_VALUE: Final = struct.Struct(">BI")
_FIXED: Final = struct.Struct(">BqQH")
_SHORT: Final = struct.Struct(">H")
_LONG: Final = struct.Struct(">I")


class LayoutError(ValueError):
    """Bytes that this format never writes."""


def record_key(topic: str, partition: int, offset: int) -> bytes:
    """The key of a record (rule 3)."""
    return _RECORD_KEY.pack(TOPIC_CODES[topic], partition, offset)


def partition_prefix(topic: str, partition: int) -> bytes:
    """What the keys of all records of a topic's partition begin with."""
    return _RECORD_KEY.pack(TOPIC_CODES[topic], partition, 0)[:5]


def offset_of(key: bytes) -> int:
    """The offset in a record's key."""
    if len(key) != RECORD_KEY_BYTES:
        raise LayoutError(f"a record key of {len(key)} bytes")
    return int.from_bytes(key[5:], "big")


def reserved_key(topic: str, partition: int) -> bytes:
    """The key of a reserved start (rule 4)."""
    return _RESERVED_KEY.pack(_RESERVED, TOPIC_CODES[topic], partition)


def pack_format(partitions: int) -> bytes:
    """The value under `FORMAT_KEY`."""
    return _FORMAT_VALUE.pack(FORMAT, partitions)


def unpack_format(value: bytes) -> int:
    """The number of partitions. Raises LayoutError for another format."""
    if len(value) != _FORMAT_VALUE.size or value[0] != FORMAT:
        raise LayoutError("not a format that this version knows")
    return int(_FORMAT_VALUE.unpack(value)[1])


def pack_record(
    value: bytes,
    *,
    timestamp_ms: int,
    order: int,
    key: bytes | None,
    content_type: str,
    headers: Headers,
) -> bytes:
    """The stored value of a record (rule 6). Sizes are the caller's to check."""
    code = CONTENT_CODES.get(content_type, _OTHER_CONTENT)
    key_length = _NO_KEY if key is None else len(key)
    parts = [_FIXED.pack(code, timestamp_ms, order, key_length)]
    if code == _OTHER_CONTENT:
        name = content_type.encode()
        parts.append(bytes((len(name),)) + name)
    if key is not None:
        parts.append(key)
    parts.append(bytes((len(headers),)))
    for header, content in headers:
        name = header.encode()
        parts += (_SHORT.pack(len(name)), name, _LONG.pack(len(content)), content)
    parts.append(value)
    return b"".join(parts)


def unpack_record(topic: str, partition: int, offset: int, stored: bytes) -> Record:
    """The record of a stored value. Raises LayoutError."""
    try:
        code, timestamp_ms, order, key_length = _FIXED.unpack_from(stored)
        at = _FIXED.size
        content_type, at = _content_type(code, stored, at)
        key, at = (None, at) if key_length == _NO_KEY else _take(stored, at, key_length)
        count, at = stored[at], at + 1
        headers, at = _headers(stored, at, count) if count else ((), at)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise LayoutError(str(error)) from error
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        order=order,
        key=key,
        value=stored[at:],
        content_type=content_type,
        headers=headers,
    )


def order_of(stored: bytes) -> int:
    """The `order` in a stored value, without the rest."""
    if len(stored) < _FIXED.size:
        raise LayoutError("a record shorter than its fixed part")
    return int(_FIXED.unpack_from(stored)[2])


def _content_type(code: int, stored: bytes, at: int) -> tuple[str, int]:
    if code != _OTHER_CONTENT:
        return _CONTENT_TYPES[code], at
    name, at_next = _take(stored, at + 1, stored[at])
    return name.decode(), at_next


def _headers(stored: bytes, at: int, count: int) -> tuple[Headers, int]:
    found = []
    for _ in range(count):
        name, at = _take(stored, at + 2, _SHORT.unpack_from(stored, at)[0])
        content, at = _take(stored, at + 4, _LONG.unpack_from(stored, at)[0])
        found.append((name.decode(), content))
    return tuple(found), at


def _take(stored: bytes, at: int, length: int) -> tuple[bytes, int]:
    taken = stored[at : at + length]
    if len(taken) != length:
        raise LayoutError("a record that ends early")
    return taken, at + length
