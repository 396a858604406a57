"""Random claims, what happens to them, and readings of the devices that they hold.

Not handled here: which of these comes next, and everything that operators send.
"""

from __future__ import annotations

from random import Random
from typing import Any

from .books import Claim, Pool, usage
from .parse import GRADES
from .pool_model import Model
from .scripts import script
from .shapes import Event

FAVOURED = ("reclaim", "starve")


class Workload:
    """Makes events about claims; `self.pool` is the pool that the next event is for."""

    def __init__(self, rng: Random, profile: str, length: int) -> None:
        self.rng = rng
        self.profile = profile
        self.length = length
        self.model = Model()
        self.script = script(rng) if profile == "corners" else []
        self.events: list[Event] = []
        self.answers: list[list[dict[str, Any]]] = []
        self.now_ms = 1000
        self.count = 0
        self.trees: dict[str, list[Event]] = {}
        self.pool_id = "p"
        self.huge = profile == "faults" and rng.random() < 0.2
        self.several = rng.random() < 0.25
        self.with_ids = rng.choice([0.0, 0.1, 0.5]) if profile != "faults" else 0.5
        self.wide = profile != "corners" and rng.random() < 0.3
        self.scarce = rng.random() < (0.25 if profile in FAVOURED else 0.4)
        self.in_joules = profile == "reclaim" and rng.random() < 0.2
        self.scarce = self.scarce or self.in_joules
        self.greedy: list[str] = []
        self.greedy_left = 0
        self.hot_leaf = ""
        self.hot_left = 0

    @property
    def pool(self) -> Pool | None:
        return self.model.pools.get(self.pool_id)

    def leaf(self) -> str:
        """A leaf; for a while the same one, so that it borrows what the others do not use."""
        rng = self.rng
        leaves = [n for n in self.pool.tree if self.pool.is_leaf(n)] if self.pool else []
        if not leaves or rng.random() < 0.01:
            return rng.choice(["nowhere", "/", "a", ""])
        if self.hot_left <= 0 or self.hot_leaf not in leaves:
            self.hot_leaf = rng.choice(sorted(leaves))
            self.hot_left = rng.randint(3, 12)
        self.hot_left -= 1
        favoured = rng.random() < (0.8 if self.profile in FAVOURED else 0.4)
        return self.hot_leaf if favoured else rng.choice(sorted(leaves))

    def submitted(self) -> Event:
        rng = self.rng
        name = f"{rng.choice('abcxyzé')}{self.count}"
        leaf = self.leaf()
        event: Event = {"type": "claim.submitted", "claim": name, "leaf": leaf}
        observed = rng.random() < (0.12 if self.profile == "meter" else 0.04)
        event["gang"] = self.gang(leaf, observed)
        if observed:
            event["estimate"] = "observed"
        else:
            event["grade"] = rng.choices(["ModelBased", "HwShunt", "Estimator"], [7, 2, 2])[0]
        self.options(event)
        return event

    def options(self, event: Event) -> None:
        rng = self.rng
        patient = self.profile == "starve"
        if rng.random() < 0.5 or "estimate" in event:
            event["class"] = rng.choice(["", "k1", "k1", "k1", "k2", "k2"])
        if rng.random() < 0.35:
            event["priority"] = rng.choice([-1000, -3, -1, 0, 1, 2, 5, 1000])
        if rng.random() < 0.12:
            event["preemptible"] = rng.random() < 0.2
        if rng.random() < 0.15:
            event["commit_within_ms"] = rng.choice([0, 1, 10, 50, 200])
        if rng.random() < 0.15:
            event["lease_ms"] = rng.choice([0, 1, 20, 100, 400])
        if rng.random() < (0.05 if patient else 0.15):
            event["max_wait_ms"] = rng.choice([0, 1, 20, 100, 1000])
        if rng.random() < 0.05:
            event["unit"] = "token"

    def free(self, leaf: str, resource: str) -> int:
        """What a leaf's guarantee has left."""
        if self.pool is None:
            return 0
        return self.pool.tree[leaf].guarantee[resource] - usage(self.pool)[leaf][resource]

    def greedy_leaf(self) -> str:
        """One of one or two leaves that for a while take what the others do not use."""
        rng = self.rng
        leaves = sorted(n for n in self.pool.tree if self.pool.is_leaf(n)) if self.pool else []
        if self.greedy_left <= 0 or not set(self.greedy) <= set(leaves):
            self.greedy = rng.sample(leaves, min(len(leaves), rng.choice([1, 1, 2])))
            self.greedy_left = rng.randint(10, 40)
        self.greedy_left -= 1
        return rng.choice(self.greedy) if self.greedy and rng.random() < 0.85 else self.leaf()

    def filler(self) -> Event:
        """A small claim that may well borrow."""
        rng = self.rng
        event = self.submitted()
        event.pop("estimate", None)
        event["leaf"] = self.greedy_leaf()
        event["grade"] = "ModelBased"
        uj = rng.choice([0, 1, 2, 4, 6] if self.scarce else [0, 0, 1, 2])
        if self.in_joules:
            uj = rng.choice([1, 2, 3, 5, 8])
        event["gang"] = [{"mdev": rng.choice([0, 1, 1, 1, 2, 2, 3, 4]), "uj": uj}]
        if self.wide and rng.random() < 0.5:
            event["gang"][0]["gpu.slot"] = rng.choice([1, 1, 2])
        if rng.random() < 0.7:
            event.pop("preemptible", None)
        return event

    def claimant(self) -> Event:
        """A claim inside what its leaf's guarantee has left, where there is such a leaf."""
        rng = self.rng
        leaves = [n for n in self.pool.tree if self.pool.is_leaf(n)] if self.pool else []
        leaves = [leaf for leaf in leaves if self.free(leaf, "mdev") > 0]
        if not leaves:
            return self.released()
        event = self.submitted()
        event.pop("estimate", None)
        event["leaf"] = leaf = rng.choice(sorted(leaves))
        event["grade"] = rng.choice(["ModelBased", "ModelBased", "HwShunt", "Estimator"])
        most = {r: max(0, self.free(leaf, r)) for r in self.pool.resources} if self.pool else {}
        member = {"mdev": rng.choice([1, most["mdev"], most["mdev"], (most["mdev"] + 1) // 2])}
        member["uj"] = min(rng.choice([0, 1, 2]), most["uj"])
        if self.scarce and rng.random() < 0.6:
            member["uj"] = rng.choice([most["uj"], most["uj"] // 2])
        if self.wide and rng.random() < 0.5:
            member["gpu.slot"] = rng.choice([1, most["gpu.slot"]])
        event["gang"] = [member]
        return event

    def gang(self, leaf: str, observed: bool) -> list[Event]:
        rng = self.rng
        total = {"mdev": self.amount(leaf, "mdev")}
        if self.wide and rng.random() < 0.4:
            total["gpu.slot"] = self.amount(leaf, "gpu.slot")
        if not observed:
            total["uj"] = rng.choice([0, 1, 1, 2, 3, 5, 10])
            if self.scarce and rng.random() < 0.4:
                total["uj"] = self.amount(leaf, "uj")
        if rng.random() < 0.01:
            return rng.choice([[], [{}], [{"mdev": 0}] if observed else [{"mdev": 0, "uj": 0}]])
        members: list[Event] = [{} for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        for resource, amount in total.items():
            part = rng.randint(0, amount)
            members[0][resource] = part
            last = members[-1]
            last[resource] = last.get(resource, 0) + amount - part
        return members

    def amount(self, leaf: str, resource: str) -> int:
        """Mostly small, or near a guarantee or the capacity."""
        rng = self.rng
        if self.pool is None or leaf not in self.pool.tree or self.huge:
            return rng.randint(0, 4)
        own = self.pool.tree[leaf].guarantee[resource]
        whole = self.pool.capacity[resource]
        big = {"starve": 0.35, "reclaim": 0.05}.get(self.profile, 0.15)
        if rng.random() < big:
            return max(0, rng.choice([whole, whole - 1, whole // 2, own + 1, own + 2]))
        return max(0, rng.choice([0, 1, 1, 2, 2, 3, own, own, own // 2, own - 1]))

    def pick(self, *states: str) -> Claim | None:
        """A claim in one of `states`, mostly; None where a claim should rather be submitted."""
        claims = sorted(self.pool.claims.values(), key=lambda c: c.arrival) if self.pool else []
        fitting = [claim for claim in claims if claim.state in states]
        if self.rng.random() < 0.05:
            fitting = claims
        return self.rng.choice(fitting) if fitting else None

    def about(self, kind: str, *states: str) -> Event:
        claim = self.pick(*states)
        return {"type": kind, "claim": claim.id} if claim else self.submitted()

    def progressed(self) -> Event:
        claim = self.pick("running", "uncertain")
        if claim is None:
            return self.about("claim.committed", "held")
        completed = max(0, claim.completed + self.rng.choice([0, 1, 1, 2, 5, -1]))
        return {"type": "claim.progressed", "claim": claim.id, "completed": completed}

    def released(self) -> Event:
        rng = self.rng
        claim = self.pick("held", "running", "uncertain")
        victims = self.pool.reclaimed() if self.pool else []
        if victims and rng.random() < 0.3:
            claim = rng.choice(victims)
        if claim is None:
            return self.submitted()
        event: Event = {"type": "claim.released", "claim": claim.id}
        event["outcome"] = rng.choice(["completed", "completed", "failed", "evicted"])
        if rng.random() < 0.65:
            metered = claim.metered_uj
            uj = rng.choice([0, 1, 3, 5, metered, metered + 1, metered + 4, max(0, metered - 1)])
            if self.huge and rng.random() < 0.3:
                uj = rng.choice([2**62, 2**63 - 1, 2**61])
            elif rng.random() < 0.05:
                uj = rng.choice([100, 10_000, 10**9])
            event["actual"] = {"uj": uj, "grade": rng.choice(GRADES)}
        if rng.random() < 0.2:
            event["completed"] = max(0, claim.completed + rng.choice([0, 1, 3, -1]))
        return event

    def meter(self) -> Event:
        """A reading of one of a few devices; each claim has a device where it is mostly seen."""
        rng = self.rng
        device = rng.choice(["g0", "g1", "g2"])
        last = self.pool.devices.get(device) if self.pool else None
        begin = self.now_ms - rng.choice([0, 1, 5, 20, 60]) if last is None else last
        if rng.random() < 0.1:
            begin += rng.choice([-1, -5, 1, 1, 5])
        until = self.now_ms if rng.random() < 0.8 else begin + rng.choice([0, 1, 5, 20])
        if until <= begin and rng.random() < 0.9:
            until = begin + rng.choice([1, 1, 2, 5])
        if rng.random() < 0.03:
            until = self.now_ms + rng.choice([1, 50, 5000, 20_000])
        uj: int | None = rng.choice([0, 0, 1, 2, 3, 5, 7, 10])
        if self.huge and rng.random() < 0.3:
            uj = rng.choice([2**62, 2**63 - 1, 2**61])
        occupants = self.occupants(device)
        event: Event = {"type": "meter.read", "device": device}
        event |= {"from_ms": max(0, begin), "to_ms": max(0, until), "uj": uj}
        event["grade"] = rng.choices(["HwShunt", "ModelBased", "Estimator"], [6, 2, 1])[0]
        if rng.random() < 0.05:
            event["uj"] = None
            if rng.random() < 0.5:
                del event["grade"]
        event["occupants"] = occupants
        return event

    def occupants(self, device: str) -> list[Event]:
        rng = self.rng
        claims = sorted(self.pool.claims.values(), key=lambda c: c.arrival) if self.pool else []
        here = [c for c in claims if c.is_live and f"g{c.arrival % 3}" == device]
        chosen = rng.sample(here, min(len(here), rng.choice([0, 1, 1, 2, 2, 3])))
        ended = [c for c in claims if c.state == "ended"]
        if ended and rng.random() < 0.12:
            chosen.append(rng.choice(ended))
        elif claims and rng.random() < 0.05:
            chosen.append(rng.choice(claims))
        rng.shuffle(chosen)
        found: list[Event] = []
        for claim in chosen:
            mdev = claim.demand["mdev"] if rng.random() < 0.8 else rng.randint(0, 3)
            found.append({"claim": claim.id, "mdev": max(mdev, rng.random() < 0.97)})
        for one in found:
            one["mdev"] = int(one["mdev"])
        if rng.random() < 0.02:
            found.append({"claim": "nobody", "mdev": 1})
        return found
