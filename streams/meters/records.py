"""Records of the meters: a sample as an adapter saw it, a reading or a refusal as the rules judge.

Not here: the wire event (`streams.meters.events`).

1. Amounts are exact rationals in microjoules and microwatts until a reading rounds them, once.
2. A sample without an amount says why: the silence of a meter is data too.
3. A reading without energy is a window that nobody measured: unknown, never zero.

Invariant: a `Reading` with energy has a grade and no code; one without has a code and no grade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

from schemas.records import Grade, Occupant
from streams.meters.codes import Code

WATT_UW = 1_000_000


class Quantity(StrEnum):
    """What a number is: a running total, a draw at an instant, or the energy of its own window."""

    COUNTER = "counter"
    POWER = "power"
    FIGURE = "figure"


class Scope(StrEnum):
    """How much of a machine a figure is about."""

    DIE = "die"
    BOARD = "board"
    MODULE = "module"
    PACKAGE = "package"
    DRAM = "dram"
    HOST = "host"
    CONTAINER = "container"


LIMIT_W: Mapping[Scope, int] = {
    Scope.DIE: 1_500,
    Scope.BOARD: 2_000,
    Scope.MODULE: 4_000,
    Scope.PACKAGE: 1_000,
    Scope.DRAM: 150,
    Scope.HOST: 30_000,
    Scope.CONTAINER: 30_000,
}
"""Where neither the operator nor the data names a power limit: above anything on the market."""


class Obtained(StrEnum):
    """How a figure came about; its grade follows."""

    COUNTER = "counter"
    INSTRUMENT = "instrument"
    VENDOR_POWER = "vendor-power"
    MODEL = "model"
    GUESS = "guess"


GRADE_OF: Mapping[Obtained, Grade] = {
    Obtained.COUNTER: Grade.HW_SHUNT,
    Obtained.INSTRUMENT: Grade.HW_SHUNT,
    Obtained.VENDOR_POWER: Grade.MODEL_BASED,
    Obtained.MODEL: Grade.MODEL_BASED,
    Obtained.GUESS: Grade.ESTIMATOR,
}


def lowered(grade: Grade) -> Grade:
    """The next worse grade."""
    return Grade.MODEL_BASED if grade is Grade.HW_SHUNT else Grade.ESTIMATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a sample's number stands: the format, the field by its own name, its unit, its scope.

    `identity` says by what the device is known (`uuid`, `serial`, `bus`, `index`, `name`, `given`).
    """

    form: str
    field: str
    unit: str
    scope: Scope
    identity: str
    obtained: Obtained
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number that a source gave for one device, or its silence.

    `amount` is in uJ (a counter, a figure) or uW (a power). `start` is a figure's counter at the
    beginning of its window. `device_ms` is the device's own clock, `range_uj` where the counter
    begins again, `boot` what changes when it is set to zero, `instance` through what a total was
    seen, `scrape` with which other samples it was taken. `parts` are the physical things that a
    figure is about, where they are not the device.
    """

    place: str
    device: str
    origin: Origin
    quantity: Quantity
    raw: str
    amount: Fraction | None = None
    silent: Code | None = None
    detail: str = ""
    stamp_ms: int | None = None
    from_ms: int | None = None
    start: Fraction | None = None
    device_ms: Fraction | None = None
    range_uj: Fraction | None = None
    boot: str = ""
    limit_uw: Fraction | None = None
    floor_uw: Fraction | None = None
    instance: str = ""
    scrape: str = ""
    cross_uj: Fraction | None = None
    parts: tuple[str, ...] = ()
    occupants: tuple[Occupant, ...] = ()

    def same_reading(self, other: Sample) -> bool:
        """The same value with the same device stamp."""
        return self.amount == other.amount and self.device_ms == other.device_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A device's energy in a window, or that it is unknown there and why."""

    device: str
    from_ms: int
    to_ms: int
    uj: int | None
    grade: Grade | None = None
    code: Code | None = None
    detail: str = ""
    origin: Origin | None = None
    notes: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    occupants: tuple[Occupant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One line, or one number of it, that is not believed.

    `at_least_uj`: what a counter that began again shows since then, a lower bound, never booked.
    """

    code: Code
    place: str
    device: str = ""
    raw: str = ""
    detail: str = ""
    at_least_uj: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Here one recording ends and another begins: nothing is measured across it."""

    place: str


Item: TypeAlias = Sample | Refusal | Break
"""What adapters yield."""
Finding: TypeAlias = Reading | Refusal
"""What the rules yield."""


class MeterError(Exception):
    """A source that cannot be read at all: `place`, what is wrong, what to do."""

    def __init__(self, place: str, detail: str) -> None:
        super().__init__(f"{place}: {detail}")
        self.place = place
        self.detail = detail
