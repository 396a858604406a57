"""Ledgers as the steward writes them, from events in their JSON form: no log, no clock, no files.

Not here: what the receipts should say (the golden cases), and what they may (`cddl_support`).

1. Each event is a record on its own topic, in JSON and in CBOR by turns, at its `at_ms`; whatever
   has no known type goes to the claims' topic, and without a pool it has no key.
2. `steward.rotate` hands over to a second key that this steward has too.

Invariant: the same events give the same bytes.
Profile: §3, §6.5, §6.10.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from schemas import cbor
from schemas.events import EVENT_TYPES
from schemas.keys import SeedSigner, did_key
from schemas.records import EventType
from streams import topics
from streams.logs.contract import CONTENT_CBOR, CONTENT_JSON, Entry, Record
from streams.steward.draft import Draft
from streams.steward.fold import TOPIC_OF
from streams.steward.keyring import Keyring
from streams.steward.pools import Partition

SIGNERS = [SeedSigner(sha256(name).digest()) for name in (b"first", b"second")]


class Written(NamedTuple):
    """What the steward wrote: each pool's receipts, and the dead letters."""

    ledgers: dict[str, list[bytes]]
    dead: list[Entry]

    @property
    def receipts(self) -> list[bytes]:
        """All receipts, pool after pool."""
        return [receipt for ledger in self.ledgers.values() for receipt in ledger]


def written(events: Iterable[Any]) -> Written:
    """Decide and seal the events, one after another."""
    partition, keyring = Partition(number=0), Keyring(SIGNERS)
    found = Written({}, [])
    at_ms = 0
    for number, event in enumerate(events):
        at_ms = _time_of(event, at_ms)
        draft = Draft(partition, keyring)
        draft.add(_record(number, event, at_ms))
        for entry in draft.entries:
            if entry.topic == topics.LEDGER:
                assert entry.key is not None
                found.ledgers.setdefault(entry.key.decode(), []).append(entry.value)
            elif entry.topic == topics.DEAD:
                found.dead.append(entry)
    return found


def _time_of(event: Any, before_ms: int) -> int:
    at_ms = event.get("at_ms") if isinstance(event, dict) else None
    return at_ms if type(at_ms) is int else before_ms


def _record(number: int, event: Any, at_ms: int) -> Record:
    value = event
    if isinstance(event, dict):
        value = {name: member for name, member in event.items() if name != "at_ms"}
        if value.get("type") == EventType.STEWARD_ROTATE and "steward" in value:
            value["steward"] = did_key(SIGNERS[1].public_key)
    pool = value.get("pool") if isinstance(value, dict) else None
    data, content_type = _encoded(value, in_json=number % 2 == 0)
    return Record(
        topic=_topic_of(value),
        partition=0,
        offset=number,
        timestamp_ms=at_ms,
        order=number,
        key=pool.encode() if isinstance(pool, str) else None,
        value=data,
        content_type=content_type,
    )


def _encoded(value: Any, *, in_json: bool) -> tuple[bytes, str]:
    """The value in CBOR if it is that form's turn and it can be written so, else in JSON."""
    try:
        if not in_json and not _has_decimals(value):
            return cbor.encode(value), CONTENT_CBOR
    except cbor.CborError:
        pass  # A float, or a number beyond 64 bits: JSON has them.
    return json.dumps(value).encode(), CONTENT_JSON


def _has_decimals(value: Any) -> bool:
    """Whether an integer is written as a decimal string somewhere: only JSON may."""
    if isinstance(value, dict):
        return any(map(_has_decimals, value.values()))
    if isinstance(value, list):
        return any(map(_has_decimals, value))
    return isinstance(value, str) and value.isdecimal()


def _topic_of(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    known = isinstance(kind, str) and kind in EVENT_TYPES
    return TOPIC_OF[EventType(kind)] if known else topics.CLAIMS


def interleaved(*sequences: list[Any]) -> list[Any]:
    """The sequences' events, taken by turns."""
    turns = itertools.zip_longest(*sequences)
    return [event for turn in turns for event in turn if event is not None]
