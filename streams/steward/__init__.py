"""The steward: reads events, has the kernel decide, seals and appends, and can replay it all.

1. `loop.Steward` decides a partition; `session`, `draft`, `intake`, `heads`, `ticks` are its parts.
2. `replay` brings a partition to the end of its ledger, `snapshots` make that short.
3. `fold` and `audit` work on receipts alone, with or without a log.
"""

from streams.steward.audit import Audit, Difference, audit
from streams.steward.errors import LedgerRefused, StewardStopped, WrongKey
from streams.steward.fold import event_of, replay_pool
from streams.steward.keyring import Keyring
from streams.steward.loop import Steward, run_all
from streams.steward.observer import Appended, Observer
from streams.steward.settings import Settings
from streams.steward.snapshots import Snapshots

__all__ = [
    "Appended",
    "Audit",
    "Difference",
    "Keyring",
    "LedgerRefused",
    "Observer",
    "Settings",
    "Snapshots",
    "Steward",
    "StewardStopped",
    "WrongKey",
    "audit",
    "event_of",
    "replay_pool",
    "run_all",
]
