"""A row's cells: numbers with their units, lengths of time, limits; exactly, or why not.

Not here: what a column is (`streams.meters.mapping`), whole rows (`streams.meters.rows`).

1. A number is exact. Its unit is the field's, the unit column's, or the cell's own; where two of
   them are given they must be of one kind, and the cell's own goes first.
2. Of several columns the first that answers is taken; if none does, the first says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from streams.meters.answers import Silence, exactly, number
from streams.meters.codes import Code
from streams.meters.mapping import Field
from streams.meters.records import Quantity
from streams.meters.units import AMD_RESOLUTIONS, energy_unit, power_unit, time_unit, unit_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row's cells by column."""

    place: str
    cells: dict[str, str]

    def cell(self, column: str) -> str:
        """A cell's text; empty where there is none."""
        return self.cells.get(column, "").strip()


def first(row: Row, value: Field, *, power: bool) -> tuple[str, Fraction | Silence]:
    """The first column that answers; if none does, the first with what it says instead."""
    silent: tuple[str, Fraction | Silence] | None = None
    for column in value.columns:
        answer = number(_split(row.cell(column))[0], power=power)
        if not isinstance(answer, Silence):
            return column, answer
        silent = silent or (column, answer)
    assert silent is not None
    return silent


def energy(row: Row, value: Field) -> Fraction | Silence:
    """An energy beside the meter's own number, in uJ, or why there is none."""
    column, answer = first(row, value, power=False)
    if isinstance(answer, Silence):
        return answer
    name, one = unit_of(row, value, column, Quantity.FIGURE)
    if one is None:
        return Silence(code=Code.UNIT_UNKNOWN if name else Code.NO_UNIT, detail=name or column)
    return answer * one


def unit_of(row: Row, value: Field, column: str, quantity: Quantity) -> tuple[str, Fraction | None]:
    """The unit's name and how many uJ or uW one of it is; None: there is none, or of another kind.

    The cell's own unit goes first; with the field's it must be of one kind.
    """
    own = _split(row.cell(column))[1]
    said = row.cell(value.unit_column) if value.unit_column else value.unit
    said = value.units.get(said, said)
    kind = power_unit if quantity is Quantity.POWER else energy_unit
    if own and said and kind(said) is None:
        return said, None
    name = own or said
    return name, kind(name) if name else None


def _split(cell: str) -> tuple[str, str]:
    """A cell's number and the unit after it; a cell that does not end in a unit is all number."""
    head, _, tail = cell.rpartition(" ")
    if head and exactly(head.strip()) is not None and unit_name(tail) is not None:
        return head.strip(), tail
    return cell, ""


def span_ms(row: Row, span: Field | None) -> Fraction | None:
    """A device's clock or a length of time, in ms; None: it is not given."""
    if span is None:
        return None
    text, own = _split(row.cell(span.columns[0]))
    exact, unit_ms = exactly(text), time_unit(own or span.unit)
    return None if exact is None or unit_ms is None or exact < 0 else exact * unit_ms


def limit_uw(row: Row, limit: Field | None) -> Fraction | None:
    """The power limit that the row names; a limit that is no number is none."""
    if limit is None:
        return None
    column, answer = first(row, limit, power=True)
    if isinstance(answer, Silence):
        return None
    one = unit_of(row, limit, column, Quantity.POWER)[1]
    return None if one is None else answer * one


def is_amd(text: str) -> bool:
    """Whether a printed resolution is the known one, however it was rounded."""
    exact = exactly(text)
    return exact is not None and AMD_RESOLUTIONS[0] <= exact <= AMD_RESOLUTIONS[1]
