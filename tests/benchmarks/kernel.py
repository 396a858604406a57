"""What one decision of the bare kernel costs: `python -m tests.benchmarks.kernel`.

No log, no keys, no codec: events are built outside the clock and `decide` is timed one by one.

(a) 1,000 leaves under 30 tenants, 10,000 live and 10,000 waiting claims, a steady mix of submit,
    commit, progress, meter reading and release (a fifth of the events each);
(b) the same with 10 times the waiting claims; (c) with 10 times the leaves;
(d) a reclaim storm: tenants borrow everything, then others claim what they were guaranteed, and
    every victim that is ordered to stop is released.

A decision is one receipt; an event is one call. Times are the thread's processor time, so that a
busy machine does not count; all figures are of one core, in one run.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import thread_time_ns
from typing import Any

from schemas.events import parse_event
from schemas.records import Event
from streams.kernel import PoolState, decide
from streams.steward import garbage

PROFILING = "--profile" in sys.argv
TENANTS = 30
GANGS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 8)
"""Devices of a claim: as in the philly trace, most take one, few take eight."""
WARM_UP_MAX = 20_000
"""Filling a pool reclaims a lot at once; the steady mix begins when that is over."""
START_MS = 1_700_000_000_000


@dataclass(slots=True)
class Driver:
    """Feeds a pool and keeps the books that the next event needs."""

    rng: random.Random
    leaves: list[str]
    state: PoolState = field(default_factory=lambda: PoolState("bench"))
    now_ms: int = START_MS
    claims: int = 0
    held: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)
    victims: list[str] = field(default_factory=list)
    profiler: cProfile.Profile | None = None
    spans_ns: list[int] = field(default_factory=list)
    decisions: int = 0
    ordered: int = 0

    def measure(self) -> None:
        """What follows is measured (and profiled, if asked for), as in a steward after replay."""
        garbage.settle()
        if PROFILING:
            self.profiler = cProfile.Profile()
            self.profiler.enable()

    def feed(self, event: dict[str, Any], *, timed: bool = True) -> None:
        parsed = parse_event({"pool": "bench", **event}, from_json=False)
        assert isinstance(parsed, Event), parsed
        before = thread_time_ns()
        decisions = decide(self.state, parsed, self.now_ms)
        span_ns = thread_time_ns() - before
        if timed:
            self.spans_ns.append(span_ns)
            self.decisions += len(decisions)
        for decision in decisions:
            if decision.kind == "claim.admitted":
                self.held.append(str(decision.body["claim"]))
            elif decision.kind == "claim.preempting":
                self.victims.append(str(decision.body["claim"]))
                self.ordered += timed
            elif decision.kind == "refused":
                raise AssertionError((event, decision))

    def submit(self, leaf: str | None = None, *, timed: bool = True) -> None:
        claim = f"c{self.claims}"
        self.claims += 1
        self.sizes[claim] = 1000 * self.rng.choice(GANGS)
        self.feed(
            {
                "type": "claim.submitted",
                "claim": claim,
                "leaf": leaf or self.rng.choice(self.leaves),
                "gang": [{"mdev": self.sizes[claim], "uj": 1_000_000}],
                "grade": "ModelBased",
                "priority": self.rng.randrange(3),
                "lease_ms": 600_000,
            },
            timed=timed,
        )

    def commit(self, *, timed: bool = True) -> None:
        if self.held:
            claim = self.held.pop(self.rng.randrange(len(self.held)))
            self.running.append(claim)
            self.feed({"type": "claim.committed", "claim": claim}, timed=timed)

    def progress(self, claim: str | None = None, *, timed: bool = True) -> None:
        claim = claim or self.rng.choice(self.running)
        self.completed[claim] = self.completed.get(claim, 0) + 1
        event = {"type": "claim.progressed", "claim": claim, "completed": self.completed[claim]}
        self.feed(event, timed=timed)

    def read(self, *, timed: bool = True, claim: str | None = None) -> None:
        claim = claim or self.rng.choice(self.running)
        device = f"gpu-of-{claim}"
        last_ms = self.state.devices.get(device, self.now_ms - 10)
        self.feed(
            {
                "type": "meter.read",
                "device": device,
                "from_ms": last_ms,
                "to_ms": max(last_ms + 1, self.now_ms),
                "uj": self.rng.randrange(1000),
                "grade": "HwShunt",
                "occupants": [{"claim": claim, "mdev": self.sizes[claim]}],
            },
            timed=timed,
        )

    def victim(self) -> str | None:
        """Who was ordered to stop and still runs: the executor stops it first."""
        while self.victims:
            claim = self.victims.pop(0)
            if self.state.claims[claim].reclaimed_for is not None and claim in self.running:
                self.running.remove(claim)
                return claim
        return None

    def release(self, claim: str | None = None, *, timed: bool = True) -> None:
        if claim is None:
            claim = self.victim() or self.running.pop(self.rng.randrange(len(self.running)))
        event = {"type": "claim.released", "claim": claim, "outcome": "completed"}
        actual = {"uj": 900_000, "grade": "HwShunt"}
        self.feed({**event, "actual": actual}, timed=timed)


def tree(leaves: int, capacity_mdev: int, *, promised_ppm: int) -> Iterator[dict[str, Any]]:
    """`leaves` leaves under 30 tenants that are promised `promised_ppm` of the capacity."""
    per_tenant = leaves // TENANTS
    per_leaf = capacity_mdev * promised_ppm // 1_000_000 // (per_tenant * TENANTS)
    for tenant in range(TENANTS):
        guarantee = {"mdev": per_leaf * per_tenant, "uj": 2**61 // TENANTS}
        yield {"id": f"t{tenant}", "guarantee": guarantee, "weight": 1 + tenant % 3}
        for leaf in range(per_tenant):
            yield {
                "id": f"t{tenant}/l{leaf}",
                "guarantee": {"mdev": per_leaf, "uj": 2**61 // TENANTS // per_tenant},
            }


def opened(leaves: int, capacity_mdev: int, seed: int, *, promised_ppm: int) -> Driver:
    """A driver on a pool that has just been opened."""
    nodes = list(tree(leaves, capacity_mdev, promised_ppm=promised_ppm))
    driver = Driver(random.Random(seed), [one["id"] for one in nodes if "/" in one["id"]])
    driver.feed(
        {
            "type": "pool.opened",
            "capacity": {"mdev": capacity_mdev, "uj": 2**62},
            "tree": nodes,
        },
        timed=False,
    )
    return driver


def steady(leaves: int, live: int, waiting: int, events: int, seed: int) -> Driver:
    """Scenarios (a), (b) and (c)."""
    mean_mdev = 1000 * sum(GANGS) // len(GANGS)
    driver = opened(leaves, live * mean_mdev, seed, promised_ppm=500_000)
    target = live + waiting
    while driver.state.live_count + len(driver.state.waiting) < target:
        driver.submit(timed=False)
        driver.commit(timed=False)
    for _ in range(WARM_UP_MAX):
        driver.now_ms += 50
        if not driver.state.reclaiming:
            break
        driver.submit(timed=False)
        driver.commit(timed=False)
        driver.release(timed=False)
    driver.measure()
    for _ in range(events // 5):
        driver.now_ms += 50
        driver.submit()
        driver.commit()
        driver.progress()
        driver.read()
        driver.release()
    return driver


def storm(leaves: int, live: int, seed: int) -> Driver:
    """Scenario (d): half of the tenants borrow all, then the other half claims its own."""
    mean_mdev = 1000 * sum(GANGS) // len(GANGS)
    driver = opened(leaves, live * mean_mdev, seed, promised_ppm=1_000_000)
    borrowers = [leaf for leaf in driver.leaves if int(leaf[1:].split("/")[0]) % 2]
    owners = [leaf for leaf in driver.leaves if leaf not in set(borrowers)]
    while len(driver.state.waiting) < live // 100:
        driver.submit(driver.rng.choice(borrowers), timed=False)
        driver.commit(timed=False)
    for claim in driver.rng.sample(driver.running, len(driver.running) // 2):
        driver.now_ms += 1
        driver.progress(claim, timed=False)
        driver.read(claim=claim, timed=False)
    driver.measure()
    for number in range(2000):
        driver.now_ms += 50
        driver.submit(driver.rng.choice(owners))
        if number % 3:
            driver.release()
    return driver


def report(name: str, driver: Driver) -> dict[str, Any]:
    """Decisions a second and the time of one event's decision, in microseconds."""
    spans = sorted(driver.spans_ns)
    return {
        "scenario": name,
        "events": len(spans),
        "decisions": driver.decisions,
        "live": driver.state.live_count,
        "waiting": len(driver.state.waiting),
        "preempted": driver.ordered,
        "decisions_per_s": driver.decisions * 1_000_000_000 // sum(spans),
        "median_ns": spans[len(spans) // 2],
        "p99_ns": spans[len(spans) * 99 // 100],
        "max_ns": spans[-1],
    }


SCENARIOS = {
    "a": lambda events, seed: steady(1_000, 10_000, 10_000, events, seed),
    "b": lambda events, seed: steady(1_000, 10_000, 100_000, events, seed),
    "c": lambda events, seed: steady(10_000, 10_000, 10_000, events, seed),
    "d": lambda events, seed: storm(1_000, 10_000, seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="abcd", help="which scenarios, e.g. ac")
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in options.only:
        print(f"({name}) ...", file=sys.stderr, flush=True)
        driver = SCENARIOS[name](options.events, options.seed)
        if driver.profiler is not None:
            driver.profiler.disable()
            pstats.Stats(driver.profiler).sort_stats("tottime").print_stats(25)
        row = report(name, driver)
        if options.json:
            print(json.dumps(row))
        else:
            print(
                f"({row['scenario']}) {row['decisions_per_s']:>7,} decisions/s   median "
                f"{row['median_ns'] // 1000} us   p99 {row['p99_ns'] // 1000} us   max "
                f"{row['max_ns'] // 1000} us   ({row['events']:,} events, {row['live']:,} live, "
                f"{row['waiting']:,} waiting, {row['preempted']:,} preempted)"
            )


if __name__ == "__main__":
    main()
