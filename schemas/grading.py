"""Grading a ledger by what was signed about it: self-attested, witnessed to a length, or forked.

Verifying the ledger itself is `schemas.chain`; whose keys count comes from `schemas.trust`; one
receipt's proof is graded in `schemas.proofs`.

A grader is given the statements first, then the ledger's end at each length in `lengths` as the
verification passes it, and then says:
1. *forked*, if any of these holds:
   a. `evidence`: a fork statement whose two heads trusted stewards signed (whoever found it);
   b. `head`: a head that a trusted steward signed differs from the ledger at its length, or from
      another such head at that length;
   c. `witness`: a countersignature of a trusted witness differs from the ledger at its length or,
      past the ledger's end, from what the steward or another witness signed there.
   The first two are the stewards' own contradiction; the third rests on the witness's word.
2. *witnessed* to m, if at least k trusted witnesses each countersigned this ledger at m or later:
   m is the k-th largest of the lengths that the single witnesses vouch for. Signatures at several
   lengths are not summed: each counts for what it covers, the ledger up to its length.
3. else *self-attested*; and so is every receipt at or past m.
4. `short_of`, whatever the grade: who signed for more receipts than the ledger has. It was cut
   short, or it is an older copy; without a head at its own length or a consistency proof nobody
   can even tell that it is the beginning of what was signed.

What is not counted, and never an error, because anybody may write to a topic: bytes that do not
open, unknown keys, other pools. `ignored` says how many there were.

Invariant: a grader never raises for what it is given, and adding a statement again changes nothing.
Profile: §6.7, §6.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from schemas.forks import open_fork
from schemas.heads import (
    FORK_KIND,
    WITNESS_KIND,
    End,
    StatementError,
    kind_of,
    open_countersignature,
    open_head,
)


class LedgerGrade(StrEnum):
    """How far a ledger, or one of its receipts, is attested (§6.8)."""

    SELF_ATTESTED = "self-attested"
    WITNESSED = "witnessed"
    FORKED = "forked"


class Trusted(Protocol):
    """What of a `schemas.trust.PoolTrust` a grader needs."""

    @property
    def pool(self) -> str: ...
    @property
    def stewards(self) -> frozenset[bytes]: ...
    @property
    def witnesses(self) -> Mapping[str, bytes]: ...
    @property
    def quorum(self) -> int: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What speaks against a ledger: on what ground, at which length, in whose word, a sentence.

    `length` as the ground is that of `Grading.short_of`; each of the others makes it forked.
    """

    ground: Literal["evidence", "head", "witness", "length"]
    length: int
    by: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """A ledger's grade. Lengths count receipts; `reach` is each witness's longest vouched length.

    `seen_length` is the longest that any trusted key signed for this pool: where it is more than
    `length`, `short_of` says who signed for how many.
    """

    grade: LedgerGrade
    length: int
    witnessed_length: int
    witnessed_by: tuple[str, ...]
    quorum: int
    reach: Mapping[str, int]
    seen_length: int
    objections: tuple[Objection, ...]
    short_of: tuple[Objection, ...]
    warnings: tuple[str, ...]
    ignored: int

    def of_receipt(self, seq: int) -> LedgerGrade:
        """The grade of one receipt of this ledger."""
        if self.grade is LedgerGrade.FORKED:
            return LedgerGrade.FORKED
        covered = seq < self.witnessed_length
        return LedgerGrade.WITNESSED if covered else LedgerGrade.SELF_ATTESTED


class Grader:
    """Collects what was signed about one pool, then the ledger's ends, then grades."""

    def __init__(self, trust: Trusted) -> None:
        self._trust = trust
        self._names = {key: name for name, key in trust.witnesses.items()}
        self._heads: dict[int, set[End]] = {}
        self._vouched: dict[int, dict[str, set[End]]] = {}
        self._evidence: dict[tuple[int, str], Objection] = {}
        self._ends: dict[int, End] = {}
        self._lengths: set[int] = set()
        self._ignored: Counter[str] = Counter()

    @property
    def lengths(self) -> Set[int]:
        """At which lengths `observe` must be told the ledger's end; cheap to ask again."""
        return self._lengths

    def add_head(self, data: bytes) -> None:
        """Take a value of `pool.heads`."""
        try:
            end = open_head(data, self._trust.stewards).statement.end
        except StatementError as error:
            self._ignored[error.check] += 1
            return
        if end.pool == self._trust.pool:
            self._heads.setdefault(end.length, set()).add(end)
            self._lengths.add(end.length)

    def add_statement(self, data: bytes) -> None:
        """Take a value of `pool.witness`: a countersignature or fork evidence."""
        try:
            kind = kind_of(data)
            if kind == WITNESS_KIND:
                self._add_countersignature(data)
            elif kind == FORK_KIND:
                self._add_fork(data)
            else:
                self._ignored["members"] += 1
        except StatementError as error:
            self._ignored[error.check] += 1

    def observe(self, end: End) -> None:
        """The ledger's own end at one of `lengths`; at others it may be told too."""
        self._ends[end.length] = end

    def grading(self, length: int) -> Grading:
        """The grade of the ledger, which has `length` receipts."""
        objections = (*self._evidence.values(), *self._head_objections(), *self._objections())
        reach = self._reach(length)
        covered = sorted(reach.values(), reverse=True)
        quorum = self._trust.quorum
        witnessed = covered[quorum - 1] if quorum and len(covered) >= quorum else 0
        grade = LedgerGrade.WITNESSED if witnessed else LedgerGrade.SELF_ATTESTED
        seen = max(self.lengths, default=0)
        return Grading(
            grade=LedgerGrade.FORKED if objections else grade,
            length=length,
            witnessed_length=0 if objections else witnessed,
            witnessed_by=tuple(
                sorted(n for n, to in reach.items() if witnessed and to >= witnessed)
            ),
            quorum=quorum,
            reach=reach,
            seen_length=seen,
            objections=objections,
            short_of=tuple(self._short_of(length)),
            warnings=(*self._trust.warnings, *_shortfall(length, seen)),
            ignored=self._ignored.total(),
        )

    def _add_countersignature(self, data: bytes) -> None:
        signed = open_countersignature(data, self._names.keys())
        end = signed.statement.end
        if end.pool == self._trust.pool:
            by_name = self._vouched.setdefault(end.length, {})
            by_name.setdefault(self._names[signed.key], set()).add(end)
            self._lengths.add(end.length)

    def _add_fork(self, data: bytes) -> None:
        signed = open_fork(data, self._trust.stewards)
        fork = signed.statement
        if fork.pool != self._trust.pool:
            return
        by = self._names.get(signed.key, fork.witness)
        lengths = fork.first.statement.end.length, fork.second.statement.end.length
        detail = (
            f"the steward signed two histories: heads of {lengths[0]} and {lengths[1]} receipts"
        )
        objection = Objection(ground="evidence", length=fork.length, by=by, detail=detail)
        self._evidence.setdefault((fork.length, by), objection)

    def _head_objections(self) -> list[Objection]:
        found = []
        for length, ends in sorted(self._heads.items()):
            ledger = self._ends.get(length)
            if len(ends) > 1:
                detail = f"the steward signed {len(ends)} heads of {length} receipts"
            elif ledger is not None and ledger not in ends:
                detail = f"the steward's head of {length} receipts is of another history"
            else:
                continue
            found.append(Objection(ground="head", length=length, by="steward", detail=detail))
        return found

    def _objections(self) -> list[Objection]:
        found = []
        for length, by_name in sorted(self._vouched.items()):
            ledger = self._ends.get(length)
            signed = self._heads.get(length, set()).union(*by_name.values())
            for name, ends in sorted(by_name.items()):
                if ledger is not None and ends != {ledger}:
                    detail = f"{name} countersigned another history of {length} receipts"
                elif ledger is None and len(signed) > 1:
                    detail = f"of {length} receipts {name} and others signed different histories"
                else:
                    continue
                found.append(Objection(ground="witness", length=length, by=name, detail=detail))
        return found

    def _short_of(self, length: int) -> list[Objection]:
        """Who signed for more than `length` receipts: the witnesses by name, then the steward."""
        longest = {name: at for at in sorted(self._vouched) for name in self._vouched[at]}
        signed = [(name, f"{name} witnessed {at}", at) for name, at in sorted(longest.items())]
        at = max(self._heads, default=0)
        signed.append(("steward", f"its steward signed a head of {at}", at))
        ends = f"the ledger given ends at {length}"
        why = "it was cut short, or is an older copy"
        return [
            Objection(ground="length", length=at, by=name, detail=f"{ends}, but {words}: {why}")
            for name, words, at in signed
            if at > length
        ]

    def _reach(self, length: int) -> dict[str, int]:
        """Each trusted witness's longest countersigned length of this very ledger."""
        reach: dict[str, int] = {}
        for at, by_name in sorted(self._vouched.items()):
            ledger = self._ends.get(at)
            for name, ends in by_name.items():
                if at <= length and ends == {ledger}:
                    reach[name] = at
        return reach


def _shortfall(length: int, seen: int) -> tuple[str, ...]:
    if seen <= length:
        return ()
    return (f"signed heads speak of {seen} receipts, this copy ends after {length}",)
