"""What checks of a deployment find, as data.

Not here: the checks (`kafka_checks`, `kafka_doctor`, `streams.witness_lag`); printing.

`problem`: the guarantees do not hold, or nothing can be written. `warning`: they hold until
something fails. `fine`: checked, and as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(StrEnum):
    """What was checked; append-only."""

    REACHABLE = "reachable"
    TOPICS = "topics"
    PARTITIONS = "partitions"
    SETTINGS = "settings"
    REPLICATION = "replication"
    BROKERS = "brokers"
    FENCING = "fencing"
    ISOLATION = "isolation"
    CLOCK = "clock"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked: where, what was found, and what to do (empty if it is fine)."""

    check: Check
    level: Level
    where: str
    what: str
    todo: str = ""
