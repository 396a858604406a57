"""The `pool/1` profile read literally: events in, decisions out, everything recomputed each time.

For tests only.  It is written from the text alone, so that its reading and the kernel's meet.
Clarity before speed: there is no figure kept along the way and no cache.

Invariant: `feed` answers an event with the decisions that a ledger would hold, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .admin import (
    on_archived,
    on_opened_again,
    on_period,
    on_policy,
    on_review,
    on_rotate,
    on_tick,
    on_tree,
    settle_deadlines,
)
from .books import ROOT, Claim, Node, Pool, Seen, usage
from .claims import (
    claim_content,
    on_cancelled,
    on_committed,
    on_progressed,
    on_released,
    on_renewed,
    on_submitted,
)
from .integers import as_integer
from .meters import read_meter
from .parse import Malformed, Reader, content_text
from .policies import policy_fault
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


def remember(pool: Pool, fields: dict[str, Any], first_seq: int) -> None:
    if "id" in fields:
        pool.seen[fields["id"]] = Seen(
            content=content_text(fields), first_seq=first_seq, period=pool.period
        )


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
