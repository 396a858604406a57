"""Sharing a device (profile §2.5): how a reading is divided over those who held it.

Not here: which readings are refused (`test_readings`).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Occupant
from streams.kernel.sharing import split
from tests.kernel.scenes import (
    Bench,
    Json,
    Row,
    asks,
    check,
    commit,
    named,
    node,
    opened,
    period,
    reads,
    release,
    says,
    tick,
    tree,
    waits,
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


def of(*shares: tuple[str, int], grade: str = "ModelBased", late: tuple[str, ...] = ()) -> Json:
    """A split's body."""
    listed = [
        {"claim": claim, "uj": uj, **({"late": True} if claim in late else {})}
        for claim, uj in shares
    ]
    return says("meter.split", device="g", grade=grade, shares=listed)


SPLITS = [
    Row(
        name="a sole occupant keeps the device's grade",
        given=POOL,
        when=reads("g", 1_050, 1_070, 7, on={"c3": 1}),
        then=[of(("c3", 7), grade="HwShunt")],
    ),
    Row(
        name="divided, a counter's total is a model",
        given=POOL,
        when=reads("g", 1_050, 1_070, 9, on={"c1": 1, "c2": 2}),
        then=[of(("c1", 3), ("c2", 6))],
    ),
    Row(
        name="divided, a guess stays one",
        given=POOL,
        when=reads("g", 1_050, 1_070, 9, grade="Estimator", on={"c1": 1, "c2": 2}),
        then=[of(("c1", 3), ("c2", 6), grade="Estimator")],
    ),
    Row(
        name="a sole occupant of a model improves nothing",
        given=POOL,
        when=reads("g", 1_050, 1_070, 9, grade="ModelBased", on={"c1": 1}),
        then=[of(("c1", 9))],
    ),
    Row(
        name="one microjoule each to the largest remainders",
        given=POOL,
        # 10/7, 20/7, 40/7: floors 1, 2, 5 and remainders 3, 6, 5: the two go to c2 and c3.
        when=reads("g", 1_050, 1_070, 10, on={"c1": 1, "c2": 2, "c3": 4}),
        then=[of(("c1", 1), ("c2", 3), ("c3", 6))],
    ),
    Row(
        name="equal remainders: the smaller claim id, however they are named",
        given=POOL,
        when=reads("g", 1_050, 1_070, 11, on={"c3": 1, "c2": 1, "c1": 1}),
        then=[of(("c1", 4), ("c2", 4), ("c3", 3))],
    ),
    Row(
        name="less energy than occupants: somebody has none, and is listed",
        given=POOL,
        when=reads("g", 1_050, 1_070, 1, on={"c3": 2, "c1": 1, "c2": 1}),
        then=[of(("c1", 0), ("c2", 0), ("c3", 1))],
    ),
    Row(
        name="a reading of nothing is a reading",
        given=POOL,
        when=reads("g", 1_050, 1_070, 0, on={"c1": 1, "c2": 2}),
        then=[of(("c1", 0), ("c2", 0))],
    ),
    Row(
        name="a share for an ended claim is late",
        given=POOL,
        when=reads("g", 1_050, 1_070, 8, on={"e": 1, "c1": 1}),
        then=[of(("c1", 4), ("e", 4), late=("e",))],
    ),
    Row(
        name="no occupants: overhead, without a grade",
        given=POOL,
        when=reads("g", 1_050, 1_070, 8),
        then=[says("meter.split", device="g", shares=[], overhead_uj=8, grade=None)],
    ),
    Row(
        name="no answer: a gap, and no share",
        given=POOL,
        when=reads("g", 1_050, 1_070, None, on={"c1": 1}),
        then=[says("meter.gap", device="g", shares=None)],
    ),
    Row(
        name="no answer with a grade is a gap too",
        given=POOL,
        when=reads("g", 1_050, 1_070, None, on={"c1": 1}) | {"grade": "HwShunt"},
        then=[says("meter.gap", device="g")],
    ),
    Row(
        name="overrun: where a meter first exceeds its reservation, in id order",
        given=POOL,
        # c1 has 5 read already.
        when=reads("g", 1_050, 1_070, 102, on={"c2": 1, "c1": 1}),
        then=[of(("c1", 51), ("c2", 51)),
              says("claim.overrun", claim="c1", reserved_uj=50, metered_uj=56),
              says("claim.overrun", claim="c2", reserved_uj=50, metered_uj=51)],
    ),
    Row(
        name="overrun: not at the reservation itself",
        given=POOL,
        when=reads("g", 1_050, 1_070, 50, on={"c2": 1}),
        then=[of(("c2", 50), grade="HwShunt")],
    ),
    Row(
        name="overrun: not a second time",
        given=[*POOL, reads("h", 1_050, 1_070, 51, on={"c2": 1})],
        when=reads("g", 1_050, 1_070, 51, on={"c2": 1}),
        then=[of(("c2", 51), grade="HwShunt")],
    ),
    Row(
        name="overrun: not of an ended claim",
        given=POOL,
        when=reads("g", 1_050, 1_070, 99, on={"e": 1}),
        then=[of(("e", 99), grade="HwShunt", late=("e",))],
    ),
]  # fmt: skip

ROWS = SPLITS


@pytest.mark.parametrize(**named(SPLITS))
def test_a_reading_is_divided_over_who_held_the_device(row: Row) -> None:
    """Shares go by `mdev`, in integers; grade never improves; overruns follow the split."""
    check(row)


# (what the claim was settled at, what the late reading says, its growth over what was charged)
LATE = [
    ("below the figure: nothing more", 10, 8, 0),
    ("the figure itself: nothing more", 10, 10, 0),
    ("over the report: the growth", 10, 25, 15),
    ("a claim settled at nothing", 0, 25, 25),
]


@pytest.mark.parametrize(
    ("figure_uj", "late_uj", "growth_uj"), [one[1:] for one in LATE], ids=[one[0] for one in LATE]
)
@pytest.mark.parametrize("gone", [False, True])
def test_a_late_share_charges_reality_over_the_report(
    gone: bool, figure_uj: int, late_uj: int, growth_uj: int
) -> None:
    """The leaf is charged the growth of max(figure, meter); where it is gone, it is overhead."""
    bench = Bench(opened(node("a", 4, 100), node("b")), asks("c", "a", 1, 50))
    bench.send(release("c", figure_uj))
    if gone:
        bench.send(period())
        bench.send(tree(node("b")))
    bench.send(reads("g", 1_000, 1_010, late_uj, on={"c": 1}))
    assert bench.state.overhead_uj == (growth_uj if gone else 0)
    assert bench.usage("/")["uj"] == (0 if gone else figure_uj + growth_uj)


def test_late_shares_add_up_before_they_grow() -> None:
    """Several late shares are compared with the figure in sum, not one by one."""
    bench = Bench(opened(node("a", 4, 100)), asks("c", "a", 1, 50), release("c", 10))
    for from_ms, uj, spent_uj in ((1_000, 8, 10), (1_010, 8, 16), (1_020, 5, 21)):
        bench.send(reads("g", from_ms, from_ms + 10, uj, on={"c": 1}))
        assert bench.usage("a")["uj"] == spent_uj


def test_a_live_claims_hold_follows_its_meter() -> None:
    """Usage holds the reservation until the meter exceeds it, then the meter."""
    bench = Bench(opened(node("a", 4, 100)), asks("c", "a", 1, 50), commit("c"))
    held = []
    for from_ms, uj in ((1_000, 30), (1_010, 20), (1_020, 7)):
        bench.send(reads("g", from_ms, from_ms + 10, uj, on={"c": 1}))
        held.append(bench.usage("a")["uj"])
    assert held == [50, 50, 57]


def test_a_gap_is_no_reading_of_zero() -> None:
    """Without an answer nothing is metered, and the claim's readings no longer cover it."""
    bench = Bench(opened(node("a", 4, 100)), asks("c", "a", 1, 50), commit("c"))
    bench.send(reads("g", 1_020, 1_030, None, on={"c": 1}))
    bench.send(reads("g", 1_030, 1_040, 3, on={"c": 1}))
    settled = bench.send(release("c"))[0]
    assert settled["spent"] == {"uj": 50, "grade": "Estimator", "basis": "reserved"}


def test_a_reading_runs_no_pass() -> None:
    """What a reading shifts, the next pass takes up."""
    given = [*POOL, tick(1_081)]
    when = reads("g", 1_050, 1_070, 9, on={"c1": 1})
    check(Row(name="one", given=given, when=when, then=[of(("c1", 9), grade="HwShunt")]))
    waiting = waits("x", "borrowing-off", "b", "mdev", 1)
    check(Row(name="two", given=[*given, when], when=asks("x", "b", 1, 1), then=[waiting]))


@given(
    uj=st.integers(0, HUGE),
    held=st.dictionaries(st.text(min_size=1), st.integers(1, HUGE), min_size=1, max_size=8),
)
def test_any_split_sums_to_its_reading(uj: int, held: dict[str, int]) -> None:
    """Shares sum to the total exactly; each is its exact part, rounded down or up."""
    shares = split(uj, [Occupant(claim=claim, mdev=mdev) for claim, mdev in held.items()])
    assert sum(shares.values()) == uj
    assert list(shares) == sorted(held)
    total = sum(held.values())
    assert all(abs(share * total - uj * held[claim]) < total for claim, share in shares.items())
