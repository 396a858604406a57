"""A pool's state as plain values and back: what a snapshot holds.

Not here: the snapshot's file, and whether the ledger bears it out (the steward).

1. Only what a decision depends on is written; sums along paths, queues and heaps are rebuilt.
2. Waiting claims are written in the order that they arrived, classes and devices by name.

Invariant: `from_plain(to_plain(state))` decides every event as `state` does.
Profile: §2, §3, §4, §5.
"""

from __future__ import annotations

import heapq
from typing import Any

from schemas import records
from schemas.records import ClaimState, Value
from streams.kernel import projection, relink, usage
from streams.kernel.claims import Claim, DeviceUse
from streams.kernel.policy import Idle, Policy
from streams.kernel.state import EXPIRY, LAPSE, WAIT, History, PoolState, Seen

FORM = 1
"""The form's version; a snapshot of another one is not read."""

_CLAIM_FIELDS = (
    "id",
    "leaf_id",
    "grade",
    "class_",
    "unit",
    "priority",
    "preemptible",
    "commit_within_ms",
    "lease_ms",
    "wait_until_ms",
    "submitted_ms",
    "arrival",
    "content",
    "first_seq",
    "reason",
    "contends",
    "awaiting",
    "starved",
    "admission",
    "admitted_ms",
    "start_ms",
    "lease_from_ms",
    "completed",
    "reclaimed_for",
    "metered_uj",
    "metered_grade",
    "charged_uj",
    "gap",
    "figure_uj",
    "ended_period",
)
_STATE_FIELDS = (
    "pool",
    "is_open",
    "archived",
    "seq_next",
    "now_ms",
    "period_index",
    "overhead_uj",
    "arrivals",
    "admissions",
)


def to_plain(state: PoolState) -> dict[str, Value]:
    """Text-keyed maps, lists, integers, text, flags and bytes."""
    plain: dict[str, Any] = {name: getattr(state, name) for name in _STATE_FIELDS}
    plain["form"] = FORM
    plain["resources"] = list(state.resources)
    plain["capacity"] = list(state.capacity)
    plain["tree"] = [_node_plain(node) for node in state.tree_spec]
    plain["policy"] = _policy_plain(state.policy)
    plain["spent_uj"] = {
        node.id: node.spent_uj for node in state.tree.nodes.values() if node.spent_uj
    }
    waiting = list(state.waiting.values())
    others = [claim for claim in state.claims.values() if claim.state is not ClaimState.WAITING]
    plain["claims"] = [_claim_plain(claim) for claim in (*others, *waiting)]
    plain["classes"] = {
        name: {"kept": [[uj, grade] for uj, grade in kept.kept], "guesses": kept.guesses}
        for name, kept in state.classes.items()
    }
    plain["devices"] = dict(state.devices)
    plain["seen"] = {key: [one.content, one.seq, one.period] for key, one in state.seen.items()}
    plain["guards"] = dict(state.guards)
    plain["active"] = dict(state.active)
    return plain


def _node_plain(node: records.Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "guarantee": dict(node.guarantee),
        "weight": node.weight,
        "limit": dict(node.limit),
        "borrow": node.borrow,
        "lend": node.lend if isinstance(node.lend, bool) else list(node.lend),
        "max_live": node.max_live,
        "max_waiting": node.max_waiting,
    }


def _policy_plain(policy: Policy) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: getattr(policy, name) for name in Policy.__slots__ if name != "idle"
    }
    idle = policy.idle
    plain["idle"] = (
        None if idle is None else {"threshold_uw": idle.threshold_uw, "window_ms": idle.window_ms}
    )
    return plain


def _claim_plain(claim: Claim) -> dict[str, Any]:
    plain: dict[str, Any] = {name: getattr(claim, name) for name in _CLAIM_FIELDS}
    plain["state"] = claim.state.value
    plain["demand"] = list(claim.demand)
    plain["devices"] = {
        name: {
            "mdev": use.mdev,
            "covered": [list(window) for window in use.covered],
            "run": [list(reading) for reading in use.run],
        }
        for name, use in claim.devices.items()
    }
    return plain


def from_plain(plain: dict[str, Any]) -> PoolState:
    """Rebuild a state; ValueError if the value has another form."""
    if plain.get("form") != FORM:
        raise ValueError(f"a snapshot of form {FORM} is needed")
    state = PoolState(plain["pool"])
    for name in _STATE_FIELDS:
        setattr(state, name, plain[name])
    state.resources = tuple(plain["resources"])
    state.capacity = tuple(plain["capacity"])
    idle = plain["policy"]["idle"]
    state.policy = Policy(**{**plain["policy"], "idle": Idle(**idle) if idle else None})
    relink.plant(state, [_node(node) for node in plain["tree"]])
    _restore_books(state, plain)
    for one in plain["claims"]:
        _restore_claim(state, one)
    relink.forget_marks(state)
    return state


def _node(plain: dict[str, Any]) -> records.Node:
    lend = plain["lend"]
    return records.Node(**{**plain, "lend": lend if isinstance(lend, bool) else tuple(lend)})


def _restore_books(state: PoolState, plain: dict[str, Any]) -> None:
    for leaf_id, amount in plain["spent_uj"].items():
        leaf = state.tree.nodes[leaf_id]
        leaf.spent_uj = amount
        usage.add(leaf, state.uj, amount)
    for name, one in plain["classes"].items():
        kept = [(uj, grade) for uj, grade in one["kept"]]
        state.classes[name] = History(kept, one["guesses"])
    state.devices = dict(plain["devices"])
    state.seen = {key: Seen(*one) for key, one in plain["seen"].items()}
    state.guards = dict(plain["guards"])
    state.active = dict(plain["active"])


def _restore_claim(state: PoolState, plain: dict[str, Any]) -> None:
    # An ended claim's leaf may be gone; nothing reads its node any more.
    leaf = state.tree.nodes.get(plain["leaf_id"], state.tree.root)
    claim = Claim(plain["id"], leaf, tuple(plain["demand"]), plain["arrival"])
    for name in _CLAIM_FIELDS:
        setattr(claim, name, plain[name])
    claim.state = ClaimState(plain["state"])
    claim.guess = claim.grade == records.Grade.ESTIMATOR
    claim.demand_map = dict(zip(state.resources, claim.demand, strict=True))
    for name, one in plain["devices"].items():
        use = claim.devices[name] = DeviceUse()
        use.mdev = one["mdev"]
        use.covered = [list(window) for window in one["covered"]]
        use.run = [(a, b, uj, grade) for a, b, uj, grade in one["run"]]
    state.claims[claim.id] = claim
    if claim.state is ClaimState.WAITING:
        _restore_waiting(state, claim)
    elif claim.state is not ClaimState.ENDED:
        _restore_live(state, claim)


def _restore_waiting(state: PoolState, claim: Claim) -> None:
    state.waiting[claim.id] = claim
    relink.enqueue(state, claim)
    if claim.wait_until_ms is not None:
        heapq.heappush(state.deadlines, (claim.wait_until_ms, claim.id, WAIT))
    if not claim.starved:
        heapq.heappush(state.starving, (claim.submitted_ms, claim.id))


def _restore_live(state: PoolState, claim: Claim) -> None:
    state.live_count += 1
    relink.enter(claim)
    if claim.state is ClaimState.HELD and claim.commit_within_ms > 0:
        when = claim.admitted_ms + claim.commit_within_ms
        heapq.heappush(state.deadlines, (when, claim.id, EXPIRY))
    if claim.state is ClaimState.RUNNING and claim.lease_ms > 0:
        claim.lapse_queued = True
        when = claim.lease_from_ms + claim.lease_ms
        heapq.heappush(state.deadlines, (when, claim.id, LAPSE))
    if claim.reclaimed_for is not None:
        state.claimants.setdefault(claim.reclaimed_for, {})[claim.id] = claim
        state.reclaiming += 1
        state.reclaiming_mdev += claim.demand[0]
        projection.free(claim, 1)
