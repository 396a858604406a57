"""Why a figure is not believed: the closed, append-only list of reason codes, with their words.

Not here: when a code is given (`streams.meters.rules` and the modules that it names).

Invariant: every code has words; a test says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Code(StrEnum):
    """Why a line is not believed, or why a window is unknown."""

    NO_ANSWER = "no-answer"
    SENTINEL = "sentinel"
    ZERO = "zero"
    NEGATIVE = "negative"
    NOT_A_NUMBER = "not-a-number"
    NOT_TEXT = "not-text"
    NOT_A_ROW = "not-a-row"
    TORN = "torn"
    NO_UNIT = "no-unit"
    UNIT_UNKNOWN = "unit-unknown"
    NO_STAMP = "no-stamp"
    NO_DEVICE = "no-device"
    NOT_PHYSICAL = "not-physical"
    NOT_ENERGY = "not-energy"
    NESTED = "nested"
    SAME_TOTAL = "same-total"
    INSTANCES_DISAGREE = "instances-disagree"
    DUPLICATE_STAMP = "duplicate-stamp"
    CLOCK_BACK = "clock-back"
    CLOCKS_DISAGREE = "clocks-disagree"
    TOO_OLD = "too-old"
    STALE = "stale"
    UNMOVED = "unmoved"
    FELL = "fell"
    RESET = "reset"
    GLITCH = "glitch"
    WRAP_UNKNOWN = "wrap-unknown"
    QUARANTINED = "quarantined"
    BELOW_FLOOR = "below-floor"
    GAP = "gap"
    WINDOW_EMPTY = "window-empty"
    OVERLAPS = "overlaps"


WORDS: Mapping[str, str] = {
    Code.NO_ANSWER: "the meter gave no answer: unknown, not zero",
    Code.SENTINEL: "a number that stands for `no value`, or a counter that has overflowed",
    Code.ZERO: "zero is how an absent meter looks: unknown",
    Code.NEGATIVE: "no meter draws less than nothing",
    Code.NOT_A_NUMBER: "neither a number nor a known `no answer`",
    Code.NOT_TEXT: "not UTF-8 text, or too long a line",
    Code.NOT_A_ROW: "not a line of this format",
    Code.TORN: "the line is not whole: its fields or its end are missing",
    Code.NO_UNIT: "no unit is given, and the format has none",
    Code.UNIT_UNKNOWN: "the unit is not one of the known ones",
    Code.NO_STAMP: "no instant is given for it",
    Code.NO_DEVICE: "no device is named",
    Code.NOT_PHYSICAL: "an instance of a device, not a device",
    Code.NOT_ENERGY: "a field that is no energy, or that nobody mapped",
    Code.NESTED: "part of another figure, or above it: one level only is booked",
    Code.SAME_TOTAL: "the same physical total, seen through another instance: counted once",
    Code.INSTANCES_DISAGREE: "instances of one total say different things",
    Code.DUPLICATE_STAMP: "its instant was read already; the first valid reading stands",
    Code.CLOCK_BACK: "the clock went back: it cannot be placed",
    Code.CLOCKS_DISAGREE: "the device's clock and the reader's passed different times",
    Code.TOO_OLD: "the reading is older than the scrape allows",
    Code.STALE: "the same value with the same device stamp: an old reading, not zero energy",
    Code.UNMOVED: "the counter did not move: the window stays open until it does",
    Code.FELL: "the counter fell, and nothing says why",
    Code.RESET: "the counter began again: a new epoch",
    Code.GLITCH: "one reading apart from those before and after it",
    Code.WRAP_UNKNOWN: "long enough for the counter to wrap more than once",
    Code.QUARANTINED: "more than the power limit allows in that time",
    Code.BELOW_FLOOR: "less than the device ever draws",
    Code.GAP: "too long without a reading to integrate across",
    Code.WINDOW_EMPTY: "the window ends where it begins, or before",
    Code.OVERLAPS: "the window overlaps one that is booked already",
}
