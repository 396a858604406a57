"""A decision as one line: a JSON object's members, or words.

Invariant: `decision_line` says all that the receipt's body says but the event itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.receipts import Receipt, rfc3339_ms
from schemas.records import Kind
from streams.cli import units
from streams.cli.words import KINDS, because
from streams.steward.fold import decision_of


def decision_line(receipt: Receipt) -> dict[str, Any]:
    """A receipt's decision with its place: `seq`, `at`, `kind`, then the body's members."""
    return {
        "seq": receipt.seq,
        "at": rfc3339_ms(receipt.closed_at_ms),
        "kind": receipt.kind.value,
        **decision_of(receipt).body,
    }


def show_decision(line: Mapping[str, Any]) -> str:
    """Such a line in words."""
    place = f"#{line['seq']:<6} {line['at']}  " if "seq" in line else ""
    subject = line.get("claim") or line.get("device") or line.get("scope") or ""
    words = KINDS.get(line["kind"], line["kind"])
    details = _details(line)
    return f"{place}{subject}{' ' if subject else ''}{words}{f': {details}' if details else ''}"


def _details(line: Mapping[str, Any]) -> str:
    match line["kind"]:
        case Kind.CLAIM_ADMITTED:
            mode = "inside its guarantee" if line["mode"] == "guaranteed" else "borrowing"
            return f"{units.amounts(line['demand'])}, {mode} ({line['grade']})"
        case Kind.CLAIM_SETTLED:
            spent = line["spent"]
            disputed = ", disputed" if line.get("disputed") else ""
            figure = f"{units.energy(spent['uj'])} {spent['basis']} ({spent['grade']})"
            return f"{line['outcome']}, {figure}{disputed}"
        case Kind.CLAIM_PREEMPTING:
            return f"for {line['for']}, {preempted_by(line)}"
        case Kind.CLAIM_SPARED:
            return f"{line['for']} needs it no more"
        case Kind.CLAIM_OVERRUN:
            metered, reserved = units.energy(line["metered_uj"]), units.energy(line["reserved_uj"])
            return f"{metered} against {reserved} reserved"
        case Kind.CLAIM_PROGRESSED:
            return f"{line['completed']} units"
        case Kind.METER_SPLIT:
            return _split(line)
        case Kind.IDLE_REVIEWED:
            return f"{len(line['verdicts'])} claims, idle: {', '.join(line['order']) or 'none'}"
        case Kind.DUPLICATE:
            return f"of #{line['of']}"
        case Kind.GUARD_ON:
            return f"for {line['for']}, at {line['scope']}"
        case Kind.PERIOD_OPENED:
            return str(line["period"])
        case Kind.STEWARD_ROTATED:
            return str(line["steward"])
    return because(line) if "reason" in line else ""


def preempted_by(line: Mapping[str, Any]) -> str:
    """By what a victim was chosen, in words."""
    if line["basis"] == "measured":
        cost = line["cost"]
        return f"measured at {units.energy(cost['uj'])} for {cost['completed']} units"
    return f"by its priority, {line['priority']}"


def _split(line: Mapping[str, Any]) -> str:
    if not line["shares"]:
        return f"nobody on it, {units.energy(line['overhead_uj'])} overhead"
    shares = (
        f"{share['claim']} {units.energy(share['uj'])}{' late' if share.get('late') else ''}"
        for share in line["shares"]
    )
    return f"{', '.join(shares)} ({line['grade']})"
