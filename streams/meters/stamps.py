"""Instants as meters print them, in ms since the Unix epoch; and time spans of devices' clocks.

1. A number is seconds, milliseconds, microseconds or nanoseconds by its size, unless the unit is
   said: between 1973 and 2050 no two of them can be confused. Other numbers are no instants, and
   many of a device's own clock lie outside.
2. A date's year stands first; or last, behind a month and a day that dashes part (PTDaemon). With
   slashes it could be the day's turn to be first, so such a date is none.
3. A local time is read in the zone that is given, UTC otherwise. No zone is guessed.
4. What is below a millisecond is dropped.

Invariant: an instant is a whole number of ms before the year 10000, or None.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction

from schemas.records import INSTANT_LIMIT_MS
from streams.meters.answers import exactly

_YEAR_1973_S, _YEAR_2050_S = 10**8, 2_524_608_000
_BY_SIZE = tuple(
    (_YEAR_1973_S * 1000**power, _YEAR_2050_S * 1000**power, Fraction(1000, 1000**power))
    for power in range(4)
)
"""From, to, and how many ms one of it is: s, ms, us, ns."""
_CLOCK = r"[ T]+(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
_YEAR_FIRST = re.compile(r"(\d{4})[-/]?(\d{2})[-/]?(\d{2})" + _CLOCK)
_MONTH_FIRST = re.compile(r"(\d{2})-(\d{2})-(\d{4})" + _CLOCK)


def instant_ms(text: str, *, unit_ms: Fraction | None = None, zone_min: int = 0) -> int | None:
    """The instant that a cell says, or None; `zone_min` is the local zone's minutes from UTC."""
    text = text.strip()
    exact = exactly(text)
    if exact is not None:
        return _of_number(exact, unit_ms)
    if len(text) > 64 or not text.isascii():
        return None
    matched = _YEAR_FIRST.fullmatch(text)
    if matched is not None:
        return _of_parts(matched, (1, 2, 3), zone_min)
    matched = _MONTH_FIRST.fullmatch(text)
    return None if matched is None else _of_parts(matched, (3, 1, 2), zone_min)


def _of_number(exact: Fraction, unit_ms: Fraction | None) -> int | None:
    if unit_ms is None:
        unit_ms = next((unit for since, to, unit in _BY_SIZE if since <= exact < to), None)
    if unit_ms is None:
        return None
    return _bounded(int(exact * unit_ms // 1))


def _of_parts(matched: re.Match[str], date: tuple[int, int, int], zone_min: int) -> int | None:
    year, month, day = (int(matched[at]) for at in date)
    hour, minute, second = (int(matched[at]) for at in (4, 5, 6))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    ms = int(((matched[7] or "") + "000")[:3])
    minutes = zone_min if matched[8] is None else _offset_min(matched[8])
    return _bounded(int(moment.timestamp()) * 1000 + ms - minutes * 60_000)


def _offset_min(text: str) -> int:
    if text in ("Z", "UTC"):
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return -minutes if text[0] == "-" else minutes


def _bounded(ms: int) -> int | None:
    return ms if 0 <= ms < INSTANT_LIMIT_MS else None
