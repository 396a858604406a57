"""The contract's bounds, checked before anything is written; the same for every log.

The bounds themselves are named in `streams.logs.contract`.
"""

from collections.abc import Sequence

from schemas.records import INSTANT_LIMIT_MS
from streams import topics
from streams.logs.contract import (
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    MAX_CONTENT_TYPE_BYTES,
    MAX_EVENT_BYTES,
    MAX_HEADERS,
    MAX_HEADERS_BYTES,
    MAX_KEY_BYTES,
    MAX_PUBLISH_RECORDS,
    MAX_RECORD_BYTES,
    Entry,
    Headers,
    Outgoing,
)
from streams.logs.errors import AppendFailed, Missing, TooLarge


def check_publication(records: Sequence[Outgoing], where: str) -> None:
    """Raises TooLarge, or Missing for a topic that is not published to."""
    if len(records) > MAX_PUBLISH_RECORDS:
        raise _too_large(f"{len(records)} records in one call", where, MAX_PUBLISH_RECORDS)
    for record in records:
        if record.topic not in topics.PUBLISHED_TOPICS:
            raise Missing(
                f"{record.topic!r} is not published to",
                where=where,
                todo=f"use one of {', '.join(topics.PUBLISHED_TOPICS)}",
            )
        largest = MAX_RECORD_BYTES if record.topic == topics.WITNESS else MAX_EVENT_BYTES
        if len(record.value) > largest:
            raise _too_large(f"a record of {len(record.value)} bytes", where, largest)
        _check_framing(record.key, record.content_type, (), where)
        if record.timestamp_ms is not None and not 0 <= record.timestamp_ms < INSTANT_LIMIT_MS:
            raise _too_large(f"a time of {record.timestamp_ms} ms", where, INSTANT_LIMIT_MS - 1)


def check_batch(batch: Sequence[Entry], where: str) -> None:
    """Raises TooLarge, or Missing for a topic that a writer does not write."""
    assert batch, "an empty batch is nobody's to append"
    if len(batch) > MAX_BATCH_RECORDS:
        raise _too_large(f"a batch of {len(batch)} records", where, MAX_BATCH_RECORDS)
    size = 0
    for entry in batch:
        if entry.topic not in topics.WRITER_TOPICS:
            raise Missing(
                f"{entry.topic!r} is not written by a steward's batch",
                where=where,
                todo=f"use one of {', '.join(topics.WRITER_TOPICS)}",
            )
        if len(entry.value) > MAX_RECORD_BYTES:
            raise _too_large(f"a record of {len(entry.value)} bytes", where, MAX_RECORD_BYTES)
        _check_framing(entry.key, entry.content_type, entry.headers, where)
        size += len(entry.value)
    if size > MAX_BATCH_BYTES:
        raise _too_large(f"a batch of {size} bytes", where, MAX_BATCH_BYTES)


def dead_writer(where: str, partition: int) -> AppendFailed:
    """What a writer that was closed, or that failed once, answers."""
    return AppendFailed(
        "this writer is closed",
        where=f"{where} partition {partition}",
        todo="open another and replay the ledger",
    )


def _check_framing(key: bytes | None, content_type: str, headers: Headers, where: str) -> None:
    if key is not None and len(key) > MAX_KEY_BYTES:
        raise _too_large(f"a key of {len(key)} bytes", where, MAX_KEY_BYTES)
    if len(headers) > MAX_HEADERS:
        raise _too_large(f"{len(headers)} headers", where, MAX_HEADERS)
    size = len(content_type.encode())
    if size > MAX_CONTENT_TYPE_BYTES:
        raise _too_large(f"a content type of {size} bytes", where, MAX_CONTENT_TYPE_BYTES)
    if headers:
        size = sum(len(name.encode()) + len(value) for name, value in headers)
        if size > MAX_HEADERS_BYTES:
            raise _too_large(f"headers of {size} bytes", where, MAX_HEADERS_BYTES)


def _too_large(what: str, where: str, bound: int) -> TooLarge:
    return TooLarge(what, where=where, todo=f"at most {bound} are allowed")
