"""What happens to a claim: its submission (§4.1) and the events about it (§3).

Not handled here: repeats, and whether it fits (§4.2).
"""

from __future__ import annotations

from typing import Any

from .admission import never_fits
from .books import LIVE, ROOT, Claim, Pool, usage
from .integers import INTEGER_END
from .meters import observed_estimate, power_limit_uj, settle
from .parse import content_text
from .passes import arrive, end_waiting, run_pass


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


def claim_content(fields: dict[str, Any]) -> str:
    return content_text({name: value for name, value in fields.items() if name != "id"})


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
