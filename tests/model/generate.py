"""Random but interesting sequences of events, the same for the same seed, length and profile.

Not handled here: what the events lead to, and events about claims (`workload.py`).  The model runs
along only so that most events speak of claims that exist and are in a state that fits.

Profiles: `general`; `reclaim` (tight guarantees, much borrowing, progress, readings); `starve`
(early starvation, big gangs, long queues); `meter` (readings, settlement, idleness); `faults`
(malformed events, repeats, numbers out of range); `corners` (scripts to states seldom met, and on).
Those of `sieges.py`, fewer kinds of event in contended pools, are slower: the model adds up more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from . import sieges
from .shapes import STEWARD, Event, TreeMaker, broken_policy, changed_tree, policy
from .sieges import SIEGES
from .spoil import as_strings, outside, spoilt
from .walks import Walk
from .workload import Workload

PROFILES = ("general", "reclaim", "starve", "meter", "faults", "corners")
BASE = {
    "submit": 30,
    "filler": 4,
    "claimant": 3,
    "commit": 10,
    "renew": 3,
    "progress": 5,
    "cancel": 3,
    "release": 14,
    "tick": 5,
    "meter": 10,
    "idle": 2,
    "period": 1.5,
    "policy": 1,
    "tree": 1.5,
    "archive": 0.1,
    "rotate": 0.2,
    "reopen": 0.2,
    "stranger": 1,
    "repeat": 3,
    "spoilt": 1.5,
    "outside": 0.7,
}
MIXES: dict[str, dict[str, float]] = {
    "general": {},
    "reclaim": {
        "submit": 5,
        "filler": 20,
        "claimant": 18,
        "progress": 10,
        "meter": 12,
        "release": 16,
        "commit": 12,
        "cancel": 5,
        "tick": 2,
        "tree": 1,
        "policy": 0.7,
        "period": 1,
    },
    "starve": {
        "submit": 25,
        "filler": 14,
        "claimant": 6,
        "release": 14,
        "tick": 6,
        "meter": 2,
        "commit": 5,
    },
    "meter": {"submit": 14, "meter": 45, "release": 8, "idle": 8, "period": 2, "commit": 12},
    "corners": {"tick": 2, "idle": 0.5},
    "faults": {"repeat": 20, "spoilt": 20, "outside": 10, "period": 4, "policy": 3, "tree": 4},
}


def generate(seed: int, length: int, profile: str) -> list[Event]:
    """`length` events; the first opens a pool."""
    return run(seed, length, profile).events


def run(seed: int, length: int, profile: str) -> Maker | Walk:
    """The maker of `length` events, with the model's answers to them."""
    if profile in SIEGES:
        return sieges.run(seed, length, profile)
    maker = Maker(Random(f"{profile}:{seed}"), profile, length)
    while len(maker.events) < length:
        maker.step()
    return maker


class Maker(Workload):
    """Makes one sequence."""

    def __init__(self, rng: Random, profile: str, length: int) -> None:
        super().__init__(rng, profile, length)
        mix = {**BASE, **MIXES[profile]}
        self.kinds = list(mix)
        self.weights = list(mix.values())

    def step(self) -> None:
        rng = self.rng
        if self.script and (not self.events or rng.random() < 0.95):
            event = self.script.pop(0)
            self.pool_id = "p"
            self.now_ms += event.pop("after", 5)
            self.send(event)
            return
        self.pool_id = "q" if self.several and rng.random() < 0.3 else "p"
        self.now_ms += self.gap_ms()
        closed = self.pool is None and (self.pool_id == "p" or rng.random() < 0.5)
        kind = "open" if closed else rng.choices(self.kinds, self.weights)[0]
        if self.pool is not None and self.pool.archived and rng.random() < 0.2:
            kind = self.closing()
        if kind in ("submit", "filler") and self.queue_is_long() and rng.random() < 0.7:
            kind = rng.choice(["release", "release", "cancel"])
        if closed and self.events and rng.random() < 0.3:
            kind = "submit"
        self.send(self.make(kind))

    def queue_is_long(self) -> bool:
        return self.pool is not None and len(self.pool.waiting()) > 10

    def gap_ms(self) -> int:
        rng = self.rng
        chance = rng.random()
        if chance < 0.012:
            return rng.choice([500, 500, 2000, 2000, 4_000_000])
        if chance < 0.07:
            return rng.randint(20, 120)
        return rng.choice([0, 1, 1, 2, 5, 10])

    def make(self, kind: str) -> Any:
        makers: dict[str, Callable[[], Any]] = {
            "open": self.opened,
            "reopen": self.opened,
            "submit": self.submitted,
            "commit": lambda: self.about("claim.committed", "held"),
            "renew": lambda: self.about("claim.renewed", "running", "uncertain"),
            "progress": self.progressed,
            "cancel": lambda: self.about("claim.cancelled", "waiting"),
            "release": self.released,
            "tick": lambda: {"type": "tick"},
            "meter": self.meter,
            "idle": lambda: {"type": "idle.review"},
            "period": lambda: {"type": "period.opened", "period": str(self.rng.randint(1, 9))},
            "policy": self.policy_set,
            "tree": self.tree_set,
            "archive": self.archived,
            "filler": self.filler,
            "claimant": self.claimant,
            "rotate": lambda: {"type": "steward.rotate", "steward": STEWARD},
            "stranger": self.stranger,
            "repeat": self.repeated,
            "spoilt": lambda: spoilt(self.rng, self.finished(self.any_event())),
            "outside": lambda: outside(self.rng, self.finished(self.any_event())),
        }
        return makers[kind]()

    def any_event(self) -> Event:
        names = ["submit", "submit", "release", "progress", "meter", "meter", "tree", "policy"]
        names += ["open", "commit", "cancel", "tick", "idle", "period", "archive", "rotate"]
        return dict(self.make(self.rng.choice(names)))

    def finished(self, event: Event) -> Event:
        """Give an event its pool, sometimes an id, and its time."""
        event = {"pool": self.pool_id, **event}
        if event["type"] != "tick" and "id" not in event and self.rng.random() < self.with_ids:
            event["id"] = f"e{self.count}"
        event["at_ms"] = max(0, self.now_ms - (self.rng.random() < 0.03) * 50)
        return event

    def send(self, event: Any) -> None:
        self.count += 1
        if isinstance(event, dict) and "at_ms" not in event:
            event = self.finished(event)
        if self.rng.random() < 0.03:
            event = as_strings(self.rng, event)
        self.events.append(event)
        answers = self.model.feed(copy.deepcopy(event))
        self.answers.append(copy.deepcopy(answers))
        if any(one["kind"] in ("pool.opened", "tree.set") for one in answers):
            self.trees[event["pool"]] = event["tree"]

    def capacity(self, resources: list[str]) -> dict[str, int]:
        rng = self.rng
        found = {r: rng.choice([2, 4, 6]) for r in resources}
        found["mdev"] = rng.choice([4, 6, 8, 10, 12])
        found["uj"] = rng.choice([10, 20, 40, 100]) if self.scarce else rng.choice([500, 2000])
        if self.in_joules:
            found |= {"mdev": 60, "uj": rng.choice([12, 20, 30])}
        if self.huge:
            found["uj"] = 2**63 - 1
        if rng.random() < 0.03:
            found[rng.choice(resources)] = 0
        return found

    def opened(self) -> Event:
        rng = self.rng
        resources = ["mdev", "gpu.slot", "uj"] if self.wide else ["mdev", "uj"]
        capacity = self.capacity(resources)
        tree = TreeMaker(rng, resources, self.profile).tree(capacity)
        event: Event = {"type": "pool.opened", "capacity": capacity, "tree": tree}
        if self.wide or rng.random() < 0.1:
            event["resources"] = resources
        if rng.random() < 0.8:
            event["policy"] = policy(rng, self.profile)
        if rng.random() < 0.05:
            event["policy"] = broken_policy(rng, self.profile)
        if rng.random() < 0.05:
            event["resources"] = rng.choice([["uj", "mdev"], ["mdev", "uj", "uj"], ["mdev"], []])
        if rng.random() < 0.1:
            event["meta"] = {"note": "x"}
        return event

    def tree_set(self) -> Event:
        resources = self.pool.resources if self.pool else ["mdev", "uj"]
        old = self.trees.get(self.pool_id, [])
        if self.pool is None or self.rng.random() < 0.2:
            amounts = self.pool.capacity if self.pool else {"mdev": 4, "uj": 10}
            tree = TreeMaker(self.rng, resources, self.profile).tree(amounts)
        else:
            tree = changed_tree(self.rng, old, resources)
        return {"type": "tree.set", "tree": tree}

    def policy_set(self) -> Event:
        make = broken_policy if self.rng.random() < 0.2 else policy
        return {"type": "policy.set", "policy": make(self.rng, self.profile)}

    def archived(self) -> Event:
        """Only near the end: little happens in an archived pool."""
        late = len(self.events) > self.length * 0.8
        return {"type": "pool.archived"} if late else {"type": "tick"}

    def closing(self) -> str:
        """What an archived pool is asked, beside what runs to its end."""
        return self.rng.choice(["archive", "tree", "policy", "submit"])

    def stranger(self) -> Event:
        """An event about a claim that nobody knows, or for a pool that is not open."""
        rng = self.rng
        kinds = ["claim.committed", "claim.renewed", "claim.cancelled"]
        event: Event = {"type": rng.choice(kinds), "claim": "nobody"}
        if rng.random() < 0.3:
            event["pool"] = "closed"
        return event

    def repeated(self) -> Event:
        """An event that was sent before, the same or with something changed."""
        rng = self.rng
        old = [e for e in self.events[-60:] if isinstance(e, dict) and e.get("type") != "tick"]
        if not old:
            return {"type": "idle.review"}
        event = copy.deepcopy(rng.choice(old))
        event["at_ms"] = self.now_ms
        chance = rng.random()
        if chance < 0.15:
            event.pop("id", None)
        elif chance < 0.25:
            event["id"] = f"r{self.count}"
        elif chance < 0.4:
            event = as_strings(rng, event)
        elif chance < 0.6:
            event["priority" if event.get("type") == "claim.submitted" else "id"] = (
                7 if event.get("type") == "claim.submitted" else f"e{rng.randint(0, self.count)}"
            )
        return event
