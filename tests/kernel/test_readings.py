"""Which readings of a device are refused, and for what (profile §2.5).

Not here: how the others are divided (`test_sharing`).
"""

from __future__ import annotations

import pytest

from tests.kernel.scenes import (
    Bench,
    Row,
    asks,
    check,
    named,
    node,
    opened,
    period,
    policy,
    reads,
    refused,
    release,
    says,
)

HUGE = 2**63 - 1
# c1, c2 and c3 run, w waits, e has ended at 10; the device g was read up to 1050.
POOL = [
    opened(node("a", 8, 1000), node("b", 2, 1000, borrow=False), policy={"meter_slack_ms": 100}),
    asks("c1", "a", 1, 50),
    asks("c2", "a", 2, 50),
    asks("c3", "b", 2, 50),
    asks("w", "b", 1, 50),
    asks("e", "a", 1, 50),
    release("e", 10),
    reads("g", 1_040, 1_050, 5, on={"c1": 1}),
]
# The row's reading comes at 1080.
NOT_ON: dict[str, int] = {"nobody": 1}

ORDER = [
    Row(
        name="window-empty",
        given=POOL,
        when=reads("h", 1_060, 1_060, 5, on={"c1": 1}),
        then=[refused("window-empty")],
    ),
    Row(
        name="window-empty: it ends before it begins",
        given=POOL,
        when=reads("h", 1_060, 1_059, 5),
        then=[refused("window-empty")],
    ),
    Row(
        name="window-empty before window-future",
        given=POOL,
        when=reads("h", 2_000, 2_000, 5),
        then=[refused("window-empty")],
    ),
    Row(
        name="window-empty before window-overlaps",
        given=POOL,
        when=reads("g", 1_000, 1_000, 5),
        then=[refused("window-empty")],
    ),
    Row(
        name="window-future",
        given=POOL,
        when=reads("h", 1_060, 1_181, 5),
        then=[refused("window-future")],
    ),
    Row(
        name="window-future: the slack itself is allowed",
        given=POOL,
        when=reads("h", 1_060, 1_180, 5),
        then=[says("meter.split")],
    ),
    Row(
        name="window-future by the policy's slack, 10 s by default",
        given=[*POOL, policy()],
        when=reads("h", 1_060, 11_091, 5),
        then=[refused("window-future")],
    ),
    Row(
        name="window-future before window-overlaps",
        given=POOL,
        when=reads("g", 1_000, 1_181, 5),
        then=[refused("window-future")],
    ),
    Row(
        name="window-overlaps",
        given=POOL,
        when=reads("g", 1_049, 1_070, 5, on={"c1": 1}),
        then=[refused("window-overlaps")],
    ),
    Row(
        name="window-overlaps: it may begin where the last ended",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, on={"c1": 1}),
        then=[says("meter.split")],
    ),
    Row(
        name="window-overlaps after a reading without an answer too",
        given=[*POOL, reads("g", 1_050, 1_060, None)],
        when=reads("g", 1_059, 1_070, 5),
        then=[refused("window-overlaps")],
    ),
    Row(
        name="window-overlaps: another device has its own windows",
        given=POOL,
        when=reads("h", 1_000, 1_050, 5, on={"c1": 1}),
        then=[says("meter.split")],
    ),
    Row(
        name="a refused reading does not move the device's end",
        given=[*POOL, reads("g", 1_060, 1_100, 5, on=NOT_ON)],
        when=reads("g", 1_050, 1_070, 5, on={"c1": 1}),
        then=[says("meter.split")],
    ),
    Row(
        name="window-overlaps before occupants-invalid",
        given=POOL,
        when=reads("g", 1_049, 1_070, 5, on={"c1": 0}),
        then=[refused("window-overlaps")],
    ),
    Row(
        name="occupants-invalid: no devices",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, on={"c1": 1, "c2": 0}),
        then=[refused("occupants-invalid")],
    ),
    Row(
        name="occupants-invalid: a claim named twice",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, occupants=[{"claim": "c1", "mdev": 1}] * 2),
        then=[refused("occupants-invalid")],
    ),
    Row(
        name="occupants-invalid before unknown-occupant",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, on={"nobody": 1, "c1": 0}),
        then=[refused("occupants-invalid")],
    ),
    Row(
        name="unknown-occupant: the first named, not the smallest",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, on={"c1": 1, "z": 1, "nobody": 1}),
        then=[refused("unknown-occupant", claim="z")],
    ),
    Row(
        name="unknown-occupant: a claim that only waited",
        given=POOL,
        when=reads("g", 1_050, 1_070, 5, on={"w": 1}),
        then=[refused("unknown-occupant", claim="w")],
    ),
    Row(
        name="unknown-occupant for a reading without an answer too",
        given=POOL,
        when=reads("g", 1_050, 1_070, None, on=NOT_ON),
        then=[refused("unknown-occupant", claim="nobody")],
    ),
    Row(
        name="unknown-occupant before out-of-range",
        given=POOL,
        when=reads("g", 1_050, 1_070, HUGE, on=NOT_ON),
        then=[refused("unknown-occupant", claim="nobody")],
    ),
    Row(
        name="out-of-range of the pool's usage",
        given=POOL,
        # Usage is 50 + 50 + 50 + 10 (w waits): with that and no less the sum reaches 2**63.
        when=reads("g", 1_050, 1_070, 2**63 - 160, on={"c3": 1}),
        then=[refused("out-of-range")],
    ),
    Row(
        name="out-of-range: one below is taken",
        given=POOL,
        when=reads("g", 1_050, 1_070, 2**63 - 161, on={"c3": 1}),
        then=[says("meter.split"), says("claim.overrun")],
    ),
    Row(
        name="out-of-range of the overhead",
        given=[*POOL, reads("h", 1_050, 1_070, 2**62)],
        when=reads("g", 1_050, 1_070, 2**62),
        then=[refused("out-of-range")],
    ),
    Row(
        name="out-of-range of a claim's own meter, whatever this period's usage",
        given=[*POOL, reads("h", 1_050, 1_070, 2**62, on={"c3": 1}), period()],
        when=reads("g", 1_050, 1_070, 2**62, on={"c1": 1, "c3": 1}),
        then=[refused("out-of-range")],
    ),
    Row(
        name="an event's own numbers out of range before everything",
        given=POOL,
        when=reads("h", 1_060, 1_060, 2**63),
        then=[refused("out-of-range")],
    ),
]  # fmt: skip


ROWS = ORDER


@pytest.mark.parametrize(**named(ORDER))
def test_the_first_fault_of_a_reading_is_told(row: Row) -> None:
    """A reading is refused for the first of the profile's six faults, and changes nothing."""
    check(row)
    if row.then[0]["kind"] == "refused":
        bench = Bench(*row.given)
        before = bench.state.to_plain()
        bench.send(row.when)
        after = bench.state.to_plain()
        assert {**after, "seq_next": 0, "now_ms": 0} == {**before, "seq_next": 0, "now_ms": 0}
