"""Sieges: borrowers fill a pool, show what a unit costs them, and the guarantees are claimed back.

Not handled here: what goes on afterwards (`walks.py`).

Profiles: `siege`, in five plans of attack drawn once a sequence (`open`; `cut`: a bound on what is
reclaimed at once; `moving`: the tree changes under the claimants; `held`: guards at the claimants'
own leaves; `starving`: claims starve early); `siege-limits` (limits on inner nodes); `siege-joules`
(few joules, so that they are reclaimed too).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from .books import Claim
from .grounds import DEPTH_MAX, Amounts, Ground, chances, contended_policy
from .shapes import Event
from .walks import MIX, WALKS, Walk

SIEGES = ("siege", "siege-limits", "siege-joules", *WALKS)
ATTACKS = ("open", "cut", "moving", "held", "starving")
SMALL_MDEV = 2


class Siege(Walk):
    """Makes one sequence: one to three attacks, then a walk in what they leave."""

    def __init__(self, rng: Random, profile: str) -> None:
        self.attack = rng.choice(ATTACKS) if profile == "siege" else "starving"
        self.fine = rng.random() < 0.6
        super().__init__(rng, profile)
        self.mix = {
            **MIX,
            "filler": 14,
            "victim": 12,
            "release": 6,
            "tree": 15 if self.attack == "moving" else 1.5,
            "crowding": 5,
            "holding": 12 if self.attack == "held" else 0,
        }

    def chosen_ground(self) -> Ground:
        rng = self.rng
        resources = rng.choice([["mdev", "uj"], ["mdev", "uj"], ["mdev", "vcpu", "uj"]])
        often = chances(rng, siege=True)
        plenty = self.profile != "siege-joules"
        ground = Ground(rng, resources, often, plenty=plenty, depth_max=DEPTH_MAX)
        ground.limit_mdev = self.profile == "siege-limits"
        return ground

    def policy(self) -> Event:
        starving = 1.0 if self.attack in ("held", "starving") else 0.25
        return contended_policy(
            self.rng, starving=starving, cutting=1.0 if self.attack == "cut" else 0.3
        )

    def opened(self) -> Event:
        rng = self.rng
        capacity: Amounts = {r: rng.choice([6, 8, 10, 12, 14]) for r in self.ground.resources}
        capacity["uj"] = rng.choice([600, 2000])
        if not self.ground.plenty:
            capacity |= {"mdev": 80, "uj": rng.choice([20, 30, 40])}
        self.ground.tenants(capacity)
        return self.opening(capacity)

    def moves(self) -> Iterator[Event]:
        yield self.opened()
        for _ in range(self.rng.choice([1, 2, 2, 3])):
            yield from self.filling()
            yield from self.costing()
            yield from self.claiming_back()
            yield from self.skirmishing()
        yield from self.roaming()

    def sides(self) -> tuple[list[str], list[str]]:
        """The leaves that are guaranteed little, and the others; no side is empty."""
        leaves = self.leaves()
        poor = [leaf for leaf in leaves if self.pool.tree[leaf].guarantee["mdev"] <= SMALL_MDEV]
        rich = [leaf for leaf in leaves if leaf not in poor]
        return poor or leaves, rich or leaves

    def filling(self) -> Iterator[Event]:
        """Mostly the poor take what is idle."""
        rng = self.rng
        for _ in range(rng.choice([4, 6, 9, 12])):
            poor, _ = self.sides()
            self.now_ms += rng.choice([0, 1])
            yield self.small(rng.choice(poor if rng.random() < 0.8 else self.leaves()))

    def costing(self) -> Iterator[Event]:
        """Some commit, get on, and are metered: victims with a measured cost."""
        rng = self.rng
        for claim in self.pool.live():
            if claim.state == "held" and rng.random() < 0.8:
                yield {"type": "claim.committed", "claim": claim.id}
            if claim.state == "running" and rng.random() < 0.8:
                yield self.progressed(claim) or self.asks()
            if claim.is_live and rng.random() < 0.7:
                self.now_ms += 1
                yield self.reading(claim) or self.asks()

    def small(self, leaf: str) -> Event:
        """Where the siege is `fine`, one device: a claimant needs several of them."""
        event = super().small(leaf)
        if self.fine:
            event["gang"][0]["mdev"] = 1
        return event

    def claiming_back(self) -> Iterator[Event]:
        rng = self.rng
        for _ in range(rng.choice([1, 2, 3])):
            self.now_ms += 1
            yield self.claiming(rng.choice(self.sides()[1]))
        if rng.random() < 0.5:
            self.now_ms += 40
            yield {"type": "tick"}

    def skirmishing(self) -> Iterator[Event]:
        rng = self.rng
        for _ in range(rng.choice([0, 2, 5])):
            self.now_ms += 1
            kind = rng.choice(["victim", "victim", "release", "cancel", "read", "claimant"])
            yield self.makers()[kind]() or self.asks()

    # --- what happens to those who await --------------------------------------------------------

    def makers(self) -> dict[str, Callable[[], Event | None]]:
        return {**super().makers(), "crowding": self.crowding, "holding": self.holding}

    def awaiting(self) -> Claim | None:
        found = [claim for claim in self.pool.waiting() if claim.awaiting]
        return self.rng.choice(found) if found else None

    def crowding(self) -> Event | None:
        """A claimant's own leaf is used up: by a meter that shows more, or by a small claim."""
        rng, claimant = self.rng, self.awaiting()
        if claimant is None:
            return self.claimant()
        here = [claim for claim in self.pool.live() if claim.leaf == claimant.leaf]
        if here and rng.random() < 0.6:
            left = max(1, self.free(claimant.leaf)["uj"])
            return self.reading(rng.choice(here), rng.choice([left, left + 1, left // 2]))
        demand = {"mdev": rng.choice([0, 1]), "uj": rng.choice([1, 2])}
        return self.submitted(claimant.leaf, demand)

    def holding(self) -> Event | None:
        """One that, starved, guards a claimant's own leaf: larger than what is left there."""
        rng, claimant = self.rng, self.awaiting()
        if claimant is None:
            return self.claimant()
        if rng.random() < 0.3:
            self.now_ms += 30
        own = self.pool.tree[claimant.leaf].guarantee
        demand = {r: rng.choice([0, 1]) for r in self.pool.resources}
        demand["mdev"] = own["mdev"] + rng.choice([0, 0, 1])
        options: Event = rng.choice([{"preemptible": False}, {"grade": "Estimator"}, {}])
        return self.submitted(claimant.leaf, demand, **options)


def run(seed: int, length: int, profile: str) -> Walk:
    """The walk of `length` events, with the model's answers to them; the first opens a pool."""
    rng = Random(f"{profile}:{seed}")
    walk = Walk(rng, profile) if profile in WALKS else Siege(rng, profile)
    walk.run(length)
    return walk
