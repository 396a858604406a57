"""Trouble that the operating system reports, as one line: what, where, what to do.

1. Where it is, is the file that the error names. One about a stream or an address names none: who
   uses it says what it was, with `named`.
2. What to do follows from the error's number.

Not here: a log's own trouble (`streams.logs.errors`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_ROOM = "make room, then run it again"
_PATH = "make its directory first, or name another one"
_RIGHTS = "see who may use it, or name another one"
TODO: Mapping[int, str] = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.ENOENT: _PATH,
    errno.ENOTDIR: _PATH,
    errno.EISDIR: "it is a directory: name a file",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "nothing can be written there: name another one",
    errno.ENAMETOOLONG: "name another one",
    errno.EADDRINUSE: "stop who has it, or take another --port",
    errno.EADDRNOTAVAIL: "name an address of this machine: --host",
    errno.EMFILE: "let it open more files: ulimit -n",
    errno.ENFILE: "let it open more files: ulimit -n",
    errno.EIO: "look after the disk",
}


@contextmanager
def named(where: Path | str) -> Iterator[None]:
    """Say of an error that names no file where it is. Raises what it holds."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(where)
        raise


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A stream beside a file, which takes the file's place at the end if nothing was raised.

    Whether a file can be made there shows before the work whose result it takes. Raises OSError.
    """
    partial = file.with_name(f"{file.name}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            with named(file):
                stream.flush()
                os.fsync(stream.fileno())
        partial.replace(file)
    except OSError as error:
        if error.filename == str(partial):
            error.filename = str(file)
        raise
    finally:
        partial.unlink(missing_ok=True)


def of_system(error: OSError) -> tuple[str, str, str]:
    """What an error says, where it is, and what to do."""
    number = error.errno or 0
    # A server's own words about an address that it cannot have say where, and are three lines long.
    what = os.strerror(number) if number in TODO else error.strerror or str(error)
    named_where = error.filename if isinstance(error.filename, str | bytes) else ""
    where = os.fsdecode(named_where) or "-v shows where"
    return what or type(error).__name__, where, TODO.get(number, "mend that, then run it again")
