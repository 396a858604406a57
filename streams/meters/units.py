"""Units, exactly: a closed list, each an exact rational of a microjoule, a microwatt or a ms.

Not here: which unit a format's field has (the adapters say).

1. A unit is written as in the list, optionally with a rational before it: `15625/1024 uJ`,
   `15.3 uJ`. Case counts where it must (`mJ`, `MJ`); everything else is no unit.
2. Conversion is exact. It is rounded once, down, when a reading is made (`whole_uj`).
3. Microwatts times milliseconds are nanojoules (`area_uj` divides).

Invariant: no float comes in or goes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

AMD_COUNT_UJ = Fraction(15625, 1024)
"""2**-16 J, what one count of an AMD energy accumulator is; tools print it as 15.3 or 15.259."""
AMD_RESOLUTIONS = (Fraction("15.2"), Fraction("15.31"))
"""What is printed for it lies between these, in uJ."""

_MILLI = Fraction(1, 1000)
ENERGY_UJ: Mapping[str, Fraction] = {
    "nJ": _MILLI,
    "uJ": Fraction(1),
    "mJ": Fraction(10**3),
    "J": Fraction(10**6),
    "kJ": Fraction(10**9),
    "MJ": Fraction(10**12),
    "GJ": Fraction(10**15),
    "mWh": Fraction(3_600_000),
    "Wh": Fraction(3_600_000_000),
    "kWh": Fraction(3_600_000_000_000),
    "MWh": Fraction(3_600_000_000_000_000),
    "count(2^-16J)": AMD_COUNT_UJ,
}
POWER_UW: Mapping[str, Fraction] = {
    "nW": _MILLI,
    "uW": Fraction(1),
    "mW": Fraction(10**3),
    "W": Fraction(10**6),
    "kW": Fraction(10**9),
    "MW": Fraction(10**12),
}
TIME_MS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**6),
    "us": _MILLI,
    "ms": Fraction(1),
    "s": Fraction(1000),
    "min": Fraction(60_000),
    "h": Fraction(3_600_000),
}
_ALIASES: Mapping[str, str] = {
    "uj": "uJ",
    "mj": "mJ",
    "j": "J",
    "nj": "nJ",
    "kj": "kJ",
    "joule": "J",
    "joules": "J",
    "microjoules": "uJ",
    "millijoules": "mJ",
    "kilojoules": "kJ",
    "wh": "Wh",
    "kwh": "kWh",
    "uw": "uW",
    "mw": "mW",
    "w": "W",
    "kw": "kW",
    "watt": "W",
    "watts": "W",
    "KW": "kW",
    "KJ": "kJ",
    "KWh": "kWh",
    "KWH": "kWh",
    "Kwh": "kWh",
    "WH": "Wh",
    "milliwatts": "mW",
    "microwatts": "uW",
    "kilowatts": "kW",
    "seconds": "s",
    "sec": "s",
    "msec": "ms",
}
WORD_LEAST = 4
"""Words so long mean the same in any case; of shorter ones it counts (`mW`, `MW`)."""
_SCALED = re.compile(r"(\d+(?:/\d+)?|\d+\.\d+)\s*(\D\S*)")


def unit_name(text: str) -> str | None:
    """The list's name for a unit as it is written, or None: it is no unit."""
    name = text.strip().replace("µ", "u").replace("μ", "u")
    if name in ENERGY_UJ or name in POWER_UW or name in TIME_MS:
        return name
    return _ALIASES.get(name) or (_ALIASES.get(name.lower()) if len(name) >= WORD_LEAST else None)


def energy_unit(text: str) -> Fraction | None:
    """Microjoules in one of it; None: it is no unit of energy."""
    return _scaled(text, ENERGY_UJ)


def power_unit(text: str) -> Fraction | None:
    """Microwatts in one of it; None: it is no unit of power."""
    return _scaled(text, POWER_UW)


def time_unit(text: str) -> Fraction | None:
    """Milliseconds in one of it; None: it is no unit of time."""
    return _scaled(text, TIME_MS)


def _scaled(text: str, table: Mapping[str, Fraction]) -> Fraction | None:
    factor = Fraction(1)
    matched = _SCALED.fullmatch(text.strip()) if len(text) <= 64 else None
    if matched is not None:
        number, _, below = matched[1].partition("/")
        if below and int(below) == 0:
            return None
        factor, text = Fraction(number) / int(below or 1), matched[2]
    one = table.get(unit_name(text) or "")
    return None if one is None or factor == 0 else one * factor


def area_uj(power_uw: Fraction, duration_ms: int) -> Fraction:
    """Microjoules of a constant draw."""
    return power_uw * duration_ms / 1000


def whole_uj(exact: Fraction) -> int:
    """The one rounding: down to whole microjoules, of a running total, never of a difference.

    So readings sum to the rounding of their exact sum, however many there are.
    """
    return exact.numerator // exact.denominator
