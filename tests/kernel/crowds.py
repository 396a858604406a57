"""Random crowded pools: many alike claims waiting at many leaves, with little that goes out.

Not here: faults of form, repeats, readings in every shape (`tests/model/generate.py` has them).

A sequence follows the decisions that a kernel makes of it, so that most events speak of claims
that are in a state that fits; the same seed and length give the same sequence.
"""

from __future__ import annotations

from random import Random

from schemas.records import ClaimState
from tests.kernel.scenes import (
    Bench,
    Json,
    asks,
    cancel,
    commit,
    node,
    opened,
    period,
    policy,
    progress,
    reads,
    release,
    tree,
)

DEMANDS = ((1, 0), (1, 2), (2, 1), (2, 5), (3, 0), (5, 8), (0, 3), (9, 2))
EVENTS = ("submit", "release", "commit", "cancel", "progress", "read", "tree", "policy", "period")
WEIGHTS = (50, 26, 10, 3, 4, 4, 1, 1, 1)


def crowd(seed: int, length: int) -> list[Json]:
    """`length` events; the first opens a pool of two levels."""
    return _Crowd(Random(f"crowd:{seed}")).events(length)


class _Crowd:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0
        self.leaves: list[str] = []
        self.hot: list[str] = []
        self.device_end: dict[str, int] = {}
        self.uj = rng.choice([60, 10**6])
        self.bench = Bench()

    def events(self, length: int) -> list[Json]:
        made = [opened(*self.nodes(), mdev=30, uj=self.uj, policy=self.policy(), at=1000)]
        self.bench.send(made[0])
        self.hot = self.rng.sample(self.leaves, 2)
        while len(made) < length:
            (kind,) = self.rng.choices(EVENTS, WEIGHTS)
            one = {**self.one(kind), "at_ms": self.bench.now_ms + self.rng.choice([0, 1, 1, 3, 9])}
            made.append(one)
            self.bench.send(one)
        return made

    def nodes(self) -> list[Json]:
        """Four tenants of up to three leaves, most with guarantees that others may use."""
        rng, found, leaves = self.rng, [], []
        for tenant in "abcd":
            own, uj = rng.choice([0, 5, 7, 7]), self.uj // 4
            found.append(self.node(tenant, own, uj))
            for name in "xyz"[: rng.randint(1, 3)]:
                part = rng.randint(0, own // 2)
                own -= part
                leaves.append(f"{tenant}/{name}")
                found.append(self.node(leaves[-1], part, uj // 3))
        self.leaves = leaves
        return found

    def node(self, node_id: str, mdev: int, uj: int) -> Json:
        rng = self.rng
        options: Json = {}
        if rng.random() < 0.4:
            options["weight"] = rng.randint(1, 3)
        if rng.random() < 0.15:
            options["lend"] = rng.choice([False, ["uj"], ["mdev"]])
        if rng.random() < 0.1:
            options["limit"] = {"mdev": mdev + rng.randint(2, 8)}
        if rng.random() < 0.07:
            options["borrow"] = False
        if rng.random() < 0.07:
            options["max_live"] = rng.randint(1, 4)
        return node(node_id, mdev, uj, **options)

    def policy(self) -> Json:
        rng = self.rng
        return {
            "aging_ms": rng.choice([0, 0, 4, 50]),
            "reserve_after_ms": rng.choice([0, 15, 60, 200]),
            "disruption_ppm": rng.choice([None, None, 0, 300_000]),
        }

    def one(self, kind: str) -> Json:
        rng = self.rng
        match kind:
            case "tree":
                # The same ids, so that the new tree is taken while the leaves are in use.
                kept = self.bench.state.tree_spec
                return tree(*(self.renewed(one.id, dict(one.guarantee)) for one in kept))
            case "policy":
                return policy(**self.policy())
            case "period":
                return period()
            case "read":
                return self.reading()
            case "submit":
                return self.submission()
        claim = self.pick(kind)
        if claim is None:
            return self.submission()
        if kind == "release":
            return release(claim, rng.choice([None, 0, 1, 4]))
        if kind == "progress":
            done = self.bench.state.claims[claim].completed
            return progress(claim, done + rng.randint(0, 3))
        return commit(claim) if kind == "commit" else cancel(claim)

    def renewed(self, node_id: str, guarantee: Json) -> Json:
        fresh = self.node(node_id, guarantee["mdev"], guarantee["uj"])
        return fresh

    def pick(self, kind: str) -> str | None:
        states = {
            "release": (ClaimState.HELD, ClaimState.RUNNING, ClaimState.UNCERTAIN),
            "commit": (ClaimState.HELD,),
            "progress": (ClaimState.RUNNING,),
            "cancel": (ClaimState.WAITING,),
        }[kind]
        fitting = sorted(
            claim.id for claim in self.bench.state.claims.values() if claim.state in states
        )
        return self.rng.choice(fitting) if fitting else None

    def submission(self) -> Json:
        rng = self.rng
        self.count += 1
        if rng.random() < 0.1:
            self.hot = rng.sample(self.leaves, 2)
        leaf = rng.choice(self.hot if rng.random() < 0.6 else self.leaves)
        options: Json = {"grade": "Estimator"} if rng.random() < 0.1 else {}
        if rng.random() < 0.3:
            options["priority"] = rng.randint(-2, 2)
        if rng.random() < 0.08:
            options["preemptible"] = False
        if rng.random() < 0.05:
            options["max_wait_ms"] = rng.choice([10, 100])
        if rng.random() < 0.05:
            options["commit_within_ms"] = rng.choice([5, 30])
        return asks(f"{rng.choice('kmz')}{self.count}", leaf, *rng.choice(DEMANDS), **options)

    def reading(self) -> Json:
        rng = self.rng
        claim = self.pick("release")
        if claim is None:
            return self.submission()
        now_ms = self.bench.now_ms
        start_ms = self.device_end.get(claim, now_ms - 5)
        self.device_end[claim] = max(now_ms, start_ms + 1)
        held = max(1, self.bench.state.claims[claim].demand[0])
        uj = rng.choice([0, 1, 3, 8])
        return reads(claim, start_ms, self.device_end[claim], uj, on={claim: held})
