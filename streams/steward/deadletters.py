"""Dead letters: records that no ledger can answer, kept with the reason and their source.

1. The value, key and content type are the source's; reason, detail and source are headers.
2. The source headers move the steward's position as a receipt's cause does (the log contract's
   position rule), so a dead letter is written once, in the batch that decided it.

Profile: §3.
"""

from typing import Final

from schemas.jsonform import dumps_line
from schemas.records import Value
from streams import topics
from streams.logs.contract import (
    DEAD_DETAIL,
    DEAD_OFFSET,
    DEAD_PARTITION,
    DEAD_REASON,
    DEAD_TIMESTAMP,
    DEAD_TOPIC,
    Entry,
    Record,
)

MAX_DETAIL_BYTES: Final = 4096


def dead_letter(record: Record, reason: str, detail: Value) -> Entry:
    """The dead letter of an input record; `detail` becomes one line of JSON."""
    line = dumps_line(detail).encode()
    return Entry(
        topic=topics.DEAD,
        key=record.key,
        value=record.value,
        content_type=record.content_type,
        headers=(
            (DEAD_REASON, reason.encode()),
            (DEAD_DETAIL, line if len(line) <= MAX_DETAIL_BYTES else b"{}"),
            (DEAD_TOPIC, record.topic.encode()),
            (DEAD_PARTITION, b"%d" % record.partition),
            (DEAD_OFFSET, b"%d" % record.offset),
            (DEAD_TIMESTAMP, b"%d" % record.timestamp_ms),
        ),
    )


def source_of(record: Record) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a dead letter's source; None if it names none."""
    headers = dict(record.headers)
    try:
        topic = headers[DEAD_TOPIC].decode()
        return topic, int(headers[DEAD_PARTITION]), int(headers[DEAD_OFFSET])
    except (KeyError, ValueError):
        return None
