"""The `pool/1` profile read literally: events in, decisions out, everything recomputed each time.

For tests only.  It is written from the text alone, so that its reading and the kernel's meet.
Clarity before speed: there is no figure kept along the way and no cache.

Invariant: `feed` answers an event with the decisions that a ledger would hold, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .admission import never_fits
from .books import LIVE, ROOT, Claim, Node, Pool, Seen, usage
from .meters import (
    end_live,
    observed_estimate,
    power_limit_uj,
    read_meter,
    review_idle,
    settle,
)
from .parse import (
    INTEGER_END,
    Malformed,
    Reader,
    as_integer,
    content_text,
    in_bytes,
    policy_fault,
)
from .passes import arrive, end_waiting, run_pass
from .trees import build_tree, tree_fault

Decisions = list[dict[str, Any]]


class Model:
    """All pools of one stream of events."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}

    def feed(self, event: Any) -> Decisions:
        """The decisions that one event in its JSON form (§7) leads to."""
        if not isinstance(event, dict):
            return [refusal("malformed")]
        if not isinstance(event.get("pool"), str):
            return [refusal("malformed", field="pool")]
        pool = self.pools.get(event["pool"])
        if pool is None:
            return self.open(event)
        return feed_pool(pool, event)

    def open(self, event: dict[str, Any]) -> Decisions:
        """An event for a pool that is not open: only a valid `pool.opened` makes a difference."""
        reader = Reader(event, None)
        try:
            fields = reader.read()
        except Malformed as fault:
            return [refusal("malformed", field=fault.field)]
        if fields["type"] != "pool.opened":
            return [refusal("unknown-pool")]
        refused = opening_refusal(fields, reader.outside)
        if refused is not None:
            return [refused]
        pool = opened_pool(fields, as_integer(event.get("at_ms", 0)))
        self.pools[pool.id] = pool
        remember(pool, fields, pool.seq)
        pool.emit("pool.opened")
        return pool.out

    def books(self) -> dict[str, Any]:
        """Every pool's whole books, for an auditor."""
        return {name: pool_books(pool) for name, pool in self.pools.items()}


def refusal(reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "refused", "reason": reason, **details}


def pool_books(pool: Pool) -> dict[str, Any]:
    live = pool.live()
    return {
        "now_ms": pool.now_ms,
        "seq_next": pool.seq,
        "period": pool.period,
        "archived": pool.archived,
        "usage": usage(pool),
        "held_uj": {leaf: held_uj(live, leaf) for leaf in pool.tree if pool.is_leaf(leaf)},
        "spent_uj": {leaf: uj for leaf, uj in pool.spent_uj.items() if uj > 0},
        "overhead_uj": pool.overhead_uj,
        "live": {claim.id: claim.state for claim in live},
        "waiting": [claim.id for claim in pool.waiting()],
        "ended": sorted(c.id for c in pool.claims.values() if c.state == "ended"),
        "reclaimed": {c.id: c.reclaimed_for.id for c in live if c.reclaimed_for is not None},
        "guards": {scope: claim.id for scope, claim in pool.guards.items()},
        "devices": dict(pool.devices),
    }


def held_uj(live: list[Claim], leaf: str) -> int:
    return sum(claim.hold_uj for claim in live if claim.leaf == leaf)


def opening_refusal(fields: dict[str, Any], outside: bool) -> dict[str, Any] | None:
    resources = fields.get("resources", ["mdev", "uj"])
    if outside:
        return refusal("out-of-range")
    ends = resources[:1] == ["mdev"] and resources[-1:] == ["uj"]
    if not ends or len(set(resources)) < len(resources):
        return refusal("resources-invalid")
    key = policy_fault(fields.get("policy", {}))
    if key is not None:
        return refusal("policy-invalid", key=key)
    fault = tree_fault(build_root(fields, resources), fields["tree"], resources)
    return None if fault is None else refusal("tree-invalid", **fault)


def build_root(fields: dict[str, Any], resources: list[str]) -> Node:
    return Node(id=ROOT, guarantee={r: fields["capacity"].get(r, 0) for r in resources})


def opened_pool(fields: dict[str, Any], now_ms: int) -> Pool:
    resources = fields.get("resources", ["mdev", "uj"])
    root = build_root(fields, resources)
    return Pool(
        id=fields["pool"],
        capacity=root.guarantee,
        resources=resources,
        tree=build_tree(root, fields["tree"], resources),
        policy=fields.get("policy", {}),
        now_ms=now_ms,
    )


def feed_pool(pool: Pool, event: dict[str, Any]) -> Decisions:
    """§3: first the deadlines, then the event itself, in the order that the text gives."""
    pool.out = []
    pool.now_ms = max(pool.now_ms, as_integer(event.get("at_ms", 0)))
    settle_deadlines(pool)
    reader = Reader(event, pool.resources)
    try:
        fields = reader.read()
    except Malformed as fault:
        pool.emit("refused", reason="malformed", field=fault.field)
        return pool.out
    first_seq = pool.seq
    if answer_repeat(pool, fields):
        return pool.out
    if claim_id_seen(pool, fields):
        if pool.out[-1]["kind"] == "duplicate":
            return pool.out
    elif reader.outside:
        pool.emit("refused", reason="out-of-range")
    else:
        HANDLERS[fields["type"]](pool, fields)
    remember(pool, fields, first_seq)
    return pool.out


def answer_repeat(pool: Pool, fields: dict[str, Any]) -> bool:
    """Whether the event's id was seen; if so it is answered."""
    seen = pool.seen.get(fields["id"]) if "id" in fields else None
    if seen is None:
        return False
    if seen.content == content_text(fields):
        pool.emit("duplicate", of=seen.first_seq)
    else:
        pool.emit("refused", reason="event-id-reused")
    return True


def claim_id_seen(pool: Pool, fields: dict[str, Any]) -> bool:
    """Whether a submitted claim's id was seen; if so it is answered."""
    if fields["type"] != "claim.submitted" or fields["claim"] not in pool.claims:
        return False
    claim = pool.claims[fields["claim"]]
    if claim.content == claim_content(fields):
        pool.emit("duplicate", of=claim.first_seq)
    else:
        pool.emit("claim.refused", claim=claim.id, reason="claim-id-reused")
    return True


def claim_content(fields: dict[str, Any]) -> str:
    return content_text({name: value for name, value in fields.items() if name != "id"})


def remember(pool: Pool, fields: dict[str, Any], first_seq: int) -> None:
    if "id" in fields:
        pool.seen[fields["id"]] = Seen(
            content=content_text(fields), first_seq=first_seq, period=pool.period
        )


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


def on_submitted(pool: Pool, fields: dict[str, Any]) -> None:
    """§4.1, in its order."""
    reason, uj, grade = submission_refusal(pool, fields)
    if reason is not None:
        pool.emit("claim.refused", claim=fields["claim"], **reason)
        return
    claim = new_claim(pool, fields, uj, grade)
    details = never_fits(pool, claim)
    if details is not None:
        pool.emit("claim.refused", claim=claim.id, reason="never-fits", **details)
    else:
        arrive(pool, claim)


def submission_refusal(
    pool: Pool, fields: dict[str, Any]
) -> tuple[dict[str, Any] | None, int, str]:
    """The refusals before `never-fits`, else the reservation and its grade."""
    gang = fields["gang"]
    observed = fields.get("estimate") == "observed"
    uj = sum(member.get("uj", 0) for member in gang)
    mdev = sum(member.get("mdev", 0) for member in gang)
    if pool.archived:
        return {"reason": "archived"}, 0, ""
    if not pool.is_leaf(fields["leaf"]):
        return {"reason": "unknown-leaf"}, 0, ""
    if not gang or (mdev == 0 and uj == 0 and not observed):
        return {"reason": "gang-empty"}, 0, ""
    if not observed:
        return None, uj, fields["grade"]
    estimate = observed_estimate(pool, fields.get("class", ""))
    if "reason" in estimate:
        return estimate, 0, ""
    return None, estimate["uj"], estimate["grade"]


def new_claim(pool: Pool, fields: dict[str, Any], uj: int, grade: str) -> Claim:
    gang = fields["gang"]
    demand = {r: sum(member.get(r, 0) for member in gang) for r in pool.resources}
    demand["uj"] = uj
    waits = [fields.get("max_wait_ms", 0), pool.setting("max_wait_ms", 0)]
    pool.arrivals += 1
    return Claim(
        id=fields["claim"],
        leaf=fields["leaf"],
        demand=demand,
        grade=grade,
        work_class=fields.get("class", ""),
        priority=fields.get("priority", 0),
        preemptible=fields.get("preemptible", True),
        commit_within_ms=fields.get("commit_within_ms", 0),
        lease_ms=fields.get("lease_ms", 0),
        max_wait_ms=min((wait for wait in waits if wait > 0), default=0),
        content=claim_content(fields),
        arrival=pool.arrivals,
        submitted_ms=pool.now_ms,
        first_seq=pool.seq,
    )


def known_claim(pool: Pool, fields: dict[str, Any], *states: str) -> Claim | None:
    """The event's claim if it is in one of `states`; otherwise the event is refused."""
    claim = pool.claims.get(fields["claim"])
    if claim is None:
        pool.emit("refused", reason="unknown-claim")
    elif claim.state not in states:
        pool.emit("refused", reason="wrong-state", state=claim.state)
    else:
        return claim
    return None


def on_committed(pool: Pool, fields: dict[str, Any]) -> None:
    claim = known_claim(pool, fields, "held")
    if claim is not None:
        claim.state = "running"
        claim.committed_ms = claim.leased_ms = pool.now_ms
        pool.emit("claim.committed", claim=claim.id)


def on_renewed(pool: Pool, fields: dict[str, Any]) -> None:
    claim = known_claim(pool, fields, "running", "uncertain")
    if claim is not None:
        claim.state = "running"
        claim.leased_ms = pool.now_ms
        pool.emit("claim.renewed", claim=claim.id)


def on_progressed(pool: Pool, fields: dict[str, Any]) -> None:
    claim = known_claim(pool, fields, "running", "uncertain")
    if claim is None:
        return
    if fields["completed"] < claim.completed:
        pool.emit("refused", reason="progress-fell")
        return
    claim.state = "running"
    claim.leased_ms = pool.now_ms
    claim.completed = fields["completed"]
    pool.emit("claim.progressed", claim=claim.id, completed=claim.completed)


def on_cancelled(pool: Pool, fields: dict[str, Any]) -> None:
    claim = known_claim(pool, fields, "waiting")
    if claim is not None:
        end_waiting(pool, claim, "claim.cancelled")
        run_pass(pool)


def on_released(pool: Pool, fields: dict[str, Any]) -> None:
    claim = known_claim(pool, fields, *LIVE)
    if claim is None:
        return
    actual = fields.get("actual")
    limit_uj = power_limit_uj(pool, claim)
    if actual is not None and actual["uj"] + usage(pool)[ROOT]["uj"] >= INTEGER_END:
        pool.emit("refused", reason="out-of-range")
    elif fields.get("completed", claim.completed) < claim.completed:
        pool.emit("refused", reason="progress-fell")
    elif actual is not None and limit_uj is not None and actual["uj"] > limit_uj:
        pool.emit("refused", reason="implausible", limit_uj=limit_uj)
    else:
        claim.completed = fields.get("completed", claim.completed)
        settle(pool, claim, fields["outcome"], actual)
        run_pass(pool)


HANDLERS: dict[str, Callable[[Pool, dict[str, Any]], None]] = {
    "pool.opened": on_opened_again,
    "tree.set": on_tree,
    "policy.set": on_policy,
    "period.opened": on_period,
    "pool.archived": on_archived,
    "steward.rotate": on_rotate,
    "idle.review": on_review,
    "tick": on_tick,
    "claim.submitted": on_submitted,
    "claim.committed": on_committed,
    "claim.renewed": on_renewed,
    "claim.progressed": on_progressed,
    "claim.cancelled": on_cancelled,
    "claim.released": on_released,
    "meter.read": read_meter,
}
