"""What a policy may say (§3).

Not handled here: what it means.
"""

from __future__ import annotations

from typing import Any

from .integers import INTEGER_END, Mistyped, as_integer, in_bytes

POLICY_INTEGERS = {
    "aging_ms": (0, INTEGER_END - 1),
    "reserve_after_ms": (0, INTEGER_END - 1),
    "max_wait_ms": (0, INTEGER_END - 1),
    "disruption_ppm": (0, 1_000_000),
    "min_samples": (1, INTEGER_END - 1),
    "history": (1, INTEGER_END - 1),
    "meter_slack_ms": (0, INTEGER_END - 1),
    "power_limit_uw": (0, INTEGER_END - 1),
}
POLICY_NULLABLE = ("disruption_ppm", "power_limit_uw", "idle")
IDLE_INTEGERS = {"threshold_uw": (0, INTEGER_END - 1), "window_ms": (1, INTEGER_END - 1)}


def policy_value(key: str, value: Any) -> Any:
    """A policy's value, a decimal string parsed where an integer is meant."""
    if key == "idle" and isinstance(value, dict):
        return {
            name: loose_integer(item) if name in IDLE_INTEGERS else item
            for name, item in value.items()
        }
    return loose_integer(value) if key in POLICY_INTEGERS else value


def loose_integer(value: Any) -> Any:
    try:
        return as_integer(value)
    except Mistyped:
        return value


def policy_fault(policy: dict[str, Any]) -> str | None:
    """The first key in byte order that is unknown or has a wrong value (§3)."""
    for key in sorted(policy, key=in_bytes):
        if not policy_value_valid(key, policy[key]):
            return key
    return None


def policy_value_valid(key: str, value: Any) -> bool:
    if key in POLICY_NULLABLE and value is None:
        return True
    if key == "idle":
        return (
            isinstance(value, dict)
            and set(value) == set(IDLE_INTEGERS)
            and all(integer_within(value[name], *IDLE_INTEGERS[name]) for name in value)
        )
    return key in POLICY_INTEGERS and integer_within(value, *POLICY_INTEGERS[key])


def integer_within(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
