"""Reclaiming what is not working (profile §2.7): four verdicts, and an order of the idle alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.scenes import (
    Json,
    Row,
    asks,
    check,
    commit,
    named,
    node,
    opened,
    policy,
    reads,
    release,
    review,
    says,
)

# A whole device below 1 W for 100 ms is idle. The review comes at 1500; c holds one device.
THRESHOLD_UW, WINDOW_MS = 1_000_000, 100
POLICY: Json = {"idle": {"threshold_uw": THRESHOLD_UW, "window_ms": WINDOW_MS}}


def pool(*claims: Json, **rest: Any) -> list[Json]:
    opening = opened(node("a", 9_000), mdev=10_000, **{"policy": POLICY, **rest})
    return [opening, *(claims or (asks("c", "a", 1_000, 10**8),))]


def read(device: str, from_ms: int, to_ms: int, uj: int | None, **rest: Any) -> Json:
    """A reading of c alone; it comes when its window ends."""
    on = rest.pop("on", {"c": 1_000})
    return reads(device, from_ms, to_ms, uj, on=on, at=to_ms, **rest)


def judged(*verdicts: Json, order: tuple[str, ...] = ()) -> list[Json]:
    return [says("idle.reviewed", verdicts=list(verdicts), order=list(order))]


def unknown(reason: str, claim: str = "c") -> Json:
    return {"claim": claim, "verdict": "unknown", "reason": reason}


def idle(mean_uw: int, claim: str = "c") -> Json:
    return {"claim": claim, "verdict": "idle", "mean_uw": mean_uw}


def working(mean_uw: int, claim: str = "c") -> Json:
    return {"claim": claim, "verdict": "working", "mean_uw": mean_uw}


SHORT, GUESS = unknown("window-too-short"), unknown("guess")
AT = review(at=1_500)


def row(name: str, *given: Json, then: list[Json], of: list[Json] | None = None) -> Row:
    return Row(name=name, given=[*(of or pool()), *given], when=AT, then=then)


HALF = asks("c", "a", 500, 10**8)
ROWS = [
    # 1 not-held
    row("not-held", of=pool(asks("c", "a", 0, 50)),
        then=judged({"claim": "c", "verdict": "not-held"})),
    row("not-held before unknown and before any power", read("g", 1_400, 1_500, 10**6),
        of=pool(asks("c", "a", 0, 50)), then=judged({"claim": "c", "verdict": "not-held"})),
    # 2 window-too-short
    row("window-too-short: no reading, and no rate", then=judged(SHORT)),
    row("window-too-short: by a millisecond", read("g", 1_401, 1_500, 0), then=judged(SHORT)),
    row("window-too-short before guess", read("g", 1_401, 1_500, 0, grade="Estimator"),
        then=judged(SHORT)),
    row("window-too-short before working", read("g", 1_401, 1_500, 10**9), then=judged(SHORT)),
    row("window-too-short: the newest reading ended too long ago", read("g", 1_200, 1_399, 0),
        then=judged(SHORT)),
    row("the newest reading ended exactly the window ago", read("g", 1_300, 1_400, 0),
        then=judged(idle(0), order=("c",))),
    row("window-too-short: a hole in the readings", read("g", 1_300, 1_420, 0),
        read("g", 1_421, 1_500, 0), then=judged(SHORT)),
    row("window-too-short: a reading of others between", read("g", 1_300, 1_420, 0),
        read("g", 1_420, 1_430, 0, on={}), read("g", 1_430, 1_500, 0), then=judged(SHORT)),
    row("window-too-short: no answer between", read("g", 1_300, 1_420, 0),
        read("g", 1_420, 1_430, None), read("g", 1_430, 1_500, 0), then=judged(SHORT)),
    row("touching readings make one run", read("g", 1_390, 1_430, 1), read("g", 1_430, 1_460, 2),
        read("g", 1_460, 1_500, 3), then=judged(idle(54), order=("c",))),  # 6000 // 110
    row("window-too-short: its devices are less than it holds",
        read("g", 1_400, 1_500, 0, on={"c": 999}), then=judged(SHORT)),
    row("window-too-short: a device that fell silent does not count",
        read("g", 1_200, 1_300, 0, on={"c": 500}), read("h", 1_400, 1_500, 0, on={"c": 500}),
        then=judged(SHORT)),
    row("window-too-short: one of two devices, though the other is enough",
        read("g", 1_400, 1_500, 0), read("h", 1_450, 1_500, 0, on={"c": 1}), then=judged(SHORT)),
    row("of a device the newest reading says how much it holds",
        read("g", 1_300, 1_400, 0, on={"c": 1}), read("g", 1_400, 1_500, 0),
        then=judged(idle(0), order=("c",))),
    # 3 guess
    row("guess, though it is far below the threshold",
        read("g", 1_400, 1_500, 0, grade="Estimator"), then=judged(GUESS)),
    row("guess, though it is far above", read("g", 1_400, 1_500, 10**9, grade="Estimator"),
        then=judged(GUESS)),
    row("guess: one such reading among others", read("g", 1_400, 1_420, 0),
        read("g", 1_420, 1_440, 0, grade="Estimator"), read("g", 1_440, 1_500, 0),
        then=judged(GUESS)),
    row("guess: of one device among two", read("g", 1_400, 1_500, 0, on={"c": 500}),
        read("h", 1_400, 1_500, 0, on={"c": 500}, grade="Estimator"), then=judged(GUESS)),
    row("a guess before the readings that span the window is not looked at",
        read("g", 1_380, 1_400, 0, grade="Estimator"), read("g", 1_400, 1_500, 0),
        then=judged(idle(0), order=("c",))),
    row("a model is no guess", read("g", 1_400, 1_500, 0, grade="ModelBased"),
        then=judged(idle(0), order=("c",))),
    # 4 idle or working: 100 ms at 1 W are 100 000 uJ
    row("working at the threshold", read("g", 1_400, 1_500, 100_000),
        then=judged(working(1_000_000))),
    row("idle a microjoule below it", read("g", 1_400, 1_500, 99_999),
        then=judged(idle(999_990), order=("c",))),
    row("the threshold is of a whole device: half of one", read("g", 1_400, 1_500, 50_000,
        on={"c": 500}), of=pool(HALF), then=judged(working(500_000))),
    row("idle below half of it", read("g", 1_400, 1_500, 49_999, on={"c": 500}), of=pool(HALF),
        then=judged(idle(499_990), order=("c",))),
    row("only the fewest newest readings that span the window",
        read("g", 1_300, 1_400, 10**8), read("g", 1_400, 1_450, 0), read("g", 1_450, 1_500, 0),
        then=judged(idle(0), order=("c",))),
    row("a reading that begins before the window counts whole",
        read("g", 1_300, 1_401, 10**8), read("g", 1_401, 1_500, 0),
        then=judged(working(500_000_000))),
    row("the exact sum of its devices, each over its own span",
        read("g", 1_400, 1_500, 10, on={"c": 500}), read("h", 1_370, 1_500, 20, on={"c": 500}),
        then=judged(idle(253), order=("c",))),  # 100 + 153.8
    row("its own share alone", read("g", 1_400, 1_500, 300_000, on={"c": 1_000, "d": 2_000}),
        of=pool(asks("c", "a", 1_000, 10**8), asks("d", "a", 2_000, 10**8)),
        then=judged(working(1_000_000), working(2_000_000, "d"))),
    row("the mean is written no larger than a quantity may be",
        reads("g", 1_499, 1_500, 2**62, on={"c": 1_000}),
        of=[*pool(policy={"idle": {"threshold_uw": 1, "window_ms": 1}}), ],
        then=judged(working(2**63 - 1))),
    # the order, and who is reviewed at all
    row("the idle alone are ordered: lowest power for what they hold first",
        read("g1", 1_400, 1_500, 200, on={"c1": 1_000}),
        read("g2", 1_400, 1_500, 300, on={"c2": 2_000}),
        read("g3", 1_400, 1_500, 10**9, on={"c3": 1_000}),
        of=pool(*(asks(name, "a", mdev, 10**7) for name, mdev in
                  (("c1", 1_000), ("c2", 2_000), ("c3", 1_000), ("c4", 1_000)))),
        then=judged(idle(2_000, "c1"), idle(3_000, "c2"), working(10**10, "c3"),
                    unknown("window-too-short", "c4"), order=("c2", "c1"))),
    row("equal power for what they hold: more devices first",
        read("g1", 1_400, 1_500, 100, on={"c1": 1_000}),
        read("g2", 1_400, 1_500, 200, on={"c2": 2_000}),
        of=pool(asks("c1", "a", 1_000, 10**7), asks("c2", "a", 2_000, 10**7)),
        then=judged(idle(1_000, "c1"), idle(2_000, "c2"), order=("c2", "c1"))),
    row("equal in both: earlier admission first, whatever the id",
        read("g1", 1_400, 1_500, 100, on={"c1": 1_000}),
        read("g2", 1_400, 1_500, 100, on={"c2": 1_000}),
        of=pool(asks("c2", "a", 1_000, 10**7), asks("c1", "a", 1_000, 10**7)),
        then=judged(idle(1_000, "c1"), idle(1_000, "c2"), order=("c2", "c1"))),
    row("neither waiting nor ended claims", release("e", 1), asks("c", "a", 0, 1),
        asks("w", "a", 1_000, 1), of=[opened(node("a", 9_000, max_live=1), mdev=10_000,
        policy=POLICY), asks("e", "a", 1_000, 1)],
        then=judged({"claim": "c", "verdict": "not-held"})),
    row("no policy, no verdicts", read("g", 1_400, 1_500, 0), of=pool(policy={}), then=judged()),
    row("a policy without it, no verdicts", read("g", 1_400, 1_500, 0), policy(idle=None),
        then=judged()),
]  # fmt: skip


@pytest.mark.parametrize(**named(ROWS))
def test_a_review_gives_each_live_claim_its_verdict(row: Row) -> None:
    """not-held, then unknown for want of a window, then for a guess, then idle or working."""
    check(row)


def test_a_committed_claim_is_judged_by_its_readings_not_its_start() -> None:
    """Startup is not idleness only for want of readings: when it started is not asked."""
    given = [*pool(), read("g", 1_300, 1_450, 0), commit("c", at=1_490)]
    check(Row(name="late", given=given, when=AT, then=judged(idle(0), order=("c",))))
