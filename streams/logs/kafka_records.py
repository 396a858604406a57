"""From the client's records to the contract's.

Not here: fetching them (`kafka_reader`).

1. One header, the content type, is taken out of the others; a second one of that name stays there.
2. A record without a value is one with an empty value: it is found malformed like any other.

Invariant: whatever a producer put into a record, it becomes a `Record`.
"""

from __future__ import annotations

from collections.abc import Sequence

from streams.logs.contract import (
    CONTENT_CBOR,
    CONTENT_TYPE_HEADER,
    MAX_CONTENT_TYPE_BYTES,
    Headers,
    Record,
)
from streams.logs.kafka_client import Consumed


def record_of(consumed: Consumed, topic: str) -> Record:
    """A record as the contract has it, under its topic's own name, without a prefix."""
    content_type = CONTENT_CBOR
    headers: Headers = ()
    if consumed.headers:
        content_type, headers = _headers(consumed.headers)
    return Record(
        topic=topic,
        partition=consumed.partition,
        offset=consumed.offset,
        timestamp_ms=max(0, consumed.timestamp),
        order=max(0, consumed.timestamp),
        key=consumed.key,
        # A tombstone is no event: as an empty value it is found malformed like any other.
        value=consumed.value or b"",
        content_type=content_type,
        headers=headers,
    )


def _headers(given: Sequence[tuple[str, bytes | None]]) -> tuple[str, Headers]:
    content_type: str | None = None
    others = []
    for name, value in given:
        if name == CONTENT_TYPE_HEADER and content_type is None:
            content_type = _content_type(value or b"")
        else:
            others.append((name, value or b""))
    return CONTENT_CBOR if content_type is None else content_type, tuple(others)


def _content_type(value: bytes) -> str:
    """The header's text; empty, which no event has, where it is none or too long."""
    if len(value) > MAX_CONTENT_TYPE_BYTES:
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
