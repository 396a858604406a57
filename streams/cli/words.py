"""Reason codes and decision kinds in words. Codes are the contract; these words may change.

Invariant: every `Reason` and every `Kind` has words; a test says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.records import Kind, Reason
from streams.cli import units

REASONS: Mapping[str, str] = {
    Reason.MALFORMED: "it is not an event of this profile",
    Reason.UNKNOWN_POOL: "no such pool is open",
    Reason.OUT_OF_RANGE: "a number is outside its range",
    Reason.EVENT_ID_REUSED: "that event id was used for something else",
    Reason.CLAIM_ID_REUSED: "that claim id was used for something else",
    Reason.ALREADY_OPEN: "the pool is open already",
    Reason.ARCHIVED: "the pool is archived and takes nothing new",
    Reason.RESOURCES_INVALID: "resources begin with mdev, end with uj and name none twice",
    Reason.POLICY_INVALID: "the policy has a key or a value that is not allowed",
    Reason.TREE_INVALID: "the entitlement tree breaks a rule",
    Reason.LEAF_IN_USE: "a leaf that is in use would go",
    Reason.UNKNOWN_CLAIM: "the pool knows no such claim",
    Reason.WRONG_STATE: "the claim is not in a state for that",
    Reason.PROGRESS_FELL: "completed units cannot fall",
    Reason.IMPLAUSIBLE: "more energy than the devices can draw in that time",
    Reason.WINDOW_EMPTY: "the reading's window is empty",
    Reason.WINDOW_FUTURE: "the reading's window ends in the future",
    Reason.WINDOW_OVERLAPS: "the reading's window overlaps the device's last one",
    Reason.OCCUPANTS_INVALID: "an occupant holds nothing or is named twice",
    Reason.UNKNOWN_OCCUPANT: "an occupant was never admitted",
    Reason.UNKNOWN_LEAF: "no such leaf",
    Reason.GANG_EMPTY: "the gang asks for neither devices nor energy",
    Reason.CLASS_EMPTY: "an observed estimate needs a class",
    Reason.HISTORY_INSUFFICIENT: "too few measured runs of its class to estimate from",
    Reason.NEVER_FITS: "it could never be admitted, even were everything else idle",
    Reason.QUEUE_FULL: "too many claims wait there already",
    Reason.WAIT_EXPIRED: "it waited for as long as it may",
    Reason.CONCURRENCY: "as many claims are live there as may be",
    Reason.LIMIT: "the limit there is reached",
    Reason.GUESS_CANNOT_BORROW: "its guarantee is used up, and a guess may not borrow",
    Reason.UNPREEMPTIBLE_CANNOT_BORROW: (
        "its guarantee is used up, and what cannot be preempted may not borrow"
    ),
    Reason.BORROWING_OFF: "its guarantee is used up, and that node does not borrow",
    Reason.SHARE: "its share of what others leave idle is used up",
    Reason.CAPACITY: "there is not enough free capacity",
    Reason.EARMARKED: "what is free is being reclaimed for another's guarantee",
    Reason.STARVED_AHEAD: "a claim that has waited too long goes first",
    Reason.AWAITING_RECLAIM: "what it is guaranteed is being reclaimed from borrowers",
}

KINDS: Mapping[str, str] = {
    Kind.POOL_OPENED: "pool opened",
    Kind.TREE_SET: "tree set",
    Kind.POLICY_SET: "policy set",
    Kind.PERIOD_OPENED: "period opened",
    Kind.POOL_ARCHIVED: "pool archived",
    Kind.STEWARD_ROTATED: "steward's key handed over",
    Kind.CLAIM_ADMITTED: "admitted",
    Kind.CLAIM_WAITING: "waits",
    Kind.CLAIM_REFUSED: "refused",
    Kind.CLAIM_COMMITTED: "started",
    Kind.CLAIM_RENEWED: "lease renewed",
    Kind.CLAIM_CANCELLED: "cancelled",
    Kind.CLAIM_EXPIRED: "expired: never committed",
    Kind.CLAIM_UNCERTAIN: "lease lapsed: uncertain",
    Kind.CLAIM_STARVED: "starved: it goes first now",
    Kind.CLAIM_PROGRESSED: "progressed",
    Kind.CLAIM_OVERRUN: "spent more than it reserved",
    Kind.CLAIM_SETTLED: "settled",
    Kind.CLAIM_PREEMPTING: "is to stop",
    Kind.CLAIM_SPARED: "may go on",
    Kind.GUARD_ON: "holds others back",
    Kind.GUARD_OFF: "holds nobody back any more",
    Kind.METER_SPLIT: "energy read and split",
    Kind.METER_GAP: "meter gave no answer: unknown",
    Kind.IDLE_REVIEWED: "idleness reviewed",
    Kind.DUPLICATE: "seen before, nothing changed",
    Kind.REFUSED: "refused",
}


def because(body: Mapping[str, object]) -> str:
    """A refusal's or a wait's reason in words, with the figures that its body gives."""
    code = str(body.get("reason", ""))
    words = REASONS.get(code, code)
    details = [text for text in (_at(body), _by_how_much(body), _others(body)) if text]
    return words + (f" ({'; '.join(details)})" if details else "")


def _at(body: Mapping[str, object]) -> str:
    node = body.get("node")
    return f"at {node}" if isinstance(node, str) else ""


def _by_how_much(body: Mapping[str, object]) -> str:
    resource = body.get("resource")
    for key, words in (("short", "{} short"), ("excess", "{} too much")):
        value = body.get(key)
        if isinstance(resource, str) and isinstance(value, int):
            return words.format(units.amount(resource, value))
    return resource if isinstance(resource, str) else ""


_DETAILS = ("field", "key", "rule", "id", "state", "measured", "guesses", "required", "scope")


def _others(body: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {body[key]}" for key in _DETAILS if key in body)
