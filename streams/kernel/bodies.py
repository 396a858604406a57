"""Reading a decision's body, and marking what a change of usage makes stale.

Not here: what a decision does (`effects_*`). A body of another shape fails an assertion or a
look-up, which `apply` turns into a `ReplayError`.
"""

from __future__ import annotations

from schemas.records import Body, Value
from streams.kernel import projection
from streams.kernel.claims import Claim
from streams.kernel.state import PoolState
from streams.kernel.tree import Node


def claim_of(state: PoolState, body: Body) -> Claim:
    """The claim that a body names."""
    return state.claims[text(body["claim"])]


def text(value: Value) -> str:
    """A value that is text."""
    assert isinstance(value, str)
    return value


def integer(value: Value) -> int:
    """A value that is an integer."""
    assert type(value) is int
    return value


def touched(state: PoolState, leaf: Node) -> None:
    """A leaf's usage changed: what is lazily kept about it is stale."""
    if leaf.waiting:
        state.stale_tiers[leaf] = None
    projection.stale(state, leaf)
