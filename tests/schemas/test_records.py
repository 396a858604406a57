"""The records are the profile's: its tables list the same kinds, events and reasons, no others."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from schemas import records
from schemas.records import (
    GRADE_RANK,
    INSTANT_LIMIT_MS,
    QUANTITY_LIMIT,
    ClaimState,
    Event,
    EventType,
    Grade,
    Kind,
    Node,
    Reason,
    worst,
)

PROFILE = (Path(records.__file__).parent / "pool-1.md").read_text()
RECORDS = [
    one for one in vars(records).values() if isinstance(one, type) and dataclasses.is_dataclass(one)
]
TICKED = re.compile(r"`([^`]+)`")


def table(heading: str) -> list[list[str]]:
    """The rows of the profile's table whose heading begins so, as lists of cells."""
    lines = PROFILE.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading}"))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def ticked(heading: str, column: int) -> set[str]:
    """What stands in backticks in one column of a table."""
    return {word for row in table(heading) for word in TICKED.findall(row[column])}


def test_the_event_types_are_the_tables() -> None:
    """The table of events lists every event type, and no other."""
    assert ticked("event", 0) - {"id"} == {kind.value for kind in EventType}


def test_the_decision_kinds_are_the_tables() -> None:
    """The table of decisions lists every kind, and no other."""
    assert ticked("decision", 0) == {kind.value for kind in Kind}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_stands_in_the_profile(reason: Reason) -> None:
    """A reason code that the profile does not name is no reason."""
    assert f"`{reason.value}`" in PROFILE


@pytest.mark.parametrize("state", [one for one in ClaimState if one is not ClaimState.ENDED])
def test_every_state_of_a_claim_stands_in_the_profile(state: ClaimState) -> None:
    """The states of a claim are §2.3's, and the words of `wrong-state`."""
    assert state.value in PROFILE
    section = PROFILE[PROFILE.index("`wrong-state` (with `state`") :]
    assert f"`{state.value}`" in section[:200]


def test_codes_are_lower_case_words_with_hyphens() -> None:
    """Reasons are words joined by hyphens, kinds words joined by a dot: nobody has to quote one."""
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", reason.value) for reason in Reason)
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)?", kind.value) for kind in Kind)
    assert len({one.value for one in Reason}) == len(Reason)


def test_grades_are_ordered_worst_first() -> None:
    """Estimator is the worst and HwShunt the best; the worst of two is the lower one."""
    assert [grade.value for grade in Grade] == ["Estimator", "ModelBased", "HwShunt"]
    for one, other in product(GRADE_RANK, repeat=2):
        assert worst(one, other) == worst(other, one) == min(one, other, key=GRADE_RANK.__getitem__)


def test_limits_are_the_profiles() -> None:
    """Quantities end before 2**63, and times before the year 10000."""
    assert QUANTITY_LIMIT == 2**63
    last = datetime.fromtimestamp((INSTANT_LIMIT_MS - 1_000) // 1_000, UTC)
    assert (last.year, last.month, last.day, last.hour, last.minute, last.second) == (
        (9999, 12, 31, 23, 59, 59)
    )


def test_a_node_without_options_is_the_profiles() -> None:
    """`weight` 1, no limit, borrowing and lending, and no bounds on what lives or waits."""
    node = Node(id="a", guarantee={}, limit={})
    assert (node.weight, node.borrow, node.lend) == (1, True, True)
    assert (node.max_live, node.max_waiting) == (None, None)
    line = next(line for line in PROFILE.splitlines() if line.startswith("`node = {"))
    assert "weight=1, limit={}, borrow=true, lend=true, max_live=null, max_waiting=null" in line


@pytest.mark.parametrize(
    "record",
    RECORDS,
    ids=lambda one: one.__name__,
)
def test_records_are_frozen_and_closed(record: type) -> None:
    """A record has its fields and no others, and none of them is set again."""
    assert "__slots__" in vars(record)
    parameters = record.__dataclass_params__  # type: ignore[attr-defined]
    assert parameters.frozen
    assert all(field.kw_only for field in dataclasses.fields(record))


def test_every_event_type_has_a_record() -> None:
    """Each event type has one record, named alike."""
    names = {one.__name__ for one in Event.__subclasses__()}
    expected = {
        "".join(word.capitalize() for word in re.split(r"[._]", kind.value)) for kind in EventType
    }
    assert names == expected
