"""The generator makes sequences worth comparing, and the runner finds and shrinks differences."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from . import differential
from .differential import (
    Decisions,
    Event,
    collected,
    first_difference,
    model_decisions,
    shrunk,
)
from .generate import PROFILES, generate, run
from .pool_model import Model
from .sieges import SIEGES
from .sieges import run as besieged
from .walks import Walk

KINDS = {
    "pool.opened", "tree.set", "policy.set", "pool.archived", "period.opened", "steward.rotated",
    "claim.admitted", "claim.waiting", "claim.refused", "claim.committed", "claim.renewed",
    "claim.cancelled", "claim.expired", "claim.uncertain", "claim.starved", "claim.progressed",
    "claim.overrun", "claim.settled", "claim.preempting", "claim.spared", "guard.on", "guard.off",
    "meter.split", "meter.gap", "idle.reviewed", "duplicate", "refused",
}  # fmt: skip
REASONS = {
    "claim.refused": {
        "archived", "unknown-leaf", "gang-empty", "class-empty", "history-insufficient",
        "never-fits", "queue-full", "wait-expired", "claim-id-reused",
    },
    "claim.waiting": {
        "concurrency", "limit", "guess-cannot-borrow", "unpreemptible-cannot-borrow",
        "borrowing-off", "share", "capacity", "earmarked", "starved-ahead", "awaiting-reclaim",
    },
    "refused": {
        "malformed", "unknown-pool", "out-of-range", "event-id-reused", "already-open", "archived",
        "resources-invalid", "policy-invalid", "tree-invalid", "leaf-in-use", "unknown-claim",
        "wrong-state", "progress-fell", "implausible", "window-empty", "window-future",
        "window-overlaps", "occupants-invalid", "unknown-occupant",
    },
}  # fmt: skip


def answers(seeds: range, length: int, profile: str) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        for decisions in run(seed, length, profile).answers:
            yield from decisions


def test_every_kind_and_reason_is_reached() -> None:
    """A few short sequences of each profile meet every decision and every reason of the text."""
    kinds: set[str] = set()
    reasons: dict[str, set[str]] = {kind: set() for kind in REASONS}
    for profile in PROFILES:
        for decision in answers(range(12), 120, profile):
            kinds.add(decision["kind"])
            if decision["kind"] in reasons:
                reasons[decision["kind"]].add(decision["reason"])
    assert kinds == KINDS
    assert reasons == REASONS


def test_sieges_reach_what_is_seldom() -> None:
    """A few of them order three victims at once, measured ones, and for one claimant twice."""
    reached: set[str] = set()
    for profile in SIEGES:
        for seed in range(4):
            reached |= found_in(besieged(seed, 80, profile))
    assert reached == {
        "three at once", "measured", "once more", "spared", "guard of an inner node",
        "held at its leaf", "four levels", "four resources",
    }  # fmt: skip


def found_in(walk: Walk) -> set[str]:
    """What of that one walk has."""
    found: set[str] = set()
    ordered: list[str] = []
    tree = walk.pool.tree
    parents = {node.rpartition("/")[0] for node in tree}
    for decisions in walk.answers:
        orders = [one for one in decisions if one["kind"] == "claim.preempting"]
        claimants = [one["for"] for one in orders]
        told = {
            "three at once": any(claimants.count(name) > 2 for name in claimants),
            "measured": any(one["basis"] == "measured" for one in orders),
            "once more": any(name in ordered for name in claimants),
            "spared": any(one["kind"] == "claim.spared" for one in decisions),
            "guard of an inner node": any(one.get("scope") in parents for one in decisions),
            "held at its leaf": any(
                one.get("reason") == "starved-ahead" and one["node"] not in ("/", *parents)
                for one in decisions
            ),
            "four levels": any(node.count("/") == 3 for node in tree),
            "four resources": len(walk.pool.resources) == 4,
        }
        found |= {name for name, true in told.items() if true}
        ordered += claimants
    return found


@pytest.mark.parametrize("profile", [*PROFILES, *SIEGES])
def test_same_seed_same_sequence(profile: str) -> None:
    """A seed, a length and a profile name one sequence."""
    events = generate(3, 60, profile)
    assert len(events) == 60
    assert events == generate(3, 60, profile)
    assert events != generate(4, 60, profile)


@pytest.mark.parametrize("profile", [*PROFILES, *SIEGES])
def test_books_add_up(profile: str) -> None:
    """Each node uses what its children use, devices stay within capacity, `seq` has no hole."""
    for seed in range(1 if profile in SIEGES else 3):
        model = Model()
        written = dict.fromkeys(("p", "q"), 0)
        for event in generate(seed, 80, profile):
            known = isinstance(event.get("pool"), str)
            decisions = model.feed(copy.deepcopy(event))
            if known and event["pool"] in model.pools:
                written[event["pool"]] += len(decisions)
        for name, books in model.books().items():
            check_books(model, name, books)
            assert books["seq_next"] == written[name]


def check_books(model: Model, name: str, books: dict[str, Any]) -> None:
    pool = model.pools[name]
    for node, used in books["usage"].items():
        kids = pool.children(node)
        for resource, amount in used.items():
            assert not kids or amount == sum(books["usage"][kid][resource] for kid in kids)
            assert amount >= 0
            assert resource == "uj" or books["usage"]["/"][resource] <= pool.capacity[resource]
    for leaf, held_uj in books["held_uj"].items():
        assert books["usage"][leaf]["uj"] == held_uj + books["spent_uj"].get(leaf, 0)


class Mistaken(Model):
    """Another implementation with one mistake: no claim is ever settled at a disputed figure."""

    def feed(self, event: Any) -> Decisions:
        decisions = super().feed(event)
        for decision in decisions:
            decision.pop("disputed", None)
        return decisions


def mistaken_decisions(events: list[Event]) -> list[Decisions]:
    model = Mistaken()
    return collected(
        lambda given: ((n, d) for n, event in enumerate(given) for d in model.feed(event)), events
    )


def test_difference_is_found_and_shrunk() -> None:
    """What is left is what a disputed release takes: pool, claim, reading, release."""
    for seed in range(20):
        events = generate(seed, 100, "meter")
        if first_difference(events, mistaken_decisions) is not None:
            small = shrunk(events, mistaken_decisions, 20.0)
            kinds = [event["type"] for event in small]
            assert kinds == ["pool.opened", "claim.submitted", "meter.read", "claim.released"]
            return
    pytest.fail("no seed shows the mistake")


def test_exception_is_an_answer() -> None:
    """An implementation that breaks down differs at the event that broke it."""

    def breaks(events: list[Event]) -> list[Decisions]:
        def decide(given: Any) -> Iterator[tuple[int, dict[str, Any]]]:
            for number, _ in enumerate(given):
                yield number, {"kind": "pool.opened"}
                raise RuntimeError("broken")

        return collected(decide, events)

    opened = {"pool": "p", "type": "pool.opened", "capacity": {}, "tree": [], "at_ms": 1}
    found = first_difference([opened], breaks)
    assert found is not None
    assert [one["kind"] for one in found.other] == ["pool.opened", "exception"]


def test_run_against_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runner exits with 0 where both agree and with 1 and a sequence where they do not."""
    options = ["--seeds", "0:6", "--length", "100", "--profile", "meter", "--shrink-seconds", "5"]
    monkeypatch.setattr(differential, "kernel_decisions", model_decisions)
    assert differential.main(options) == 0
    monkeypatch.setattr(differential, "kernel_decisions", mistaken_decisions)
    assert differential.main(options) == 1
    printed = capsys.readouterr().out
    assert "smallest sequence found (4 events):" in printed
    assert json.loads(printed.split("events):\n")[1].splitlines()[0])["type"] == "pool.opened"
