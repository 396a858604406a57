"""A RocksDB directory that another process writes, opened beside it: untouched, and whole or not.

What keys and values mean, and what becomes of an error, is `witness.embedded`.

1. It is a RocksDB secondary. The binding writes a file of its own into whatever it opens, so that
   is a temporary directory, with links to CURRENT and the manifests; tables and write-ahead logs
   are named by their directories. Nothing is written in the writer's, which may be read-only.
2. A secondary passes by a table that is missing or damaged at its end, as if what it holds had not
   been written. So the directory is opened read-only first, which does not; nor does it take damage
   inside a write-ahead log for its end, by the recovery mode: a last write may be cut off, no more.
3. RocksDB's reader of its own logs turns for ever, where no signal is heard, on some record types
   of files that are written over again. None is written here, so they are looked for first.
4. A cursor that meets a damaged block looks like one at the end until its status is asked. The
   binding's own iterators never ask.
5. Values are bytes and are never unpickled: raw mode, and loaders that raise.

Raises OSError, or Exception with RocksDB's words: the binding has no other kind.
Source: rocksdict 0.3.29; RocksDB's wiki "Read-only and secondary instances" and "WAL recovery
modes", and its `db/log_reader.cc`.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from rocksdict import AccessType, DBPath, DBRecoveryMode, Options, Rdict

TRIES_MAX: Final = 8
"""How often a directory is opened whose files the writer changes meanwhile."""
BLOCK_BYTES: Final = 32 * 1024
WRITTEN_OVER_TYPES: Final = frozenset((5, 6, 7, 8, 11, 131))

_HEADER: Final = struct.Struct("<IHB")
_PATH_BYTES: Final = 2**62
"""No bound: no table is made for which there could be one."""


class Beside:
    """An open directory, as of the last `look`."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._own = Path(tempfile.mkdtemp(prefix="pool-witness-"))
        try:
            self._database = self._connect()
        except BaseException:
            shutil.rmtree(self._own, ignore_errors=True)
            raise

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        value: Any = self._database.get(key)
        return None if value is None else bytes(value)

    def pairs_from(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values at and after `key`, in key order."""
        cursor: Any = self._database.iter()
        cursor.seek(key)
        while cursor.valid():
            yield bytes(cursor.key()), bytes(cursor.value())
            cursor.next()
        cursor.status()

    def last_key(self, key: bytes) -> bytes:
        """The last key at or before `key`, or nothing."""
        cursor: Any = self._database.iter()
        cursor.seek_for_prev(key)
        cursor.status()
        return bytes(cursor.key()) if cursor.valid() else b""

    def look(self) -> None:
        """See what was written since."""
        self._link()
        self._database.try_catch_up_with_primary()

    def close(self) -> None:
        """Release everything."""
        self._database.close()
        shutil.rmtree(self._own, ignore_errors=True)

    def _connect(self) -> Rdict:
        for left in reversed(range(TRIES_MAX)):
            before = set(os.listdir(self._path))
            try:
                self._link()
                self._check_types()
                self._open(AccessType.read_only(False)).close()
                return self._open(AccessType.secondary(str(self._own / "secondary")))
            except Exception:
                # The writer may have deleted what was about to be read: there are others then.
                if not left or set(os.listdir(self._path)) == before:
                    raise
        raise AssertionError("the last try returns or raises")

    def _open(self, access: AccessType) -> Rdict:
        options = Options(raw_mode=True)
        options.set_max_open_files(-1)
        options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
        options.set_db_paths([DBPath(str(self._path), _PATH_BYTES)])
        options.set_wal_dir(str(self._path))
        database = Rdict(str(self._own), options, access_type=access)
        database.set_loads(_never)
        database.set_dumps(_never)
        return database

    def _link(self) -> None:
        """Rule 1; the writer makes a new manifest whenever it starts."""
        for source in (self._path / "CURRENT", *self._path.glob("MANIFEST-*")):
            link = self._own / source.name
            if not link.is_symlink():
                link.symlink_to(source)

    def _check_types(self) -> None:
        """Rule 3."""
        for file in (*self._path.glob("*.log"), *self._path.glob("MANIFEST-*")):
            place = written_over(file)
            if place is not None:
                raise ValueError(f"{file.name} has a record at {place} of a kind never written")


def written_over(file: Path) -> int | None:
    """Where the first record is that RocksDB's reader does not survive.

    A file is blocks of records: checksum (4 bytes), length (2, little-endian), type (1), content.
    From a record on that does not end in its block, all is left to RocksDB to judge.
    """
    start = 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            at = 0
            while at + _HEADER.size <= len(block):
                _, length, kind = _HEADER.unpack_from(block, at)
                if kind in WRITTEN_OVER_TYPES:
                    return start + at
                if (length, kind) == (0, 0):
                    break
                at += _HEADER.size + length
                if at > len(block):
                    return None
            start += len(block)
    return None


def _never(_value: Any) -> NoReturn:
    raise AssertionError("the raw mode of the database is off")
