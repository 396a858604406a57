"""Values of the data model as JSON, for people and for readers that round big numbers.

This is output only: JSON events are read in `schemas.events`.

1. Integers from 2**53 on, either side of zero, are decimal strings (§2.1: a JavaScript reader
   would round them); smaller ones are numbers.
2. Byte strings are lower-case hex.
3. Map members keep their order; a line has no spaces and no line breaks in it.

Profile: §2.1.
"""

import json
from collections.abc import Mapping
from typing import TypeAlias

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

EXACT_LIMIT = 2**53
"""From here on a JSON number is not exact in every reader."""


def to_json(value: object) -> Json:
    """The value with big integers and bytes as strings. Raises TypeError for no such value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if -EXACT_LIMIT < value < EXACT_LIMIT else str(int(value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): to_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(member) for member in value]
    raise TypeError(f"a {type(value).__name__} is not in the data model")


def dumps_line(value: object) -> str:
    """The value as one line of JSON, without the line break at its end."""
    return json.dumps(to_json(value), separators=(",", ":"), ensure_ascii=False)
