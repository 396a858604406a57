"""A witness's key file: PKCS#8 PEM, mode 0600, made once; its key is never written over.

What a key is, is `schemas.keys`. Behind the key stands a line once a store was made for it, as text
beside PEM's (RFC 7468 §2): such a key gets no second store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from schemas.keys import KeyRefused, SeedSigner, new_pem, signer_from_pem
from witness.store import sync
from witness.trouble import Reason, Trouble

PEM_BYTES_MAX: Final = 16 * 1024
_CLAIMED: Final = b"A witness's store was made for this key: if it is lost, make a new key."
_MISPLACED: Final = (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError)


def read(file: Path, password_file: Path | None = None) -> SeedSigner:
    """The signer of a key file. Raises Trouble(`key-refused`): no file, open to others, no key."""
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            pem = stream.read(PEM_BYTES_MAX)
        password = None if password_file is None else _first_line(password_file)
    except OSError as error:
        raise _refused(f"{error.strerror}", file, "name the witness's key file") from error
    if mode & 0o077:
        raise _refused("others may read this key", file, "chmod 600")
    try:
        return signer_from_pem(pem, password)
    except KeyRefused as refused:
        raise _refused(str(refused), file, "name the witness's key file") from refused


def claim(file: Path) -> bytes:
    """Write into a key file that a store is made for it; what stood there, for `give_back`.

    Raises Trouble: `key-exists` where one was made already, `key-failed` where it can't be written.
    """
    try:
        before = file.read_bytes()
        if _CLAIMED in before:
            raise Trouble(
                Reason.KEY_EXISTS,
                "a store was made for this key already",
                where=str(file),
                todo="name another file: a lost store means a new key",
            )
        _replace(file, before.rstrip(b"\n") + b"\n" + _CLAIMED + b"\n")
    except OSError as error:
        raise Trouble(
            Reason.KEY_FAILED,
            f"not written that a store is made for it: {error.strerror}",
            where=str(file),
            todo="let it be written, or --key-never-used if no store was ever made for it",
        ) from error
    return before


def give_back(file: Path, before: bytes) -> None:
    """No store was made after all."""
    _replace(file, before)


def _replace(file: Path, content: bytes) -> None:
    _put(file, content, os.replace)


def make(file: Path, password_file: Path | None = None) -> None:
    """Write a new key, whole and durable or not at all, encrypted if there is a password.

    Raises Trouble: `key-refused` where no new file may be, `key-failed` where the disk fails.
    """
    try:
        _write_new(file, new_pem(None if password_file is None else _first_line(password_file)))
    except KeyRefused as refused:
        raise _refused(str(refused), file, "give the password file a first line") from refused
    except _MISPLACED as error:
        raise _refused(f"{error.strerror}", file, "name another file") from error
    except OSError as error:
        todo = "see to the disk, then start again"
        what = f"not written: {error.strerror}"
        raise Trouble(Reason.KEY_FAILED, what, where=str(file), todo=todo) from error


def _write_new(file: Path, pem: bytes) -> None:
    _put(file, pem, os.link)


def _put(file: Path, content: bytes, name: Callable[[str, Path], None]) -> None:
    """A draft beside the file, synced, then its name: half a key is never found under it."""
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        name(draft, file)
        sync(file.parent)
    finally:
        Path(draft).unlink(missing_ok=True)


def _first_line(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.readline(1024).rstrip(b"\r\n")


def _refused(what: str, file: Path, todo: str) -> Trouble:
    return Trouble(Reason.KEY_REFUSED, what, where=str(file), todo=todo)
