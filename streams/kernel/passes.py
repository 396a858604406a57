"""One pass over the waiting claims (profile §4.3): in the order of the key, until nothing fits.

Not here: whether a claim fits (`fit`), whom it reclaims (`preemption`), whom a guard holds
(`guards`).

1. Victims of claimants that are no longer inside their guarantee are spared; guards begin anew.
2. Guards of step 1 are set; then rounds, until one admits nothing; then `guard.off` where due.
3. A round goes through its claims in four stretches, which the key keeps apart: starved claims of
   tier 0, the others of tier 0, starved claims of tier 1, the others of tier 1.
4. What is left out provably cannot fit and has nothing to say: a shape that failed while nothing
   has changed since, a subtree whose least demand exceeds a bound, and whom a guard holds.

Inside a round usage only grows, so keys only grow: a popped key that has grown goes back.
Invariant: the decisions are those of the profile's plain loop (tests hold it against one).
Profile: §4.3.
"""

from __future__ import annotations

import heapq

from schemas.records import ROOT, Kind, Reason
from streams.kernel import projection, starved
from streams.kernel.bounds import (
    all_borrow,
    allowance,
    awaits_quietly,
    hopeful,
    hopeless,
)
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import Failure, first_failure
from streams.kernel.guards import holder
from streams.kernel.preemption import reclaimable
from streams.kernel.queue import Place, Shape
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.tree import Node
from streams.kernel.trials import attempt
from streams.kernel.usage import ratio

_PathKey = tuple[tuple[int, str], ...]
_Child = tuple[int, str, Node]
"""(ratio, id, child): its place among its siblings."""
_LAST: Place = (2**200, 2**200)


def run_pass(run: Run) -> None:
    """Run one pass."""
    state = run.state
    if not state.waiting and not state.guards:
        return
    for claimant in sorted(state.claimants):
        if would_borrow(state.claims[claimant]):
            run.spare(claimant)
    if state.active:
        state.active.clear()
        projection.stale_everywhere(state)
    state.version += 1
    starved.guards_before_the_rounds(run)
    while _round(run):
        pass
    for scope in sorted(state.guards):
        if scope not in state.active:
            run.emit(Kind.GUARD_OFF, {"scope": scope})


def _round(run: Run) -> bool:
    """One round; True if it admitted somebody."""
    state = run.state
    state.rounds += 1
    before = state.admissions
    _refresh_tiers(state)
    if state.tier0_starved:
        starved.stretch_of_tier_0(run)
    _tier_0_stretch(run)
    if state.starved_leaves:
        starved.stretch_of_tier_1(run)
    if ROOT not in state.active:
        levels: dict[Node, _Level] = {}
        while state.tree.root.waiting and _descend(run, state.tree.root, levels):
            pass
    return state.admissions > before


def _tier_0_stretch(run: Run) -> None:
    """The claims inside their guarantee, leaf by leaf in the order of the paths' ratios."""
    state = run.state
    if not state.tier0_leaves:
        return
    projection.refresh(state)
    if all(awaits_quietly(state, leaf) for leaf in state.tier0_leaves):
        for leaf in state.tier0_leaves:
            _mark(state, leaf, _LAST, tier_1=False)
        return
    heap = [(_path_key(state, leaf), leaf.id, leaf) for leaf in state.tier0_leaves]
    heapq.heapify(heap)
    while heap:
        key, _, leaf = heapq.heappop(heap)
        fresh = _path_key(state, leaf)
        if fresh == key:
            projection.refresh(state)
            if awaits_quietly(state, leaf):
                _mark(state, leaf, _LAST, tier_1=False)
                continue
        if fresh != key or _tier_0_trials(run, leaf):
            heapq.heappush(heap, (_path_key(state, leaf), leaf.id, leaf))


def _path_key(state: PoolState, leaf: Node) -> _PathKey:
    return tuple((ratio(node, state.capacity), node.id) for node in reversed(leaf.path))


def _refresh_tiers(state: PoolState) -> None:
    """Find anew, where usage or the queue changed, which leaves have claims of tier 0 waiting."""
    for leaf in state.stale_tiers:
        some = leaf.waiting and not all_borrow(leaf)
        for leaves, there in (
            (state.tier0_starved, some and not all(would_borrow(one) for _, one in leaf.starved)),
            (state.tier0_leaves, some and not all(one.borrows() for one in leaf.queue.values())),
        ):
            if there:
                leaves[leaf] = None
            else:
                leaves.pop(leaf, None)
    state.stale_tiers = {}


def _tier_0_trials(run: Run, leaf: Node) -> bool:
    """Try a leaf's claims of tier 0, none starved, in order; True once one is admitted.

    What fails while nothing changes fails for its whole shape.
    """
    state = run.state
    while True:
        version, admissions = state.version, state.admissions
        shapes = [shape for shape in leaf.queue.values() if not shape.borrows()]
        for place, claim, _ in _heads(state, leaf, tier_1=False):
            attempt(run, claim)
            if state.version != version:
                for shape in shapes:  # by an admission some may now be of tier 1
                    shape.mark(state.rounds, place)
                break
        else:
            _mark(state, leaf, _LAST, tier_1=False)
            return False
        if state.admissions > admissions:
            return True


def _tier_1_trials(run: Run, leaf: Node) -> bool:
    """Try a leaf's claims of tier 1, none starved, in order; True once one is admitted.

    In vain they change nothing, so those that exceed a bound are left out, and those that may not
    borrow at all.
    """
    state = run.state
    admissions = state.admissions
    bounds = allowance(state, leaf)
    for place, claim, shape in _heads(state, leaf, tier_1=True):
        if any(shape.demand[at] > bounds[at] for at in shape.asks):
            continue
        attempt(run, claim)
        if state.admissions > admissions:
            _mark(state, leaf, place, tier_1=True)
            return True
    return False


def _heads(state: PoolState, leaf: Node, *, tier_1: bool) -> list[tuple[Place, Claim, Shape]]:
    """The first untried claim of each shape of that tier that may start, none starved, in order."""
    heads = []
    for shape in leaf.queue.values():
        if (shape.may_borrow or not tier_1) and shape.borrows() == tier_1:
            entry = shape.next_untried(state.rounds)
            if entry is not None:
                heads.append(((entry[0], entry[1]), entry[2], shape))
    heads.sort(key=_place)
    return heads


def _place(head: tuple[Place, Claim, Shape]) -> Place:
    return head[0]


def _mark(state: PoolState, leaf: Node, place: Place, *, tier_1: bool) -> None:
    """Whoever stands up to this place in the leaf, of that tier and not starved, was tried."""
    for shape in leaf.queue.values():
        if shape.borrows() == tier_1:
            shape.mark(state.rounds, place)


class _Level:
    """The children of one node that are still to be looked at in a round, smallest ratio first.

    Only those that may fit stand in the heap. When something was admitted it is made anew: of the
    others, those whose turn has passed are the ones up to the place of the last admission.
    """

    __slots__ = ("heap", "last", "passed", "version")

    def __init__(self) -> None:
        self.heap: list[_Child] = []
        self.version = -1
        self.passed: tuple[int, str] = (-1, "")
        self.last: Node | None = None

    def fill(self, state: PoolState, node: Node) -> None:
        """Take the children that may fit now and have not had their turn."""
        self.heap = [
            child
            for one in hopeful(state, node)
            if (child := (ratio(one, state.capacity), one.id, one))[:2] > self.passed
            or one is self.last
        ]
        heapq.heapify(self.heap)
        self.version = state.version


def _descend(run: Run, node: Node, levels: dict[Node, _Level]) -> bool:
    """Try the claims of tier 1 below a node, smallest ratio first; True once one is admitted.

    The key compares paths level by level, so that all claims below one child come together.
    """
    state = run.state
    if node.is_leaf:
        return _tier_1_trials(run, node)
    level = levels.get(node)
    if level is None:
        level = levels[node] = _Level()
    if level.version != state.version:
        level.fill(state, node)
    while level.heap:
        key, child_id, child = heapq.heappop(level.heap)
        if not hopeless(state, child) and _descend(run, child, levels):
            level.passed, level.last = (key, child_id), child
            return True
    return False


def why(state: PoolState, claim: Claim) -> Failure | None:
    """Why a waiting claim does not start now (computed, not recorded); None: the next pass may."""
    borrows = would_borrow(claim)
    failure = first_failure(state, claim)
    if failure is None:
        scope = holder(state, claim, borrows=borrows)
        if scope is None:
            return None
        node = state.tree.nodes.get(scope, state.tree.root)
        return Failure(Reason.STARVED_AHEAD, node)
    if claim.awaiting and not borrows and reclaimable(claim, failure):
        return Failure(Reason.AWAITING_RECLAIM, failure.node, failure.position, failure.short)
    return failure
