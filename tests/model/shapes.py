"""Random trees and policies: the parts that a random sequence is made of.

Numbers are small on purpose, so that limits, guarantees and usage meet all the time.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Event = dict[str, Any]
STEWARD = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"


def portions(rng: Random, amount: int, parts: int, tight: bool) -> list[int]:
    """`parts` numbers that sum to at most `amount`; to nearly all of it where `tight`."""
    spare = rng.choice([0, 0, 0, 1]) if tight else rng.randint(0, amount)
    left = max(0, amount - spare)
    found = []
    for index in range(parts):
        part = left // (parts - index) if rng.random() < 0.5 else rng.randint(0, left)
        found.append(part)
        left -= part
    rng.shuffle(found)
    return found


class TreeMaker:
    """Makes one random valid tree."""

    def __init__(self, rng: Random, resources: list[str], profile: str) -> None:
        self.rng = rng
        self.resources = resources
        self.profile = profile
        self.nodes: list[Event] = []

    def tree(self, capacity: dict[str, int]) -> list[Event]:
        self.branch("", capacity, 1)
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.nodes)
        return self.nodes

    def branch(self, prefix: str, amounts: dict[str, int], depth: int) -> None:
        rng = self.rng
        names = rng.sample(["a", "b", "c", "d"] if depth == 1 else ["x", "y", "z"], 3)
        contended = self.profile in ("reclaim", "starve")
        names = names[: rng.randint(2, 3) if depth == 1 or contended else rng.randint(1, 2)]
        tight = rng.random() < (0.8 if contended else 0.5)
        parts = {r: portions(rng, amounts.get(r, 0), len(names), tight) for r in self.resources}
        if amounts.get("uj", 0) >= 200 or rng.random() < 0.3:
            parts["uj"] = [amounts.get("uj", 0) // len(names)] * len(names)
        for index, name in enumerate(names):
            own = {r: parts[r][index] for r in self.resources}
            node = self.node(prefix + name, own)
            self.nodes.append(node)
            if depth < 3 and rng.random() < (0.4 if depth == 1 else 0.2):
                if contended and rng.random() < 0.4:
                    node["limit"] = {"mdev": own["mdev"] + rng.choice([0, 0, 1, 2])}
                if contended and rng.random() < 0.2:
                    node["max_live"] = rng.choice([1, 2, 3])
                self.branch(prefix + name + "/", own, depth + 1)

    def node(self, name: str, guarantee: dict[str, int]) -> Event:
        rng = self.rng
        node: Event = {"id": name, "guarantee": guarantee}
        if rng.random() < 0.3:
            node["guarantee"] = {r: amount for r, amount in guarantee.items() if amount > 0}
        if self.profile != "reclaim" or rng.random() < 0.4:
            decorate(rng, node, self.resources, guarantee)
        return node


def decorate(rng: Random, node: Event, resources: list[str], guarantee: dict[str, int]) -> None:
    """Give a node some of the optional properties."""
    if rng.random() < 0.35:
        node["weight"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        chosen = rng.sample(resources, rng.randint(1, len(resources)))
        node["limit"] = {r: guarantee.get(r, 0) + rng.randint(0, 4) for r in chosen}
    if rng.random() < 0.12:
        node["borrow"] = False
    if rng.random() < 0.3:
        node["lend"] = rng.choice(
            [False, True, [], ["mdev"], ["uj"], rng.sample(resources, rng.randint(1, 2))]
        )
    if rng.random() < 0.12:
        node["max_live"] = rng.choice([0, 1, 1, 2, 3, None])
    if rng.random() < 0.1:
        node["max_waiting"] = rng.choice([0, 1, 2, 3, None])


def changed_tree(rng: Random, tree: list[Event], resources: list[str]) -> list[Event]:
    """The same nodes with other properties; now and then a broken rule."""
    nodes = copy.deepcopy(tree)
    for node in nodes:
        if rng.random() < 0.4:
            for name in ("weight", "limit", "borrow", "lend", "max_live", "max_waiting"):
                node.pop(name, None)
            own = {r: int(node["guarantee"].get(r, 0)) for r in resources}
            if rng.random() < 0.5:
                own = {r: max(0, amount + rng.randint(-2, 1)) for r, amount in own.items()}
            node["guarantee"] = own
            decorate(rng, node, resources, own)
    if nodes and rng.random() < 0.25:
        move_leaves(rng, nodes)
    if rng.random() < 0.2:
        break_tree(rng, nodes, resources)
    return nodes


def move_leaves(rng: Random, nodes: list[Event]) -> None:
    """A leaf goes, or becomes an inner node."""
    parents = {str(node["id"]).rpartition("/")[0] for node in nodes}
    leaf = rng.choice([node for node in nodes if node["id"] not in parents] or nodes)
    if rng.random() < 0.6:
        nodes.remove(leaf)
    else:
        nodes.append({"id": f"{leaf['id']}/n", "guarantee": dict(leaf["guarantee"])})


def break_tree(rng: Random, nodes: list[Event], resources: list[str]) -> None:
    if not nodes:
        return
    node = rng.choice(nodes)
    match rng.randint(0, 6):
        case 0:
            node["id"] = rng.choice(["/", "A", "a//x", "", "a/", "-a", "/a", "ä", "a b"])
        case 1:
            nodes.append(copy.deepcopy(rng.choice(nodes)))
        case 2:
            nodes.append({"id": "nobody/x", "guarantee": {}})
        case 3:
            node["weight"] = 0
        case 4:
            node["limit"] = {rng.choice(resources): 0}
        case 5:
            node["guarantee"] = {rng.choice(resources): 10**6}
        case _:
            nodes.remove(node)


def policy(rng: Random, profile: str) -> Event:
    """A random valid policy."""
    found: Event = {}
    choices: dict[str, list[Any]] = {
        "aging_ms": [0, 1, 5, 50, 1000],
        "reserve_after_ms": [0, 20, 60, 200, 1000],
        "max_wait_ms": [0, 50, 200, 1000],
        "disruption_ppm": [None, 0, 150_000, 300_000, 500_000, 1_000_000],
        "min_samples": [1, 2, 3],
        "history": [1, 2, 4, 128],
        "meter_slack_ms": [0, 5, 50, 1000],
        "power_limit_uw": [None, 0, 1000, 100_000, 10_000_000],
    }
    likely = {
        "reclaim": {"disruption_ppm": 0.4, "reserve_after_ms": 0.2},
        "starve": {"reserve_after_ms": 0.95, "aging_ms": 0.4, "max_wait_ms": 0.1},
        "meter": {"meter_slack_ms": 0.6, "power_limit_uw": 0.3, "min_samples": 0.6},
    }.get(profile, {})
    for key, values in choices.items():
        if rng.random() < likely.get(key, 0.2):
            found[key] = rng.choice(values)
    if profile == "starve" and "reserve_after_ms" in found:
        found["reserve_after_ms"] = rng.choice([10, 20, 40, 100])
    if rng.random() < (0.7 if profile == "meter" else 0.15):
        window_ms = rng.choice([1, 5, 10, 20, 40, 200])
        found["idle"] = {
            "threshold_uw": rng.choice([0, 50_000, 300_000, 10**6]),
            "window_ms": window_ms,
        }
        if rng.random() < 0.1:
            found["idle"] = None
    return found


def broken_policy(rng: Random, profile: str) -> Event:
    found = policy(rng, profile)
    faults: list[tuple[str, Any]] = [
        ("aging", 1),
        ("aging_ms", None),
        ("aging_ms", -1),
        ("aging_ms", 2**63),
        ("history", 0),
        ("min_samples", 0),
        ("min_samples", True),
        ("disruption_ppm", 1_000_001),
        ("meter_slack_ms", "x"),
        ("max_wait_ms", None),
        ("idle", {"threshold_uw": 1}),
        ("idle", {"threshold_uw": 1, "window_ms": 0}),
        ("idle", {"threshold_uw": 1, "window_ms": 1, "extra": 1}),
        ("idle", []),
        ("é", 0),
    ]
    for key, value in rng.sample(faults, rng.randint(1, 3)):
        found[key] = value
    return found
