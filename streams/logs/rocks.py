"""RocksDB behind a few typed calls on bytes, with its errors told apart.

What the bytes mean is `streams.logs.layout`.

1. Always raw: in its default mode the binding unpickles what it reads, so a crafted value would run
   code. `set_loads` and `set_dumps` raise on top of that.
2. RocksDB tolerates a last write that is cut off, as a killed machine leaves it, and nothing else:
   damage in the middle of its write-ahead log is an error, not a silent end. What it cannot tell
   from a cut off write is a damaged length in the last 32 KiB. `streams.logs.wal` looks first.
3. The binding raises `Exception` with RocksDB's status text. The text is looked at here only.
4. A reader beside the writer is a RocksDB secondary: its own files go to a temporary directory, and
   it must keep every file open (`max_open_files=-1`), because the writer may delete a file that it
   is reading.
5. The binding writes a file of its own into whatever directory it opens, also for reading. So a
   reader opens its own directory, with links to CURRENT and the manifests; tables and write-ahead
   logs are named by their directories, and nothing is written there.
6. A secondary passes by a table that is missing or damaged at its end, as if what it holds had
   never been written. Opening the directory read-only does not, so a reader does that first.
7. After a failed write RocksDB latches the error; `check_alive` then says to open it anew.
8. A cursor that meets a damaged block is no longer valid, as at the end; only its status tells the
   two apart. So the binding's own iterators, which never ask, are not used.

Source: rocksdict 0.3.29; RocksDB's wiki "WAL recovery modes" and "Read-only and secondary".
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBPath,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from streams.logs import wal
from streams.logs.errors import (
    Damaged,
    DiskFull,
    Held,
    LogTrouble,
    Misconfigured,
    Missing,
    OutcomeUnknown,
)

WRITE_BUFFER_BYTES: Final = 8 * 1024 * 1024
WRITE_BUFFERS: Final = 2
BLOCK_CACHE_BYTES: Final = 8 * 1024 * 1024
INFO_LOG_BYTES: Final = 1024 * 1024
INFO_LOG_FILES: Final = 2
WAL_BYTES: Final = 64 * 1024 * 1024
OPEN_TRIES_MAX: Final = 8
"""How often a reader opens a log whose files a writer changes meanwhile."""
DB_PATH_BYTES: Final = 2**62
"""No bound: a reader makes no table that it could be for."""

_NO_ROOM: Final = ("No space left", "File too large", "Disk quota exceeded")
_NOT_ALLOWED: Final = ("Permission denied", "Read-only file system", "Not a directory")
_LOCKED: Final = "lock"


class Database:
    """An open RocksDB. Not to be used by two threads at once."""

    def __init__(self, path: Path, rdict: Rdict, own_directory: Path | None = None) -> None:
        self._path = path
        self._rdict: Rdict | None = rdict
        self._own_directory = own_directory
        self._failed = False
        self._synced = WriteOptions()
        self._synced.sync = True

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises: Damaged."""
        try:
            value = self._open().get(key)
        except Exception as error:
            raise _trouble(error, self._path) from error
        return None if value is None else bytes(value)

    def items_from(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values at and after `key`, in key order, as of the call. Raises: Damaged."""
        cursor = self._open().iter()
        try:
            cursor.seek(key)
            while cursor.valid():
                yield cursor.key(), cursor.value()
                cursor.next()
            cursor.status()
        except Exception as error:
            raise _trouble(error, self._path) from error
        finally:
            # A cursor holds the database open, and a traceback would hold the cursor.
            del cursor

    def last_before(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The last pair at or before `key`. Raises: Damaged."""
        cursor = self._open().iter()
        try:
            cursor.seek_for_prev(key)
            cursor.status()
            return (cursor.key(), cursor.value()) if cursor.valid() else None
        except Exception as error:
            raise _trouble(error, self._path) from error
        finally:
            del cursor

    def write(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all pairs atomically and sync. Raises: DiskFull, OutcomeUnknown, Damaged."""
        self.check_alive()
        batch = WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        try:
            self._open().write(batch, self._synced)
        except Exception as error:
            self._failed = True
            raise _trouble(error, self._path, writing=True) from error

    def check_alive(self) -> None:
        """Raises Damaged after a failed write."""
        if self._failed:
            raise Damaged(
                "an earlier write failed",
                where=str(self._path),
                todo="see to the disk, then start again",
            )

    def catch_up(self) -> None:
        """Let a secondary see what was written since. Raises: Damaged."""
        assert self._own_directory is not None, "only a secondary catches up"
        _link_manifests(self._path, self._own_directory)
        try:
            self._open().try_catch_up_with_primary()
        except Exception as error:
            if not _link_manifests(self._path, self._own_directory):
                raise _trouble(error, self._path) from error
            # The writer made a manifest between the two: at the next look it is there.

    def close(self) -> None:
        """Close; twice is allowed."""
        if self._rdict is not None:
            self._rdict.close()
            self._rdict = None
        if self._own_directory is not None:
            shutil.rmtree(self._own_directory, ignore_errors=True)

    def _open(self) -> Rdict:
        assert self._rdict is not None, "a closed log was used"
        return self._rdict


def open_primary(path: Path, *, create: bool) -> Database:
    """Open for writing, alone. Raises: Held, Missing, DiskFull, Damaged."""
    if not create:
        _require(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _trouble(error, path) from error
    options = _options()
    options.create_if_missing(create)
    _check_logs(path)
    return Database(path, _connect(path, options, AccessType.read_write()))


def open_secondary(path: Path) -> Database:
    """Open for reading beside whoever writes. Raises: Missing, Damaged, Misconfigured."""
    _require(path)
    try:
        own_directory = Path(tempfile.mkdtemp(prefix="pool-reader-"))
    except OSError as error:
        raise Misconfigured(
            f"no temporary directory: {error}", where=str(path.parent), todo="set TMPDIR to one"
        ) from error
    options = _options()
    options.set_db_paths([DBPath(str(path.resolve()), DB_PATH_BYTES)])
    options.set_wal_dir(str(path.resolve()))
    try:
        rdict = _connect_beside(path, own_directory, options)
    except BaseException:
        shutil.rmtree(own_directory, ignore_errors=True)
        raise
    return Database(path, rdict, own_directory)


def _connect_beside(path: Path, own_directory: Path, options: Options) -> Rdict:
    """A secondary of a log whose tables are all there (rule 6), beside whoever writes it."""
    secondary = AccessType.secondary(str(own_directory / "secondary"))
    for left in reversed(range(OPEN_TRIES_MAX)):
        before = set(os.listdir(path))
        _link_manifests(path, own_directory)
        try:
            _check_logs(path)
            _connect(path, options, AccessType.read_only(False), opened=own_directory).close()
            return _connect(path, options, secondary, opened=own_directory)
        except LogTrouble:
            # The writer may have deleted what was about to be read: then there are other files.
            if not left or set(os.listdir(path)) == before:
                raise
    raise AssertionError("the last try returns or raises")


def _link_manifests(path: Path, own_directory: Path) -> bool:
    """Link what names a log's files into a reader's directory (rule 5); whether any was new.

    The writer makes a new manifest when it opens the log, so between a look and the reading of
    CURRENT there may be another one: whoever fails looks again, while that finds any.
    """
    found = False
    for source in (path / "CURRENT", *path.glob("MANIFEST-*")):
        link = own_directory / source.name
        if not link.is_symlink():
            link.symlink_to(source.resolve())
            found = True
    return found


def _connect(
    path: Path, options: Options, access: AccessType, *, opened: Path | None = None
) -> Rdict:
    """Open the log at `path`; of a reader, the directory `opened` that stands for it."""
    try:
        rdict = Rdict(str(opened or path), options, access_type=access)
    except Exception as error:
        raise _trouble(error, path) from error
    rdict.set_loads(_never)
    rdict.set_dumps(_never)
    return rdict


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(WRITE_BUFFERS)
    options.set_max_total_wal_size(WAL_BYTES)
    options.set_max_open_files(-1)
    options.set_max_background_jobs(2)
    options.set_max_log_file_size(INFO_LOG_BYTES)
    options.set_keep_log_file_num(INFO_LOG_FILES)
    options.set_stats_dump_period_sec(0)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(table)
    return options


def _check_logs(path: Path) -> None:
    """Raises Damaged where RocksDB would not come back from reading (`streams.logs.wal`)."""
    for file in (*path.glob("*.log"), *path.glob("MANIFEST-*")):
        try:
            found = wal.unreadable_record(file)
        except FileNotFoundError:
            # The writer has just deleted it.
            continue
        except OSError as error:
            raise _trouble(error, path) from error
        if found is not None:
            what = f"{file.name} has a record at {found} of a kind that is not written"
            raise Damaged(what, where=str(path.parent), todo="restore the directory from a copy")


def _require(path: Path) -> None:
    # RocksDB's binding would create the directory before it fails to find a database in it.
    if not (path / "CURRENT").is_file():
        raise Missing("no log", where=str(path.parent), todo="name a directory that holds one")


def _never(_value: Any) -> NoReturn:
    raise AssertionError("the raw mode of the database is off")


def _trouble(error: Exception, path: Path, *, writing: bool = False) -> LogTrouble:
    """RocksDB's status text as one of the contract's errors."""
    if isinstance(error, LogTrouble):
        return error
    text, where = str(error), str(path.parent)
    if any(sign in text for sign in _NO_ROOM):
        return DiskFull("no room to write", where=where, todo="make room, then start again")
    if any(sign in text for sign in _NOT_ALLOWED):
        return Misconfigured(text, where=where, todo="use a directory that can be written to")
    if not writing and _LOCKED in text.casefold() and "IO error" in text:
        todo = "stop it, or name another directory"
        return Held("another process holds this directory", where=where, todo=todo)
    if writing:
        return OutcomeUnknown(f"the write failed: {text}", where=where, todo="start again")
    return Damaged(text, where=where, todo="restore the directory from a copy")
