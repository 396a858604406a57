"""What a steward did, as Prometheus metrics, and whether it is well.

Not here: serving them over HTTP (`health`).

1. Names begin with `pool_`; times are in seconds, as Prometheus has it.
2. Lag is measured from the log's ends now and then (`measure`), since a batch knows only how far it
   came.
3. Well is who works on every partition that it was given. A partition that is being replayed is
   not ready yet, but well; one that stopped for good is not.

Invariant: a registry of its own: two stewards in one process do not mix.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from schemas.records import Kind
from streams.logs.contract import LogReader
from streams.logs.errors import LogTrouble
from streams.steward.observer import Appended, Observer

BATCH_SECONDS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 15)
_REFUSALS: Final = frozenset({Kind.REFUSED, Kind.CLAIM_REFUSED})


class Metrics(Observer):
    """Counts what a steward's partitions tell."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._events = Counter(
            "pool_events_decided", "Events decided.", ["partition"], registry=registry
        )
        self._decisions = Counter(
            "pool_decisions", "Receipts written, by decision.", ["kind"], registry=registry
        )
        self._refused = Counter(
            "pool_refused", "Events and claims refused, by reason.", ["reason"], registry=registry
        )
        self._dead = Counter("pool_dead_letters", "Dead letters.", ["partition"], registry=registry)
        self._heads = Counter("pool_heads", "Heads signed.", ["partition"], registry=registry)
        self._batch = Histogram(
            "pool_batch_seconds",
            "From a batch's first decision to its acknowledgement.",
            buckets=BATCH_SECONDS,
            registry=registry,
        )
        self._length = Gauge("pool_chain_length", "A pool's receipts.", ["pool"], registry=registry)
        self._next = Gauge(
            "pool_input_offset_next",
            "The offset that is decided next.",
            ["topic", "partition"],
            registry=registry,
        )
        self._lag = Gauge(
            "pool_input_lag_offsets",
            "How far an input's end lies ahead of what is decided.",
            ["topic", "partition"],
            registry=registry,
        )
        self._replay = Gauge(
            "pool_replay_ratio",
            "How much of the ledger is replayed, 0 to 1; 1 while deciding.",
            ["partition"],
            registry=registry,
        )
        self._reopened = Counter(
            "pool_reopened",
            "Times that writer and state were dropped, by what happened (Fenced, ...).",
            ["partition", "trouble"],
            registry=registry,
        )
        self._ignored = Counter(
            "pool_ignored_records",
            "Ledger records that do not count.",
            ["partition"],
            registry=registry,
        )
        self._expired = Counter(
            "pool_expired_inputs",
            "Inputs that expired undecided.",
            ["partition"],
            registry=registry,
        )
        self._working = Gauge(
            "pool_partition_working",
            "1 while a partition is decided, 0 while it is opened or replayed, -1 if it stopped.",
            ["partition"],
            registry=registry,
        )
        self._states: dict[int, int] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._measured: set[tuple[str, int]] = set()

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    @property
    def is_well(self) -> bool:
        """Whether no partition has stopped for good."""
        return -1 not in self._states.values()

    @property
    def is_ready(self) -> bool:
        """Whether every partition of ours is being decided."""
        return all(state == 1 for state in self._states.values())

    def replaying(self, partition: int, offset: int, end: int) -> None:
        """See `Observer`."""
        self._replay.labels(partition).set(offset / end if end else 1)
        self._state(partition, 0)

    def opened(self, partition: int, pools: Mapping[str, int]) -> None:
        """See `Observer`."""
        self._replay.labels(partition).set(1)
        self._state(partition, 1)
        for pool, length in pools.items():
            self._length.labels(pool).set(length)

    def appended(self, batch: Appended) -> None:
        """See `Observer`."""
        partition = batch.partition
        self._events.labels(partition).inc(batch.events)
        self._dead.labels(partition).inc(batch.dead_letters)
        self._heads.labels(partition).inc(batch.heads)
        self._batch.observe(batch.elapsed_us / 1_000_000)
        for kind, count in Tally(receipt.kind for receipt in batch.receipts).items():
            self._decisions.labels(kind).inc(count)
        for receipt in batch.receipts:
            if receipt.kind in _REFUSALS:
                self._refused.labels(receipt.body.get("reason")).inc()
        for pool, length in {one.pool: one.seq + 1 for one in batch.receipts}.items():
            self._length.labels(pool).set(length)
        for topic, offset in batch.positions.items():
            self._next.labels(topic, partition).set(offset)
            self._positions[topic, partition] = offset

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        """See `Observer`."""
        self._ignored.labels(partition).inc()

    def inputs_expired(self, topic: str, partition: int, offset_next: int, start: int) -> None:
        """See `Observer`."""
        self._expired.labels(partition).inc(start - offset_next)

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        """See `Observer`."""
        self._reopened.labels(partition, type(trouble).__name__).inc()
        self._state(partition, 0)

    def stopped(self, partition: int, error: BaseException) -> None:
        """A partition stopped for good."""
        self._state(partition, -1)

    def let_go(self, partition: int) -> None:
        """A partition is another's now: it is neither well nor unwell here."""
        if self._states.pop(partition, None) is not None:
            self._working.remove(str(partition))
        for place in [place for place in self._positions if place[1] == partition]:
            del self._positions[place]
            self._next.remove(place[0], str(partition))
            if place in self._measured:
                self._measured.discard(place)
                self._lag.remove(place[0], str(partition))

    def _state(self, partition: int, state: int) -> None:
        self._states[partition] = state
        self._working.labels(partition).set(state)

    async def measure(self, log: LogReader) -> None:
        """Measure how far the inputs are ahead. Trouble with the log leaves the last figures."""
        for place in list(self._positions):
            try:
                end = await log.end(*place)
            except LogTrouble:
                return
            if place in self._positions:
                self._lag.labels(*place).set(max(0, end - self._positions[place]))
                self._measured.add(place)


class Observers(Observer):
    """Tells several observers the same."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def replaying(self, partition: int, offset: int, end: int) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.replaying(partition, offset, end)

    def opened(self, partition: int, pools: Mapping[str, int]) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.opened(partition, pools)

    def appended(self, batch: Appended) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.appended(batch)

    def ignored(self, partition: int, offset: int, detail: str) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.ignored(partition, offset, detail)

    def inputs_expired(self, topic: str, partition: int, offset_next: int, start: int) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.inputs_expired(topic, partition, offset_next, start)

    def snapshot_ignored(self, partition: int, detail: str) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.snapshot_ignored(partition, detail)

    def reopening(self, partition: int, trouble: Exception, delay_ms: int) -> None:
        """See `Observer`."""
        for one in self._observers:
            one.reopening(partition, trouble, delay_ms)
