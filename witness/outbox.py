"""Where a witness beside an embedded log puts its statements: a file that only grows.

An embedded log is written by one process, and a witness must not be that one. So each witness has a
file of its own in `DIR/witness/`, and whoever reads the log reads these files as more records of
`pool.witness`.

1. `DIR/witness/<16 hex digits of the kid>.cborseq` is a CBOR sequence (RFC 8742) of statements.
   Nothing in it is ever changed; a statement may stand there twice.
2. A statement is written with one call and synced before it counts as published; the directory is
   synced when the file is made. One process writes a file, by an exclusive lock on it.
3. A process that died while writing leaves part of a statement at the end. Readers stop there; the
   next writer cuts it off.
4. `read` is for whoever reads beside: all whole items of all files. It trusts nothing: what a
   statement is worth is for `schemas.grading` to say.

Invariant: a statement that `publish` returned for is read by every later `read`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from schemas import cbor
from schemas.keys import kid
from schemas.wellformed import CborError
from witness import faults
from witness.store import sync
from witness.trouble import Reason, Trouble

DIRECTORY: Final = "witness"
SUFFIX: Final = ".cborseq"


class Outbox:
    """The statements' file of one key. Raises Trouble: `store-held`, `store-failed`."""

    def __init__(self, directory: Path, public_key: bytes) -> None:
        self._path = directory / DIRECTORY / (kid(public_key).hex()[:16] + SUFFIX)
        self._descriptor: int | None = None
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise self._failed(error) from error

    async def published(self) -> Iterable[bytes]:
        """The statements in the file."""
        return list(whole_items(self._path.read_bytes()))

    async def publish(self, pool: str, statement: bytes) -> None:
        """Append a statement, synced. Raises Trouble(`store-failed`)."""
        assert self._descriptor is not None, "a closed outbox was used"
        try:
            if faults.planned(faults.Point.PUBLISHING):
                os.write(self._descriptor, statement[: len(statement) // 2])
                faults.reach(faults.Point.PUBLISHING)
            written = os.write(self._descriptor, statement)
            if written != len(statement):
                raise OSError(f"{written} of {len(statement)} bytes written")
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        """Release the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        self._path.parent.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self._path, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            todo = "let it run, or stop it; one key is run once"
            raise Trouble(
                Reason.STORE_HELD,
                "another process publishes here",
                where=str(self._path),
                todo=todo,
            ) from error
        whole = sum(len(item) for item in whole_items(self._path.read_bytes()))
        os.ftruncate(descriptor, whole)
        os.fsync(descriptor)
        for directory in (self._path.parent, self._path.parent.parent):
            sync(directory)
        return descriptor

    def _failed(self, error: OSError) -> Trouble:
        todo = "see to the disk, then start again"
        return Trouble(Reason.STORE_FAILED, str(error), where=str(self._path), todo=todo)


def read(directory: Path) -> Iterator[bytes]:
    """Every whole item that witnesses have published beside the embedded log in `directory`."""
    for path in sorted((directory / DIRECTORY).glob("*" + SUFFIX)):
        yield from whole_items(path.read_bytes())


def whole_items(data: bytes) -> Iterator[bytes]:
    """The items of a CBOR sequence, up to one that is cut off."""
    try:
        yield from cbor.split_sequence(data)
    except CborError:
        return
