"""JSON output: what no reader may round is a string, and a line is a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.jsonform import dumps_line, to_json
from schemas.records import Grade


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (2**63 - 1, "9223372036854775807"),
        (1 - 2**53, 1 - 2**53),
        (-(2**53), "-9007199254740992"),
        (True, True),
        (None, None),
        (b"\x00\xff", "00ff"),
        (Grade.HW_SHUNT, "HwShunt"),
        ((1, [2**60]), [1, ["1152921504606846976"]]),
        ({"b": {"uj": 2**53}, "a": b""}, {"b": {"uj": "9007199254740992"}, "a": ""}),
    ],
)
def test_values(value: object, expected: Any) -> None:
    """Integers from 2**53 on are strings, bytes are hex, the rest is as it is."""
    assert to_json(value) == expected
    assert type(to_json(value)) is type(expected)
    assert json.loads(dumps_line(value)) == expected


def test_a_line_is_one_line_in_the_order_given() -> None:
    """No spaces, no breaks, other scripts as they are, members in their order."""
    assert dumps_line({"b": 1, "a": "x\ny é"}) == '{"b":1,"a":"x\\ny é"}'


@pytest.mark.parametrize("value", [1.0, {1}, object(), {"a": 0.5}])
def test_what_is_outside_the_model_is_our_bug(value: object) -> None:
    """A float here means that somebody computed one: it is not written."""
    with pytest.raises(TypeError, match="not in the data model"):
        to_json(value)
