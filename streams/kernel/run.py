"""The running decision: what the modules of the sections write to, in order.

Not here: what is decided. `emit` applies each decision at once, since the next depends on it.

Profile: §3.
"""

from __future__ import annotations

from schemas.records import Body, ClaimState, Decision, Kind, Reason, Value
from streams.kernel.apply import advance
from streams.kernel.claims import Claim, would_borrow
from streams.kernel.fit import Failure, borrowed_amounts
from streams.kernel.state import PoolState


class Run:
    """One event's decisions so far, on the state that they have made."""

    __slots__ = ("decisions", "state")

    def __init__(self, state: PoolState) -> None:
        self.state = state
        self.decisions: list[Decision] = []

    def emit(self, kind: Kind, body: Body) -> None:
        """Decide: apply it, and write it down."""
        decision = Decision(kind=kind, body=body)
        advance(self.state, decision)
        self.decisions.append(decision)

    def answer(self, decision: Decision) -> None:
        """Write down a decision that was made whole elsewhere."""
        advance(self.state, decision)
        self.decisions.append(decision)

    def refuse(self, reason: Reason, **details: Value) -> None:
        """Refuse the event."""
        self.emit(Kind.REFUSED, {"reason": reason.value, **details})

    def refuse_claim(self, claim_id: str, reason: Reason, **details: Value) -> None:
        """Refuse a claim; the victims of one that waited are spared."""
        self.emit(Kind.CLAIM_REFUSED, {"claim": claim_id, "reason": reason.value, **details})
        self.spare(claim_id)

    def spare(self, claimant: str) -> None:
        """Spare the live victims of a claimant, in id order (§5.3)."""
        victims = self.state.claimants.get(claimant)
        if victims:
            for claim_id in sorted(victims):
                self.emit(Kind.CLAIM_SPARED, {"claim": claim_id, "for": claimant})

    def admit(self, claim: Claim) -> None:
        """Admit a claim that fits, new or waiting, and spare its victims."""
        state, names = self.state, self.state.resources
        borrows = would_borrow(claim)
        body: Body = {
            "claim": claim.id,
            "leaf": claim.leaf_id,
            "demand": dict(claim.demand_map),
            "mode": "borrowed" if borrows else "guaranteed",
            "grade": claim.grade,
        }
        if borrows:
            body["borrowed"] = {
                node: {names[at]: amount for at, amount in amounts.items()}
                for node, amounts in borrowed_amounts(claim).items()
            }
        self.emit(Kind.CLAIM_ADMITTED, body)
        if state.claimants:
            self.spare(claim.id)

    def wait(self, claim: Claim, reason: Reason, failure: Failure) -> None:
        """Write why a claim waits; when it starts to wait, also its demand and grade."""
        body: Body = {"claim": claim.id, "reason": reason.value, "node": failure.node.id}
        if failure.position is not None:
            body["resource"] = self.state.resources[failure.position]
            body["short"] = failure.short
        if claim.id not in self.state.waiting:
            body["demand"] = dict(claim.demand_map)
            body["grade"] = claim.grade
        self.emit(Kind.CLAIM_WAITING, body)


def wrong_state(run: Run, claim_id: str, allowed: frozenset[ClaimState]) -> Claim | None:
    """The claim if it is known and in an allowed state; else the refusal is written."""
    claim = run.state.claims.get(claim_id)
    if claim is None:
        run.refuse(Reason.UNKNOWN_CLAIM)
        return None
    if claim.state not in allowed:
        run.refuse(Reason.WRONG_STATE, state=claim.state.value)
        return None
    return claim
