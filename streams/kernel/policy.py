"""The pool's policy (profile §3, table): its keys, their ranges and defaults.

Not here: what each key does (the module of its section).

1. Keys are judged in byte order; the first unknown or bad one is the fault.
2. Null is allowed where the default is none.

Profile: §3, §2.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.records import QUANTITY_LIMIT, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """`policy.idle`: microwatts of a whole device, and the window in milliseconds."""

    threshold_uw: int
    window_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A valid policy with its defaults filled in."""

    aging_ms: int = 0
    reserve_after_ms: int = 3_600_000
    max_wait_ms: int = 0
    disruption_ppm: int | None = None
    min_samples: int = 5
    history: int = 128
    meter_slack_ms: int = 10_000
    power_limit_uw: int | None = None
    idle: Idle | None = None


# key -> (smallest value, first value that is too large, null allowed)
_RANGES: Mapping[str, tuple[int, int, bool]] = {
    "aging_ms": (0, QUANTITY_LIMIT, False),
    "reserve_after_ms": (0, QUANTITY_LIMIT, False),
    "max_wait_ms": (0, QUANTITY_LIMIT, False),
    "disruption_ppm": (0, 1_000_001, True),
    "min_samples": (1, QUANTITY_LIMIT, False),
    "history": (1, QUANTITY_LIMIT, False),
    "meter_slack_ms": (0, QUANTITY_LIMIT, False),
    "power_limit_uw": (0, QUANTITY_LIMIT, True),
}
_IDLE_RANGES = {
    "threshold_uw": (0, QUANTITY_LIMIT, False),
    "window_ms": (1, QUANTITY_LIMIT, False),
}


def policy_fault(policy: Mapping[str, Value]) -> str | None:
    """The first bad key in byte order, or None."""
    for key in sorted(policy):
        if key == "idle":
            if not _idle_valid(policy[key]):
                return key
        elif key not in _RANGES or not _in_range(policy[key], _RANGES[key]):
            return key
    return None


def _in_range(value: Value, allowed: tuple[int, int, bool]) -> bool:
    low, limit, null_allowed = allowed
    if value is None:
        return null_allowed
    return type(value) is int and low <= value < limit


def _idle_valid(value: Value) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and value.keys() == _IDLE_RANGES.keys()
        and all(_in_range(value[key], allowed) for key, allowed in _IDLE_RANGES.items())
    )


def policy_of(policy: Mapping[str, Value]) -> Policy:
    """A valid policy map as a record."""
    plain = {key: value for key, value in policy.items() if key != "idle"}
    idle = policy.get("idle")
    return Policy(
        **plain,  # type: ignore[arg-type]  # policy_fault has judged the types
        idle=Idle(**idle) if isinstance(idle, dict) else None,  # type: ignore[arg-type]
    )
