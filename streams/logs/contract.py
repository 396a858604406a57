"""The log contract: what a steward, a reader and a producer may rely on, whatever stores the log.

Implemented by `streams.logs.embedded` (a RocksDB directory) and `streams.logs.kafka`; both run
`tests/logs/contract_suite.py`. What a record means is not known here. Errors are in
`streams.logs.errors`; every method may raise `Unavailable` beside what it names.

Order and offsets
1. A log has `partitions()` partitions in every topic. A record of a key is in partition
   `streams.topics.partition_for(key, partitions)` of each.
2. Offsets of a topic's partition rise with every record. They may have holes (a broker's
   transaction markers; a reserved start), so a reader goes by `Fetched.offset_next` and never
   computes an offset from another.
3. Between topics there is no order but what the steward makes when it decides. `Record.order` is
   the log's best knowledge for that merge: the embedded log gives the order of publication, Kafka
   the broker's timestamp. Merging the topics of one partition by (`order`, place in
   `INPUT_TOPICS`, `offset`) is what stewards do; what the ledger then says is the order.

Reading
4. Only committed records are ever returned: no record of a batch that was not appended whole.
5. `end()` is where a reader must get to: every record acknowledged before the call lies below it.
   A reader at `offset_next >= end` has seen them all. On Kafka this is the read-uncommitted end,
   reached by a read-committed position: a predecessor's markers may still be on their way.
6. Reading at or past the end waits up to `timeout_ms` and returns no records; it is no error.
   `offset_next` may move without a record (rule 2).
7. A call may be cancelled; the next call starts clean.

Writing
8. `open_writer(partition)` fences: when it returns, whoever held the partition before can append
   nothing more, and its last batch is either wholly visible to readers or will never be.
   Therefore: first open the writer, then `end()`, then replay, then decide.
9. `Writer.append` makes the whole batch visible at once, or nothing. When it returns, the batch
   survives a killed process and, as far as the log's own settings promise, a lost power supply.
   After any error from it the writer is dead (further calls raise `AppendFailed` or `Fenced`):
   close it, drop state, open another. A cancelled append has an unknown outcome.
10. `publish` acknowledges records one by one on Kafka (after `OutcomeUnknown` some may be in the
    log; an event `id` makes sending again safe) and all or none on the embedded log. Records of
    one call keep their order within a topic's partition.

The position rule: where a steward goes on, written down once
11. Group offsets are never read. For each input topic of its partition a new writer goes on at the
    largest of: 0; 1 + `cause.offset` over the receipts in `pool.ledger` whose cause is that topic
    and partition; 1 + `source-offset` over the records in `pool.dead` whose source headers name
    that topic and partition. A batch holds the receipts and the dead letters of the same events,
    so both say the same after any crash.
12. An event yields receipts in one ledger, or exactly one dead letter, or nothing at all: a tick
    that settled nothing. The last kind is read again after a restart and yields nothing again.
13. All receipts of an event are in one batch, and events are decided in offset order within a
    topic, so the largest offset says it all: nothing below it is undecided.
14. A position past `end()` of its input means that acknowledged inputs are gone: `Damaged`.
    A position below `start()` means that inputs expired undecided: reported, then skipped.
15. Only stewards may write `pool.dead`, as `pool.ledger`: its source headers move positions.

Invariant: no method blocks the event loop longer than one synced write takes.
Source: architecture.md "Topics" and "One writer, exactly once".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from schemas.records import EVENT_BYTES_MAX

MAX_EVENT_BYTES: Final = EVENT_BYTES_MAX
"""An input's value: `max.message.bytes` of input topics, less `RECORD_OVERHEAD_BYTES`."""
MAX_RECORD_BYTES: Final = 1024 * 1024 + 4096
"""The value of a record that a steward writes: a core of 1 MiB with its envelope."""
RECORD_OVERHEAD_BYTES: Final = 16 * 1024
"""Key, headers and framing of one record."""
MAX_KEY_BYTES: Final = 1024
MAX_CONTENT_TYPE_BYTES: Final = 255
MAX_HEADERS: Final = 16
MAX_HEADERS_BYTES: Final = 8 * 1024
"""Names and values of a record's headers, summed."""
MAX_BATCH_RECORDS: Final = 100_000
"""A steward aims at far smaller batches, but one event may refuse every waiting claim of a pool,
and an event's receipts are never torn apart."""
MAX_BATCH_BYTES: Final = 128 * 1024 * 1024
"""Values of a batch, summed. On Kafka a transaction has no size limit but its timeout."""
MAX_PUBLISH_RECORDS: Final = 4096
MAX_READ_RECORDS: Final = 8192
"""The most that one read returns, whatever `max_records` says."""
MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""A read returns early when its values pass this; it always returns at least one record."""
MAX_TIMEOUT_MS: Final = 60_000

CONTENT_CBOR: Final = "application/cbor"
"""The content type of a record that carries no `content-type` header."""
CONTENT_JSON: Final = "application/json"
CONTENT_COSE: Final = "application/cose"
"""Receipts, heads, witness and fork statements: COSE_Sign1."""
CONTENT_TYPE_HEADER: Final = "content-type"

DEAD_REASON: Final = "reason"
"""Headers of a dead letter, UTF-8 text; offsets and partitions in decimal."""
DEAD_DETAIL: Final = "detail"
DEAD_TOPIC: Final = "source-topic"
DEAD_PARTITION: Final = "source-partition"
DEAD_OFFSET: Final = "source-offset"
DEAD_TIMESTAMP: Final = "source-timestamp-ms"

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One committed record. Times are in ms since the epoch.

    `headers` are all but the content type. A content-type header that is not UTF-8, or longer than
    `MAX_CONTENT_TYPE_BYTES`, is given as the empty text: no event has that.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    order: int
    key: bytes | None
    value: bytes
    content_type: str = CONTENT_CBOR
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a read returned, in offset order, and the offset to read at next (rule 2)."""

    records: tuple[Record, ...]
    offset_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to publish. `timestamp_ms` (0 to the year 9999) only where time is given: traces,
    case files.

    A topic whose broker stamps records itself (LogAppendTime) would not keep a given time:
    `publish` on Kafka then raises `Misconfigured` and names the topic's setting.
    """

    topic: str
    key: bytes | None
    value: bytes
    content_type: str = CONTENT_CBOR
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a published record lies, and the time that the log gave it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of a batch; it goes to the writer's partition of one of `WRITER_TOPICS`."""

    topic: str
    key: bytes | None
    value: bytes
    content_type: str = CONTENT_COSE
    headers: Headers = ()


class Writer(Protocol):
    """The one writer of a partition's ledger, heads and dead letters (rules 8 and 9)."""

    @property
    def partition(self) -> int:
        """The partition that it holds."""
        ...

    async def append(self, batch: Sequence[Entry]) -> None:
        """Append a batch, 1 to `MAX_BATCH_RECORDS` entries, atomically and durably, in order.

        Raises: Fenced, OutcomeUnknown, AppendFailed, DiskFull, TooLarge.
        """
        ...

    async def close(self) -> None:
        """Let go of the partition. Never raises; may be called twice and on a dead writer."""
        ...


class LogReader(Protocol):
    """The reading half: all that verifiers, watchers and views need."""

    @property
    def where(self) -> str:
        """What to call this log in a message: a directory, a broker's address."""
        ...

    async def partitions(self) -> int:
        """How many partitions every topic has, at least 1. Raises: Missing, Misconfigured."""
        ...

    async def start(self, topic: str, partition: int) -> int:
        """The smallest offset that may still be read: 0 unless records expired."""
        ...

    async def end(self, topic: str, partition: int) -> int:
        """The offset that a reader must get to (rule 5); 0 for an empty partition."""
        ...

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        offset_next: int,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Fetched:
        """Committed records at and after `offset_next`; waits up to `timeout_ms` for the first.

        Raises: Missing; Damaged where a stored record cannot be read.
        """
        ...

    async def read_any(
        self,
        partition: int,
        positions: Mapping[str, int],
        *,
        max_records: int = MAX_READ_RECORDS,
        timeout_ms: int = 0,
    ) -> Mapping[str, Fetched]:
        """`read` of several topics of a partition: topic to offset in, topic to `Fetched` out.

        Waits up to `timeout_ms` until any has a record. `max_records` is for each topic. Every
        topic asked for is in the answer.
        """
        ...

    async def close(self) -> None:
        """Release everything. Never raises; may be called twice."""
        ...


class Log(LogReader, Protocol):
    """A log that may be written to."""

    async def publish(self, records: Sequence[Outgoing]) -> list[Position]:
        """Append to `PUBLISHED_TOPICS`, durably, each record to its key's partition (rule 10).

        Returns a position for each record, in their order. At most `MAX_PUBLISH_RECORDS`.
        Raises: TooLarge, OutcomeUnknown, AppendFailed, DiskFull, Missing, Misconfigured.
        """
        ...

    async def open_writer(self, partition: int) -> Writer:
        """Become the partition's writer, fencing whoever was (rule 8).

        Raises: Held, Missing, DiskFull.
        """
        ...

    async def note_positions(self, partition: int, positions: Mapping[str, int]) -> None:
        """Tell lag dashboards how far a steward has come; never read back, never raises.

        `positions` maps an input topic to the offset it will read next.
        """
        ...
