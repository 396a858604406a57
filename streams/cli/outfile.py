"""A file that a command writes: all of it or nothing, whatever stands at its name.

1. A regular file, or none yet, is written beside its name and then renamed: there is never half of
   one. A symlink stays, and what it leads to is replaced.
2. Anything else (a pipe, a device, stdout) is never replaced: it is written to. What comes goes to
   a temporary file first, so that nothing of what fails in the end is let out.
3. stdout is found under any name, and gets nothing else then: whoever writes the answer asks
   `is_stdout`. A regular file that it was redirected to is gone on with, not replaced under it.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

STDOUT = 1


@contextmanager
def written(file: Path) -> Iterator[IO[bytes]]:
    """A stream whose content `file` gets if the block ends well. Raises OSError."""
    target = _replaceable(file)
    if target is None:
        with tempfile.TemporaryFile() as stream:
            yield stream
            stream.seek(0)
            _pour(stream, file)
        return
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def is_stdout(file: Path) -> bool:
    """Whether writing to `file` is writing to stdout."""
    try:
        return os.path.samestat(file.stat(), os.fstat(STDOUT))
    except OSError:
        return False


def _replaceable(file: Path) -> Path | None:
    """The regular file that `file` leads to, there or not yet; None where it leads elsewhere."""
    target = Path(os.path.realpath(file))
    try:
        found = file.stat()
    except FileNotFoundError:
        return target
    # /dev/fd/N leads to a file that may have no name any more.
    named = target.exists() and os.path.samestat(found, target.stat())
    return target if stat.S_ISREG(found.st_mode) and named and not is_stdout(file) else None


def _pour(stream: IO[bytes], file: Path) -> None:
    if is_stdout(file):
        shutil.copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with file.open("wb") as out:
        shutil.copyfileobj(stream, out)
