"""One pass over the waiting claims (profile §4.3): in the order of the key, until nothing fits.

Not here: whether a claim fits (`fit`), whom it reclaims (`preemption`), whom a guard holds
(`guards`).

1. Victims of claimants that are no longer inside their guarantee are spared; guards begin anew.
2. Guards of step 1 are set; then rounds, until one admits nothing; then `guard.off` where due.
3. A round goes through its claims in four stretches, which the key keeps apart: starved claims of
   tier 0, the others of tier 0, starved claims of tier 1, the others of tier 1.
4. What is left out provably cannot fit and has nothing to say: a shape that failed while nothing
   has changed since, and, in the last stretch, a subtree whose least demand exceeds a bound.

Inside a round usage only grows, so keys only grow: a popped key that has grown goes back.
Invariant: the decisions are those of the profile's plain loop (tests hold it against one).
Profile: §4.3.
"""

from __future__ import annotations

import heapq

from schemas.records import ROOT, Kind, Reason
from streams.kernel import projection, queue
from streams.kernel.bounds import awaits_quietly, hopeful, hopeless
from streams.kernel.claims import Claim
from streams.kernel.fit import Failure, first_failure
from streams.kernel.guards import can_help, holder
from streams.kernel.preemption import reclaim, reclaimable
from streams.kernel.queue import Place, Shape
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.tree import Node
from streams.kernel.usage import ratio

_PathKey = tuple[tuple[int, str], ...]
_STEP_1 = frozenset(
    {
        Reason.CONCURRENCY,
        Reason.LIMIT,
        Reason.GUESS_CANNOT_BORROW,
        Reason.UNPREEMPTIBLE_CANNOT_BORROW,
        Reason.BORROWING_OFF,
    }
)
_STEP_2 = frozenset({Reason.SHARE, Reason.CAPACITY, Reason.EARMARKED})
_LAST: Place = (2**200, 2**200)


def run_pass(run: Run) -> None:
    """Run one pass."""
    state = run.state
    if not state.waiting and not state.guards:
        return
    for claimant in sorted(state.claimants):
        if projection.borrows(state.claims[claimant]):
            run.spare(claimant)
    if state.active:
        state.active.clear()
        projection.stale_everywhere(state)
    state.version += 1
    _guards_before_the_rounds(run)
    while _round(run):
        pass
    for scope in sorted(state.guards):
        if scope not in state.active:
            run.emit(Kind.GUARD_OFF, {"scope": scope})


def _set_guard(run: Run, scope: str, claim: Claim) -> None:
    """Let a claim guard a scope, if no guard stands there yet."""
    state = run.state
    if scope in state.active:
        return
    state.active[scope] = claim.id
    state.version += 1
    projection.stale_everywhere(state)
    if state.guards.get(scope) != claim.id:
        run.emit(Kind.GUARD_ON, {"for": claim.id, "scope": scope})


def _starved_shapes(state: PoolState) -> list[Shape]:
    return [
        shape for leaf in state.starved_leaves for shape in leaf.queue.values() if shape.starved
    ]


def _guards_before_the_rounds(run: Run) -> None:
    """Step 1. The first of a shape speaks for it: the others would find the scope taken."""
    state = run.state
    if not state.starved_leaves:
        return
    for shape in sorted(_starved_shapes(state), key=lambda shape: shape.entries[0][1]):
        claim = shape.entries[0][2]
        borrows = projection.borrows(claim)
        if holder(state, claim, borrows=borrows) is not None:
            continue
        failure = first_failure(state, claim)
        if failure is None or failure.reason not in _STEP_1 or failure.position == state.uj:
            continue
        if borrows or failure.reason is not Reason.LIMIT or failure.node is claim.leaf:
            _set_guard(run, failure.node.id, claim)


def _round(run: Run) -> bool:
    """One round; True if it admitted somebody."""
    state = run.state
    state.rounds += 1
    before = state.admissions
    if state.starved_leaves:
        _starved_stretch(run, tier_1=False)
    _tier_0_stretch(run)
    if state.starved_leaves:
        _starved_stretch(run, tier_1=True)
    if ROOT not in state.active:
        heaps: dict[Node, list[tuple[int, str, Node]]] = {}
        while state.tree.root.waiting and _descend(run, state.tree.root, heaps):
            pass
    return state.admissions > before


def _attempt(run: Run, claim: Claim) -> None:
    """Try one claim: admit it, or let it plan and guard."""
    state = run.state
    claim.tried = state.rounds
    borrows = projection.borrows(claim)
    if holder(state, claim, borrows=borrows) is not None:
        return
    failure = first_failure(state, claim)
    if failure is None:
        run.admit(claim)
        return
    may_reclaim = not borrows and reclaimable(claim, failure)
    if may_reclaim:
        reclaim(run, claim, failure)
    if claim.starved and failure.position != state.uj and ROOT not in state.active:
        in_vain = failure.reason in _STEP_2 or (may_reclaim and claim.awaiting)
        if in_vain and can_help(state, claim):
            _set_guard(run, ROOT, claim)


def _starved_stretch(run: Run, *, tier_1: bool) -> None:
    """The starved claims of one tier, by arrival."""
    state = run.state
    heap = [
        (entry[1], shape)
        for shape in _starved_shapes(state)
        if (entry := shape.next_untried(state.rounds)) is not None
    ]
    heapq.heapify(heap)
    parked: list[Shape] = []
    while heap:
        arrival, shape = heapq.heappop(heap)
        entry = shape.next_untried(state.rounds)
        if entry is None:
            continue
        if entry[1] != arrival:
            heapq.heappush(heap, (entry[1], shape))
            continue
        claim = entry[2]
        if not tier_1 and projection.borrows(claim):
            continue
        version = state.version
        _attempt(run, claim)
        if state.version == version and not _has_owner(state, shape):
            parked.append(shape)
            continue
        for other in (*parked, shape):
            other.mark(state.rounds, (0, arrival))
            follower = other.next_untried(state.rounds)
            if follower is not None:
                heapq.heappush(heap, (follower[1], other))
        parked = []
    for shape in parked:
        shape.mark(state.rounds, _LAST)


def _has_owner(state: PoolState, shape: Shape) -> bool:
    """Whether a guard's claim is in the shape: it alone is not held by its own guard."""
    for owner in state.active.values():
        claim = state.claims[owner]
        if claim.leaf is shape.leaf and queue.shape_key(claim) == shape.key:
            return True
    return False


def _tier_0_stretch(run: Run) -> None:
    """The claims inside their guarantee, leaf by leaf in the order of the paths' ratios."""
    state = run.state
    _refresh_tiers(state)
    if not state.tier0_leaves:
        return
    projection.refresh(state)
    if all(awaits_quietly(state, leaf) for leaf in state.tier0_leaves):
        for leaf in state.tier0_leaves:
            _mark_tier_0(state, leaf)
        return
    heap = [(_path_key(state, leaf), leaf.id, leaf) for leaf in state.tier0_leaves]
    heapq.heapify(heap)
    while heap:
        key, _, leaf = heapq.heappop(heap)
        fresh = _path_key(state, leaf)
        if fresh == key:
            projection.refresh(state)
            if awaits_quietly(state, leaf):
                _mark_tier_0(state, leaf)
                continue
        if fresh != key or _leaf_trials(run, leaf, tier_1=False):
            heapq.heappush(heap, (_path_key(state, leaf), leaf.id, leaf))


def _mark_tier_0(state: PoolState, leaf: Node) -> None:
    for shape in leaf.queue.values():
        if not shape.starved and not shape.borrows():
            shape.mark(state.rounds, _LAST)


def _path_key(state: PoolState, leaf: Node) -> _PathKey:
    return tuple((ratio(node, state.capacity), node.id) for node in reversed(leaf.path))


def _refresh_tiers(state: PoolState) -> None:
    """Find anew, where usage or the queue changed, which leaves have claims of tier 0 waiting."""
    for leaf in state.stale_tiers:
        if any(not shape.starved and not shape.borrows() for shape in leaf.queue.values()):
            state.tier0_leaves[leaf] = None
        else:
            state.tier0_leaves.pop(leaf, None)
    state.stale_tiers = {}


def _leaf_trials(run: Run, leaf: Node, *, tier_1: bool) -> bool:
    """Try a leaf's claims of one tier, none starved, in order; True once one is admitted."""
    state = run.state
    parked: list[Shape] = []
    while True:
        best: tuple[Place, Claim, Shape] | None = None
        for shape in leaf.queue.values():
            if shape.starved or shape in parked or shape.borrows() != tier_1:
                continue
            entry = shape.next_untried(state.rounds)
            if entry is not None and (best is None or (entry[0], entry[1]) < best[0]):
                best = ((entry[0], entry[1]), entry[2], shape)
        if best is None:
            break
        place, claim, shape = best
        version, admissions = state.version, state.admissions
        _attempt(run, claim)
        if state.version == version:
            parked.append(shape)
            continue
        for other in (*parked, shape):
            other.mark(state.rounds, place)
        parked = []
        if state.admissions > admissions:
            return True
    for shape in parked:
        shape.mark(state.rounds, _LAST)
    return False


def _descend(run: Run, node: Node, heaps: dict[Node, list[tuple[int, str, Node]]]) -> bool:
    """Try the claims of tier 1 below a node, smallest ratio first; True once one is admitted.

    The key compares paths level by level, so that all claims below one child come together.
    """
    state = run.state
    if node.is_leaf:
        return _leaf_trials(run, node, tier_1=True)
    heap = heaps.get(node)
    if heap is None:
        heap = [(ratio(one, state.capacity), one.id, one) for one in hopeful(state, node)]
        heapq.heapify(heap)
        heaps[node] = heap
    while heap:
        key, child_id, child = heap[0]
        fresh = ratio(child, state.capacity)
        if fresh != key:
            heapq.heapreplace(heap, (fresh, child_id, child))
            continue
        if child.waiting and not hopeless(state, child) and _descend(run, child, heaps):
            return True
        heapq.heappop(heap)
    return False


def why(state: PoolState, claim: Claim) -> Failure | None:
    """Why a waiting claim does not start now (computed, not recorded); None: the next pass may."""
    borrows = projection.borrows(claim)
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
