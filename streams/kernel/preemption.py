"""Preemption (profile §5): who is reclaimed for a claim that is inside its guarantee.

Not here: the order to stop, which is a receipt; the executor carries it out.

1. A waiting claim of tier 0 that fails for `capacity`, or for `limit` above its leaf, plans.
2. Victims are picked one by one: measured cost per completed unit first, the worst first; then
   lower priority, then later admission; every pick judges what is violated anew.
3. Newest pick first, every victim that the plan holds without is dropped.
4. `disruption_ppm` cuts the plan; one victim is always allowed while none is under way.

Invariant: no victim lies in a subtree that is within its guarantee in what it is taken for.
Profile: §5.
"""

from __future__ import annotations

from functools import cmp_to_key

from schemas.records import Body, Grade, Kind, Reason
from streams.kernel import projection
from streams.kernel.claims import Claim
from streams.kernel.fit import Failure
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.surplus import ceilings, occupied, tops
from streams.kernel.tree import Node

Violation = tuple[Node, int]
"""(the node whose limit or room is exceeded, resource position)."""
PARTS_PER_MILLION = 10**6


def reclaimable(claim: Claim, failure: Failure) -> bool:
    """Whether a tier 0 claim may reclaim what it fails for (§5.1)."""
    if failure.reason is Reason.CAPACITY:
        return True
    return failure.reason is Reason.LIMIT and failure.node is not claim.leaf


def reclaim(run: Run, claim: Claim, failure: Failure) -> None:
    """Plan for a tier 0 claim that failed; write the orders, and that it awaits a reclaim."""
    plan = make_plan(run.state, claim)
    if plan is None:
        return
    for victim in allowed(run.state, plan):
        run.emit(Kind.CLAIM_PREEMPTING, _order(victim, claim))
    if not claim.awaiting:
        run.wait(claim, Reason.AWAITING_RECLAIM, failure)


def _order(victim: Claim, claimant: Claim) -> Body:
    if measured(victim):
        return {
            "claim": victim.id,
            "for": claimant.id,
            "basis": "measured",
            "cost": {"uj": victim.metered_uj, "completed": victim.completed},
        }
    return {
        "claim": victim.id,
        "for": claimant.id,
        "basis": "declared",
        "priority": victim.priority,
    }


def allowed(state: PoolState, plan: list[Claim]) -> list[Claim]:
    """The part of a plan that `disruption_ppm` lets through now."""
    ppm = state.policy.disruption_ppm
    if ppm is None:
        return plan
    under_way, mdev = state.reclaiming, state.reclaiming_mdev
    cut: list[Claim] = []
    for victim in plan:
        mdev += victim.demand[0]
        if under_way and mdev * PARTS_PER_MILLION > ppm * state.capacity[0]:
            break
        under_way += 1
        cut.append(victim)
    return cut


def measured(claim: Claim) -> bool:
    """Whether the claim has a measured cost per completed unit (§5.2)."""
    return (
        claim.completed > 0
        and claim.metered_grade is not None
        and claim.metered_grade != Grade.ESTIMATOR
    )


def before(one: Claim, other: Claim) -> bool:
    """Whether `one` is reclaimed before `other` (§5.2)."""
    first, second = measured(one), measured(other)
    if first != second:
        return first
    if first:
        left, right = one.metered_uj * other.completed, other.metered_uj * one.completed
        if left != right:
            return left > right
    if one.priority != other.priority:
        return one.priority < other.priority
    return one.admission > other.admission


def _order_of(one: Claim, other: Claim) -> int:
    return -1 if before(one, other) else 1


def make_plan(state: PoolState, claim: Claim) -> list[Claim] | None:
    """The victims in the order of their picks; empty if what is under way suffices; None: none."""
    projection.refresh(state)
    leaf = claim.leaf
    for at in claim.asks:
        others = leaf.awaited[at] - (claim.demand[at] if claim.counted else 0)
        if leaf.usage[at] + others + claim.demand[at] > leaf.guarantee[at]:
            return None
    trial = _Trial(state, claim)
    violated = trial.violated()
    while violated:
        victim = trial.first_candidate(violated)
        if victim is None:
            return None
        trial.take(victim)
        violated = trial.violated()
    for victim in reversed(trial.picks):
        trial.put_back(victim)
        if trial.violated():
            trial.take(victim)
    return trial.picks


class _Trial:
    """Projected usage with the picks so far counted as being reclaimed."""

    def __init__(self, state: PoolState, claim: Claim) -> None:
        self.claim = claim
        self.path = claim.leaf.path
        self.own = claim.demand if claim.counted else (0,) * len(claim.demand)
        self.order: list[Claim] = []
        self.taken: dict[str, Claim] = {}
        self.freed: dict[Node, list[int]] = {}
        self.top = {
            at: tops(claim.leaf, ceilings(claim.leaf, at, is_uj=at == state.uj), at)
            for at in claim.asks
        }

    @property
    def picks(self) -> list[Claim]:
        """The victims taken, in the order of their picks."""
        return [victim for victim in self.order if victim.id in self.taken]

    def take(self, victim: Claim) -> None:
        """Count a live claim as being reclaimed."""
        if victim not in self.order:
            self.order.append(victim)
        self.taken[victim.id] = victim
        self._shift(victim, 1)

    def put_back(self, victim: Claim) -> None:
        """Count it as running on."""
        del self.taken[victim.id]
        self._shift(victim, -1)

    def _shift(self, victim: Claim, step: int) -> None:
        for node in victim.leaf.path:
            freed = self.freed.setdefault(node, [0] * len(victim.demand))
            for at, amount in enumerate((*victim.demand[:-1], victim.freed_uj)):
                freed[at] += step * amount

    def _freed(self, node: Node, at: int) -> int:
        freed = self.freed.get(node)
        return 0 if freed is None else freed[at]

    def _projected(self, node: Node, at: int) -> int:
        used = projection.projected(node, at) - self._freed(node, at)
        return used - self.own[at] if node in self.path else used

    def violated(self) -> list[Violation]:
        """What the claim would exceed, the plan so far being carried out (§5.1)."""
        found: list[Violation] = []
        demand = self.claim.demand
        for node in self.path[1:]:
            for at in self.claim.asks:
                limit = node.limit[at]
                if limit is not None and self._projected(node, at) + demand[at] > limit:
                    found.append((node, at))
        for index, node in enumerate(self.path):
            parent = node.parent
            assert parent is not None
            for at in self.claim.asks:
                if demand[at] > self._room(node, parent, at, self.top[at][index]):
                    found.append((parent, at))
        return found

    def _room(self, node: Node, parent: Node, at: int, top: int) -> int:
        room = projection.projected_room(node, top, at)
        room += self._freed(node, at) + self.own[at]
        for child in self.freed:
            if child.parent is parent and child is not node:
                expected = projection.projected(child, at)
                room += occupied(child, at, expected)
                room -= occupied(child, at, expected - self._freed(child, at))
        return room

    def first_candidate(self, violated: list[Violation]) -> Claim | None:
        """The first live claim in the order of §5.2 that some violation makes a candidate."""
        best: Claim | None = None
        for node, at in violated:
            below = -1 if node not in self.path else self.path.index(node)
            shared = self.path[below - 1] if below >= 0 else self.path[-1]
            best = self._better(best, node, at, shared)
            while not shared.is_leaf:
                above, shared = shared, self.path[self.path.index(shared) - 1]
                best = self._better(best, above, at, shared)
        return best

    def _better(self, best: Claim | None, node: Node, at: int, shared: Node | None) -> Claim | None:
        """The first of `best` and the candidates below a node's children that are over.

        `shared` is the child on the claimant's own path, below which the common node lies deeper.
        """
        for child in node.over[at]:
            if child is not shared and self._over(child, at):
                first = self._first_below(child, at)
                if first is not None and (best is None or before(first, best)):
                    best = first
        return best

    def _first_below(self, node: Node, at: int) -> Claim | None:
        """The first candidate below a node that is over; kept where no pick lies below."""
        picked = node in self.freed
        if not picked and node.candidates is not None and at in node.candidates:
            return node.candidates[at]
        first = self._first_of(node, at) if node.is_leaf else self._better(None, node, at, None)
        if not picked:
            if node.candidates is None:
                node.candidates = {}
            node.candidates[at] = first
        return first

    def _first_of(self, leaf: Node, at: int) -> Claim | None:
        """The leaf's first claim in the order of §5.2 that may be taken and frees something."""
        if leaf.victims is None:
            preemptible = [claim for claim in leaf.live_claims.values() if claim.preemptible]
            leaf.victims = sorted(preemptible, key=cmp_to_key(_order_of))
        last = len(self.claim.demand) - 1
        for claim in leaf.victims:
            if claim.reclaimed_for is None and claim.id not in self.taken:
                freed = claim.freed_uj if at == last else claim.demand[at]
                if freed > 0:
                    return claim
        return None

    def _over(self, node: Node, at: int) -> bool:
        """Over its guarantee without those being reclaimed."""
        used = node.usage[at] - node.freed[at] - self._freed(node, at)
        return used > node.guarantee[at]
