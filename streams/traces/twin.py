"""A twin of the kernel: a state of its own that decides what the steward will decide.

Not here: any log. What it decides is nobody's record; the ledger is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.events import parse_event
from schemas.records import Decision, Value
from streams.kernel import PoolState, decide


class KernelTwin:
    """A `Twin` for one pool, from before its opening. `decisions` counts what it decided."""

    def __init__(self, pool: str) -> None:
        self.state = PoolState(pool)
        self.decisions = 0

    def decide(self, event: Mapping[str, Value], at_ms: int) -> Sequence[Decision]:
        """Decide an event that is given as CBOR would give it."""
        made = decide(self.state, parse_event(event, from_json=False), at_ms)
        self.decisions += len(made)
        return made
