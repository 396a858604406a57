"""Quantities for people: joules, devices, times, scaled and with their unit.

Not here: JSON, which keeps the integers as they are (`schemas.jsonform`).
"""

from __future__ import annotations

from schemas.receipts import rfc3339_ms
from schemas.records import MDEV, UJ

_ENERGIES = (
    (3_600_000_000_000_000, "MWh"),
    (3_600_000_000_000, "kWh"),
    (1_000_000_000_000, "MJ"),
    (1_000_000_000, "kJ"),
    (1_000_000, "J"),
    (1_000, "mJ"),
)
_TIMES = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def energy(uj: int) -> str:
    """Microjoules as J, kJ, MJ, kWh or MWh, with three or four digits."""
    for size, unit in _ENERGIES:
        if abs(uj) >= size:
            return f"{_short(uj, size)} {unit}"
    return f"{uj} uJ" if uj else "0 J"


def devices(mdev: int) -> str:
    """Milli-devices as devices: `2.5`."""
    whole, rest = divmod(mdev, 1000)
    return f"{whole:,}" if rest == 0 else f"{whole:,}.{rest:03}".rstrip("0")


def amount(resource: str, value: int) -> str:
    """An amount of any resource, with its unit."""
    if resource == UJ:
        return energy(value)
    if resource == MDEV:
        return f"{devices(value)} device{'' if value == 1000 else 's'}"
    return f"{value:,} {resource}"


def amounts(demand: dict[str, int]) -> str:
    """Several resources, the zeros left out: `8 devices, 2.1 kWh`."""
    return ", ".join(amount(name, value) for name, value in demand.items() if value) or "nothing"


def duration(ms: int) -> str:
    """A time span in its largest unit, with one decimal: `2.5 h`."""
    for size, unit in _TIMES:
        if ms >= size:
            return f"{_short(ms, size)} {unit}"
    return f"{ms} ms"


def instant(ms: int) -> str:
    """An instant as RFC 3339 UTC, without the milliseconds where they are zero."""
    return rfc3339_ms(ms).replace(".000Z", "Z")


def power(uw: int) -> str:
    """Microwatts as watts."""
    return f"{_short(uw, 1_000_000)} W"


def _short(value: int, size: int) -> str:
    """The quotient with one decimal below 100, else whole; rounded half up, without floats."""
    tenths = (value * 10 + size // 2) // size
    return f"{tenths // 10:,}.{tenths % 10}" if abs(tenths) < 1000 else f"{(tenths + 5) // 10:,}"
