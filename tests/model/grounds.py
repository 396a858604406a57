"""Contended pools: deep trees, several resources, limits on inner nodes, few who may not borrow.

Not handled here: who asks for what in them (`walks.py`, `sieges.py`).

Every tree and policy made here is valid.  Numbers are small, so that guarantees and usage meet;
where joules are `plenty` they never matter, so that the occupied resources decide.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from .shapes import Event

Amounts = dict[str, int]
DEPTH_MAX = 4
OPTIONAL = ("weight", "borrow", "lend", "limit", "max_live", "max_waiting")


@dataclass(frozen=True, kw_only=True)
class Chances:
    """How often a node or a claim of one sequence is of a kind; rare for most sequences."""

    inner: float
    weight: float
    borrow_off: float
    lend_less: float
    limit_leaf: float
    limit_inner: float
    live_max_leaf: float
    live_max_inner: float
    waiting_max: float
    guess: float
    unpreemptible: float


def chances(rng: Random, *, siege: bool) -> Chances:
    """Drawn once a sequence; in a siege little stands between borrowers and what is idle."""
    return Chances(
        inner=rng.choice([0.4, 0.7]),
        weight=rng.choice([0, 0.5]),
        borrow_off=rng.choice([0, 0, 0.1] if siege else [0, 0, 0.1, 0.3]),
        lend_less=rng.choice([0, 0, 0.2, 0.4] if siege else [0, 0.2, 0.5]),
        limit_leaf=0 if siege else rng.choice([0, 0.15, 0.4]),
        limit_inner=rng.choice([0, 0.3, 0.6]),
        live_max_leaf=rng.choice([0, 0, 0.1] if siege else [0, 0, 0.15, 0.3]),
        live_max_inner=rng.choice([0, 0, 0.3]),
        waiting_max=rng.choice([0, 0, 0, 0.2]),
        guess=rng.choice([0, 0, 0.1] if siege else [0, 0.1, 0.3]),
        unpreemptible=rng.choice([0, 0.15] if siege else [0, 0.1, 0.3]),
    )


class Ground:
    """Makes the nodes of one pool, and later other properties for the same nodes."""

    def __init__(
        self, rng: Random, resources: list[str], often: Chances, *, plenty: bool, depth_max: int
    ) -> None:
        assert 1 <= depth_max <= DEPTH_MAX
        self.rng = rng
        self.resources = resources
        self.often = often
        self.plenty = plenty
        self.depth_max = depth_max
        self.limit_mdev = False
        self.nodes: list[Event] = []

    def capacity(self) -> Amounts:
        rng = self.rng
        found = {r: rng.choice([2, 4, 6, 9]) for r in self.resources}
        found["mdev"] = rng.choice([6, 8, 10, 12, 16])
        found["uj"] = rng.choice([1000, 5000] if self.plenty else [12, 20, 30, 60])
        if rng.random() < 0.04:
            found[rng.choice(self.resources)] = 0
        return found

    def forest(self, prefix: str, amounts: Amounts, depth: int = 1) -> None:
        """Nodes that divide `amounts`, resource by resource in another manner."""
        rng = self.rng
        names = "abcd"[: rng.choice([2, 3, 3, 4] if depth == 1 else [1, 2, 2, 3, 3])]
        parts = {r: divided(rng, amounts[r], len(names)) for r in self.resources}
        if self.plenty and rng.random() < 0.7:
            parts["uj"] = [amounts["uj"] // len(names)] * len(names)
        for index, name in enumerate(names):
            own = {r: parts[r][index] for r in self.resources}
            inner = depth < self.depth_max and rng.random() < self.often.inner
            self.add(prefix + name, own, inner=inner)
            if inner:
                self.forest(f"{prefix}{name}/", own, depth + 1)

    def tenants(self, capacity: Amounts) -> None:
        """One or two tenants guaranteed much of the pool, the others little or nothing."""
        rng = self.rng
        count = rng.choice([3, 4, 5])
        rich = [True] * rng.choice([1, 2, 2]) + [False] * count
        rich = rng.sample(rich[:count], count)
        left = dict(capacity)
        for name, much in zip("abcde", rich, strict=False):
            own = dict.fromkeys(self.resources, 0)
            if much:
                own = {
                    r: int(capacity[r] * rng.choice([0.3, 0.4, 0.5])) + rng.choice([0, 1])
                    for r in self.resources
                }
            elif rng.random() < 0.5:
                own = {r: rng.choice([0, 1, 2]) for r in self.resources}
            if self.plenty:
                own["uj"] = capacity["uj"] // count
            own = {r: min(left[r], amount) for r, amount in own.items()}
            left = {r: left[r] - own[r] for r in self.resources}
            self.tenant(name, own, much=much)

    def tenant(self, name: str, own: Amounts, *, much: bool, depth: int = 1) -> None:
        """A tenant, and below it the parts that share its guarantee."""
        rng = self.rng
        inner = depth < self.depth_max and rng.random() < (0.45 if depth < 3 else 0.2)
        self.add(name, own, inner=inner)
        kids = "xyz"[: rng.choice([2, 2, 3])] if inner else ""
        left = dict(own)
        for kid in kids:
            part = {r: rng.randint(0, left[r]) for r in self.resources}
            if much:
                part = {r: left[r] if rng.random() < 0.5 else part[r] for r in self.resources}
            if self.plenty:
                part["uj"] = own["uj"] // len(kids)
            left = {r: left[r] - part[r] for r in self.resources}
            self.tenant(f"{name}/{kid}", part, much=much, depth=depth + 1)

    def add(self, name: str, own: Amounts, *, inner: bool) -> None:
        node: Event = {"id": name, "guarantee": own}
        self.nodes.append(node)
        self.furnish(node, inner=inner)
        if self.limit_mdev and inner and self.rng.random() < 0.8:
            node["limit"] = {"mdev": own["mdev"] + self.rng.choice([0, 0, 1, 2, 3])}

    def furnish(self, node: Event, *, inner: bool) -> None:
        """Give a node other optional properties than it has."""
        rng, often, own = self.rng, self.often, node["guarantee"]
        for name in OPTIONAL:
            node.pop(name, None)
        if rng.random() < often.weight:
            node["weight"] = rng.choice([1, 2, 3, 7])
        if rng.random() < often.borrow_off:
            node["borrow"] = False
        if rng.random() < often.lend_less:
            some = rng.sample(self.resources, rng.randint(1, len(self.resources)))
            node["lend"] = rng.choice([False, [], ["mdev"], ["uj"], some])
        if rng.random() < (often.limit_inner if inner else often.limit_leaf):
            some = rng.sample(self.resources, rng.randint(1, len(self.resources)))
            node["limit"] = {r: own[r] + rng.choice([0, 0, 1, 2, 4]) for r in some}
            if self.plenty and rng.random() < 0.8:
                node["limit"].pop("uj", None)
        if rng.random() < (often.live_max_inner if inner else often.live_max_leaf):
            node["max_live"] = rng.choice([1, 2, 2, 3, 4])
        if rng.random() < often.waiting_max:
            node["max_waiting"] = rng.choice([0, 1, 2, 5])

    def changed(self) -> list[Event]:
        """The same nodes with other properties, some leaves guaranteed less."""
        rng = self.rng
        self.nodes = copy.deepcopy(self.nodes)
        parents = {str(node["id"]).rpartition("/")[0] for node in self.nodes}
        less = rng.random() < 0.6
        for node in self.nodes:
            inner = node["id"] in parents
            if rng.random() < 0.5:
                self.furnish(node, inner=inner)
            if less and not inner and rng.random() < 0.5:
                resource = rng.choice(self.resources)
                amount = node["guarantee"][resource] - rng.choice([0, 1, 2])
                node["guarantee"][resource] = max(0, amount)
        return self.nodes


def divided(rng: Random, amount: int, parts: int) -> list[int]:
    """`parts` numbers that sum to at most `amount`: all to one, evenly, or anyhow."""
    manner = rng.choice(["one", "evenly", "anyhow", "anyhow"])
    if manner == "one":
        found = [amount, *[0] * (parts - 1)]
    elif manner == "evenly":
        found = [amount // parts] * parts
    else:
        left = amount if rng.random() < 0.6 else rng.randint(0, amount)
        found = []
        for _ in range(parts):
            found.append(rng.randint(0, left))
            left -= found[-1]
    rng.shuffle(found)
    return found


def contended_policy(rng: Random, starving: float, cutting: float) -> dict[str, Any]:
    """A valid policy; `starving` and `cutting` are how often claims starve and plans are cut."""
    found: dict[str, Any] = {"min_samples": 1, "reserve_after_ms": 0}
    if rng.random() < starving:
        found["reserve_after_ms"] = rng.choice([12, 15, 30, 60])
    if rng.random() < cutting:
        share = [0, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000]
        found["disruption_ppm"] = rng.choice(share)
    if rng.random() < 0.3:
        found["aging_ms"] = rng.choice([1, 5, 30])
    if rng.random() < 0.05:
        found["max_wait_ms"] = rng.choice([30, 100])
    return found
