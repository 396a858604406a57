"""Trees, policies, periods, archiving (§2.2, §3), and the deadlines that time settles (§3).

Not handled here: the opening of a pool.
"""

from __future__ import annotations

from typing import Any

from .admission import never_fits
from .books import ROOT, Pool
from .integers import in_bytes
from .meters import end_live, review_idle
from .passes import end_waiting, run_pass
from .policies import policy_fault
from .trees import build_tree, tree_fault


def deadlines(pool: Pool) -> list[tuple[int, bytes, int]]:
    """When, whose, and which of the table's rows (§3)."""
    found = []
    reserve_after_ms = pool.setting("reserve_after_ms", 3_600_000)
    for claim in pool.claims.values():
        name = in_bytes(claim.id)
        if claim.state == "held" and claim.commit_within_ms > 0:
            found.append((claim.admitted_ms + claim.commit_within_ms, name, 0))
        if claim.state == "running" and claim.lease_ms > 0:
            found.append((claim.leased_ms + claim.lease_ms, name, 1))
        if claim.state == "waiting" and claim.max_wait_ms > 0:
            found.append((claim.submitted_ms + claim.max_wait_ms, name, 2))
        if claim.state == "waiting" and reserve_after_ms > 0 and not claim.starved:
            found.append((claim.submitted_ms + reserve_after_ms, name, 3))
    return found


def settle_deadlines(pool: Pool) -> None:
    while due := [entry for entry in deadlines(pool) if entry[0] <= pool.now_ms]:
        _, name, row = min(due)
        claim = pool.claims[name.decode()]
        if row == 0:
            end_live(pool, claim, claim.metered_uj)
            pool.emit("claim.expired", claim=claim.id)
        elif row == 1:
            claim.state = "uncertain"
            pool.emit("claim.uncertain", claim=claim.id)
            continue
        elif row == 2:
            end_waiting(pool, claim, "claim.refused", reason="wait-expired")
        else:
            claim.starved = True
            pool.emit("claim.starved", claim=claim.id)
        run_pass(pool)


def on_opened_again(pool: Pool, fields: dict[str, Any]) -> None:
    pool.emit("refused", reason="already-open")


def on_tree(pool: Pool, fields: dict[str, Any]) -> None:
    if pool.archived:
        pool.emit("refused", reason="archived")
        return
    fault = tree_fault(pool.tree[ROOT], fields["tree"], pool.resources)
    if fault is not None:
        pool.emit("refused", reason="tree-invalid", **fault)
        return
    tree = build_tree(pool.tree[ROOT], fields["tree"], pool.resources)
    used = {claim.leaf for claim in [*pool.live(), *pool.waiting()]}
    used |= {leaf for leaf, uj in pool.spent_uj.items() if uj > 0}
    parents = {node.rpartition("/")[0] for node in tree}
    lost = [leaf for leaf in used if leaf not in tree or leaf in parents]
    if lost:
        pool.emit("refused", reason="leaf-in-use", id=min(lost, key=in_bytes))
        return
    pool.tree = tree
    pool.emit("tree.set")
    for claim in pool.waiting():
        claim.awaiting = False
    for claim in pool.waiting():
        details = never_fits(pool, claim)
        if details is not None:
            end_waiting(pool, claim, "claim.refused", reason="never-fits", **details)
    run_pass(pool)


def on_policy(pool: Pool, fields: dict[str, Any]) -> None:
    key = policy_fault(fields["policy"])
    if pool.archived:
        pool.emit("refused", reason="archived")
    elif key is not None:
        pool.emit("refused", reason="policy-invalid", key=key)
    else:
        pool.policy = fields["policy"]
        pool.emit("policy.set")
        run_pass(pool)


def on_period(pool: Pool, fields: dict[str, Any]) -> None:
    pool.period += 1
    pool.spent_uj = {}
    for claim in pool.live():
        claim.charged_uj = claim.metered_uj
    old = pool.period - 1
    pool.seen = {name: seen for name, seen in pool.seen.items() if seen.period >= old}
    pool.claims = {
        name: claim
        for name, claim in pool.claims.items()
        if claim.state != "ended" or claim.ended_period >= old
    }
    pool.emit("period.opened", period=fields["period"])
    run_pass(pool)


def on_archived(pool: Pool, fields: dict[str, Any]) -> None:
    if pool.archived:
        pool.emit("refused", reason="archived")
        return
    pool.archived = True
    pool.emit("pool.archived")
    for claim in pool.waiting():
        end_waiting(pool, claim, "claim.refused", reason="archived")
    run_pass(pool)


def on_rotate(pool: Pool, fields: dict[str, Any]) -> None:
    pool.emit("steward.rotated", steward=fields["steward"])


def on_review(pool: Pool, fields: dict[str, Any]) -> None:
    review_idle(pool)


def on_tick(pool: Pool, fields: dict[str, Any]) -> None:
    """A tick does nothing but settle the deadlines."""
