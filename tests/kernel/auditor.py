"""An auditor: it follows a pool's events and decisions with its own books, and objects.

Not here: the books themselves (`books`), and what may be said against one decision (`objections`).
The kernel's state is read in `compare` alone, which holds it against the books.

1. A decision is judged by the books as they stand, then posted.
2. After each event no deadline is overdue, no victim is left without its claimant, the books
   conserve every microjoule, and the kernel's usage is theirs.

Profile: §2.3, §2.5, §2.8, §3, §4.2, §4.4, §5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.records import (
    GRADE_RANK,
    ROOT,
    UJ,
    ClaimReleased,
    ClaimSubmitted,
    Decision,
    Event,
    Malformed,
    MeterRead,
    PolicySet,
    PoolOpened,
    TreeSet,
)
from streams.kernel import PoolState
from tests.kernel import objections
from tests.kernel.books import CONTENDING, Books, Entry

Body = dict[str, Any]
HOUR_MS = 3_600_000


class Auditor:
    """One pool's auditor: call `follow` with each event and its decisions."""

    def __init__(self) -> None:
        self.books = Books()
        self.policy: Body = {}
        self.now_ms = 0
        self.event: Event | Malformed | None = None
        self.devices: dict[str, int] = {}

    def follow(self, event: Event | Malformed, decisions: Sequence[Decision], at_ms: int) -> None:
        """Judge and post the decisions of one event."""
        self.event = event
        self.now_ms = max(self.now_ms, at_ms)
        for decision in decisions:
            post = getattr(self, "on_" + decision.kind.replace(".", "_"), None)
            if post is not None:
                post(decision.body)
        self.check_deadlines()
        self.check_victims()
        self.books.check_conservation()

    # --- the pool ---

    def on_pool_opened(self, body: Body) -> None:
        event = self.event
        assert isinstance(event, PoolOpened)
        self.books.resources = event.resources
        self.policy = dict(event.policy)
        self.books.plant(event.capacity, event.tree)

    def on_tree_set(self, body: Body) -> None:
        event = self.event
        assert isinstance(event, TreeSet)
        self.books.plant(self.books.places[ROOT].guarantee, event.tree)
        in_use = {entry.leaf for entry in (*self.books.live, *self.books.waiting)}
        spent = {leaf for leaf, uj in self.books.spent_uj.items() if uj}
        assert all(self.books.is_leaf(leaf) for leaf in in_use | spent)
        for leaf in set(self.books.spent_uj) - spent:
            del self.books.spent_uj[leaf]

    def on_policy_set(self, body: Body) -> None:
        event = self.event
        assert isinstance(event, PolicySet)
        self.policy = dict(event.policy)

    def on_period_opened(self, body: Body) -> None:
        self.books.close_period()

    # --- claims ---

    def entry(self, body: Body, *states: str) -> Entry:
        entry = self.books.claims[body["claim"]]
        assert not states or entry.state in states, (entry, body)
        return entry

    def arrived(self, body: Body) -> Entry:
        """The waiting claim, or the one that the running event submits."""
        known = self.books.claims.get(body["claim"])
        event = self.event
        if known is not None and known.state == "waiting":
            return known
        assert isinstance(event, ClaimSubmitted) and event.claim == body["claim"]
        assert known is None or known.state == "ended"
        demand = {name: event.demand.get(name, 0) for name in self.books.resources}
        if event.grade is None:
            demand[UJ] = body["demand"][UJ]
        assert body["demand"] == demand and body["grade"] == (event.grade or body["grade"])
        waits = [one for one in (event.max_wait_ms, self.policy.get("max_wait_ms", 0)) if one > 0]
        entry = Entry(
            event.claim, event.leaf, demand, body["grade"], event.preemptible, event.priority,
            self.now_ms, event.commit_within_ms, event.lease_ms,
            self.now_ms + min(waits) if waits else None, event.class_,
        )  # fmt: skip
        self.books.enter(entry)
        return entry

    def on_claim_admitted(self, body: Body) -> None:
        entry = self.arrived(body)
        objections.to_admission(self.books, entry, body)
        entry.state, entry.was_admitted = "held", True
        entry.contends, entry.admitted_ms = False, self.now_ms

    def on_claim_waiting(self, body: Body) -> None:
        entry = self.arrived(body)
        entry.reason = body["reason"]
        entry.contends = entry.reason in CONTENDING and body.get("resource") != UJ
        if entry.reason == "awaiting-reclaim":
            assert not self.books.borrows(self.books.usage(), entry.leaf, entry.demand)

    def on_claim_refused(self, body: Body) -> None:
        if body["reason"] == "claim-id-reused":
            return
        entry = self.books.claims.get(body["claim"])
        if entry is not None and entry.state == "waiting":
            if body["reason"] == "wait-expired":
                assert entry.wait_until_ms is not None and entry.wait_until_ms <= self.now_ms
            self.leave(entry)

    def on_claim_cancelled(self, body: Body) -> None:
        self.leave(self.entry(body, "waiting"))

    def leave(self, entry: Entry) -> None:
        entry.state, entry.contends = "ended", False

    def on_claim_committed(self, body: Body) -> None:
        self.start(self.entry(body, "held"))

    def on_claim_renewed(self, body: Body) -> None:
        self.start(self.entry(body, "running", "uncertain"))

    def on_claim_progressed(self, body: Body) -> None:
        entry = self.entry(body, "running", "uncertain")
        assert body["completed"] >= entry.completed
        entry.completed = body["completed"]
        self.start(entry)

    def start(self, entry: Entry) -> None:
        entry.state, entry.lease_from_ms = "running", self.now_ms

    def on_claim_expired(self, body: Body) -> None:
        entry = self.entry(body, "held")
        assert entry.admitted_ms + entry.commit_within_ms <= self.now_ms
        self.books.end(entry, entry.metered_uj)

    def on_claim_uncertain(self, body: Body) -> None:
        entry = self.entry(body, "running")
        assert entry.lease_from_ms + entry.lease_ms <= self.now_ms
        entry.state = "uncertain"

    def on_claim_starved(self, body: Body) -> None:
        entry = self.entry(body, "waiting")
        assert not entry.starved and entry.submitted_ms + self.starves_after <= self.now_ms
        entry.starved = True

    def on_claim_overrun(self, body: Body) -> None:
        entry = self.entry(body, "held", "running", "uncertain")
        assert body["reserved_uj"] == entry.reserved_uj < entry.metered_uj == body["metered_uj"]

    def on_claim_settled(self, body: Body) -> None:
        entry, event = self.entry(body, "held", "running", "uncertain"), self.event
        assert isinstance(event, ClaimReleased)
        objections.to_settlement(entry, event, body)
        self.books.end(entry, body["spent"]["uj"])

    # --- preemption and guards ---

    def on_claim_preempting(self, body: Body) -> None:
        books, entry = self.books, self.entry(body, "held", "running", "uncertain")
        objections.to_victim(books, entry, self.claimant_leaf(body["for"]), body)
        entry.victim_of = body["for"]
        objections.to_disruption(books, self.policy.get("disruption_ppm"))

    def claimant_leaf(self, claimant: str) -> str:
        known = self.books.claims.get(claimant)
        if known is not None and known.state == "waiting":
            return known.leaf
        event = self.event
        assert isinstance(event, ClaimSubmitted) and event.claim == claimant
        return event.leaf

    def on_claim_spared(self, body: Body) -> None:
        entry = self.entry(body)
        assert entry.is_live and entry.victim_of == body["for"]
        entry.victim_of = None

    def on_guard_on(self, body: Body) -> None:
        owner = self.books.claims[body["for"]]
        assert owner.starved and owner.state == "waiting"
        assert body["scope"] in (ROOT, *self.books.path(owner.leaf))

    # --- meters ---

    def on_meter_gap(self, body: Body) -> None:
        event = self.event
        assert isinstance(event, MeterRead) and event.uj is None
        self.devices[event.device] = event.to_ms
        for occupant in event.occupants:
            self.books.claims[occupant.claim].gap = True

    def on_meter_split(self, body: Body) -> None:
        event, books = self.event, self.books
        assert isinstance(event, MeterRead) and event.uj is not None
        assert event.from_ms >= self.devices.get(event.device, 0)
        self.devices[event.device] = event.to_ms
        books.read_uj += event.uj
        if not event.occupants:
            assert body["overhead_uj"] == event.uj and body["shares"] == []
            books.overhead_uj += event.uj
            books.unattended_uj += event.uj
            return
        objections.to_split(event, body)
        for share in body["shares"]:
            entry = books.claims[share["claim"]]
            assert entry.was_admitted and share.get("late", False) == (entry.state == "ended")
            if entry.state == "ended":
                books.late(entry, share["uj"])
                continue
            entry.metered_uj += share["uj"]
            grades = [one for one in (entry.metered_grade, body["grade"]) if one is not None]
            entry.metered_grade = min(grades, key=lambda grade: GRADE_RANK[grade])

    # --- after each event ---

    @property
    def starves_after(self) -> int:
        after: int = self.policy.get("reserve_after_ms", HOUR_MS)
        return after

    def check_deadlines(self) -> None:
        """Nothing is overdue once an event has been judged."""
        now_ms = self.now_ms
        for entry in self.books.claims.values():
            match entry.state:
                case "held" if entry.commit_within_ms:
                    assert entry.admitted_ms + entry.commit_within_ms > now_ms
                case "running" if entry.lease_ms:
                    assert entry.lease_from_ms + entry.lease_ms > now_ms
                case "waiting":
                    assert entry.wait_until_ms is None or entry.wait_until_ms > now_ms
                    due_ms = entry.submitted_ms + self.starves_after
                    # A new policy says when from the next event on: deadlines come first.
                    if self.starves_after and not isinstance(self.event, PolicySet):
                        assert entry.starved or due_ms > now_ms

    def check_victims(self) -> None:
        """Whoever is being reclaimed lives, and is so for a claim that waits."""
        for entry in self.books.entries:
            if entry.victim_of is not None:
                assert entry.is_live
                assert self.books.claims[entry.victim_of].state == "waiting"

    def compare(self, state: PoolState) -> None:
        """The kernel's figures are the books' figures."""
        books = self.books
        found = {
            node.id: dict(zip(state.resources, node.usage, strict=True))
            for node in (state.tree.root, *state.tree.nodes.values())
        }
        assert found == books.usage()
        assert state.overhead_uj == books.overhead_uj
        spent = {one.id: one.spent_uj for one in state.tree.nodes.values() if one.spent_uj}
        assert spent == {leaf: uj for leaf, uj in books.spent_uj.items() if uj}
        assert list(state.waiting) == [entry.id for entry in books.waiting]
        for entry in (*books.live, *books.waiting):
            claim = state.claims[entry.id]
            kept = (str(claim.state), claim.reason, claim.completed, claim.reclaimed_for)
            assert kept == (entry.state, entry.reason, entry.completed, entry.victim_of)
            metered = (claim.metered_uj, claim.metered_grade, claim.charged_uj)
            assert metered == (entry.metered_uj, entry.metered_grade, entry.charged_uj)
