"""The operator's events (profile §2.2, §3): opening, tree, policy, period, archive, rotation.

Not here: what they do to the state (`apply`, `relink`).

1. Order: already-open, archived, resources-invalid, policy-invalid, tree-invalid, leaf-in-use.
2. A new tree refuses what can never fit now, an archive everything that waits, each in the order
   of arrival; then one pass.

Profile: §2.2, §3, §6.10.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas import records
from schemas.records import (
    MDEV,
    UJ,
    Decision,
    Kind,
    PeriodOpened,
    PolicySet,
    PoolArchived,
    PoolOpened,
    Reason,
    StewardRotate,
    TreeSet,
    Value,
)
from streams.kernel.passes import run_pass
from streams.kernel.policy import policy_fault
from streams.kernel.run import Run
from streams.kernel.state import PoolState
from streams.kernel.submit import refuse_never_fits
from streams.kernel.tree import tree_fault


def refusal(reason: Reason, **details: Value) -> Decision:
    """A refusal of the event."""
    return Decision(kind=Kind.REFUSED, body={"reason": reason.value, **details})


def opening_fault(event: PoolOpened) -> Decision | None:
    """Why a pool may not be opened so, or None."""
    names = event.resources
    if not names or names[0] != MDEV or names[-1] != UJ or len(set(names)) != len(names):
        return refusal(Reason.RESOURCES_INVALID)
    key = policy_fault(event.policy)
    if key is not None:
        return refusal(Reason.POLICY_INVALID, key=key)
    fault = tree_fault(event.tree, dict(event.capacity), names)
    if fault is not None:
        return refusal(Reason.TREE_INVALID, id=fault[0], rule=fault[1])
    return None


def reopen(run: Run, event: PoolOpened) -> None:
    """Decide a second `pool.opened`."""
    run.refuse(Reason.ALREADY_OPEN)


def set_tree(run: Run, event: TreeSet) -> None:
    """Decide a `tree.set`."""
    state = run.state
    if state.archived:
        run.refuse(Reason.ARCHIVED)
        return
    capacity = dict(zip(state.resources, state.capacity, strict=True))
    fault = tree_fault(event.tree, capacity, state.resources)
    if fault is not None:
        run.refuse(Reason.TREE_INVALID, id=fault[0], rule=fault[1])
        return
    used = _leaf_in_use(state, event.tree)
    if used is not None:
        run.refuse(Reason.LEAF_IN_USE, id=used)
        return
    run.emit(Kind.TREE_SET, {})
    for claim in list(state.waiting.values()):
        refuse_never_fits(run, claim)
    run_pass(run)


def _leaf_in_use(state: PoolState, nodes: Sequence[records.Node]) -> str | None:
    """The smallest id of a leaf in use that would be no leaf any more."""
    ids = {node.id for node in nodes}
    leaves = ids - {node.id.rpartition("/")[0] for node in nodes}
    gone = [
        leaf.id
        for leaf in state.tree.nodes.values()
        if leaf.is_leaf and (leaf.live or leaf.waiting or leaf.spent_uj) and leaf.id not in leaves
    ]
    return min(gone, default=None)


def set_policy(run: Run, event: PolicySet) -> None:
    """Decide a `policy.set`."""
    if run.state.archived:
        run.refuse(Reason.ARCHIVED)
        return
    key = policy_fault(event.policy)
    if key is not None:
        run.refuse(Reason.POLICY_INVALID, key=key)
        return
    run.emit(Kind.POLICY_SET, {})
    run_pass(run)


def open_period(run: Run, event: PeriodOpened) -> None:
    """Decide a `period.opened`."""
    run.emit(Kind.PERIOD_OPENED, {"period": event.period})
    run_pass(run)


def archive(run: Run, event: PoolArchived) -> None:
    """Decide a `pool.archived`."""
    if run.state.archived:
        run.refuse(Reason.ARCHIVED)
        return
    run.emit(Kind.POOL_ARCHIVED, {})
    for claim in list(run.state.waiting.values()):
        run.refuse_claim(claim.id, Reason.ARCHIVED)
    run_pass(run)


def rotate(run: Run, event: StewardRotate) -> None:
    """Decide a `steward.rotate`: the receipt hands over, still under the old key."""
    run.emit(Kind.STEWARD_ROTATED, {"steward": event.steward})
