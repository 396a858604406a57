"""Integers and the order of ids (§2.1)."""

from __future__ import annotations

import re
from typing import Any

INTEGER_END = 2**63
MOST_DIGITS = 4000  # beyond, Python does not read a decimal; all such are out of range
DECIMAL = re.compile(r"(0|[1-9][0-9]*)\Z", re.ASCII)


class Mistyped(Exception):
    """A value is not of the type that its place asks for."""


def in_bytes(text: str) -> bytes:
    """The order of ids (§2.1): their UTF-8 bytes."""
    return text.encode()


def as_integer(value: Any) -> int:
    """The integer that `value` writes, whatever its size; raises Mistyped."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and DECIMAL.match(value):
        return int(value) if len(value) <= MOST_DIGITS else 10**MOST_DIGITS
    raise Mistyped
