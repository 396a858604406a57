"""What is said of pools, claims and waiting, as plain values for JSON.

Not here: HTTP (`handlers`), the tree (`figures`), who may look below which node (`access`).

1. `below` is the node that the one who asks may look below; `/` is everything. Of claims elsewhere
   nothing is said: neither that they are, nor their ids where a decision names them.
2. A claim elsewhere that a decision or an explanation names is said to be `OTHER`.

Profile: §4.3, §5.2, §6.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.keys import did_key
from schemas.receipts import Receipt, rfc3339_ms
from schemas.records import ROOT, Kind
from streams.kernel import PoolState, explain
from streams.kernel.claims import Claim
from streams.steward.fold import decision_of
from streams.views import figures, power, tables
from streams.views.fold import PoolView
from streams.views.index import LIVE, is_below
from streams.views.leases import lease_id
from streams.views.tables import Row, Tables

OTHER: Final = "(another's)"
WAITING_MAX: Final = 500
Plain = dict[str, Any]


def summary(view: PoolView, below: str) -> Plain:
    """A pool in a list."""
    counts = view.index.count(None if below == ROOT else below)
    return {
        "pool_id": view.pool,
        "open": view.state.is_open,
        "archived": view.state.archived,
        "length": view.length,
        "head": view.head.hex(),
        "grade": standing(view)["grade"],
        "at_ms": view.state.now_ms,
        "live": sum(counts[state] for state in LIVE),
        "waiting": counts["waiting"],
        "broken": _broken(view),
    }


def pool(view: PoolView, store: Tables, below: str) -> Plain:
    """A pool whole: its ledger, its tree, its energy, its counts."""
    state = view.state
    said = summary(view, below)
    said |= {
        "root": view.leaves.root().hex() if view.length else None,
        "steward": None if view.chain.steward is None else did_key(view.chain.steward),
        "standing": standing(view),
        "resources": list(state.resources),
        "period": state.period_index,
        "nodes": figures.nodes(state, store, below),
        "others": figures.others(state, below),
        "energy": figures.energy_of(state, store, below),
        "overhead_uj": state.overhead_uj if below == ROOT else None,
        "claims": view.index.count(None if below == ROOT else below),
    }
    return said


def standing(view: PoolView) -> Plain:
    """How far the ledger is attested, by the trust file that the read side was given."""
    grading = view.grading()
    if grading is None:
        return {"grade": "self-attested", "trusted": False, "witnessed_length": 0,
                "witnessed_by": [], "quorum": 0, "objections": [], "warnings": []}  # fmt: skip
    return {
        "grade": grading.grade.value,
        "trusted": True,
        "witnessed_length": grading.witnessed_length,
        "witnessed_by": list(grading.witnessed_by),
        "quorum": grading.quorum,
        "objections": [one.detail for one in grading.objections],
        "warnings": list(grading.warnings),
    }


def claim_row(view: PoolView, store: Tables, claim_id: str, below: str) -> Row | None:
    """A claim's row; None if there is none that may be seen."""
    leaf = view.index.leaf(claim_id)
    if leaf is None or not is_below(leaf, below):
        return None
    return tables.load(store[tables.CLAIMS][tables.key(view.pool, claim_id)])


def claim(view: PoolView, row: Row, below: str) -> Plain:
    """A claim's row as it is shown, without its history."""
    said = {name: row[name] for name in row if name not in ("history", "seq", "node")}
    said["lease_id"] = lease_id(view.pool, row["claim"])
    said["pool_id"] = view.pool
    said["seq"] = row["seq"]
    if "node" in row:
        said["node"] = row["node"] if _named(row["node"], below) else OTHER
    if row.get("reclaimed_for") is not None:
        said["reclaimed_for"] = _claim_name(view, row["reclaimed_for"], below)
    return said


def history(row: Row) -> list[Plain]:
    """A claim's receipts: where they are, what they decided, and when."""
    return [
        {"seq": seq, "kind": kind, "at": rfc3339_ms(at_ms), "times": times}
        for seq, kind, at_ms, times in row["history"]
    ]


def why(view: PoolView, claim_id: str, below: str) -> Plain | None:
    """Why a claim waits now; None if the pool does not remember it any more."""
    found = explain(view.state, claim_id)
    if found is None:
        return None
    victims = [_claim_name(view, victim, below) for victim in found.victims]
    return {
        "claim": claim_id,
        "state": found.state.value,
        "reason": None if found.reason is None else found.reason.value,
        "node": found.node if found.node is None or _named(found.node, below) else OTHER,
        "resource": found.resource,
        "short": found.short,
        "ahead": found.ahead,
        "starved": found.starved,
        "victims": victims,
        "guarded_by": _or_none(view, found.guarded_by, below),
        "reclaimed_for": _or_none(view, found.reclaimed_for, below),
    }


def waiting(view: PoolView, below: str) -> list[Plain]:
    """The claims that wait, in the order they came, each with why it does not start now."""
    shown = []
    for one in view.state.waiting.values():
        if is_below(one.leaf_id, below):
            said = why(view, one.id, below)
            assert said is not None
            shown.append(said | _asked(view.state, one))
        if len(shown) >= WAITING_MAX:
            break
    return shown


def decision(view: PoolView, receipt: Receipt, below: str) -> Plain | None:
    """A receipt's decision; None if it is not about what may be seen."""
    body: Plain = dict(decision_of(receipt).body)
    if below != ROOT:
        seen = _seen_of(view, receipt, body, below)
        if seen is None:
            return None
        body = seen
    return {
        "seq": receipt.seq,
        "kind": receipt.kind.value,
        "at": rfc3339_ms(receipt.closed_at_ms),
        "body": body,
    }


def may_see_bytes(view: PoolView, receipt: Receipt, below: str) -> bool:
    """Whether a receipt's exact bytes tell nothing of claims elsewhere.

    Its decision must be about an own claim and name no other; and the event that the first receipt
    of an event carries must be about an own claim too: a deadline may be settled by any event.
    """
    if below == ROOT:
        return True
    named = [receipt.body.get("claim")]
    if receipt.kind in (Kind.CLAIM_PREEMPTING, Kind.CLAIM_SPARED):
        named.append(receipt.body.get("for"))
    node = receipt.body.get("node")
    if isinstance(node, str) and not _named(node, below):
        return False
    event = receipt.body.get("event")
    if event is not None:
        named.append(event.get("claim") if isinstance(event, Mapping) else None)
    return all(isinstance(name, str) and _is_own(view, name, below) for name in named)


def windows(view: PoolView, store: Tables, of: str, name: str) -> list[Plain]:
    """The measured power of a device, a leaf or a claim, over time; nothing if it has none."""
    data = store[tables.POWER].get(tables.key(view.pool, of, name))
    return [] if data is None else power.windows(tables.load(data))


def _asked(state: PoolState, one: Claim) -> Plain:
    return {
        "leaf": one.leaf_id,
        "demand": dict(one.demand_map),
        "grade": one.grade,
        "priority": one.priority,
        "since_ms": one.submitted_ms,
        "waits_ms": state.now_ms - one.submitted_ms,
    }


def _seen_of(view: PoolView, receipt: Receipt, body: Plain, below: str) -> Plain | None:
    """What may be seen of a decision by who sees a subtree only."""
    if receipt.kind is Kind.METER_SPLIT:
        shares = [one for one in body["shares"] if _is_own(view, one["claim"], below)]
        return {"shares": shares, "grade": body["grade"]} if shares else None
    if receipt.kind in (Kind.PERIOD_OPENED, Kind.POOL_ARCHIVED):
        return body
    if not receipt.kind.value.startswith("claim.") or not _is_own(view, body["claim"], below):
        return None
    if "for" in body:
        body["for"] = _claim_name(view, body["for"], below)
    if "node" in body and not _named(body["node"], below):
        body["node"] = OTHER
    return body


def _is_own(view: PoolView, claim_id: str, below: str) -> bool:
    leaf = view.index.leaf(claim_id)
    return leaf is not None and is_below(leaf, below)


def _claim_name(view: PoolView, claim_id: str, below: str) -> str:
    return claim_id if below == ROOT or _is_own(view, claim_id, below) else OTHER


def _or_none(view: PoolView, claim_id: str | None, below: str) -> str | None:
    return None if claim_id is None else _claim_name(view, claim_id, below)


def _named(node: str, below: str) -> bool:
    """Whether a node may be named: one's own, or above it."""
    return is_below(node, below) or is_below(below, node)


def _broken(view: PoolView) -> Plain | None:
    broken = view.broken
    if broken is None:
        return None
    return {"index": broken.index, "check": broken.check, "detail": broken.detail}
