"""What an operator and a machine are told: metrics, and one answer to "is all well?".

Serving it over HTTP is `witness.web`; what happens is decided elsewhere and reported here.

The answer is bad while any of these holds, each with its code:
1. `standing-still`: the runner finished no round for `patience_s`.
2. `log-unreadable`: the log did not answer, or not sensibly, for `patience_s`.
3. `forked`: a pool's stewards contradict themselves. It stays: nothing is signed there any more.
4. `not-signing`: for `patience_s` there have been receipts or heads that no countersignature
   covers. So it turns bad too if a ledger grows and its heads stop coming.
5. `no-heads`: no head at all came for `silence_s` (0: off; a pool where nothing happens has none).
6. `own-key`: a steward signs with this witness's key.
7. `clock`: the clock is behind what was signed; times stand still until it has caught up.
8. `unpublished`: a statement waits for `patience_s` to be published.
9. `log-went-back`: the log was replaced by an older one, in the last `patience_s`.

Times are of a steady clock, in seconds. Invariant: reporting never raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge

from witness.follow import Follow
from witness.outcome import Kind, Outcome, Refusal

PATIENCE_S = 300.0
SILENCE_S = 3600.0


@dataclass(slots=True)
class _Seen:
    """What is remembered of a pool. Instants are of the steady clock; None: not now."""

    length: int = 0
    head_length: int = 0
    forked: bool = False
    uncovered_since: float | None = None
    own_key: bool = False
    last: str = ""


@dataclass(slots=True)
class _Instants:
    started: float
    round_done: float
    log_answered: float
    head_came: float
    unpublished_since: float | None = None
    went_back: float | None = None
    clock_behind_ms: int = 0
    trouble: str = ""
    pools: dict[str, _Seen] = field(default_factory=dict)


class Health:
    """Collects what happens. Written by the runner's thread, read by any."""

    def __init__(
        self,
        *,
        patience_s: float = PATIENCE_S,
        silence_s: float = SILENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        now = clock()
        self._clock = clock
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._at = _Instants(started=now, round_done=now, log_answered=now, head_came=now)
        self.registry = CollectorRegistry()
        self._outcomes = Counter(
            "pool_witness_heads",
            "Heads by what became of them",
            ["pool", "outcome"],
            registry=self.registry,
        )
        self._receipts = Counter(
            "pool_witness_receipts_read", "Receipts read", registry=self.registry
        )
        self._troubles = Counter(
            "pool_witness_troubles", "Troubles with the log", ["reason"], registry=self.registry
        )
        self._lengths = Gauge(
            "pool_witness_signed_length",
            "Receipts countersigned",
            ["pool"],
            registry=self.registry,
        )
        self._head_lengths = Gauge(
            "pool_witness_head_length",
            "The longest head's length that came",
            ["pool"],
            registry=self.registry,
        )
        self._passed_over = Gauge(
            "pool_witness_receipts_passed_over",
            "Receipts read that did not extend the chain",
            ["pool"],
            registry=self.registry,
        )
        self._signed_at = Gauge(
            "pool_witness_signed_timestamp_seconds",
            "The time in the last countersignature",
            ["pool"],
            registry=self.registry,
        )
        self._forked = Gauge(
            "pool_witness_forked",
            "1 for a pool that is halted by fork evidence",
            ["pool"],
            registry=self.registry,
        )
        ok = Gauge("pool_witness_healthy", "1 while all is well", registry=self.registry)
        ok.set_function(lambda: float(not self.faults()))

    def receipts_read(self, count: int) -> None:
        """Receipts came."""
        self._receipts.inc(count)

    def head_came(self, pool: str) -> None:
        """A head came, whatever it is worth."""
        self._at.head_came = self._clock()
        self._seen(pool)

    def outcome(self, outcome: Outcome) -> None:
        """Something became of a head."""
        seen = self._seen(outcome.pool)
        label = outcome.kind.value
        if outcome.reason is not None:
            label = f"{label}-{outcome.reason.value}"
        self._outcomes.labels(outcome.pool, label).inc()
        seen.last = f"{label} {outcome.length}: {outcome.detail}".rstrip(": ")
        if outcome.reason is Refusal.OWN_KEY:
            seen.own_key = True
        if outcome.kind is Kind.SIGNED:
            seen.own_key = False

    def pool(self, follow: Follow) -> None:
        """Where a pool stands after a round."""
        seen, now = self._seen(follow.pool), self._clock()
        record = follow.record
        seen.length = record.length
        seen.head_length = max(
            [seen.head_length, record.length, *(h.statement.end.length for h in follow.unsettled())]
        )
        seen.forked = record.fork is not None
        uncovered = not seen.forked and (follow.uncovered or follow.stuck)
        if not uncovered:
            seen.uncovered_since = None
        elif seen.uncovered_since is None:
            seen.uncovered_since = now
        self._lengths.labels(follow.pool).set(record.length)
        self._head_lengths.labels(follow.pool).set(seen.head_length)
        self._signed_at.labels(follow.pool).set(record.closed_at_ms / 1000)
        self._passed_over.labels(follow.pool).set(follow.feed.passed_over)
        self._forked.labels(follow.pool).set(seen.forked)

    def round_done(self, *, clock_behind_ms: int, unpublished: int) -> None:
        """The runner went once through all it has."""
        now = self._clock()
        self._at.round_done = self._at.log_answered = now
        self._at.clock_behind_ms = clock_behind_ms
        self._at.trouble = ""
        if not unpublished:
            self._at.unpublished_since = None
        elif self._at.unpublished_since is None:
            self._at.unpublished_since = now

    def trouble(self, reason: str, text: str) -> None:
        """The log could not be read, or a statement not be published; it is tried again."""
        self._at.round_done = self._clock()
        self._at.trouble = text
        self._troubles.labels(reason).inc()

    def went_back(self) -> None:
        """The log ends before where it was read to."""
        self._at.went_back = self._clock()

    def faults(self) -> list[dict[str, str]]:
        """What is not well: `{"code", "pool"?, "detail"}`, in the module's order."""
        found = [*self._general_faults()]
        for name, seen in sorted(self._at.pools.items()):
            found += [{"code": code, "pool": name, "detail": seen.last} for code in self._of(seen)]
        return found

    def report(self) -> dict[str, object]:
        """The whole answer: `ok`, `faults`, and each pool's lengths."""
        faults = self.faults()
        pools = {
            name: {
                "length": seen.length,
                "head_length": seen.head_length,
                "forked": seen.forked,
                "last": seen.last,
            }
            for name, seen in sorted(self._at.pools.items())
        }
        return {"ok": not faults, "faults": faults, "pools": pools}

    def _general_faults(self) -> list[dict[str, str]]:
        at, now = self._at, self._clock()
        checks = [
            ("standing-still", self._is_old(at.round_done), "no round was finished"),
            ("log-unreadable", self._is_old(at.log_answered), at.trouble),
            ("no-heads", 0 < self._silence_s < now - at.head_came, "no head came"),
            ("clock", at.clock_behind_ms > 0, f"{at.clock_behind_ms} ms behind what was signed"),
            ("unpublished", self._is_old(at.unpublished_since), at.trouble),
            (
                "log-went-back",
                at.went_back is not None and not self._is_old(at.went_back),
                "the log ends before where it was read to",
            ),
        ]
        return [{"code": code, "detail": detail} for code, bad, detail in checks if bad]

    def _of(self, seen: _Seen) -> list[str]:
        checks = [
            ("forked", seen.forked),
            ("not-signing", self._is_old(seen.uncovered_since)),
            ("own-key", seen.own_key),
        ]
        return [code for code, bad in checks if bad]

    def _is_old(self, since: float | None) -> bool:
        return since is not None and self._clock() - since > self._patience_s

    def _seen(self, pool: str) -> _Seen:
        return self._at.pools.setdefault(pool, _Seen())
