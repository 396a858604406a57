"""Following an embedded log: a RocksDB directory that a steward's process writes, read beside it.

Its layout is described in `streams/logs/layout.py`, and written down here again, because nothing of
`streams` is imported. Statements go to a file beside it: `witness.outbox`.

1. `DIR/log/` is opened as a RocksDB secondary, raw, with this reader's own files elsewhere. It
   changes nothing there, and needs the writer's permission for nothing.
2. A record's key: topic code (1 byte), partition (4), offset (8), big-endian. Its value: content
   type (1 byte; 255: a length byte and text follow), 16 bytes of times, length of the key (2 bytes,
   65535: none), the key, number of headers (1), for each a length (2) and name and a length (4) and
   value; the rest is the record's value. Key 0xF1 holds the format (1 byte: 1) and the number of
   partitions (4).
3. Values are bytes and are never unpickled: raw mode, and loaders that raise.
4. The directory may be replaced while it is open. A look that fails opens it anew.

Source: rocksdict 0.3.29; RocksDB's wiki "Read-only and secondary instances".
"""

from __future__ import annotations

import asyncio
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any, Final, NoReturn

from rocksdict import AccessType, Options, Rdict

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
    """A reader of `directory`. Raises Trouble: `log-missing`, `log-damaged`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = Path(tempfile.mkdtemp(prefix="pool-witness-"))
        self._database: Rdict | None = None
        try:
            self._partitions = self._read_format()
        except BaseException:
            self._shut()
            raise

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
        try:
            cursor = self._open().iter()
            cursor.seek_for_prev(_KEY.pack(_CODES[topic], partition, 2**64 - 1))
            cursor.status()
            found: Any = cursor.key() if cursor.valid() else b""
            key = bytes(found)
        except Exception as error:
            raise self._damaged(str(error)) from error
        if not key.startswith(_prefix(topic, partition)):
            return 0
        return int(_KEY.unpack(key)[2]) + 1

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
        self._shut()

    def _scan(self, topic: str, partition: int, offset_next: int, max_records: int) -> Batch:
        prefix = _prefix(topic, partition)
        records: list[LogRecord] = []
        size = 0
        try:
            first = _KEY.pack(_CODES[topic], partition, offset_next)
            pairs: Any = self._open().items(from_key=first)
            for key, stored in pairs:
                if not key.startswith(prefix) or len(records) >= max_records:
                    break
                records.append(_record(bytes(key), bytes(stored)))
                size += len(stored)
                if size > READ_BYTES_MAX:
                    break
        except Exception as error:
            raise self._damaged(str(error)) from error
        after = records[-1].offset + 1 if records else offset_next
        return Batch(tuple(records), after)

    def _look(self) -> None:
        """See what was written since; a directory that cannot be caught up with is opened anew."""
        try:
            self._open().try_catch_up_with_primary()
        except Exception:
            self._reopen()

    def _reopen(self) -> None:
        self._forget()
        if self._read_format() != self._partitions:
            raise self._damaged("the number of partitions changed")

    def _open(self) -> Rdict:
        if self._database is None:
            self._database = self._connect()
        return self._database

    def _connect(self) -> Rdict:
        path = self._directory / LOG_DIRECTORY
        # RocksDB's binding would create the directory before it fails to find a database in it.
        if not (path / "CURRENT").is_file():
            todo = "name a directory that holds an embedded log"
            raise Trouble(Reason.LOG_MISSING, "no log", where=self.where, todo=todo)
        options = Options(raw_mode=True)
        options.set_max_open_files(-1)
        own = tempfile.mkdtemp(dir=self._own)
        try:
            database = Rdict(str(path), options, access_type=AccessType.secondary(own))
        except Exception as error:
            raise self._damaged(str(error)) from error
        database.set_loads(_never)
        database.set_dumps(_never)
        return database

    def _read_format(self) -> int:
        stored: Any = self._open().get(_FORMAT_KEY)
        if stored is None:
            todo = "start its steward once"
            raise Trouble(Reason.LOG_MISSING, "an empty log", where=self.where, todo=todo)
        value = bytes(stored)
        if len(value) != _FORMAT.size or value[0] != 1:
            raise self._damaged("not a format that this version knows")
        return int(_FORMAT.unpack(value)[1])

    def _forget(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _shut(self) -> None:
        self._forget()
        shutil.rmtree(self._own, ignore_errors=True)

    def _damaged(self, what: str) -> Trouble:
        self._forget()
        todo = "it is tried again; if it stays, have the directory restored"
        return Trouble(Reason.LOG_DAMAGED, what, where=self.where, todo=todo)


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


def _never(_value: Any) -> NoReturn:
    raise AssertionError("the raw mode of the database is off")
