"""Which policies are taken, and what is told of the others (profile §3, table)."""

from __future__ import annotations

from typing import Any

import pytest

from streams.kernel.policy import Idle, Policy, policy_of
from tests.kernel.scenes import Bench, Row, check, event, named, node, opened, refused, says

LARGEST = 2**63 - 1
# key -> (values that are taken, values that are not)
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "aging_ms": ([0, 1, LARGEST], [-1, 2**63, None, True, [], "x", 1.0, "01", "-1"]),
    "reserve_after_ms": ([0, 1, LARGEST], [-1, 2**63, None, False, {}]),
    "max_wait_ms": ([0, 1, LARGEST], [-1, 2**63, None, "1 "]),
    "disruption_ppm": ([None, 0, 1_000_000], [-1, 1_000_001, "x", True]),
    "min_samples": ([1, LARGEST], [0, -1, 2**63, None, True]),
    "history": ([1, LARGEST], [0, -1, 2**63, None]),
    "meter_slack_ms": ([0, LARGEST], [-1, 2**63, None]),
    "power_limit_uw": ([None, 0, LARGEST], [-1, 2**63, False]),
    "idle": (
        [None, {"threshold_uw": 0, "window_ms": 1}, {"threshold_uw": LARGEST, "window_ms": 9}],
        [
            {},
            [],
            0,
            True,
            {"threshold_uw": 1},
            {"window_ms": 1},
            {"threshold_uw": 1, "window_ms": 0},
            {"threshold_uw": -1, "window_ms": 1},
            {"threshold_uw": None, "window_ms": 1},
            {"threshold_uw": True, "window_ms": 1},
            {"threshold_uw": 2**63, "window_ms": 1},
            {"threshold_uw": 1, "window_ms": 1, "unit": 1},
        ],
    ),
}
TAKEN = [(key, value) for key, (good, _) in VALUES.items() for value in good]
REFUSED = [(key, value) for key, (_, bad) in VALUES.items() for value in bad]

ORDER = [
    Row(
        name="the first bad key in byte order, not as given",
        given=[opened(node("a"))],
        when=event("policy.set", policy={"max_wait_ms": -1, "aging_ms": -1}),
        then=[refused("policy-invalid", key="aging_ms")],
    ),
    Row(
        name="an unknown key is as bad as a bad value",
        given=[opened(node("a"))],
        when=event("policy.set", policy={"history": 0, "ageing_ms": 1}),
        then=[refused("policy-invalid", key="ageing_ms")],
    ),
    Row(
        name="a bad value before an unknown key further on",
        given=[opened(node("a"))],
        when=event("policy.set", policy={"zz": 1, "history": 0}),
        then=[refused("policy-invalid", key="history")],
    ),
    Row(
        name="byte order: capitals before small letters, other scripts behind",
        given=[opened(node("a"))],
        when=event("policy.set", policy={"é": 1, "zz": 1, "Zz": 1}),
        then=[refused("policy-invalid", key="Zz")],
    ),
    Row(
        name="a bad member of idle as idle",
        given=[opened(node("a"))],
        when=event("policy.set", policy={"max_wait_ms": -1, "idle": {"threshold": 1}}),
        then=[refused("policy-invalid", key="idle")],
    ),
    Row(
        name="a policy that is no map is malformed",
        given=[opened(node("a"))],
        when=event("policy.set", policy=[]),
        then=[refused("malformed", field="policy")],
    ),
    Row(
        name="resources-invalid before policy-invalid",
        when=opened(node("a"), policy={"zz": 1}, resources=["uj", "mdev"]),
        then=[refused("resources-invalid")],
    ),
    Row(
        name="policy-invalid before tree-invalid",
        when=opened(node("A"), policy={"zz": 1}),
        then=[refused("policy-invalid", key="zz")],
    ),
    Row(
        name="decimal strings are integers in a policy too",
        given=[opened(node("a"))],
        when=event(
            "policy.set",
            policy={"aging_ms": "5", "idle": {"threshold_uw": "9007199254740993", "window_ms": 1}},
        ),
        then=[says("policy.set")],
    ),
]
ROWS = ORDER


@pytest.mark.parametrize(("key", "value"), TAKEN)
def test_a_value_in_range_is_taken(key: str, value: Any) -> None:
    """Every key takes its range, and null where its default is none."""
    given = [opened(node("a"))]
    check(
        Row(
            name=key,
            given=given,
            when=event("policy.set", policy={key: value}),
            then=[says("policy.set")],
        )
    )


@pytest.mark.parametrize(("key", "value"), REFUSED)
def test_another_value_is_refused_with_its_key(key: str, value: Any) -> None:
    """A wrong type, a value out of range, or null where there is a default: the key is told."""
    then = [refused("policy-invalid", key=key)]
    check(Row(name=key, when=opened(node("a"), policy={key: value}), then=then))
    given = [opened(node("a"))]
    check(Row(name=key, given=given, when=event("policy.set", policy={key: value}), then=then))


@pytest.mark.parametrize(**named(ORDER))
def test_the_first_bad_key_is_told(row: Row) -> None:
    """Keys are judged in byte order, and a policy before a tree."""
    check(row)


def test_defaults() -> None:
    """An empty policy is the profile's table of defaults."""
    assert policy_of({}) == Policy(
        aging_ms=0,
        reserve_after_ms=3_600_000,
        max_wait_ms=0,
        disruption_ppm=None,
        min_samples=5,
        history=128,
        meter_slack_ms=10_000,
        power_limit_uw=None,
        idle=None,
    )


def test_a_policy_replaces_the_whole() -> None:
    """A key that a new policy does not give is at its default again."""
    bench = Bench(opened(node("a"), policy={"aging_ms": 7, "history": 3}))
    bench.send(event("policy.set", policy={"idle": {"threshold_uw": 1, "window_ms": 2}}))
    assert bench.state.policy == Policy(idle=Idle(threshold_uw=1, window_ms=2))
