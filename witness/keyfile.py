"""A witness's key file: PKCS#8 PEM, mode 0600, made once and never written over.

What a key is, is `schemas.keys`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from schemas.keys import KeyRefused, SeedSigner, new_pem, signer_from_pem
from witness.trouble import Reason, Trouble

PEM_BYTES_MAX: Final = 16 * 1024


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


def make(file: Path) -> None:
    """Write a new key, durably. Raises Trouble(`key-refused`) if there is a file already."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(new_pem())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _refused(f"{error.strerror}", file, "name another file") from error


def _first_line(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.readline(1024).rstrip(b"\r\n")


def _refused(what: str, file: Path, todo: str) -> Trouble:
    return Trouble(Reason.KEY_REFUSED, what, where=str(file), todo=todo)
