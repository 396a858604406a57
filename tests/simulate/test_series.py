"""Amounts over time in buckets, fairness of shares, quantiles."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.simulate.measures import quantile
from streams.simulate.series import Series, jain_ppm


def test_an_amount_is_split_at_the_buckets_edges() -> None:
    """3 from 5 to 25, in buckets of 10."""
    series = Series(0, 10)
    series.add(3, 5)
    series.add(-3, 25)
    series.advance(40)
    assert series.buckets == [15, 30, 15, 0]
    assert series.total == 60


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-5, 5)), max_size=30))
def test_buckets_sum_to_the_integral(steps: list[tuple[int, int]]) -> None:
    """However the amount moves."""
    series, now, amount, integral = Series(7, 13), 7, 0, 0
    for span, change in steps:
        integral += amount * span
        now, amount = now + span, amount + change
        series.add(change, now)
    assert series.total == integral


def test_jains_index() -> None:
    """One of equals, one in n where one has all; of nobody there is none."""
    assert jain_ppm([5, 5, 5]) == 1_000_000
    assert jain_ppm([9, 0, 0]) == 333_333
    assert jain_ppm([0, 0]) == 1_000_000
    assert jain_ppm([]) is None


def test_quantiles_are_values_that_occurred() -> None:
    """Nearest rank: the median of four is the second."""
    assert quantile([1, 2, 3, 4], 500_000) == 2
    assert quantile([1, 2, 3, 4], 950_000) == 4
    assert quantile([], 500_000) == 0
