"""Recorded text, line by line: bounded, decoded, and with its torn tail marked.

Not here: what a line means (the adapters).

1. A last line without its newline was cut off while it was written, even if it looks whole: it is
   marked, and adapters refuse it.
2. A line that is not UTF-8, holds a NUL or is longer than `LINE_BYTES_MAX` comes without text.
3. A line of `--` parts two recordings, as it parts excerpts of a log.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

from streams.meters.codes import Code
from streams.meters.records import Break, Refusal

Source: TypeAlias = "Iterator[Line | Refusal | Break]"
LINE_BYTES_MAX = 64 * 1024
SEPARATOR = "--"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end; `whole`: it had one."""

    place: str
    text: str
    whole: bool


def lines(stream: BinaryIO, name: str) -> Source:
    """The lines of a recording that are not blank."""
    number = 0
    while data := stream.readline(LINE_BYTES_MAX):
        number += 1
        place = f"{name}:{number}"
        whole = data.endswith(b"\n")
        if not whole and len(data) == LINE_BYTES_MAX:
            _skip_rest(stream)
            yield Refusal(code=Code.NOT_TEXT, place=place, detail="too long a line")
            continue
        text = _decoded(data)
        if text is None:
            yield Refusal(code=Code.NOT_TEXT, place=place)
        elif text.strip() == SEPARATOR:
            yield Break(place=place)
        elif text.strip():
            yield Line(place=place, text=text, whole=whole)


def lines_of(text: str, name: str) -> Source:
    """The lines of a text that is in memory."""
    return lines(io.BytesIO(text.encode()), name)


def peeked(source: Source, count: int) -> tuple[list[Line], Source]:
    """The first lines that are no comments, and the source with them and all before them."""
    ahead: list[Line | Refusal | Break] = []
    found: list[Line] = []
    for line in source:
        ahead.append(line)
        if isinstance(line, Line) and not line.text.startswith("#"):
            found.append(line)
            if len(found) >= count:
                break
    return found, itertools.chain(ahead, source)


def torn(line: Line) -> Refusal:
    """The refusal of a line that is not whole."""
    return Refusal(code=Code.TORN, place=line.place, raw=line.text[:200])


def _decoded(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.rstrip("\r\n")


def _skip_rest(stream: BinaryIO) -> None:
    while data := stream.readline(LINE_BYTES_MAX):
        if data.endswith(b"\n"):
            return
