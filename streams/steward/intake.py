"""The inputs of a partition, merged into the one order in which they are decided.

What is decided about a record is `streams.steward.draft`; what a log promises about order is the
log contract, rule 3.

1. The next record is, among the first of each topic, the one with the least (`order`, place of the
   topic in `INPUT_TOPICS`, `offset`).
2. It is chosen only when every topic has shown its first record or its end, and whenever a topic
   runs dry all dry ones are looked at in one call. So on the embedded log, whose `order` is the
   order of publication, the choice does not depend on when somebody looked.
3. At most `fetch_records` a topic are held here.

Invariant: what is not taken is still in the log; nothing is lost with an `Intake`.
"""

from collections import deque
from collections.abc import Mapping

from streams import topics
from streams.logs.contract import LogReader, Record


class Intake:
    """Reads ahead of the decisions from `positions`, topic to offset."""

    def __init__(
        self, log: LogReader, partition: int, positions: Mapping[str, int], *, fetch_records: int
    ) -> None:
        self._log = log
        self._partition = partition
        self._fetch_records = fetch_records
        self._next = dict(positions)
        self._held: list[deque[Record]] = [deque() for _ in topics.INPUT_TOPICS]
        self._stale = True

    async def fill(self, *, timeout_ms: int) -> bool:
        """Look at the topics that ran dry; wait only if all did. Whether anything is held."""
        dry = {
            topic: self._next[topic]
            for topic, held in zip(topics.INPUT_TOPICS, self._held, strict=True)
            if not held
        }
        if dry:
            wait_ms = timeout_ms if len(dry) == len(self._held) else 0
            found = await self._log.read_any(
                self._partition, dry, max_records=self._fetch_records, timeout_ms=wait_ms
            )
            for topic, held in zip(topics.INPUT_TOPICS, self._held, strict=True):
                if topic in found:
                    held.extend(found[topic].records)
                    self._next[topic] = found[topic].offset_next
        self._stale = False
        return any(self._held)

    def peek(self) -> Record | None:
        """The next record; None when `fill` has to look first, or there is none."""
        if self._stale:
            return None
        best: Record | None = None
        for held in self._held:
            # Topics are tried in their order, so an equal `order` leaves the earlier topic's.
            if held and (best is None or held[0].order < best.order):
                best = held[0]
        return best

    def take(self, record: Record) -> None:
        """Take what `peek` gave."""
        held = self._held[topics.INPUT_TOPICS.index(record.topic)]
        assert held.popleft() is record, "only the record just seen is taken"
        self._stale = not held
