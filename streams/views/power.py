"""Measured power over time: each reading's energy in windows of one width, summed exactly.

Not here: what a claim is charged (the kernel); grades (`energy`).

1. A series has at most `WINDOWS_MAX` windows. When a reading would need more, the width doubles and
   neighbours are added together; the width is always `WIDTH_MS` times a power of two.
2. A reading is spread evenly over its time. What of its microjoules lies before an instant is
   floored, and a window gets the difference: the windows' sum is the reading's, exactly.
3. A meter that gave no answer is counted in the windows it would have filled: unknown, not zero.

Invariant: the sum over a series' windows is the sum of its readings.
Profile: §2.5.
"""

from __future__ import annotations

from typing import Any, Final

from streams.views.tables import Row

WIDTH_MS: Final = 60_000
WINDOWS_MAX: Final = 288
UW_PER_UJ_MS: Final = 1000
"""A microjoule in a millisecond is 1000 microwatts."""


def empty() -> Row:
    """A series without readings."""
    return {"width_ms": WIDTH_MS, "uj": {}, "gaps": {}}


def add(series: Row, from_ms: int, to_ms: int, uj: int | None) -> None:
    """Take a reading of [from_ms, to_ms), `to_ms` > `from_ms`; `uj` None: no answer."""
    _widen(series, from_ms, to_ms)
    width = series["width_ms"]
    span, before = to_ms - from_ms, 0
    for window in range(from_ms // width, (to_ms - 1) // width + 1):
        if uj is None:
            series["gaps"][window] = series["gaps"].get(window, 0) + 1
            continue
        until = min(to_ms, (window + 1) * width) - from_ms
        total = uj * until // span
        series["uj"][window] = series["uj"].get(window, 0) + total - before
        before = total


def windows(series: Row) -> list[dict[str, Any]]:
    """The windows in time order: from, to, energy, mean power (floored), and gaps."""
    width = series["width_ms"]
    shown = []
    for window in sorted(series["uj"].keys() | series["gaps"].keys()):
        uj = series["uj"].get(window)
        shown.append(
            {
                "from_ms": window * width,
                "to_ms": (window + 1) * width,
                "uj": uj,
                "mean_uw": None if uj is None else uj * UW_PER_UJ_MS // width,
                "gaps": series["gaps"].get(window, 0),
            }
        )
    return shown


def _widen(series: Row, from_ms: int, to_ms: int) -> None:
    """Double the width until the reading fits in beside what is there (rule 1)."""
    known = series["uj"].keys() | series["gaps"].keys()
    low, high = min(known, default=None), max(known, default=None)
    while True:
        width = series["width_ms"]
        first, last = from_ms // width, (to_ms - 1) // width
        if low is not None and high is not None:
            first, last = min(first, low), max(last, high)
            low, high = low >> 1, high >> 1
        if last - first < WINDOWS_MAX:
            return
        series["width_ms"] = width * 2
        series["uj"] = _halved(series["uj"])
        series["gaps"] = _halved(series["gaps"])


def _halved(values: dict[int, int]) -> dict[int, int]:
    halved: dict[int, int] = {}
    for window, value in values.items():
        halved[window >> 1] = halved.get(window >> 1, 0) + value
    return halved
