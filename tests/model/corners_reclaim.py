"""Scripts about reclaims and guards that a random sequence seldom meets; their numbers vary.

Not handled here: the other scripts (`corners.py`), what comes between and after (`generate.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .corners import Event, Script, claim, metered, node, opened, released

EARLY = {"reserve_after_ms": 50}


def committed(name: str) -> Event:
    return {"type": "claim.committed", "claim": name}


def progressed(name: str, completed: int) -> Event:
    return {"type": "claim.progressed", "claim": name, "completed": completed}


def tree_set(*nodes: Event) -> Event:
    return {"type": "tree.set", "tree": list(nodes)}


def equal_costs(rng: Random) -> Script:
    """Victims whose units cost the same, by other figures, and whose priorities differ."""
    measured: Script = []
    for name, times in (("a1", rng.choice([1, 2])), ("a2", rng.choice([1, 2, 3])), ("a3", 2)):
        device, uj = f"g-{name}", 2 * times + rng.choice([0, 0, 0, 1])
        measured += [committed(name), progressed(name, times)]
        measured += [metered(device, name, 1000, 1020, uj)]
    fillers = [claim(f"a{n}", "a", 2, 2, priority=rng.choice([-1, 0, 1])) for n in (1, 2, 3)]
    return [
        opened({"mdev": 6, "uj": 100}, [node("a", 0, 50), node("b", 6, 50)]),
        *fillers,
        *measured,
        claim("b1", "b", rng.choice([2, 4, 6]), 1),
        released(rng.choice(["a1", "a2", "a3"])),
    ]


def exactly_the_share(rng: Random) -> Script:
    """What is reclaimed at once meets the bound to the device; the next victims are over it."""
    share = rng.choice([2, 3, 4]) * 100_000
    sizes = rng.choice([[2, 2, 2, 2, 2], [3, 1, 4, 1, 1], [1, 1, 1, 4, 3]])
    fillers = [claim(f"a{n}", "a", mdev, 1) for n, mdev in enumerate(sizes)]
    return [
        opened({"mdev": 10, "uj": 100}, [node("a", 0, 50), node("b", 10, 50)]),
        {"type": "policy.set", "policy": {"disruption_ppm": share}},
        *fillers,
        claim("b1", "b", rng.choice([6, 8, 10]), 1),
        *[released(f"a{n}", 1) for n in rng.sample(range(5), 5)],
    ]


def tree_under_a_claimant(rng: Random) -> Script:
    """A new tree: nobody awaits any more, the victims stay ordered, and it may not plan again."""
    changes = [{"max_live": 0}, {"max_live": 0}, {"limit": {"mdev": 6}}, {"lend": False}, {}]
    rich = rng.choice(changes)
    return [
        opened({"mdev": 12, "uj": 100}, [node("a", 6, 50), node("b", 6, 50)]),
        *[claim(f"b{n}", "b", mdev, 1) for n, mdev in enumerate([6, 2, 2, 2])],
        claim("a1", "a", 3, 1),
        tree_set(node("a", rng.choice([6, 6, 2]), 50, **rich), node("b", 6, 50)),
        released("b3", 1),
        claim("b4", "b", rng.choice([1, 2]), 1),
        {"type": "claim.cancelled", "claim": "a1"},
    ]


def guarded_at_its_leaf(rng: Random) -> Script:
    """A claim awaits; then another of its leaf guards that leaf, so that it does not count."""
    options = rng.choice([{"grade": "Estimator"}, {"preemptible": False}])
    tree = [node("a", 4, 40), node("b", 6, 30), node("c", 0, 30)]
    return [
        opened({"mdev": 10, "uj": 100}, tree, EARLY),
        claim("a0", "a", 1, 1),
        claim("b1", "b", 6, 1),
        claim("b2", "b", 2, 1),
        claim("s", "a", 4, 1, **options),
        {**claim("a1", "a", 3, 1), "after": 30},
        claim("c1", "c", 1, 1),
        {"type": "tick", "after": 20},
        {**claim("c2", "c", 1, 1), "after": 1},
        {"type": "tick", "after": rng.choice([1, 40])},
        released(rng.choice(["a0", "b1", "b2"]), 1),
    ]


def victim_without_devices(rng: Random) -> Script:
    """One victim that holds no device is under way; the next claimant's are over the share."""
    resources = ["mdev", "vcpu", "uj"]
    tree = [node("a", 0, 50), {"id": "b", "guarantee": {"mdev": 10, "vcpu": 4, "uj": 50}}]
    start = opened({"mdev": 10, "vcpu": 4, "uj": 100}, tree, {"disruption_ppm": 100_000})
    return [
        {**start, "resources": resources},
        {**claim("a1", "a", 0, 1), "gang": [{"vcpu": 3, "uj": 1}]},
        claim("a2", "a", rng.choice([4, 4, 1]), 1),
        {**claim("b1", "b", 0, 1), "gang": [{"vcpu": 2, "uj": 1}]},
        claim("b2", "b", rng.choice([8, 10]), 1),
        released("a1", 0),
        released("a2", 0),
    ]


def nothing_to_free(rng: Random) -> Script:
    """A claim with a low priority frees nothing of what its node borrowed: it is no victim."""
    least = rng.choice([-9, 0])
    shares = {"a": (4, 4), "b": (2, 6), "c": (2, rng.choice([2, 2, 0]))}
    tree = [
        {"id": name, "guarantee": {"mdev": mdev, "vcpu": vcpu, "uj": 30}}
        for name, (mdev, vcpu) in shares.items()
    ]
    start = opened({"mdev": 8, "vcpu": 12, "uj": 100}, tree)
    return [
        {**start, "resources": ["mdev", "vcpu", "uj"]},
        claim("b1", "b", 8, 1),
        {**claim("b2", "b", 0, 1, priority=least), "gang": [{"vcpu": 6, "uj": 1}]},
        {**claim("c1", "c", 0, 1), "gang": [{"vcpu": 6, "uj": 1}]},
        {**claim("a1", "a", 0, 1), "gang": [{"mdev": 4, "vcpu": 4, "uj": 1}]},
        released(rng.choice(["b1", "c1"]), 1),
    ]


def awaiting_under_a_limit(rng: Random) -> Script:
    """It reclaims below a limit above its leaf; a meter then makes every later plan impossible."""
    tree = [
        node("a", 6, 30, limit={"mdev": 6, "uj": 30}),
        node("a/x", 4, 10),
        node("a/y", 2, 20),
        node("b", 4, 70),
    ]
    return [
        opened({"mdev": 10, "uj": 100}, tree, EARLY),
        claim("y1", "a/y", 3, 5),
        claim("y2", "a/y", 2, 5),
        claim("x1", "a/x", 4, 10),
        metered("g0", "y2", 1000, 1020, rng.choice([20, 21, 21, 25])),
        {"type": "tick", "after": 60},
        claim("b1", "b", 5, 1),
        released(rng.choice(["y1", "y2"]), 1),
        claim("y3", "a/y", 1, 1),
    ]


def guard_within_a_pass(rng: Random) -> Script:
    """A guard is set, its claim is let in by a later round, and whom it held by that round too."""
    tree = [
        node("t", 8, 40, weight=rng.choice([3, 3, 2])),
        node("t/x", 4, 20),
        node("t/z", 4, 20),
        node("q", 6, 40, weight=90),
        node("r", 0, 20),
    ]
    return [
        opened({"mdev": 20, "uj": 100}, tree, EARLY),
        claim("z1", "t/z", 6, 1),
        claim("z2", "t/z", 6, 1),
        claim("q1", "q", 6, 1),
        claim("y0", "q", 3, 1),
        claim("x", "t/x", rng.choice([2, 2, 1]), 1),
        {**claim("y", "q", 3, 1), "after": 35},
        {"type": "claim.cancelled", "claim": "y0", "after": 3},
        {"type": "tick", "after": 14},
        claim("w", "r", rng.choice([2, 1]), 1),
        released("q1", 1),
    ]


def borrower_that_awaits(rng: Random) -> Script:
    """A meter makes a claimant a borrower: its victim is spared, what comes free is another's."""
    return [
        opened({"mdev": 14, "uj": 100}, [node("a", 4, 10), node("b", 4, 40), node("c", 6, 40)]),
        claim("a0", "a", 0, 2),
        claim("b1", "b", 4, 1),
        claim("b2", "b", 4, 1),
        claim("b3", "b", 6, 1),
        claim("a1", "a", 4, 8),
        claim("c1", "c", rng.choice([6, 6, 5]), 1),
        metered("g0", "a0", 1000, 1020, rng.choice([2, 3, 5])),
        released("b1", 1),
        released(rng.choice(["b2", "b3"]), 1),
    ]


RECLAIMS: list[Callable[[Random], Script]] = [
    equal_costs,
    exactly_the_share,
    tree_under_a_claimant,
    guarded_at_its_leaf,
    victim_without_devices,
    nothing_to_free,
    awaiting_under_a_limit,
    guard_within_a_pass,
    borrower_that_awaits,
]
