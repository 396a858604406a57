"""Energy by how it is known: measured, modelled, guessed, or reserved and never measured.

Not here: what is charged (the kernel says); power over time (`power`).

1. A leaf's row sums what was charged to it in this period. Its four parts always add up to the
   leaf's `spent_uj`: each part is the growth that one receipt made.
2. A settled figure counts by its basis and grade: `reserved` where nothing was measured or
   reported, else by grade. A late share counts by the reading's grade.
3. What live claims hold is not in the rows: `held_by` splits it when asked. Its metered part counts
   by the worst grade of the claim's readings, the rest of the reservation is `reserved`.

Invariant: rule 1, after any receipt.
Profile: §2.1, §2.3, §2.5, §2.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.records import Grade
from streams.kernel.claims import Claim
from streams.views.tables import Row

MEASURED: Final = "measured"
MODELLED: Final = "modelled"
GUESSED: Final = "guessed"
RESERVED: Final = "reserved"
PARTS: Final = (MEASURED, MODELLED, GUESSED, RESERVED)

_BY_GRADE: Final = {
    Grade.HW_SHUNT.value: MEASURED,
    Grade.MODEL_BASED.value: MODELLED,
    Grade.ESTIMATOR.value: GUESSED,
}


def empty() -> Row:
    """Nothing charged."""
    return dict.fromkeys(PARTS, 0)


def part_of(grade: str | None, basis: str = "") -> str:
    """Which part a figure of this grade and basis belongs to."""
    if basis == "reserved" or grade is None:
        return RESERVED
    return _BY_GRADE[grade]


def held_by(claims: Iterable[Claim]) -> dict[str, int]:
    """What live claims hold of their leaves' joules, by part (rule 3)."""
    held = empty()
    for claim in claims:
        measured = max(0, claim.metered_uj - claim.charged_uj)
        held[part_of(claim.metered_grade)] += measured
        held[RESERVED] += claim.hold_uj - measured
    return held


def summed(rows: Iterable[Row]) -> dict[str, int]:
    """Several leaves' parts together."""
    total = dict.fromkeys(PARTS, 0)
    for row in rows:
        for part in PARTS:
            total[part] += row[part]
    return total
