"""What an operator may state about meters, with the defaults that hold where nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Cuts = Callable[[str, int, int], Sequence[int]]
"""The instants strictly inside a device's window at which its occupants change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Times in ms; a limit and a floor are per metered device, in uW, and go before the data's.

    `gap_ms`: powers further apart are not integrated. `fill_ms`: holes up to this long are filled
    with a straight line, as a guess. `stale_ms`: a counter that stands still for longer is unknown.
    """

    gap_ms: int = 5_000
    fill_ms: int = 0
    stale_ms: int = 300_000
    limit_uw: Fraction | None = None
    floor_uw: Fraction | None = None


def never_cut(device: str, from_ms: int, to_ms: int) -> Sequence[int]:
    """Nobody's occupation is known to change."""
    return ()
