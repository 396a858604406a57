"""Ticks: on a live log time must pass even when nobody sends anything.

A deadline is settled by the first event at or after it. When none comes, the steward publishes an
event `tick` for that pool to `pool.admin`; it travels as any input does, and it is the log that
gives it its time. So what a tick did is in the ledger with its cause, and replay knows no clock.

1. Only a pool with a deadline that the machine's clock has passed gets one, at most every
   `tick_ms`, and only when the inputs are decided up to about now: what waits in them brings its
   own time. On Kafka the steward therefore needs leave to write `pool.admin`.
2. Two stewards (one of them fenced and not knowing it) may both tick: harmless, a tick settles what
   is due and nothing else.
3. Where events bring their own time (traces, cases) there are no ticks: `tick_ms` is None.

Invariant: nothing here is decided; a tick that comes early settles nothing.
Profile: §3.
"""

from collections.abc import Iterable

from schemas import cbor
from schemas.records import EventType
from streams import topics
from streams.kernel.deadlines import next_deadline
from streams.logs.contract import MAX_PUBLISH_RECORDS, Outgoing
from streams.steward.pools import Pool


class Ticker:
    """Remembers which pools were given a tick, and when (ms of the machine's clock)."""

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._ticked_ms: dict[str, int] = {}

    def due(self, pools: Iterable[Pool], now_ms: int) -> list[Outgoing]:
        """The ticks to publish now."""
        ticks: list[Outgoing] = []
        for pool in pools:
            deadline = next_deadline(pool.state)
            if deadline is None or deadline[0] > now_ms:
                continue
            if now_ms - self._ticked_ms.get(pool.name, now_ms - self._tick_ms) < self._tick_ms:
                continue
            self._ticked_ms[pool.name] = now_ms
            ticks.append(_tick(pool))
            if len(ticks) == MAX_PUBLISH_RECORDS:
                break
        return ticks


def _tick(pool: Pool) -> Outgoing:
    value = cbor.encode({"pool": pool.name, "type": EventType.TICK})
    return Outgoing(topic=topics.ADMIN, key=pool.key, value=value)
