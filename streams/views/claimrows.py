"""A claim's row: what it asked for, where it is, what it cost, and which receipts say so.

Not here: why it waits now (the kernel computes it); when rows are written (`fold`).

1. What the kernel keeps of a claim is copied from it with each of the claim's receipts; what the
   kernel forgets (how it was admitted, what it was settled at, its history) is the row's own.
2. A claim refused on arrival has a row too, in the state `refused`. If its id is tried again the
   row begins anew and keeps its history.
3. The history has an entry a receipt: [seq, kind, closed_at_ms, how often]. Renewals and progress
   that follow each other are one entry, the newest, counted. Readings are not in it: `readings`
   counts them. Beyond `HISTORY_MAX` entries the oldest but the first are dropped, and counted.

Invariant: a row's `seq` is its newest receipt's.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.receipts import Receipt
from schemas.records import ClaimState, ClaimSubmitted, Kind
from streams.kernel.claims import Claim
from streams.views.tables import Row

REFUSED: Final = "refused"
"""The state of a claim that was refused on arrival: it never was one of the pool's."""
STATES: Final = (*(state.value for state in ClaimState), REFUSED)
HISTORY_MAX: Final = 256
_REPEATED: Final = frozenset({Kind.CLAIM_RENEWED.value, Kind.CLAIM_PROGRESSED.value})


def begun(event: ClaimSubmitted, at_ms: int) -> Row:
    """The row of a claim that arrives."""
    return {
        "claim": event.claim,
        "leaf": event.leaf,
        "state": REFUSED,
        "demand": dict(event.demand),
        "grade": event.grade,
        "class": event.class_,
        "unit": event.unit,
        "priority": event.priority,
        "preemptible": event.preemptible,
        "submitted_ms": at_ms,
        "metered_uj": 0,
        "readings": 0,
        "completed": 0,
        "history": [],
        "history_dropped": 0,
    }


def take(row: Row, receipt: Receipt, claim: Claim | None, submitted: ClaimSubmitted | None) -> None:
    """Take one receipt about the claim. `claim` as the pool has it after the receipt.

    `submitted` is given if the receipt answers this claim's submission.
    """
    body, at_ms = receipt.body, receipt.closed_at_ms
    if submitted is not None and row["state"] in (REFUSED, "ended") and row["history"]:
        kept = {name: row[name] for name in ("history", "history_dropped", "seq")}
        row.clear()
        row.update(begun(submitted, at_ms) | kept)
    if claim is not None:
        _copy(row, claim)
    match receipt.kind:
        case Kind.CLAIM_ADMITTED:
            row["mode"] = body["mode"]
            row["admitted_ms"] = at_ms
            for name in ("reason", "node", "resource", "short"):
                row.pop(name, None)
        case Kind.CLAIM_WAITING | Kind.CLAIM_REFUSED:
            row["reason"] = body["reason"]
            for name in ("node", "resource", "short"):
                row.pop(name, None)
                if name in body:
                    row[name] = body[name]
        case Kind.CLAIM_COMMITTED:
            row["started_ms"] = at_ms
        case Kind.CLAIM_SETTLED:
            row["outcome"], row["spent"] = body["outcome"], body["spent"]
            row["disputed"] = bool(body.get("disputed"))
        case Kind.CLAIM_EXPIRED:
            row["outcome"] = "expired"
        case Kind.CLAIM_CANCELLED:
            row["outcome"] = "cancelled"
    if row["state"] == "ended" and "ended_ms" not in row:
        row["ended_ms"] = at_ms
        if receipt.kind is Kind.CLAIM_REFUSED:
            row["outcome"] = REFUSED
    _remember(row["history"], row, [receipt.seq, receipt.kind.value, at_ms, 1])


def metered(row: Row, claim: Claim) -> None:
    """A reading gave the claim a share."""
    _copy(row, claim)
    row["readings"] += 1


def _copy(row: Row, claim: Claim) -> None:
    row["state"] = claim.state.value
    row["leaf"] = claim.leaf_id
    row["demand"] = dict(claim.demand_map)
    row["grade"] = claim.grade
    row["metered_uj"] = claim.metered_uj
    row["metered_grade"] = claim.metered_grade
    row["completed"] = claim.completed
    row["starved"] = claim.starved
    row["reclaimed_for"] = claim.reclaimed_for if claim.is_live else None


def _remember(history: list[list[Any]], row: Row, entry: list[Any]) -> None:
    if history and history[-1][1] == entry[1] and entry[1] in _REPEATED:
        entry[3] = history[-1][3] + 1
        history[-1] = entry
        return
    history.append(entry)
    if len(history) > HISTORY_MAX:
        del history[1]
        row["history_dropped"] += 1
