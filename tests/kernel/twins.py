"""A pool decided live, beside it one replayed from the decisions and one restored each time.

Not here: what the decisions should be.

1. After every event the replayed state equals the live one, as plain values.
2. A state restored from those plain values answers the next event alike, and equals it after.

Invariant: what the three hold differs at no moment, or `send` raises AssertionError.
Profile: §3 (replay and audit are exact), §6.1.
"""

from __future__ import annotations

from typing import Any

from schemas.records import Decision, Event, Malformed
from streams.kernel import PoolState, apply, decide


def in_id_order(plain: dict[str, Any]) -> dict[str, Any]:
    """A plain state with its claims by id: a restored state lists those that ended elsewhere."""
    return {**plain, "claims": sorted(plain["claims"], key=lambda claim: claim["id"])}


class Twins:
    """One pool's live state with its replayed twin; `events` counts what was sent."""

    def __init__(self, pool: str) -> None:
        self.live = PoolState(pool)
        self.replayed = PoolState(pool)
        self.events = 0

    def send(self, event: Event | Malformed, at_ms: int) -> list[Decision]:
        """Decide one event and hold the twins against the live state."""
        restored = PoolState.from_plain(self.live.to_plain()) if self.live.is_open else None
        decisions = decide(self.live, event, at_ms)
        assert decisions or getattr(event, "fields", {}).get("type") == "tick"
        if not self.live.is_open:
            return decisions
        for index, decision in enumerate(decisions):
            apply(self.replayed, decision, event if index == 0 else None, self.live.now_ms)
        # An event without a receipt moves nothing but the clock, which the next receipt brings.
        self.replayed.now_ms = max(self.replayed.now_ms, self.live.now_ms)
        plain = self.live.to_plain()
        assert self.replayed.to_plain() == plain
        if restored is not None:
            assert decide(restored, event, at_ms) == decisions
            assert in_id_order(restored.to_plain()) == in_id_order(plain)
        self.events += 1
        return decisions
