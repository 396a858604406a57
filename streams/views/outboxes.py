"""What witnesses put beside an embedded log: `DIR/witness/*.cborseq`, followed as they grow.

Not here: `pool.witness` on a broker, which is read like any topic (`feed`); what a statement is
worth (`schemas.grading`).

1. Each file is a CBOR sequence (RFC 8742) that only grows. A torn item at its end is left for
   later: its writer finishes it, or cuts it off.
2. A file is read at most `LOOK_BYTES_MAX` further in one look.

Invariant: each statement is given once, unless its file was replaced by a shorter one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from schemas import cbor
from schemas.wellformed import CborError

DIRECTORY: Final = "witness"
PATTERN: Final = "*.cborseq"
LOOK_BYTES_MAX: Final = 16 * 1024 * 1024


class Outboxes:
    """The statements' files beside a log in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / DIRECTORY
        self._read: dict[Path, int] = {}

    def look(self) -> list[bytes]:
        """What has come since the last look, whole statements only. Raises OSError."""
        if not self._directory.is_dir():
            return []
        found: list[bytes] = []
        for path in sorted(self._directory.glob(PATTERN)):
            found += self._news(path)
        return found

    def _news(self, path: Path) -> list[bytes]:
        position = self._read.get(path, 0)
        if path.stat().st_size < position:
            position = 0
        with path.open("rb") as stream:
            stream.seek(position)
            data = stream.read(LOOK_BYTES_MAX)
        items: list[bytes] = []
        try:
            for item in cbor.split_sequence(data):
                items.append(item)
        except CborError:
            # A torn end: what came before it is whole, and the rest is looked at again.
            pass
        self._read[path] = position + sum(map(len, items))
        return items
