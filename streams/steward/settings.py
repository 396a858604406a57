"""The steward's named amounts: how much it takes at once, how often it does what.

Bounds of the log itself are in `streams.logs.contract`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a steward works. None of it changes what is decided.

    `batch_events`, `batch_receipts`, `batch_bytes`: a batch ends at the first of them reached;
    one event's receipts are never split. `fetch_records`: most read ahead of each input.
    `wait_ms`: longest wait for an input. `head_receipts`, `head_ms`: a pool's head is published
    after so many receipts or, if there are fewer, so long after the first of them.
    `snapshot_receipts`: fewest receipts between two snapshots. `tick_ms`: a pool whose deadline has
    passed gets a `tick` at most so often; None where events bring their time (traces, cases).
    `tick_lag_ms`: no ticks while the inputs are further behind the clock than this.
    `backoff_ms`, `backoff_ms_max`: waits after trouble, doubled each time.
    """

    batch_events: int = 512
    batch_receipts: int = 2048
    batch_bytes: int = 4 * 1024 * 1024
    fetch_records: int = 1024
    wait_ms: int = 500
    head_receipts: int = 1024
    head_ms: int = 1000
    snapshot_receipts: int = 20_000
    tick_ms: int | None = 1000
    tick_lag_ms: int = 5000
    backoff_ms: int = 200
    backoff_ms_max: int = 30_000
