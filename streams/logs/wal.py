"""The record types in RocksDB's own logs, looked at before RocksDB reads them.

RocksDB checks every record against its checksum, and says so where one is damaged. But it looks at
the type first, and does not survive the types of a log file that is written over again: on one of
them behind others its reader turns for ever, inside the library where no signal is heard, and with
one at the start it passes the whole file by as an old one. Such files are never written here.

1. A log file (write-ahead log or manifest) is blocks of 32 KiB. A block is records, each of a
   checksum (4 bytes), a length (2, little-endian), a type (1) and so many bytes; what is left of a
   block and too short for a header is padding.
2. Only types are judged. A record that does not end in its block is left to RocksDB, and so is all
   that follows it: it is damage or a last write that was cut off, and RocksDB tells which.

Source: RocksDB's `db/log_format.h` and `db/log_reader.cc` (`ReadPhysicalRecord`).
"""

import struct
from pathlib import Path
from typing import Final

BLOCK_BYTES: Final = 32 * 1024
WRITTEN_OVER_TYPES: Final = frozenset((5, 6, 7, 8, 11, 131))

_HEADER: Final = struct.Struct("<IHB")
_NO_RECORD: Final = (0, 0)
"""Length and type where a block was allocated and not written to."""


def unreadable_record(file: Path) -> int | None:
    """Where the first record is that RocksDB's reader does not survive. Raises OSError."""
    start = 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            position = 0
            while position + _HEADER.size <= len(block):
                _, length, kind = _HEADER.unpack_from(block, position)
                if kind in WRITTEN_OVER_TYPES:
                    return start + position
                if (length, kind) == _NO_RECORD:
                    break
                position += _HEADER.size + length
                if position > len(block):
                    return None
            start += len(block)
    return None
