"""Starved claims in a pass (profile §4.3): the guards before its rounds, their turns in a round.

Not here: the other claims' turns (`passes`), what a trial does (`trials`), whom a guard holds
(`guards`).

1. Leaves take turns, by the arrival of the first of their claims that nobody is sure to hold: where
   a guard on its path lets one claim through, a leaf's others are not looked at.
2. When a guard of a scope above its claim's leaf ends, other leaves may begin anew; they go on
   behind the claim whose turn it was.
3. Whoever was held in the stretch of tier 0 counts as tried in that of tier 1 too.

Invariant: whom this leaves out is held at its turn, or fails in joules where that says nothing.
Profile: §4.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from schemas.records import Reason
from streams.kernel.bounds import lacks_joules
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import first_failure
from streams.kernel.guards import holder, only
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.tree import Node
from streams.kernel.trials import attempt, set_guard

_First = Callable[[Node, int], Claim | None]
"""Of a leaf, the first claim behind an arrival whose turn it may be."""
_BEFORE = -1
"""Earlier than any arrival."""
_STEP_1 = frozenset(
    {
        Reason.CONCURRENCY,
        Reason.LIMIT,
        Reason.GUESS_CANNOT_BORROW,
        Reason.UNPREEMPTIBLE_CANNOT_BORROW,
        Reason.BORROWING_OFF,
    }
)


def guards_before_the_rounds(run: Run) -> None:
    """Step 1: the starved claims that fail for what borrowers above them cannot give back.

    Where nothing on the path can fail so, and the claim may borrow, there is nothing to judge.
    """
    state = run.state

    def first(leaf: Node, after: int) -> Claim | None:
        if state.active and only(state, leaf, borrows=False) is not None:
            return None
        entries = leaf.starved if leaf.constrained else leaf.starved_bound
        index = bisect_left(entries, (after + 1,))
        return entries[index][1] if index < len(entries) else None

    for claim in _in_turn(state.starved_leaves, first, _BEFORE):
        borrows = would_borrow(claim)
        if holder(state, claim, borrows=borrows) is not None:
            continue
        failure = first_failure(state, claim)
        if failure is None or failure.reason not in _STEP_1 or failure.position == state.uj:
            continue
        if borrows or failure.reason is not Reason.LIMIT or failure.node is claim.leaf:
            set_guard(run, failure.node.id, claim)


def stretch_of_tier_0(run: Run) -> None:
    """The turns of the starved claims inside their guarantee."""
    state = run.state

    def first(leaf: Node, after: int) -> Claim | None:
        owner_id = only(state, leaf, borrows=False) if state.active else None
        if owner_id is not None:
            return _later(state.claims[owner_id], leaf, after)
        for index in range(bisect_left(leaf.starved, (after + 1,)), len(leaf.starved)):
            claim = leaf.starved[index][1]
            if not would_borrow(claim):
                return claim
        return None

    def turn(claim: Claim) -> None:
        if would_borrow(claim):
            return
        freed = _freed_by(state, claim, hosts)
        if freed and first_failure(state, claim) is None:
            _count_as_tried(state, freed, before=claim.arrival)
        attempt(run, claim)

    after: int | None = _BEFORE
    while after is not None:
        hosts = _hosts(state)
        after = _turns(run, state.tier0_starved, first, after, turn, hosts)


def stretch_of_tier_1(run: Run) -> None:
    """The turns of the other starved claims.

    A claim whose leaf cannot have the least joules that wait there fails in joules, and so neither
    starts nor guards.
    """
    state = run.state

    def first(leaf: Node, after: int) -> Claim | None:
        begin = bisect_left(leaf.starved, (after + 1,))
        owner_id = only(state, leaf, borrows=True) if state.active else None
        if owner_id is not None and _later(state.claims[owner_id], leaf, after) is None:
            return None
        if begin == len(leaf.starved) or lacks_joules(state, leaf):
            return None
        if owner_id is not None:
            return state.claims[owner_id]
        for index in range(begin, len(leaf.starved)):
            claim = leaf.starved[index][1]
            if claim.tried != state.rounds:
                return claim
        return None

    def turn(claim: Claim) -> None:
        if claim.tried != state.rounds:
            attempt(run, claim)

    after: int | None = _BEFORE
    while after is not None:
        after = _turns(run, state.starved_leaves, first, after, turn, _hosts(state))


def _turns(
    run: Run,
    leaves: Iterable[Node],
    first: _First,
    after: int,
    turn: Callable[[Claim], None],
    hosts: set[Node],
) -> int | None:
    """Give the claims behind an arrival their turns; where to begin anew, or None at the end."""
    state = run.state
    for claim in _in_turn(leaves, first, after):
        admissions = state.admissions
        turn(claim)
        if state.admissions > admissions and claim.leaf in hosts:
            return claim.arrival
    return None


def _in_turn(leaves: Iterable[Node], first: _First, after: int) -> Iterator[Claim]:
    """Claims of several leaves by arrival; a leaf's next is found when its last had its turn."""
    heap = [(claim.arrival, claim) for leaf in leaves if (claim := first(leaf, after)) is not None]
    heapify(heap)
    while heap:
        arrival, claim = heappop(heap)
        leaf = claim.leaf
        yield claim
        following = first(leaf, arrival)
        if following is not None:
            heappush(heap, (following.arrival, following))


def _later(owner: Claim, leaf: Node, after: int) -> Claim | None:
    """The claim that a guard lets through, if it stands in this leaf and its turn is to come."""
    return owner if owner.leaf is leaf and owner.arrival > after else None


def _hosts(state: PoolState) -> set[Node]:
    """The leaves whose claims guard a scope above: an admission there may free other leaves."""
    owners = ((scope, state.claims[owner_id]) for scope, owner_id in state.active.items())
    return {owner.leaf for scope, owner in owners if scope != owner.leaf_id}


def _freed_by(state: PoolState, claim: Claim, hosts: set[Node]) -> Iterable[Node]:
    """The leaves where others may be free of a guard once the claim is admitted."""
    if claim.leaf in hosts:
        return state.tier0_starved
    return (claim.leaf,) if state.active.get(claim.leaf_id) == claim.id else ()


def _count_as_tried(state: PoolState, leaves: Iterable[Node], *, before: int) -> None:
    """Whoever is inside its guarantee and arrived before had its turn in this round."""
    for leaf in leaves:
        for arrival, claim in leaf.starved:
            if arrival >= before:
                break
            if not would_borrow(claim):
                claim.tried = state.rounds
