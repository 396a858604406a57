"""What the runner needs of a log: reading three topics by offset, and a way out for statements.

Implemented by `witness.embedded` and `witness.kafka`. The reading half has the shape of the
steward's own log contract on purpose, so that a process which has such a log open can hand it over.

1. Topics are keyed by the pool's id in UTF-8 and have one number of partitions; a pool's receipts
   and heads are in the same partition, and its statements go there, too.
2. Only committed records are read. Offsets rise and may have holes: `offset_next` says where to
   go on, and may move without a record.
3. `end` is at or above every record that was committed before the call. An end below where one has
   read says that the log was replaced by an older one.
4. `publish` returns once the statement is durable, and may be repeated.

Invariant: whatever goes wrong leaves these as `witness.trouble.Trouble`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

LEDGER: Final = "pool.ledger"
HEADS: Final = "pool.heads"
WITNESS: Final = "pool.witness"
TOPICS: Final = (LEDGER, HEADS, WITNESS)
CONTENT_TYPE: Final = "application/cose"

READ_MAX: Final = 8_192
"""The most records that one read returns."""
READ_BYTES_MAX: Final = 32 * 1024 * 1024


class Read(Protocol):
    """One record."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes: ...


class Fetched(Protocol):
    """Records in offset order, and where to read on."""

    @property
    def records(self) -> Sequence[Read]: ...
    @property
    def offset_next(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as the followers here make it."""

    offset: int
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What a read of the followers here returns."""

    records: tuple[LogRecord, ...]
    offset_next: int


class Reader(Protocol):
    """The reading half of a log."""

    @property
    def where(self) -> str: ...

    async def partitions(self) -> int:
        """How many partitions every topic has."""
        ...

    async def end(self, topic: str, partition: int) -> int:
        """The offset at or above every committed record."""
        ...

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = READ_MAX,
        timeout_ms: int = 0,
    ) -> Fetched:
        """Committed records at and after `offset_next`; none at the end."""
        ...

    async def close(self) -> None:
        """Release everything; twice is allowed."""
        ...


class Publisher(Protocol):
    """Where statements go."""

    async def published(self) -> Iterable[bytes] | None:
        """All statements that it holds; None if they are in the log's topic alone."""
        ...

    async def publish(self, pool: str, statement: bytes) -> None:
        """Make a statement public, durably."""
        ...

    async def close(self) -> None:
        """Release everything; twice is allowed."""
        ...
