"""What a decision does to the state: one function a kind. Replay applies, and never re-decides.

Not here: why it was decided (`decide` and the modules of its sections).

1. `advance` applies one decision of the running event; `apply` is the same for a receipt read from
   a ledger, and says `ReplayError` where a body does not fit the state.
2. What a body does not say (a reading's window, a claim's terms) comes from the event that the
   first receipt carries.
3. The first receipt that answers an event (settled deadlines come before it) is remembered for
   repeats.

Invariant: no state that a later decision depends on, but `now_ms`, changes elsewhere.
Profile: §2.3, §2.5, §2.6, §2.8, §3, §4.3, §5.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from schemas.records import (
    UJ,
    Body,
    ClaimState,
    ClaimSubmitted,
    Decision,
    Event,
    Kind,
    Malformed,
    MeterRead,
    PolicySet,
    PoolOpened,
    Reason,
    TreeSet,
    Value,
    worst,
)
from streams.kernel import projection, queue, relink, repeats, usage
from streams.kernel.claims import Claim, DeviceUse
from streams.kernel.policy import policy_of
from streams.kernel.state import History, PoolState

EXPIRY, LAPSE, WAIT = 0, 1, 2
CONTENDING = frozenset({Reason.SHARE, Reason.CAPACITY, Reason.EARMARKED, Reason.STARVED_AHEAD})


class ReplayError(ValueError):
    """A receipt's body does not fit the state that the receipts before it made."""


def apply(
    state: PoolState, decision: Decision, event: Event | Malformed | None, now_ms: int
) -> None:
    """Apply one receipt. `event` is given with an event's first receipt, None with the others."""
    if event is not None:
        begin(state, event, now_ms)
    try:
        advance(state, decision)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise ReplayError(f"{decision.kind}: {error!r}") from error


def begin(state: PoolState, event: Event | Malformed, now_ms: int) -> None:
    """A new event is being answered."""
    state.event = event
    state.answer_seq = None
    if now_ms > state.now_ms:
        state.now_ms = now_ms


def advance(state: PoolState, decision: Decision) -> None:
    """Apply one decision of the event that is being answered."""
    kind, body = decision.kind, decision.body
    if state.answer_seq is None and repeats.is_answer(state, kind, body):
        state.answer_seq = state.seq_next
    effect = _EFFECTS.get(kind)
    if effect is not None:
        effect(state, body)
    if state.answer_seq == state.seq_next:
        repeats.remember(state, kind, body)
    state.seq_next += 1
    state.version += 1


def _claim(state: PoolState, body: Body) -> Claim:
    return state.claims[_text(body["claim"])]


def _text(value: Value) -> str:
    assert isinstance(value, str)
    return value


def _int(value: Value) -> int:
    assert type(value) is int
    return value


def change_usage(state: PoolState, claim: Claim, position: int, amount: int) -> None:
    """Change the usage of a claim's leaf and of all above it."""
    if amount:
        usage.add(claim.leaf, position, amount)
        touched(state, claim.leaf)


def touched(state: PoolState, leaf: Any) -> None:
    """A leaf's usage changed: what is lazily kept about it is stale."""
    if leaf.waiting:
        state.stale_tiers[leaf] = None
    projection.stale(state, leaf)


# --- the pool ---------------------------------------------------------------------------------


def _pool_opened(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, PoolOpened) and not state.is_open
    state.is_open = True
    state.resources = event.resources
    state.positions = {name: at for at, name in enumerate(event.resources)}
    state.capacity = tuple(event.capacity.get(name, 0) for name in event.resources)
    state.policy = policy_of(event.policy)
    relink.plant(state, event.tree)


def _tree_set(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, TreeSet)
    relink.replant(state, event.tree)


def _policy_set(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, PolicySet)
    before = state.policy.aging_ms
    state.policy = policy_of(event.policy)
    if state.policy.aging_ms != before:
        relink.requeue(state, before)


def _period_opened(state: PoolState, body: Body) -> None:
    """Spending starts anew; a claim that runs on has been charged what its meter showed."""
    last = state.uj
    for claim in state.claims.values():
        if claim.is_live:
            held = claim.hold_uj
            claim.charged_uj = claim.metered_uj
            usage.add(claim.leaf, last, claim.hold_uj - held)
    for leaf in state.tree.nodes.values():
        if leaf.is_leaf:
            usage.add(leaf, last, -leaf.spent_uj)
            leaf.spent_uj = 0
            touched(state, leaf)
    state.period_index += 1
    repeats.forget(state)


def _pool_archived(state: PoolState, body: Body) -> None:
    state.archived = True


# --- claims -----------------------------------------------------------------------------------


def new_claim(state: PoolState, event: ClaimSubmitted, reserved_uj: int, grade: str) -> Claim:
    """A submitted claim as the pool would keep it; it is not in the state yet."""
    leaf = state.tree.leaf(event.leaf)
    assert leaf is not None
    amounts = [event.demand.get(name, 0) for name in state.resources]
    amounts[-1] = reserved_uj
    claim = Claim(event.claim, leaf, tuple(amounts), state.arrivals)
    claim.demand_map = dict(zip(state.resources, amounts, strict=True))
    claim.grade = grade
    claim.guess = grade == "Estimator"
    claim.class_ = event.class_
    claim.unit = event.unit
    claim.priority = event.priority
    claim.preemptible = event.preemptible
    claim.commit_within_ms = event.commit_within_ms
    claim.lease_ms = event.lease_ms
    claim.submitted_ms = state.now_ms
    waits = [bound for bound in (event.max_wait_ms, state.policy.max_wait_ms) if bound > 0]
    claim.wait_until_ms = state.now_ms + min(waits) if waits else None
    claim.content = event.content
    return claim


def _arrive(state: PoolState, body: Body) -> Claim:
    """Take the claim that the running event submits into the state."""
    event = state.event
    assert isinstance(event, ClaimSubmitted) and event.claim == body["claim"]
    demand = body["demand"]
    assert isinstance(demand, dict)
    claim = new_claim(state, event, _int(demand[UJ]), _text(body["grade"]))
    assert claim.demand_map == demand
    assert state.answer_seq is not None
    claim.first_seq = state.answer_seq
    state.arrivals += 1
    state.claims[claim.id] = claim
    return claim


def _known(state: PoolState, body: Body) -> Claim | None:
    """The claim that a body names, if it waits; None if it arrives with this event."""
    claim = state.claims.get(_text(body["claim"]))
    assert claim is None or claim.state is ClaimState.WAITING
    return claim


def _admitted(state: PoolState, body: Body) -> None:
    claim = _known(state, body)
    if claim is None:
        claim = _arrive(state, body)
    else:
        leave_queue(state, claim)
    claim.state = ClaimState.HELD
    claim.admission = state.admissions
    state.admissions += 1
    claim.admitted_ms = claim.start_ms = state.now_ms
    state.live_count += 1
    relink.enter(claim)
    touched(state, claim.leaf)
    if claim.commit_within_ms > 0:
        when = state.now_ms + claim.commit_within_ms
        heapq.heappush(state.deadlines, (when, claim.id, EXPIRY))


def _waiting(state: PoolState, body: Body) -> None:
    claim = _known(state, body)
    if claim is None:
        claim = _arrive(state, body)
        state.waiting[claim.id] = claim
        if claim.wait_until_ms is not None:
            heapq.heappush(state.deadlines, (claim.wait_until_ms, claim.id, WAIT))
        heapq.heappush(state.starving, (claim.submitted_ms, claim.id))
        queue.count(claim.leaf, 1)
    else:
        queue.leave(claim, state.policy.aging_ms)
        set_contends(claim, contends=False)
    claim.reason = _text(body["reason"])
    if claim.reason == Reason.AWAITING_RECLAIM:
        claim.awaiting = True
        state.awaiting[claim.id] = claim
        claim.leaf.awaiting[claim.id] = claim
        projection.stale(state, claim.leaf)
    set_contends(claim, contends=claim.reason in CONTENDING and body.get("resource") != UJ)
    queue.join(claim, state.policy.aging_ms)
    state.stale_tiers[claim.leaf] = None


def set_contends(claim: Claim, *, contends: bool) -> None:
    """Let a waiting claim contend for what it asks for, or no longer (§4.2)."""
    if claim.contends != contends:
        claim.contends = contends
        usage.contend(claim.leaf, claim.asks, 1 if contends else -1)


def leave_queue(state: PoolState, claim: Claim) -> None:
    """A waiting claim leaves: its places, its guards, and whatever it awaited."""
    queue.leave(claim, state.policy.aging_ms)
    queue.count(claim.leaf, -1)
    set_contends(claim, contends=False)
    del state.waiting[claim.id]
    state.stale_tiers[claim.leaf] = None
    if claim.starved and not any(shape.starved for shape in claim.leaf.queue.values()):
        del state.starved_leaves[claim.leaf]
    if claim.awaiting:
        projection.count(claim, counts=False)
        del state.awaiting[claim.id]
        del claim.leaf.awaiting[claim.id]
        claim.awaiting = False
    scopes = [scope for scope, owner in state.active.items() if owner == claim.id]
    for scope in scopes:
        del state.active[scope]
    if scopes:
        projection.stale_everywhere(state)


def _refused(state: PoolState, body: Body) -> None:
    if body["reason"] == Reason.CLAIM_ID_REUSED:
        return
    claim = state.claims.get(_text(body["claim"]))
    if claim is not None and claim.state is ClaimState.WAITING:
        _end_waiting(state, claim)


def _cancelled(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.state is ClaimState.WAITING
    _end_waiting(state, claim)


def _end_waiting(state: PoolState, claim: Claim) -> None:
    leave_queue(state, claim)
    claim.state = ClaimState.ENDED
    claim.ended_period = state.period_index


def _committed(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.state is ClaimState.HELD
    claim.start_ms = state.now_ms
    _run(state, claim)


def _run(state: PoolState, claim: Claim) -> None:
    """The claim runs, and its lease starts anew."""
    claim.state = ClaimState.RUNNING
    claim.lease_from_ms = state.now_ms
    if claim.lease_ms > 0 and not claim.lapse_queued:
        claim.lapse_queued = True
        heapq.heappush(state.deadlines, (state.now_ms + claim.lease_ms, claim.id, LAPSE))


def _renewed(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.state in (ClaimState.RUNNING, ClaimState.UNCERTAIN)
    _run(state, claim)


def _progressed(state: PoolState, body: Body) -> None:
    _renewed(state, body)
    claim = _claim(state, body)
    claim.completed = _int(body["completed"])
    claim.leaf.victims = None


def _uncertain(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.state is ClaimState.RUNNING
    claim.state = ClaimState.UNCERTAIN


def _starved(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.state is ClaimState.WAITING
    queue.leave(claim, state.policy.aging_ms)
    claim.starved = True
    queue.join(claim, state.policy.aging_ms)
    state.starved_leaves[claim.leaf] = None
    state.stale_tiers[claim.leaf] = None


def _expired(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    _end_live(state, claim, claim.metered_uj)


def _settled(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    spent = body["spent"]
    assert isinstance(spent, dict)
    figure, grade = _int(spent["uj"]), _text(spent["grade"])
    event = state.event
    completed = getattr(event, "completed", None)
    if completed is not None:
        claim.completed = completed
    _end_live(state, claim, figure)
    if body["outcome"] == "completed" and claim.class_:
        observe(state, claim.class_, figure, grade)


def _end_live(state: PoolState, claim: Claim, figure_uj: int) -> None:
    """All returned; the figure replaces the hold."""
    assert claim.is_live
    if claim.reclaimed_for is not None:
        _unreclaim(state, claim)
    leaf, charge = claim.leaf, max(0, figure_uj - claim.charged_uj)
    for node in leaf.path:
        node.live -= 1
    for position, amount in enumerate((*claim.demand[:-1], claim.hold_uj - charge)):
        if amount:
            usage.add(leaf, position, -amount)
    leaf.spent_uj += charge
    touched(state, leaf)
    del leaf.live_claims[claim.id]
    leaf.victims = None
    state.live_count -= 1
    claim.state = ClaimState.ENDED
    claim.figure_uj = figure_uj
    claim.ended_period = state.period_index
    claim.devices = {}


def observe(state: PoolState, class_: str, figure_uj: int, grade: str) -> None:
    """One observation of a class (§2.6): a guess is counted, anything better is kept."""
    history = state.classes.setdefault(class_, History())
    if grade == "Estimator":
        history.guesses += 1
        return
    history.kept.append((figure_uj, grade))
    del history.kept[: -state.policy.history]


# --- preemption and guards --------------------------------------------------------------------


def _preempting(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.is_live and claim.reclaimed_for is None
    claimant = _text(body["for"])
    claim.reclaimed_for = claimant
    state.claimants.setdefault(claimant, {})[claim.id] = claim
    state.reclaiming += 1
    state.reclaiming_mdev += claim.demand[0]
    projection.free(claim, 1)


def _unreclaim(state: PoolState, claim: Claim) -> None:
    assert claim.reclaimed_for is not None
    victims = state.claimants[claim.reclaimed_for]
    del victims[claim.id]
    if not victims:
        del state.claimants[claim.reclaimed_for]
    claim.reclaimed_for = None
    state.reclaiming -= 1
    state.reclaiming_mdev -= claim.demand[0]
    projection.free(claim, -1)


def _spared(state: PoolState, body: Body) -> None:
    claim = _claim(state, body)
    assert claim.reclaimed_for == body["for"]
    _unreclaim(state, claim)


def _guard_on(state: PoolState, body: Body) -> None:
    scope, owner = _text(body["scope"]), _text(body["for"])
    state.guards[scope] = owner
    state.active[scope] = owner
    projection.stale_everywhere(state)


def _guard_off(state: PoolState, body: Body) -> None:
    scope = _text(body["scope"])
    del state.guards[scope]
    state.active.pop(scope, None)
    projection.stale_everywhere(state)


# --- meters -----------------------------------------------------------------------------------


def _split(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, MeterRead)
    state.devices[event.device] = event.to_ms
    shares = body["shares"]
    assert isinstance(shares, list)
    if not shares:
        state.overhead_uj += _int(body["overhead_uj"])
        return
    held = {occupant.claim: occupant.mdev for occupant in event.occupants}
    grade = _text(body["grade"])
    for share in shares:
        assert isinstance(share, dict)
        claim = _claim(state, share)
        amount = _int(share["uj"])
        if claim.state is ClaimState.ENDED:
            _late(state, claim, amount)
        else:
            _metered(state, claim, amount, grade)
            use = claim.devices.setdefault(event.device, DeviceUse())
            use.add((event.from_ms, event.to_ms, amount, grade), held[claim.id])


def _metered(state: PoolState, claim: Claim, amount: int, grade: str) -> None:
    held, freed = claim.hold_uj, claim.freed_uj
    claim.metered_uj += amount
    claim.leaf.victims = None
    before = claim.metered_grade
    claim.metered_grade = grade if before is None else worst(before, grade)
    change_usage(state, claim, state.uj, claim.hold_uj - held)
    if claim.reclaimed_for is not None:
        projection.refree_uj(claim, claim.freed_uj - freed)


def _late(state: PoolState, claim: Claim, amount: int) -> None:
    """Reality over the report: charge the growth of max(figure, metered), here or as overhead."""
    charged = max(claim.figure_uj, claim.metered_uj)
    claim.metered_uj += amount
    growth = max(claim.figure_uj, claim.metered_uj) - charged
    leaf = state.tree.leaf(claim.leaf_id)
    if leaf is None:
        state.overhead_uj += growth
    elif growth:
        leaf.spent_uj += growth
        usage.add(leaf, state.uj, growth)
        touched(state, leaf)


def _gap(state: PoolState, body: Body) -> None:
    event = state.event
    assert isinstance(event, MeterRead)
    state.devices[event.device] = event.to_ms
    for occupant in event.occupants:
        state.claims[occupant.claim].gap = True


_EFFECTS: dict[Kind, Callable[[PoolState, Body], None]] = {
    Kind.POOL_OPENED: _pool_opened,
    Kind.TREE_SET: _tree_set,
    Kind.POLICY_SET: _policy_set,
    Kind.PERIOD_OPENED: _period_opened,
    Kind.POOL_ARCHIVED: _pool_archived,
    Kind.CLAIM_ADMITTED: _admitted,
    Kind.CLAIM_WAITING: _waiting,
    Kind.CLAIM_REFUSED: _refused,
    Kind.CLAIM_COMMITTED: _committed,
    Kind.CLAIM_RENEWED: _renewed,
    Kind.CLAIM_CANCELLED: _cancelled,
    Kind.CLAIM_EXPIRED: _expired,
    Kind.CLAIM_UNCERTAIN: _uncertain,
    Kind.CLAIM_STARVED: _starved,
    Kind.CLAIM_PROGRESSED: _progressed,
    Kind.CLAIM_SETTLED: _settled,
    Kind.CLAIM_PREEMPTING: _preempting,
    Kind.CLAIM_SPARED: _spared,
    Kind.GUARD_ON: _guard_on,
    Kind.GUARD_OFF: _guard_off,
    Kind.METER_SPLIT: _split,
    Kind.METER_GAP: _gap,
}
