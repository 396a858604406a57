"""A guess earns its way out (profile §2.6): what is observed, and what may be reserved from it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Json,
    Row,
    admitted,
    asks,
    check,
    commit,
    named,
    no_claim,
    node,
    opened,
    period,
    policy,
    reads,
    release,
    tick,
    waits,
)

POOL = opened(node("a", 4, 1000), node("b", 4, 1000), policy={"min_samples": 2})


def sample(claim: str, uj: int | None, grade: str = "HwShunt", **rest: Any) -> list[Json]:
    """A claim of class k in leaf b that runs and is released at a figure."""
    outcome = rest.pop("outcome", "completed")
    options = {"class_": "k", **rest}
    return [asks(claim, "b", 1, 5, **options), release(claim, uj, grade, outcome=outcome)]


def observed(claim: str = "c", leaf: str = "a", **options: Any) -> Json:
    return asks(claim, leaf, gang=[{"mdev": 1}], estimate="observed", **{"class_": "k", **options})


def short(measured: int, guesses: int = 0, required: int = 2) -> list[Json]:
    told = {"measured": measured, "guesses": guesses, "required": required}
    return [no_claim("c", "history-insufficient", **told)]


def derived(uj: int) -> list[Json]:
    return [admitted("c", grade="ModelBased", demand={"mdev": 1, "uj": uj})]


ROWS = [
    Row(name="class-empty", given=[POOL], when=observed(class_=""),
        then=[no_claim("c", "class-empty")]),
    Row(name="class-empty before history-insufficient: no class was given at all", given=[POOL],
        when=asks("c", "a", gang=[{"mdev": 1}], estimate="observed"),
        then=[no_claim("c", "class-empty")]),
    Row(name="history-insufficient: a class that nobody completed", given=[POOL],
        when=observed(), then=short(0)),
    Row(name="history-insufficient: one too few", given=[POOL, *sample("s1", 7)],
        when=observed(), then=short(1)),
    Row(name="history-insufficient: five are required by default",
        given=[POOL, policy(), *sample("s1", 7)], when=observed(), then=short(1, required=5)),
    Row(name="enough", given=[POOL, *sample("s1", 7), *sample("s2", 3)],
        when=observed(), then=derived(7)),
    Row(name="a guess is only counted",
        given=[POOL, *sample("s1", 7), *sample("s2", 900, "Estimator")],
        when=observed(), then=short(1, guesses=1)),
    Row(name="a release without a figure is a guess", given=[POOL, *sample("s1", 7),
        *sample("s2", None)], when=observed(), then=short(1, guesses=1)),
    Row(name="guesses beside enough figures change nothing",
        given=[POOL, *sample("s1", 7), *sample("s2", 3), *sample("s3", 900, "Estimator")],
        when=observed(), then=derived(7)),
    Row(name="not what failed", given=[POOL, *sample("s1", 7), *sample("s2", 9, outcome="failed")],
        when=observed(), then=short(1)),
    Row(name="not what was evicted", given=[POOL, *sample("s1", 7),
        *sample("s2", 9, outcome="evicted")], when=observed(), then=short(1)),
    Row(name="not what expired",
        given=[POOL, *sample("s1", 7), asks("s2", "b", 1, 5, class_="k", commit_within_ms=5),
               tick(1_100)], when=observed(), then=short(1)),
    Row(name="not what has no class", given=[POOL, *sample("s1", 7), *sample("s2", 9, class_="")],
        when=observed(), then=short(1)),
    Row(name="not another class's", given=[POOL, *sample("s1", 7), *sample("s2", 9, class_="K")],
        when=observed(), then=short(1)),
    Row(name="the meter's figure, where it covers the claim",
        given=[POOL, *sample("s1", 7), asks("s2", "b", 1, 5, class_="k"), commit("s2", at=1_100),
               reads("g", 1_100, 1_200, 11, on={"s2": 1}, at=1_200), release("s2", 99, at=1_200)],
        when=observed(), then=derived(11)),
    Row(name="a model's figure is kept, and makes it no worse than a model",
        given=[POOL, *sample("s1", 7, "ModelBased"), *sample("s2", 3)],
        when=observed(), then=derived(7)),
    Row(name="a figure of nothing is a figure", given=[POOL, *sample("s1", 0), *sample("s2", 0)],
        when=observed(), then=derived(0)),
    Row(name="only the last of the history",
        given=[POOL, policy(min_samples=1, history=2), *sample("s1", 9), *sample("s2", 1),
               *sample("s3", 2)], when=observed(), then=derived(2)),
    Row(name="cut when the next is kept, by the policy of that time",
        given=[POOL, *sample("s1", 9), *sample("s2", 1), policy(min_samples=1, history=1)],
        when=observed(), then=derived(9)),
    Row(name="a class outlives its claims and periods",
        given=[POOL, *sample("s1", 7), *sample("s2", 3), period(), period(), period()],
        when=observed(), then=derived(7)),
    Row(name="an estimate is no guess: it may borrow",
        given=[POOL, *sample("s1", 7), *sample("s2", 3), asks("a0", "a", 4, 1)],
        when=observed(), then=[admitted("c", "borrowed", grade="ModelBased")]),
    Row(name="the derived figure is what must fit",
        given=[opened(node("a", 4, 30), node("b", 4, 30), uj=60, policy={"min_samples": 1}),
               *sample("s1", 7), asks("a0", "a", 1, 50)],
        when=observed(),
        then=[waits("c", "share", "a", "uj", 4, demand={"mdev": 1, "uj": 7}, grade="ModelBased")]),
]  # fmt: skip


@pytest.mark.parametrize(**named(ROWS))
def test_a_reservation_from_what_a_class_really_spent(row: Row) -> None:
    """Completed, measured figures of the class, enough of them: the largest, as a model."""
    check(row)
