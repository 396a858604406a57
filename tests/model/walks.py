"""Random walks through contended pools: borrowers, claimants, victims that go, readings.

Not handled here: the pool itself (`grounds.py`), and what besieges it first (`sieges.py`).  Faults
of form, repeats, idleness and strangers are `generate.py`'s.

Profiles: `deep` (trees of up to four levels); `wide` (two more occupied resources).  A walk follows
the model's books, so that nearly every event speaks of a claim in a state that fits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from .books import Claim, Pool, usage
from .grounds import DEPTH_MAX, Amounts, Ground, chances, contended_policy
from .pool_model import Model
from .shapes import Event

WALKS = ("deep", "wide")
QUEUE_LONG = 12
LIVE = ("held", "running", "uncertain")
MIX: dict[str, float] = {
    "filler": 26,
    "claimant": 12,
    "asks": 4,
    "release": 14,
    "victim": 8,
    "cancel": 3,
    "commit": 9,
    "renew": 1,
    "progress": 6,
    "read": 8,
    "tick": 7,
    "tree": 0.8,
    "period": 0.8,
    "policy": 0.5,
}


class Walk:
    """Makes one sequence; `events` and the model's `answers` to them grow as it is asked."""

    mix = MIX

    def __init__(self, rng: Random, profile: str) -> None:
        self.rng = rng
        self.profile = profile
        self.model = Model()
        self.events: list[Event] = []
        self.answers: list[list[dict[str, Any]]] = []
        self.now_ms = 1000
        self.count = 0
        self.busy: list[str] = []
        self.ground = self.chosen_ground()
        self.often = self.ground.often

    def chosen_ground(self) -> Ground:
        rng = self.rng
        resources = rng.choice([["mdev", "uj"], ["mdev", "vcpu", "uj"]])
        if self.profile == "wide":
            resources = ["mdev", "gpu.slot", "vcpu", "uj"]
        depth_max = DEPTH_MAX if self.profile == "deep" else rng.choice([1, 2, 2, 3])
        often = chances(rng, siege=False)
        return Ground(rng, resources, often, plenty=rng.random() < 0.7, depth_max=depth_max)

    # --- the sequence -------------------------------------------------------------------------

    @property
    def pool(self) -> Pool:
        return self.model.pools["p"]

    def run(self, length: int) -> None:
        moves = self.moves()
        while len(self.events) < length:
            self.send(next(moves))

    def send(self, event: Event) -> None:
        event = {"pool": "p", **event, "at_ms": self.now_ms}
        self.events.append(event)
        self.answers.append(copy.deepcopy(self.model.feed(copy.deepcopy(event))))

    def moves(self) -> Iterator[Event]:
        """Endless; each is made only when the one before it was answered."""
        yield self.opened()
        yield from self.roaming()

    def opened(self) -> Event:
        capacity = self.ground.capacity()
        self.ground.forest("", capacity)
        return self.opening(capacity)

    def opening(self, capacity: Amounts) -> Event:
        if self.rng.random() < 0.3:
            self.rng.shuffle(self.ground.nodes)
        return {
            "type": "pool.opened",
            "capacity": capacity,
            "resources": self.ground.resources,
            "tree": self.ground.nodes,
            "policy": self.policy(),
        }

    def policy(self) -> Event:
        return contended_policy(self.rng, starving=0.8, cutting=0.3)

    def roaming(self) -> Iterator[Event]:
        rng = self.rng
        kinds, weights = list(self.mix), list(self.mix.values())
        while True:
            self.now_ms += rng.choice([0, 0, 1, 1, 2, 3] if rng.random() < 0.93 else [15, 40, 120])
            kind = rng.choices(kinds, weights)[0]
            if len(self.pool.waiting()) > QUEUE_LONG:
                kind = rng.choice(["release", "cancel", "victim", "tick"])
            yield self.makers()[kind]() or self.asks()

    def makers(self) -> dict[str, Callable[[], Event | None]]:
        """By kind; where there is nothing to speak of, None."""
        return {
            "filler": self.filler,
            "claimant": self.claimant,
            "asks": self.asks,
            "release": lambda: self.released(self.pick(*LIVE)),
            "victim": self.victim,
            "cancel": lambda: self.about("claim.cancelled", "waiting"),
            "commit": lambda: self.about("claim.committed", "held"),
            "renew": lambda: self.about("claim.renewed", "running", "uncertain"),
            "progress": lambda: self.progressed(self.pick("running", "uncertain")),
            "read": lambda: self.reading(self.pick(*LIVE)),
            "tick": lambda: {"type": "tick"},
            "tree": lambda: {"type": "tree.set", "tree": self.ground.changed()},
            "period": lambda: {"type": "period.opened", "period": "next"},
            "policy": lambda: {"type": "policy.set", "policy": self.policy()},
        }

    # --- claims that arrive -------------------------------------------------------------------

    def leaves(self) -> list[str]:
        return sorted(node for node in self.pool.tree if self.pool.is_leaf(node))

    def free(self, leaf: str) -> Amounts:
        """What a leaf's guarantee has left."""
        used, own = usage(self.pool)[leaf], self.pool.tree[leaf].guarantee
        return {r: max(0, own[r] - used[r]) for r in self.pool.resources}

    def submitted(self, leaf: str, demand: Amounts, **more: Any) -> Event:
        rng, often = self.rng, self.often
        self.count += 1
        member = {r: amount for r, amount in demand.items() if amount or rng.random() < 0.2}
        event: Event = {
            "type": "claim.submitted",
            "claim": f"{rng.choice('akz')}{self.count}",
            "leaf": leaf,
            "gang": [member or {"uj": 1}],
            "grade": "Estimator" if rng.random() < often.guess else "ModelBased",
        }
        if rng.random() < often.unpreemptible:
            event["preemptible"] = False
        if rng.random() < 0.4:
            event["priority"] = rng.choice([-2, -1, 0, 1, 2, 9])
        for name in ("commit_within_ms", "max_wait_ms", "lease_ms"):
            if rng.random() < 0.05:
                event[name] = rng.choice([5, 10, 30, 60])
        return {**event, **more}

    def busy_leaf(self) -> str:
        """Mostly one of a few leaves, for a while the same, that take what the others leave."""
        rng, leaves = self.rng, self.leaves()
        if not self.busy or rng.random() < 0.06 or not set(self.busy) <= set(leaves):
            self.busy = rng.sample(leaves, min(len(leaves), rng.choice([1, 2, 2, 3])))
        return rng.choice(self.busy if rng.random() < 0.85 else leaves)

    def filler(self) -> Event:
        """A small claim that may well borrow."""
        return self.small(self.busy_leaf())

    def small(self, leaf: str) -> Event:
        rng = self.rng
        demand = {r: rng.choice([0, 0, 1, 1, 2]) for r in self.pool.resources}
        demand["mdev"] = rng.choice([0, 1, 1, 1, 2, 2, 3])
        demand["uj"] = rng.choice([0, 1, 2] if self.ground.plenty else [0, 1, 2, 3, 4, 6])
        event = self.submitted(leaf, demand)
        if rng.random() < 0.8:
            event["grade"] = "ModelBased"
            event.pop("preemptible", None)
        return event

    def asks(self) -> Event:
        """A claim of anything from nothing to half the pool, near a guarantee or over it."""
        rng = self.rng
        leaf = rng.choice(self.leaves())
        own, demand = self.pool.tree[leaf].guarantee, {}
        for r in self.pool.resources:
            near = [own[r], own[r] + 1, own[r] // 2, max(0, own[r] - 1)]
            demand[r] = rng.choice([0, 1, *near, self.pool.capacity[r] // 2])
        if self.ground.plenty or rng.random() < 0.5:
            demand["uj"] = rng.choice([0, 1, 2, own["uj"] // 4])
        return self.submitted(leaf, demand)

    def claimant(self) -> Event | None:
        """A claim inside what its leaf's guarantee has left, where there is such a leaf."""
        leaves = [leaf for leaf in self.leaves() if any(self.free_to_occupy(leaf))]
        return self.claiming(self.rng.choice(leaves)) if leaves else None

    def free_to_occupy(self, leaf: str) -> Iterator[int]:
        return (amount for r, amount in self.free(leaf).items() if r != "uj")

    def claiming(self, leaf: str) -> Event:
        rng = self.rng
        demand = {
            r: rng.choice([most, most, most, (most + 1) // 2, max(0, most - 1), min(1, most)])
            for r, most in self.free(leaf).items()
        }
        if self.ground.plenty or rng.random() < 0.4:
            demand["uj"] = min(demand["uj"], rng.choice([0, 1, 2]))
        return self.submitted(leaf, demand)

    # --- claims that are there ----------------------------------------------------------------

    def pick(self, *states: str) -> Claim | None:
        found = [claim for claim in self.pool.claims.values() if claim.state in states]
        return self.rng.choice(found) if found else None

    def about(self, kind: str, *states: str) -> Event | None:
        claim = self.pick(*states)
        return {"type": kind, "claim": claim.id} if claim else None

    def progressed(self, claim: Claim | None) -> Event | None:
        if claim is None:
            return self.about("claim.committed", "held")
        completed = claim.completed + self.rng.choice([0, 1, 1, 2])
        return {"type": "claim.progressed", "claim": claim.id, "completed": completed}

    def released(self, claim: Claim | None) -> Event | None:
        rng = self.rng
        if claim is None:
            return None
        event: Event = {"type": "claim.released", "claim": claim.id}
        event["outcome"] = rng.choice(["completed", "evicted"])
        if rng.random() < 0.8:
            uj = rng.choice([0, 0, 1, 2, claim.reserved_uj, claim.metered_uj])
            grade = rng.choice(["HwShunt", "ModelBased", "Estimator"])
            event["actual"] = {"uj": uj, "grade": grade}
        return event

    def victim(self) -> Event | None:
        """A release of one that was ordered away."""
        victims = self.pool.reclaimed()
        return self.released(self.rng.choice(victims)) if victims else self.claimant()

    def reading(self, claim: Claim | None, uj: int | None = None) -> Event | None:
        """A reading of the claim's own device, up to now or one millisecond long."""
        rng = self.rng
        if claim is None:
            return None
        device = f"d-{claim.id}"
        begin = self.pool.devices.get(device, self.now_ms - 3)
        grades = ["HwShunt"] * 4 + ["ModelBased", "Estimator"]
        return {
            "type": "meter.read",
            "device": device,
            "from_ms": begin,
            "to_ms": max(begin + 1, self.now_ms),
            "uj": rng.choice([0, 1, 1, 2, 2, 4]) if uj is None else uj,
            "grade": rng.choice(grades),
            "occupants": [{"claim": claim.id, "mdev": max(1, claim.demand["mdev"])}],
        }
