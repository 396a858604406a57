"""Which demands could start now, and as what: asked of the kernel's own checks, never guessed.

Not here: whether a claim is admitted (a steward decides when it is submitted; what stands here may
be gone by then).

1. For a leaf and a demand the first check that fails now is told, as for a waiting claim; if none
   does it would start, `guaranteed` or `borrowed`.
2. What could never start is told apart: no waiting helps it.

Profile: §4.1, §4.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from schemas.records import Grade
from streams.kernel import PoolState
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import Failure, never_fits
from streams.kernel.passes import why
from streams.kernel.tree import Node
from streams.views import figures

SMALL_MDEV: Final = (250, 500)
LEAVES_MAX: Final = 64

Plain = dict[str, Any]


def leaves(
    state: PoolState, below: str, *, leaf: str | None, mdev: int | None, uj: int, grade: Grade
) -> list[Plain]:
    """For each leaf below a node (or the one named) what would become of demands of devices.

    `mdev` None: a quarter, a half, and every power of two devices up to the capacity. `uj` is what
    each would reserve.
    """
    found = figures.leaves_below(state, below)
    if leaf is not None:
        found = [one for one in found if one.id == leaf]
    sizes = list(_sizes(state.capacity[0])) if mdev is None else [mdev]
    return [
        {
            "leaf": one.id,
            "shapes": [_shape(state, one, size, uj, grade) for size in sizes],
        }
        for one in found[:LEAVES_MAX]
    ]


def _sizes(capacity_mdev: int) -> Iterator[int]:
    yield from (size for size in SMALL_MDEV if size <= capacity_mdev)
    size = 1000
    while size <= capacity_mdev:
        yield size
        size *= 2


def _shape(state: PoolState, leaf: Node, mdev: int, uj: int, grade: Grade) -> Plain:
    amounts = [0] * len(state.resources)
    amounts[0], amounts[-1] = mdev, uj
    claim = Claim("", leaf, tuple(amounts), state.arrivals)
    claim.grade, claim.guess = grade.value, grade is Grade.ESTIMATOR
    claim.submitted_ms = state.now_ms
    never = never_fits(claim)
    failure = never if never is not None else why(state, claim)
    said: Plain = {
        "mdev": mdev,
        "uj": uj,
        "starts": failure is None and not state.archived,
        "ever": never is None and not state.archived,
        "mode": None,
        "reason": "archived" if state.archived else None,
        "node": None,
        "resource": None,
        "short": None,
    }
    if failure is None:
        said["mode"] = (
            None if state.archived else ("borrowed" if would_borrow(claim) else "guaranteed")
        )
    else:
        said |= _told(state, failure)
    return said


def _told(state: PoolState, failure: Failure) -> Plain:
    position = failure.position
    return {
        "reason": failure.reason.value,
        "node": failure.node.id,
        "resource": None if position is None else state.resources[position],
        "short": failure.short,
    }
