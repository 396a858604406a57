"""A witness's key file: PKCS#8 PEM, mode 0600, made once and never written over.

What a key is, is `schemas.keys`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from schemas.keys import KeyRefused, SeedSigner, new_pem, signer_from_pem
from witness.store import sync
from witness.trouble import Reason, Trouble

PEM_BYTES_MAX: Final = 16 * 1024
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


def refuse_existing(file: Path) -> None:
    """Raises Trouble(`key-exists`) where a file is."""
    if os.path.lexists(file):
        raise Trouble(
            Reason.KEY_EXISTS,
            "there is a key already",
            where=str(file),
            todo="name another file: a lost store means a new key; --key-never-used if no store, "
            "here or elsewhere, was ever made for it",
        )


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
    """A draft beside the file, synced, then its name: half a key is never found under it."""
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, file)
        sync(file.parent)
    finally:
        os.unlink(draft)


def _first_line(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.readline(1024).rstrip(b"\r\n")


def _refused(what: str, file: Path, todo: str) -> Trouble:
    return Trouble(Reason.KEY_REFUSED, what, where=str(file), todo=todo)
