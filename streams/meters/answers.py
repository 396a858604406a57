"""What meters print instead of a number: closed lists of words and of numbers.

Not here: what becomes of a silence (`streams.meters.rules`).

1. A word of `WORDS_FOR_NOTHING` is no answer; any other text that is no number is refused as such.
2. A number of `SENTINELS`, any from 2**63 - 16 on, and any with the digits of 2**63 or 2**64 at
   whatever decimal scale (an overflow that was scaled afterwards) is no answer.
3. Zero and negative numbers are no answers either: an absent meter looks like zero.

Every number here has been seen as data; `README.md` says where. A counter that really passes
through one of them loses that reading only: the next one is measured from the one before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from streams.meters.codes import Code
from streams.meters.units import unit_name

NUMBER_CHARACTERS_MAX = 64
EXPONENT_MAX = 30
WORDS_FOR_NOTHING = frozenset(
    {
        "", "-", "--", "---", "*", "**", "***", "?", ".",
        "n/a", "na", "n.a.", "nan", "-nan", "none", "null", "nil", "n/s", "ns",
        "inf", "+inf", "-inf", "infinity",
        "not supported", "not available", "not found", "not implemented", "not permissioned",
        "unsupported", "unavailable", "unknown", "unknown error", "undefined", "blank",
        "err", "err!", "error", "error!", "timeout", "disabled", "no reading", "no data",
        "insufficient permissions", "permission denied", "gpu is lost", "gpu requires reset",
        "requested functionality has been deprecated", "deprecated", "function not found",
        "invalid argument", "empty value", "in use", "in use by another client",
        "requires reset", "reset required", "no permission", "not permitted", "access denied",
        "uninitialized", "driver not loaded", "library not found", "corrupted inforom",
        "interrupt request issue", "n/a (secondary die)", "secondary die",
        "failed to convert to string", "error - failed to convert to string",
    }
)  # fmt: skip
"""Compared after trimming, in lower case, without one pair of brackets around them."""

SENTINELS = frozenset(
    {
        *range(0x7FFFFFF0, 0x7FFFFFF4),  # DCGM: int32 blank, not found, not supported, permission
        0x7FFFFFFF,
        0xFFFFFFFE,  # Slurm NO_VAL
        0xFFFFFFFF,  # Slurm INFINITE, NVML's "not available" unsigned
        *range(2**47, 2**47 + 4),  # DCGM: the same four, as floating point
    }
)
POWER_SENTINELS = frozenset({0xFFFF, 0xFFFE})
"""Sixteen bits that are full: as a power, no reading. A counter may pass through them."""
INT64_LAST = 0x7FFFFFFFFFFFFFF0
"""From here on no 64-bit number is a reading."""
_OVERFLOWED = (2**63, 2**64)
_OVERFLOW_LEAST = 10**9
_OVERFLOW_PARTS = 10**9
"""So close, as one part in this, the digits are those of an overflow."""

NVML_ERROR = "NVMLError_"
_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What stood where a number should have: why it is none."""

    code: Code
    detail: str


def number(text: str, *, power: bool = False) -> Fraction | Silence:
    """The exact positive number that a cell holds, or why it holds none."""
    trimmed = text.strip()
    if _word(trimmed) in WORDS_FOR_NOTHING:
        return Silence(code=Code.NO_ANSWER, detail=f"{trimmed!r}")
    exact = exactly(trimmed)
    if exact is None:
        return Silence(code=Code.NOT_A_NUMBER, detail=f"{trimmed[:40]!r}")
    if exact < 0:
        return Silence(code=Code.NEGATIVE, detail=trimmed)
    if exact == 0:
        return Silence(code=Code.ZERO, detail=trimmed)
    if is_sentinel(exact) or (power and exact in POWER_SENTINELS):
        return Silence(code=Code.SENTINEL, detail=trimmed)
    return exact


def exactly(text: str) -> Fraction | None:
    """A decimal number of bounded length as an exact rational; None: it is none."""
    if len(text) > NUMBER_CHARACTERS_MAX or not text.isascii() or not _NUMBER.fullmatch(text):
        return None
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > EXPONENT_MAX:
        return None
    return Fraction(text)


def is_sentinel(exact: Fraction) -> bool:
    """Whether a number stands for none, by rule 2."""
    if exact in SENTINELS or exact >= INT64_LAST:
        return True
    return exact >= _OVERFLOW_LEAST and any(_has_digits_of(exact, one) for one in _OVERFLOWED)


def _has_digits_of(exact: Fraction, overflow: int) -> bool:
    """Whether it is that number, divided by some power of ten, to one part in `_OVERFLOW_PARTS`."""
    scaled = Fraction(overflow)
    while scaled > exact * 2:
        scaled /= 10
    return abs(exact - scaled) * _OVERFLOW_PARTS <= scaled


def _word(text: str) -> str:
    """A cell as it is compared with the list: `[N/A]`, `N/A W`, `NVMLError_NotSupported`."""
    head, _, unit = text.rpartition(" ")
    if head and unit_name(unit) is not None:
        text = head.strip()
    if text.startswith(NVML_ERROR):
        text = _WORD_BEGINS.sub(" ", text.removeprefix(NVML_ERROR))
    if len(text) > 1 and (text[0], text[-1]) in (("[", "]"), ("(", ")"), ("<", ">")):
        text = text[1:-1]
    return " ".join(text.lower().split())
