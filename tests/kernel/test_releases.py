"""Which releases are refused, and for what (profile §2.8).

Not here: which figure settles the others (`test_settlement`).
"""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
    Bench,
    Row,
    asks,
    check,
    commit,
    named,
    node,
    opened,
    policy,
    progress,
    refused,
    release,
    says,
)

HUGE = 2**63 - 1
# c runs since 1020 and has completed 5 units; w waits; e has ended; `none` holds no devices.
# A whole device draws 1 W at most.
LIMITED = [
    opened(node("a", 2, 1000), node("b", 8, 1000),
           policy={"power_limit_uw": 1_000_000, "meter_slack_ms": 100}),
    asks("c", "a", 2, 50),
    commit("c", at=1_020),
    progress("c", 5),
    asks("w", "a", 1, 50, preemptible=False),
    asks("e", "b", 0, 50),
    release("e", 7),
    asks("none", "b", 0, 50, at=1_060),
]  # fmt: skip
CAPACITY = [*LIMITED[:1], asks("c", "b", 8, 50, at=1_010), commit("c", at=1_020)]
ORDER = [
    Row(
        name="unknown-claim",
        given=LIMITED,
        when=release("nobody", 1, completed=0),
        then=[refused("unknown-claim")],
    ),
    Row(
        name="unknown-claim before out-of-range",
        given=LIMITED,
        when=release("nobody", HUGE),
        then=[refused("unknown-claim")],
    ),
    Row(
        name="wrong-state: it waits",
        given=LIMITED,
        when=release("w", 1),
        then=[refused("wrong-state", state="waiting")],
    ),
    Row(
        name="wrong-state: it has ended",
        given=LIMITED,
        when=release("e", 1),
        then=[refused("wrong-state", state="ended")],
    ),
    Row(
        name="wrong-state before out-of-range",
        given=LIMITED,
        when=release("e", HUGE),
        then=[refused("wrong-state", state="ended")],
    ),
    Row(
        name="out-of-range: the actual with what the pool uses",
        given=LIMITED,
        # 50 held by c and by none, 7 spent by e.
        when=release("none", 2**63 - 107),
        then=[refused("out-of-range")],
    ),
    Row(
        name="out-of-range: one less is taken",
        given=LIMITED,
        when=release("none", 2**63 - 108),
        then=[says("claim.settled")],
    ),
    Row(
        name="out-of-range before progress-fell",
        given=LIMITED,
        when=release("c", HUGE, completed=4),
        then=[refused("out-of-range")],
    ),
    Row(
        name="progress-fell",
        given=LIMITED,
        when=release("c", 0, completed=4),
        then=[refused("progress-fell")],
    ),
    Row(
        name="progress-fell before implausible",
        given=LIMITED,
        when=release("c", 10**6, completed=4),
        then=[refused("progress-fell")],
    ),
    Row(
        name="the last value itself is no fall",
        given=LIMITED,
        when=release("c", 0, completed=5),
        then=[says("claim.settled"), says("claim.admitted", claim="w")],
    ),
    Row(
        name="implausible, with what its devices can have drawn, floored",
        given=CAPACITY,
        # 10**6 uW * 8 mdev * (205 + 100) ms // 10**6 = 2440
        when=release("c", 2_441, at=1_225),
        then=[refused("implausible", limit_uj=2_440)],
    ),
    Row(
        name="the limit itself is plausible",
        given=CAPACITY,
        when=release("c", 2_440, at=1_225),
        then=[says("claim.settled")],
    ),
    Row(
        name="the limit is floored",
        given=[*CAPACITY[:-1], policy(power_limit_uw=333, meter_slack_ms=0),
               commit("c", at=1_030)],
        # 333 * 8 * 999 // 10**6 = 2.66
        when=release("c", 3, at=2_029),
        then=[refused("implausible", limit_uj=2)],
    ),
    Row(
        name="a held claim's span begins with its admission",
        given=CAPACITY[:-1],
        # 10**6 * 8 * (215 + 100) // 10**6
        when=release("c", 2_521, at=1_225),
        then=[refused("implausible", limit_uj=2_520)],
    ),
    Row(
        name="what holds no devices is not limited",
        given=LIMITED,
        when=release("none", 10**9),
        then=[says("claim.settled")],
    ),
    Row(
        name="no report, nothing implausible",
        given=[*CAPACITY[:-1], policy(power_limit_uw=0)],
        when=release("c"),
        then=[says("claim.settled")],
    ),
    Row(
        name="without a power limit everything is plausible",
        given=[*CAPACITY, policy()],
        when=release("c", 10**9),
        then=[says("claim.settled")],
    ),
]  # fmt: skip

ROWS = ORDER


@pytest.mark.parametrize(**named(ORDER))
def test_the_first_fault_of_a_release_is_told(row: Row) -> None:
    """A release is refused for the first of the five faults, and the claim stays."""
    found = check(row)
    if found[0]["kind"] == "refused":
        claim = row.when["claim"]
        before, after = Bench(*row.given).state, Bench(*row.given, row.when).state
        assert claim not in before.claims or before.claims[claim].state == after.claims[claim].state
