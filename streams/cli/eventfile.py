"""Event files: JSON lines, a CBOR sequence or a case file, one given value at a time.

Not here: whether a value is an event (`schemas.events` judges, and the kernel).

1. A first byte that begins a CBOR map means a CBOR sequence (RFC 8742), read whole, bounded.
2. A first line that is a whole JSON value means JSON lines: read line by line, blank ones skipped;
   a first line that is only the beginning of one means that the file is one JSON value.
3. A JSON value with `events` is a case file (profile §7), a list is a list of events.
4. A line longer than an event may be is none, whatever it begins with; its rest is passed over.

Invariant: `Failure` is the only error, and it names the line or the item.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from schemas import cbor
from schemas.events import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON
from schemas.records import EVENT_BYTES_MAX
from streams.cli.session import Failure, Status

FILE_BYTES_MAX = 256 * 1024 * 1024
"""The longest CBOR sequence or single JSON value; JSON lines are not bounded but line by line."""
LINE_BYTES_MAX = EVENT_BYTES_MAX + 2
"""As long an event as there may be, with a line break."""
_CBOR_MAPS = range(0xA0, 0xC0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One given value, its place in the file, and in which of the two formats it stood there."""

    place: str
    value: Any
    content_type: str


def read_events(stream: BinaryIO, *, keep_unreadable: bool = False) -> Iterator[Given]:
    """The values of an open file. Raises Failure where it cannot be read as any of the three.

    With `keep_unreadable` a later line of JSON lines that is no JSON is given as its text, which is
    no event: whoever decides it finds it malformed, as a steward would.
    """
    name = str(getattr(stream, "name", "stdin"))
    first = stream.readline(LINE_BYTES_MAX)
    if first[:1] and first[0] in _CBOR_MAPS:
        yield from _cbor_items(first + _bounded(stream, name), name)
        return
    while first and not first.strip():
        first = stream.readline(LINE_BYTES_MAX)
    try:
        value = _json(first)
    except ValueError:
        value = None
    if isinstance(value, dict) and "events" not in value:
        lines = itertools.chain([first], _lines(stream))
        yield from _json_lines(lines, name, keep_unreadable=keep_unreadable)
    elif first:
        yield from _whole(first + _bounded(stream, name), name)


def _whole(text: bytes, name: str) -> Iterator[Given]:
    try:
        value = _json(text)
    except ValueError as error:
        # Neither one value nor a first line that stands alone: say what is wrong with that line.
        if _is_too_long(text.split(b"\n", 1)[0]):
            raise _too_long(f"{name}:1") from None
        raise _unreadable(name, f"neither JSON lines nor one JSON value: {error}") from None
    events = value.get("events") if isinstance(value, dict) else value
    if events is None and _is_too_long(text):
        raise _too_long(name)
    if not isinstance(events, list):
        raise _unreadable(name, "a list of events, or a case with `events`, is needed")
    for number, event in enumerate(events):
        yield Given(place=f"{name}, event {number}", value=event, content_type=CONTENT_TYPE_JSON)


def _json_lines(lines: Iterable[bytes], name: str, *, keep_unreadable: bool) -> Iterator[Given]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        is_too_long = _is_too_long(line)
        if is_too_long and not keep_unreadable:
            raise _too_long(place)
        try:
            value = line.decode("utf-8", errors="replace") if is_too_long else _json(line)
        except ValueError as error:
            if not keep_unreadable:
                raise _unreadable(place, f"not JSON: {error}") from None
            value = line.decode("utf-8", errors="replace")
        yield Given(place=place, value=value, content_type=CONTENT_TYPE_JSON)


def _cbor_items(data: bytes, name: str) -> Iterator[Given]:
    number = -1
    try:
        for number, item in enumerate(cbor.split_sequence(data)):
            yield Given(
                place=f"{name}, item {number}",
                value=cbor.decode_loose(item),
                content_type=CONTENT_TYPE_CBOR,
            )
    except cbor.CborError as error:
        raise _unreadable(f"{name}, after item {number}", f"not CBOR: {error}") from None


def _json(text: bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key appears twice")
    return value


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(LINE_BYTES_MAX):
        yield line
        while len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX)


def _is_too_long(line: bytes) -> bool:
    return len(line.rstrip(b"\r\n")) > EVENT_BYTES_MAX


def _bounded(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise _unreadable(name, f"longer than {FILE_BYTES_MAX} bytes: use JSON lines")
    return data


def _too_long(place: str) -> Failure:
    return Failure(
        "cannot read events",
        where=place,
        todo=f"an event has at most {EVENT_BYTES_MAX} bytes",
        status=Status.USAGE,
    )


def _unreadable(place: str, detail: str) -> Failure:
    return Failure(
        "cannot read events",
        where=place,
        todo=f"{detail} (JSON lines, a CBOR sequence or a case file)",
        status=Status.USAGE,
    )
