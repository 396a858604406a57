"""Scripts that lead to states which a random sequence seldom meets; their numbers vary a little.

Not handled here: more of them about reclaims and guards (`corners_reclaim.py`), and what comes
between and after: `generate.py` mixes other events in.

Each script is the beginning of a sequence; `after` in an event is the time since the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Event = dict[str, Any]
Script = list[Event]


def opened(capacity: Event, tree: list[Event], policy: Event | None = None) -> Event:
    return {"type": "pool.opened", "capacity": capacity, "tree": tree, "policy": policy or {}}


def node(name: str, mdev: int, uj: int, **more: Any) -> Event:
    return {"id": name, "guarantee": {"mdev": mdev, "uj": uj}, **more}


def claim(name: str, leaf: str, mdev: int, uj: int, **more: Any) -> Event:
    event = {"type": "claim.submitted", "claim": name, "leaf": leaf, "grade": "ModelBased"}
    return {**event, "gang": [{"mdev": mdev, "uj": uj}], **more}


def released(name: str, uj: int | None = None) -> Event:
    event: Event = {"type": "claim.released", "claim": name, "outcome": "evicted"}
    if uj is not None:
        event["actual"] = {"uj": uj, "grade": "HwShunt"}
    return event


def metered(device: str, name: str, begin: int, until: int, uj: int) -> Event:
    event = {"type": "meter.read", "device": device, "from_ms": begin, "to_ms": until, "uj": uj}
    return {**event, "grade": "HwShunt", "occupants": [{"claim": name, "mdev": 1}]}


def late_for_a_lost_leaf(rng: Random) -> Script:
    """A late share for a claim whose leaf is gone, or has become an inner node, is overhead."""
    rest = [node("b", 4, 50), *rng.choice([[], [node("a", 4, 50), node("a/x", 1, 1)]])]
    return [
        opened({"mdev": 8, "uj": 100}, [node("a", 4, 50), node("b", 4, 50)]),
        claim("a1", "a", 2, 5),
        released("a1", 3),
        {"type": "period.opened", "period": "2"},
        {"type": "tree.set", "tree": rest},
        metered("g0", "a1", 1000, 1020, rng.randint(2, 9)),
        {**metered("g1", "a1", 1000, 1020, 2**63 - rng.randint(2, 9))},
        {"type": "tree.set", "tree": [node("a", 4, 50), node("b", 4, 50)]},
        metered("g0", "a1", 1020, 1030, 4),
    ]


def reclaimed_joules(rng: Random) -> Script:
    """A victim frees the joules that it reserved and has not spent; one that overran frees none."""
    return [
        opened({"mdev": 60, "uj": 20}, [node("a", 30, 10), node("b", 30, 10)]),
        claim("a1", "a", 1, 5),
        claim("a2", "a", 1, 8),
        claim("a3", "a", 1, 7, preemptible=rng.random() < 0.8),
        {"type": "claim.committed", "claim": "a2"},
        metered("g0", "a2", 1000, 1020, rng.choice([3, 8, 9])),
        metered("g1", "a1", 1000, 1020, rng.choice([0, 1, 4])),
        claim("b1", "b", 1, rng.choice([5, 7, 10])),
        released("a2", 8),
        claim("a4", "a", 0, rng.randint(1, 4)),
        released("a3", 2),
    ]


def cut_plan(rng: Random) -> Script:
    """The share of capacity that is reclaimed at once stops the plan at the first that is over."""
    policy = {"disruption_ppm": rng.choice([0, 200_000, 300_000, 500_000, 600_000])}
    fillers = [
        claim(f"a{n}", "a", mdev, 1) for n, mdev in enumerate(rng.sample([1, 1, 2, 4, 2], 5))
    ]
    claimant = claim("b1", "b", rng.choice([6, 8, 10]), 1)
    return [
        opened({"mdev": 10, "uj": 100}, [node("a", 0, 50), node("b", 10, 50)], policy),
        *fillers,
        claimant,
        claim("b2", "b", 1, 1),
        *[released(f"a{n}", 1) for n in rng.sample(range(5), 5)],
    ]


def dropped_picks(rng: Random) -> Script:
    """The newest picks that the plan holds without are dropped first."""
    sizes = rng.choice([[3, 1, 2], [3, 1, 2], [2, 3, 1], [4, 1, 1, 2]])
    whole = sum(sizes) + 2
    return [
        opened({"mdev": whole, "uj": 100}, [node("a", 0, 50), node("b", whole, 50)]),
        *[claim(f"a{n}", "a", mdev, 1) for n, mdev in enumerate(sizes)],
        claim("b1", "b", rng.choice([6, 6, 5, 7]), 1),
        claim("b2", "b", 1, 1),
    ]


def earmarked_below_a_limit(rng: Random) -> Script:
    """What is reclaimed below a limit is not for a borrower below the same limit."""
    tree = [
        node("a", 6, 50, limit={"mdev": rng.choice([6, 6, 7])}),
        node("a/x", 4, 20),
        node("a/y", 2, 20),
        node("a/z", 0, 10),
        node("b", 4, 50),
    ]
    return [
        opened({"mdev": 10, "uj": 100}, tree),
        claim("z1", "a/z", 3, 1),
        claim("z2", "a/z", 3, 1),
        claim("x1", "a/x", rng.choice([4, 4, 3]), 1),
        released(rng.choice(["z1", "z2"]), 1),
        claim("z3", "a/z", rng.choice([3, 3, 2, 1]), 1),
        claim("y1", "a/y", rng.choice([1, 2]), 1),
        claim("b1", "b", rng.choice([3, 4, 5]), 1),
        released(rng.choice(["z1", "z2"]), 1),
    ]


def guard_from_inside(rng: Random) -> Script:
    """A guard at an inner node that a claim inside its guarantee set holds everybody below."""
    tree = [
        node("a", 8, 50, max_live=2),
        node("a/x", 4, 20),
        node("a/y", 4, 20, max_live=1),
        node("b", 2, 50),
    ]
    waiting = [claim("x2", "a/x", 1, 1), claim("y2", "a/y", rng.choice([1, 4]), 1)]
    rng.shuffle(waiting)
    return [
        opened({"mdev": 10, "uj": 100}, tree, {"reserve_after_ms": 50}),
        claim("y1", "a/y", 1, 1),
        claim("x1", "a/x", 1, 1),
        *waiting,
        {"type": "tick", "after": 100},
        claim("y3", "a/y", 1, 1),
        released(rng.choice(["x1", "y1"]), 1),
        {"type": "tick", "after": 100},
        released("x1", 1),
    ]


def awaiting_together(rng: Random) -> Script:
    """Two claims of one leaf await; its joules grow under them before the first hole is there."""
    return [
        opened({"mdev": 8, "uj": 100}, [node("a", 4, 50), node("b", 4, 10), node("c", 0, 10)]),
        claim("b0", "b", 0, 2),
        claim("a1", "a", 4, 1),
        claim("a2", "a", 2, 1),
        claim("a3", "a", 2, 1),
        claim("b1", "b", 2, 4),
        claim("b2", "b", 2, 4),
        metered("g0", "b0", 1000, 1020, rng.choice([5, 5, 6, 7, 9])),
        claim("b3", "b", 0, rng.choice([1, 2])),
        claim("c1", "c", 1, 1),
        released(rng.choice(["a3", "a2"]), 1),
        claim("b4", "b", 1, 0),
        released(rng.choice(["a3", "a2"]), 1),
    ]


def spared_in_order(rng: Random) -> Script:
    """Two claimants whose leaves outgrow their guarantees let their victims go, in id order."""
    return [
        opened({"mdev": 8, "uj": 100}, [node("a", 4, 50), node("b", 2, 10), node("c", 2, 10)]),
        claim("b0", "b", 0, 2),
        claim("c0", "c", 0, 2),
        *[claim(f"a{n}", "a", 2, 1) for n in range(4)],
        claim("z", "b", 2, 4),
        claim("y", "c", 2, 4),
        metered("g0", "b0", 1000, 1020, rng.choice([7, 8])),
        metered("g1", "c0", 1000, 1020, rng.choice([5, 7, 8])),
        claim("a9", "a", 4, 1),
        {"type": "claim.cancelled", "claim": "a9"},
        {"type": "period.opened", "period": "2"},
        released("a3", 1),
    ]


CORNERS: list[Callable[[Random], Script]] = [
    late_for_a_lost_leaf,
    reclaimed_joules,
    cut_plan,
    dropped_picks,
    earmarked_below_a_limit,
    guard_from_inside,
    awaiting_together,
    spared_in_order,
]
