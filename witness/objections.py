"""What at the end of a run keeps a pool from being signed for, pool by pool.

What becomes of a single head is `witness.follow`; printing it is `witness.cli`.

The first that holds:
1. `halted`: its stewards contradict themselves, found now or in any run before.
2. `refused`: a head was refused, and none that came later was signed. The store remembers it,
   since the next run does not read that head again.
3. `not-yet`: heads wait, and the log was read to its end without what they need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas.heads import Head, Signed
from witness.follow import Follow
from witness.outcome import Kind, Outcome, Refusal


def objections(follows: Iterable[Follow]) -> Iterator[Outcome]:
    """An outcome for every pool with an objection, by name."""
    for follow in sorted(follows, key=lambda one: one.pool):
        found = _objection(follow)
        if found is not None:
            yield found


def contradiction(first: Signed[Head], second: Signed[Head]) -> str:
    """What fork evidence says, for a person."""
    lengths = f"{first.statement.end.length} and {second.statement.end.length}"
    return f"heads of {lengths} receipts cannot both be true"


def refused(pool: str, length: int, reason: str, detail: str) -> Outcome:
    """A refusal as the store kept it; a reason that this version does not know is left out."""
    known = next((one for one in Refusal if one == reason), None)
    return Outcome(kind=Kind.REFUSED, pool=pool, length=length, reason=known, detail=detail)


def _objection(follow: Follow) -> Outcome | None:
    if follow.record.fork is not None:
        fork = follow.record.fork.statement
        words = contradiction(fork.first, fork.second)
        return Outcome(kind=Kind.HALTED, pool=follow.pool, length=fork.length, detail=words)
    if follow.refused is not None:
        return follow.refused
    if follow.stuck:
        length = follow.unsettled()[-1].statement.end.length
        words = follow.feed.fault or "the log does not have the receipts that it speaks of"
        return Outcome(kind=Kind.NOT_YET, pool=follow.pool, length=length, detail=words)
    return None
