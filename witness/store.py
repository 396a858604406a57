"""The witness's state on disk: one SQLite file, made once, held by one process, never behind.

What the records say is `witness.record`.

1. `create` makes a new store and refuses where a file is; `open_store` opens an existing one and
   never makes one. A witness whose store is lost must be retired with its key: a new store under an
   old key would sign from the start again whatever it is shown.
2. The store belongs to one key, and one process holds it: an exclusive lock on a file beside it,
   for as long as it is open. `inspect` reads beside the holder.
3. Rollback journal (DELETE), `synchronous=EXTRA`: a transaction is on disk, the directory entry of
   its journal included, before COMMIT returns. Not WAL: SQLite before 3.51.3 may lose a committed
   transaction when a checkpoint races a reset of the log.
4. `swap` is the only way to change a record: it names the bytes it replaces, and changes nothing if
   they are no longer there (`store-changed`).
5. After any error in a write the store is closed and of no more use. What was committed is learned
   by opening it again, never assumed.

Invariant: when `swap` returns, the new record survives a lost power supply.
Profile: §6.7.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from witness import faults
from witness.trouble import Reason, Trouble

FORMAT: Final = 1
BUSY_SECONDS: Final = 5.0
"""How long a write waits for somebody who reads beside."""

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE records (pool TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE tiles (pool TEXT NOT NULL, tile INTEGER NOT NULL, leaves BLOB NOT NULL, root BLOB,
                    PRIMARY KEY (pool, tile)) WITHOUT ROWID;
CREATE TABLE positions (topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
                        PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE published (digest BLOB PRIMARY KEY) WITHOUT ROWID;
"""
_REFUSED: Final = """
CREATE TABLE IF NOT EXISTS refused (pool TEXT PRIMARY KEY, length INTEGER NOT NULL,
                                    reason TEXT NOT NULL, detail TEXT NOT NULL) WITHOUT ROWID
"""
"""Made with the first note, so that stores of before have it, too."""


class Tile(NamedTuple):
    """256 leaf hashes of a pool's tree, or the last ones; `root` where they are 256."""

    number: int
    leaves: bytes
    root: bytes | None


class Refused(NamedTuple):
    """The last head of a pool that was refused, and why."""

    pool: str
    length: int
    reason: str
    detail: str


class Store:
    """An open store. Use from one thread. Made by `open_store`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection
        self._lock = lock

    @property
    def public_key(self) -> bytes:
        """The raw key that the store belongs to."""
        return bytes(self._rows("SELECT value FROM meta WHERE name = 'public_key'")[0][0])

    def records(self) -> dict[str, bytes]:
        """Every pool's record."""
        return {pool: bytes(body) for pool, body in self._rows("SELECT pool, body FROM records")}

    def record(self, pool: str) -> bytes | None:
        """One pool's record."""
        rows = self._rows("SELECT body FROM records WHERE pool = ?", pool)
        return bytes(rows[0][0]) if rows else None

    def tile_roots(self, pool: str) -> list[bytes | None]:
        """The tiles' roots, in order; None for one that is not full."""
        return [
            None if root is None else bytes(root)
            for (root,) in self._rows("SELECT root FROM tiles WHERE pool = ? ORDER BY tile", pool)
        ]

    def tile(self, pool: str, number: int) -> bytes:
        """The leaf hashes of one tile, one after the other; empty if there is none."""
        rows = self._rows("SELECT leaves FROM tiles WHERE pool = ? AND tile = ?", pool, number)
        return bytes(rows[0][0]) if rows else b""

    def positions(self) -> dict[tuple[str, int], int]:
        """Where each topic's partition is to be read on: a hint, and never ahead of the records."""
        rows = self._rows("SELECT topic, partition, offset FROM positions")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def swap(self, pool: str, old: bytes | None, new: bytes, tiles: Iterable[Tile] = ()) -> None:
        """Replace a pool's record (None: there is none yet) and write tiles, durably or not at all.

        Raises Trouble: `store-changed` if the record is not `old`, `store-failed`.
        """
        if old is None:
            query = "INSERT OR IGNORE INTO records (body, pool) VALUES (?, ?)"
        else:
            query = "UPDATE records SET body = ? WHERE pool = ? AND body = ?"
        with self._transaction() as connection:
            token = () if old is None else (old,)
            if connection.execute(query, (new, pool, *token)).rowcount != 1:
                raise _changed(self.path, pool)
            connection.executemany(
                "INSERT OR REPLACE INTO tiles (pool, tile, leaves, root) VALUES (?, ?, ?, ?)",
                [(pool, *tile) for tile in tiles],
            )
            faults.reach(faults.Point.WRITING)

    def published(self) -> set[bytes]:
        """SHA-256 of the statements that were noted as published: a hint, never too many."""
        return {bytes(digest) for (digest,) in self._rows("SELECT digest FROM published")}

    def refused(self) -> list[Refused]:
        """The refusals that were noted, and after which no head was signed."""
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'refused'"):
            return []
        rows = self._rows("SELECT pool, length, reason, detail FROM refused ORDER BY pool")
        return [Refused(*row) for row in rows]

    def note(
        self,
        positions: dict[tuple[str, int], int],
        published: Iterable[bytes],
        refused: Iterable[Refused] = (),
    ) -> None:
        """Note where to read on, what need not be published again, and which heads were refused.

        All at once: a head that is not read again is not forgotten. Raises Trouble(`store-failed`).
        """
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO positions (topic, partition, offset) VALUES (?, ?, ?)",
                [(topic, partition, offset) for (topic, partition), offset in positions.items()],
            )
            connection.execute("DELETE FROM published")
            connection.executemany(
                "INSERT INTO published (digest) VALUES (?)", [(digest,) for digest in published]
            )
            connection.execute(_REFUSED)
            connection.execute("DELETE FROM refused")
            connection.executemany(
                "INSERT INTO refused (pool, length, reason, detail) VALUES (?, ?, ?, ?)", refused
            )

    def close(self) -> None:
        """Let go of file and lock; twice is allowed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self.close()
            raise _failed(self.path, error) from error
        except BaseException:
            # Closing rolls back what was not committed, and an object in doubt is of no more use.
            self.close()
            raise

    def _rows(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            return self._open().execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _damaged(self.path, error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise Trouble(
                Reason.STORE_FAILED,
                "the store was closed after an error",
                where=str(self.path),
                todo="start again: what was written is learned by reading it",
            )
        return self._connection


def refuse_existing(path: Path) -> None:
    """Raises Trouble: `store-exists` where a file is, `store-missing` where no folder is for it."""
    if path.exists():
        raise _exists(path)
    if not path.parent.is_dir():
        where = str(path)
        todo = "name a store in a folder that is there"
        raise Trouble(Reason.STORE_MISSING, "no such folder", where=where, todo=todo)


def create(path: Path, public_key: bytes) -> None:
    """Make a new, empty store for a witness's key.

    Raises Trouble: `store-exists`, `store-failed`.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            draft.chmod(0o600)
            connection.executescript(_SCHEMA)
            connection.executemany(
                "INSERT INTO meta (name, value) VALUES (?, ?)",
                [("format", FORMAT), ("public_key", public_key)],
            )
        sync(draft)
        os.link(draft, path)
        sync(path.parent)
    except FileExistsError as error:
        raise _exists(path) from error
    except (OSError, sqlite3.Error) as error:
        raise _failed(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def open_store(path: Path, public_key: bytes) -> Store:
    """The store of this witness's key, held for this process alone.

    Raises Trouble: `store-missing`, `store-held`, `key-of-another`, `store-damaged`.
    """
    _require(path)
    store = Store(path, _connect(path, "rw"), _hold(path))
    try:
        _check(store, public_key)
    except BaseException:
        store.close()
        raise
    return store


def inspect(path: Path) -> Store:
    """The store, for reading beside whoever holds it.

    Where a killed process left a write half done, SQLite finishes or undoes it here, as it would at
    the next start; nothing else is changed. Raises Trouble: `store-missing`, `store-damaged`.
    """
    _require(path)
    journal = path.with_name(path.name + "-journal")
    store = Store(path, _connect(path, "rw" if journal.exists() else "ro"), None)
    try:
        store._open().execute("PRAGMA query_only = ON")
        _check(store, store.public_key)
    except BaseException:
        store.close()
        raise
    return store


def _require(path: Path) -> None:
    if not path.is_file():
        raise Trouble(
            Reason.STORE_MISSING,
            "no store",
            where=str(path),
            todo="if it was lost, retire its key and run `pool-witness init` with a new one",
        )


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
        )
        if mode == "rw":
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = EXTRA")
    except sqlite3.Error as error:
        raise _damaged(path, error) from error
    return connection


def _hold(path: Path) -> int:
    """An exclusive lock that lasts as long as the file is open, and dies with the process."""
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise Trouble(
            Reason.STORE_HELD,
            "another process holds the store",
            where=str(path),
            todo="let it run, or stop it first",
        ) from error
    return lock


def _check(store: Store, public_key: bytes) -> None:
    """Format and key are what they must be, and SQLite finds its file whole."""
    rows = dict(store._rows("SELECT name, value FROM meta"))
    if rows.get("format") != FORMAT:
        raise _damaged(store.path, "not a format that this version knows")
    if store._rows("PRAGMA quick_check") != [("ok",)]:
        raise _damaged(store.path, "SQLite finds its file damaged")
    if store.public_key != public_key:
        raise Trouble(
            Reason.KEY_OF_ANOTHER,
            "the store belongs to another key",
            where=str(store.path),
            todo="name the key that it was made with",
        )


def sync(path: Path) -> None:
    """Have the disk keep what was written to a file, or to a directory's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(path: Path) -> Trouble:
    todo = "use it, or name another file; a lost store means a new key"
    return Trouble(Reason.STORE_EXISTS, "there is a store already", where=str(path), todo=todo)


def _changed(path: Path, pool: str) -> Trouble:
    return Trouble(
        Reason.STORE_CHANGED,
        f"the record of {pool} is not the one that was read",
        where=str(path),
        todo="see that one process uses this store, then start again",
    )


def _failed(path: Path, error: object) -> Trouble:
    todo = "see to the disk, then start again"
    return Trouble(Reason.STORE_FAILED, f"not written: {error}", where=str(path), todo=todo)


def _damaged(path: Path, error: object) -> Trouble:
    return Trouble(
        Reason.STORE_DAMAGED,
        f"damaged: {error}",
        where=str(path),
        todo="do not restore an older copy: retire the key and run `pool-witness init` anew",
    )
