"""Prometheus exposition text, strictly: one sample a line, its labels, its value as it stands.

Not here: which metric means what (`streams.meters.dcgm`, `streams.meters.kepler`).

1. A value is kept as text: words where a number should be are for `answers` to judge.
2. A trailing number is the sample's own instant: whole ms, or seconds with a fraction, as
   OpenMetrics has it. An exemplar behind ` # ` is passed over.
3. `# scrape INSTANT` is this project's comment for when a saved scrape was taken; other comments
   are passed over. A scrape ends there; without such marks it ends where a series comes again.
4. A line that is no sample is refused, and so is the last one without its newline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streams.meters.answers import exactly
from streams.meters.codes import Code
from streams.meters.options import Options
from streams.meters.records import Break, Refusal
from streams.meters.stamps import instant_ms
from streams.meters.text import Line, Source, torn

SCRAPE = "# scrape "
SERIES_MAX = 100_000
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_HEAD = re.compile(rf"({_NAME})(?:\s*(\{{))?")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One sample line."""

    place: str
    name: str
    labels: Mapping[str, str]
    value: str
    own_ms: int | None


@dataclass(slots=True)
class Scrape:
    """The samples of one scrape, and when it was taken, if that is said."""

    at_ms: int | None
    place: str = ""
    series: list[Series] = field(default_factory=list)


def scrapes(source: Source, options: Options) -> Iterator[Scrape | Refusal | Break]:
    """The scrapes of a recording, in order."""
    scrape = Scrape(at_ms=options.at_ms)
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    number, marked = 0, False
    for line in source:
        if not isinstance(line, Line):
            if isinstance(line, Break) and scrape.series:
                yield _placed(scrape, options, number)
                number += 1
                scrape, seen = Scrape(at_ms=options.at_ms), set()
            yield line
            continue
        stamp = line.text.startswith(SCRAPE)
        one = None if stamp or line.text.lstrip().startswith("#") else _series(line)
        if isinstance(one, Refusal):
            yield one
            continue
        key = None if one is None else (one.name, frozenset(one.labels.items()))
        again = key in seen and not marked
        marked = marked or stamp
        if (stamp and scrape.series) or again or len(scrape.series) >= SERIES_MAX:
            yield _placed(scrape, options, number)
            number += 1
            scrape, seen = Scrape(at_ms=options.at_ms), set()
        if stamp:
            scrape.at_ms = instant_ms(line.text[len(SCRAPE) :], zone_min=options.zone_min)
        if one is not None and key is not None:
            scrape.place = scrape.place or one.place
            scrape.series.append(one)
            seen.add(key)
    if scrape.series:
        yield _placed(scrape, options, number)


def _placed(scrape: Scrape, options: Options, number: int) -> Scrape:
    """A scrape that does not say when it was taken takes its turn, if that is known."""
    if scrape.at_ms is None:
        scrape.at_ms = options.turn_ms(number)
    return scrape


def _series(line: Line) -> Series | Refusal:
    head = _HEAD.match(line.text)
    parsed = None if head is None else _labels(line.text, head)
    if head is None or parsed is None:
        return Refusal(code=Code.NOT_A_ROW, place=line.place, raw=line.text[:200])
    if not line.whole:
        return torn(line)
    labels, rest = parsed
    value, own_ms = rest.partition(" # ")[0].strip(), None
    words = value.rsplit(None, 1)
    stamp_ms = instant_ms(words[1]) if len(words) == 2 and exactly(words[1]) is not None else None
    if stamp_ms is not None:
        value, own_ms = words[0], stamp_ms
    return Series(place=line.place, name=head[1], labels=labels, value=value, own_ms=own_ms)


def _labels(text: str, head: re.Match[str]) -> tuple[dict[str, str], str] | None:
    """The labels and what follows them; None: they are not well-formed."""
    labels: dict[str, str] = {}
    at = head.end()
    if head[2] is None:
        return (labels, text[at:]) if text[at : at + 1] in (" ", "\t", "") else None
    while (matched := _LABEL.match(text, at)) is not None:
        if matched[1] in labels:
            return None
        labels[matched[1]] = re.sub(r"\\.", lambda one: _ESCAPES.get(one[0], one[0]), matched[2])
        at = matched.end()
    closing = re.compile(r"\s*\}").match(text, at)
    return None if closing is None else (labels, text[closing.end() :])
