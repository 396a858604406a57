"""Following an embedded log: a RocksDB directory that a steward's process writes, read beside it.

Its layout is described in `streams/logs/layout.py`, and written down here again, because nothing of
`streams` is imported. Statements go to a file beside it: `witness.outbox`. How RocksDB is opened so
that nothing is changed in `DIR/log/`, and no damage there passes for an end, is `witness.beside`.

1. A record's key: topic code (1 byte), partition (4), offset (8), big-endian. Its value: content
   type (1 byte; 255: a length byte and text follow), 16 bytes of times, length of the key (2 bytes,
   65535: none), the key, number of headers (1), for each a length (2) and name and a length (4) and
   value; the rest is the record's value. Key 0xF1 holds the format (1 byte: 1) and the number of
   partitions (4).
2. What a witness reads has every offset: one that is missing below another is damage.
3. The directory may be replaced while it is open. A look that fails opens it anew.
4. After trouble the next call opens the directory anew, so it is over once the log can be read.
   What is damaged meanwhile is found where it is read, or by the next that opens the directory.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Final

from witness.beside import Beside
from witness.sources import HEADS, LEDGER, READ_BYTES_MAX, READ_MAX, WITNESS, Batch, LogRecord
from witness.trouble import Reason, Trouble

LOG_DIRECTORY: Final = "log"
POLL_MS: Final = 50

_CODES: Final = {LEDGER: 4, HEADS: 5, WITNESS: 6}
_KEY: Final = struct.Struct(">BIQ")
_FORMAT_KEY: Final = b"\xf1"
_FORMAT: Final = struct.Struct(">BI")
_FIXED: Final = struct.Struct(">B16xH")
_NO_KEY: Final = 0xFFFF
_OTHER_CONTENT: Final = 255


class EmbeddedReader:
    """A reader of `directory`. Raises Trouble: `log-damaged`, `log-unavailable`.

    `log-missing` is raised at the start alone: what was there may be about to be put back.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._database: Beside | None = None
        self._partitions = 0
        self._open()

    @property
    def where(self) -> str:
        """The directory."""
        return str(self._directory)

    async def partitions(self) -> int:
        """How many partitions every topic has."""
        return self._partitions

    async def end(self, topic: str, partition: int) -> int:
        """The offset after the last record, as of a new look."""
        self._look()
        database = self._open()
        try:
            key = database.last_key(_KEY.pack(_CODES[topic], partition, 2**64 - 1))
        except Exception as error:
            what = f"the end of {topic}/{partition} cannot be read: {error}"
            raise self._damaged(what) from error
        return int(_KEY.unpack(key)[2]) + 1 if key.startswith(_prefix(topic, partition)) else 0

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = READ_MAX,
        timeout_ms: int = 0,
    ) -> Batch:
        """Records at and after `offset_next`, after a new look where there are none."""
        batch = self._scan(topic, partition, offset_next, max_records)
        if not batch.records:
            if timeout_ms:
                await asyncio.sleep(min(timeout_ms, POLL_MS) / 1000)
            self._look()
            batch = self._scan(topic, partition, offset_next, max_records)
        return batch

    async def close(self) -> None:
        """Release the directory."""
        self._forget()

    def _scan(self, topic: str, partition: int, offset_next: int, max_records: int) -> Batch:
        prefix, place = _prefix(topic, partition), f"{topic}/{partition}"
        records: list[LogRecord] = []
        size, due = 0, offset_next
        database = self._open()
        try:
            for key, stored in database.pairs_from(_KEY.pack(_CODES[topic], partition, due)):
                if not key.startswith(prefix) or len(records) >= max_records:
                    break
                record = _record(key, stored)
                if record.offset != due:
                    raise ValueError(f"the next record is {record.offset}")
                records.append(record)
                due += 1
                size += len(stored)
                if size > READ_BYTES_MAX:
                    break
        except Exception as error:
            what = f"{place} cannot be read on from offset {due}: {error}"
            raise self._damaged(what) from error
        return Batch(tuple(records), due)

    def _look(self) -> None:
        """See what was written since; a directory that cannot be caught up with is opened anew."""
        database = self._open()
        try:
            database.look()
        except Exception:
            self._forget()
            self._open()

    def _open(self) -> Beside:
        if self._database is None:
            self._database = self._connect()
            try:
                stored = self._database.get(_FORMAT_KEY)
            except Exception as error:
                raise self._damaged(str(error)) from error
            if stored is None:
                todo = "if it is new, start its steward once, or else have it restored"
                raise self._missing("an empty log", todo)
            if len(stored) != _FORMAT.size or stored[0] != 1:
                raise self._damaged("not a format that this version knows")
            partitions = int(_FORMAT.unpack(stored)[1])
            if self._partitions not in (0, partitions):
                raise self._damaged("the number of partitions changed")
            self._partitions = partitions
        return self._database

    def _connect(self) -> Beside:
        path = self._directory / LOG_DIRECTORY
        if not (path / "CURRENT").is_file():
            raise self._missing("no log", "name a directory that holds an embedded log")
        try:
            return Beside(path)
        except OSError as error:
            todo = "see to the permissions, and to the space for temporary files ($TMPDIR)"
            raise self._trouble(Reason.LOG_UNAVAILABLE, str(error), todo) from error
        except Exception as error:
            raise self._damaged(str(error)) from error

    def _forget(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _missing(self, what: str, todo: str) -> Trouble:
        reason = Reason.LOG_UNAVAILABLE if self._partitions else Reason.LOG_MISSING
        return self._trouble(reason, what, todo)

    def _damaged(self, what: str) -> Trouble:
        todo = "it is tried again; if it stays, have the directory restored"
        return self._trouble(Reason.LOG_DAMAGED, what, todo)

    def _trouble(self, reason: Reason, what: str, todo: str) -> Trouble:
        self._forget()
        return Trouble(reason, what, where=self.where, todo=todo)


def _prefix(topic: str, partition: int) -> bytes:
    return _KEY.pack(_CODES[topic], partition, 0)[:5]


def _record(key: bytes, stored: bytes) -> LogRecord:
    """The record of a stored pair. Raises ValueError, IndexError or struct.error."""
    content, key_length = _FIXED.unpack_from(stored)
    at = _FIXED.size
    if content == _OTHER_CONTENT:
        at += 1 + stored[at]
    pool = None
    if key_length != _NO_KEY:
        pool, at = stored[at : at + key_length], at + key_length
    count, at = stored[at], at + 1
    for _ in range(count):
        at += 2 + int.from_bytes(stored[at : at + 2], "big")
        at += 4 + int.from_bytes(stored[at : at + 4], "big")
    if at > len(stored):
        raise ValueError("a record that ends early")
    return LogRecord(int(_KEY.unpack(key)[2]), pool, stored[at:])
