"""One pool's ledger and heads, as a witness follows them: what may be signed, what contradicts.

Signing, and making anything durable, is `witness.witness`; reading logs is `witness.runner`.

For a head, in this order:
1. It is a head of the profile (`schemas.heads`), of this pool, by a steward's key (not our own).
2. Of the length that was signed last: the same end may be signed again; another end contradicts.
3. Shorter: its root must be the one that our own leaves had there; another root contradicts.
4. Longer: receipts are verified, one by one, from where the last signature left the chain, up to
   the head's length; there key, `head` and `root` must be the chain's own.
   If they are, it may be signed. If receipts are missing or do not verify, "not yet". If the chain
   gets there and the head says something else, it is a *suspect*.
5. A suspect accuses once a head that is right reaches its length or beyond: then there are two
   heads by stewards' keys, and our leaves prove that both cannot be true (`schemas.forks`).

Receipts are verified (`witness.feed`) only as far as a head is known, except that no more than
`WAITING_MAX` wait for one.

Invariant: `candidate` is set only for a head whose every receipt was verified here.
Profile: §6.7, §6.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.chain import ChainReader
from schemas.forks import check_contradiction
from schemas.heads import End, Head, Signed, StatementError, open_head
from schemas.merkle import HashStore
from witness.feed import Feed
from witness.leaves import Leaves
from witness.outcome import Kind, Outcome, Refusal
from witness.record import Keys, Record, key_due

WAITING_MAX: Final = 16_384
"""Receipts that may wait, unverified, for a head that speaks of them."""
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
PENDING_MAX: Final = 4_096
"""Lengths at which heads may wait for receipts; the longest are dropped first."""
SUSPECTS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A head that was found right, where it lies, and the chain's place exactly there."""

    head: Signed[Head]
    offset: int
    place: ChainReader
    keys: Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two heads that cannot both be true, the one that agrees with our leaves first."""

    first: Signed[Head]
    second: Signed[Head]
    path: tuple[bytes, ...]


class Follow:
    """One pool. `leaves` are those of the record; `stewards` who may have begun the ledger.

    `refused` is the last refusal, until a head that came later is signed or known to be.
    """

    def __init__(
        self,
        record: Record,
        leaves: Leaves,
        *,
        own_key: bytes,
        stewards: frozenset[bytes] | None = None,
        refused: Outcome | None = None,
        threads: int = 1,
    ) -> None:
        self.pool = record.pool
        self._own_key = own_key
        self._stewards = stewards
        self._threads = threads
        self._pending: dict[int, dict[bytes, Signed[Head]]] = {}
        self._suspects: dict[bytes, Signed[Head]] = {}
        self._head_offsets: dict[bytes, int] = {}
        self.refused = refused
        self._refused_at = 0
        self.restart(record, leaves)

    def restart(self, record: Record, leaves: Leaves) -> None:
        """Go back to what the record says; heads that wait stay, receipts are read again."""
        standing = record.standing
        begun = ChainReader(self.pool, self._stewards) if standing is None else standing.chain()
        self.record = record
        self.feed = Feed(begun, leaves, record.keys, threads=self._threads)
        self.candidate: Candidate | None = None
        self.contradiction: Contradiction | None = None

    @property
    def stuck(self) -> bool:
        """Whether heads wait and no receipt at hand can help."""
        return bool(self._pending or self._suspects) and not self.feed.waiting

    @property
    def uncovered(self) -> bool:
        """Whether receipts are there that no countersignature covers."""
        return self.feed.waiting > 0 or self.feed.chain.length > self.record.length

    @property
    def pending(self) -> int:
        """At how many lengths heads wait for receipts."""
        return len(self._pending)

    @property
    def heads_offset(self) -> int | None:
        """Where in the heads' topic the first head lies that is not settled yet."""
        return min(self._head_offsets.values(), default=None)

    def unsettled(self) -> list[Signed[Head]]:
        """The heads that wait or are suspect, shortest first."""
        waiting = (head for heads in self._pending.values() for head in heads.values())
        return sorted([*waiting, *self._suspects.values()], key=_length)

    def take_head(self, data: bytes, offset: int = 0) -> Outcome | None:
        """Take a head. None: it waits for `judge`."""
        try:
            head = open_head(data)
        except StatementError as error:
            return self._refuse(offset, 0, Refusal.STATEMENT, str(error))
        length = _length(head)
        if head.statement.end.pool != self.pool:
            return self._refuse(offset, length, Refusal.UNKNOWN_POOL, head.statement.end.pool)
        if head.key == self._own_key:
            words = "the steward signs with our own key"
            return self._refuse(offset, length, Refusal.OWN_KEY, words)
        if self.record.fork is not None:
            return Outcome(kind=Kind.HALTED, pool=self.pool, length=length)
        if length <= self.record.length:
            return self._against_history(head, offset)
        self._pending.setdefault(length, {})[head.digest] = head
        self._head_offsets.setdefault(head.digest, offset)
        if len(self._pending) > PENDING_MAX:
            self._forget(self._pending.pop(max(self._pending)).values())
        return None

    def judge(self) -> list[Outcome]:
        """Verify receipts up to each head that waits, shortest first, and compare.

        Sets `candidate` to the longest head that is right, or `contradiction`. The outcomes are of
        all heads that are settled but for these.
        """
        outcomes = []
        while self._pending:
            length = min(self._pending)
            self.feed.advance(length)
            if self.feed.chain.length < length:
                break
            heads = self._pending.pop(length)
            outcomes += [out for head in heads.values() if (out := self._compare(head))]
        feed = self.feed
        excess = feed.waiting - WAITING_MAX
        if excess > 0 or feed.waiting_bytes > WAITING_BYTES_MAX:
            feed.advance(feed.chain.length + max(excess, feed.waiting // 2))
        self._confront_suspects()
        return outcomes

    def convict(self, head: Signed[Head], branch: HashStore) -> bool:
        """Accuse with a longer head whose whole tree was found; False if nothing contradicts."""
        standing = self.record.standing
        if standing is None or head.key != key_due(self.feed.keys, _length(head)):
            return False
        if not self.record.length < _length(head) == branch.size:
            return False
        path = branch.path_back(old_size=self.record.length, new_size=branch.size)
        return self._accuse(standing.head, head, path)

    def settled(self, record: Record) -> None:
        """The record was replaced: by one with the candidate's signature, or with evidence."""
        self.feed.signed(record.length - self.record.length)
        if self.candidate is not None:
            self._forget([self.candidate.head])
            if self.candidate.offset >= self._refused_at:
                self.refused = None
        if record.fork is not None:
            self._forget(self.unsettled())
            self._pending, self._suspects = {}, {}
        self.record = record
        self.feed.leaves.saved(record.length)
        self.candidate = self.contradiction = None

    def _against_history(self, head: Signed[Head], offset: int) -> Outcome | None:
        """Steps 2 and 3: a head of a length that was passed before."""
        standing, length = self.record.standing, _length(head)
        assert standing is not None, "no length is at or below 0"
        if head.key != key_due(self.record.keys, length):
            words = f"{head.statement.steward} was not due"
            return self._refuse(offset, length, Refusal.KEY, words)
        if head.statement.end == standing.end:
            place, keys = standing.chain(), self.record.keys
            self.candidate = Candidate(head=head, offset=offset, place=place, keys=keys)
            return None
        if length == self.record.length:
            self._accuse(standing.head, head, ())
            return None
        if self._has_root(head):
            return Outcome(kind=Kind.STALE, pool=self.pool, length=length)
        tree = self.feed.leaves.hash_store(self.record.length)
        path = tree.path_back(old_size=length, new_size=self.record.length)
        self._accuse(standing.head, head, path)
        return None

    def _compare(self, head: Signed[Head]) -> Outcome | None:
        """Step 4, the chain being at the head's length or, forced by `WAITING_MAX`, past it."""
        length, end, offset = _length(head), head.statement.end, self._head_offsets[head.digest]
        if head.key != key_due(self.feed.keys, length):
            self._forget([head])
            words = f"{head.statement.steward} was not due"
            return self._refuse(offset, length, Refusal.KEY, words)
        at_end = self.feed.chain.length == length
        own_head = self.feed.chain.head if at_end else end.head
        own = End(
            pool=self.pool, length=length, head=own_head, root=self.feed.leaves.root_at(length)
        )
        if own != end:
            self._suspects[head.digest] = head
            if len(self._suspects) > SUSPECTS_MAX:
                self._forget([self._suspects.pop(next(iter(self._suspects)))])
            detail = "the head is not of the ledger that was read"
            return Outcome(kind=Kind.NOT_YET, pool=self.pool, length=length, detail=detail)
        passed: Signed[Head] | None = head
        if at_end and not self.feed.chain.event_open:
            passed = None if self.candidate is None else self.candidate.head
            place, keys = self.feed.chain.copy(), self.feed.keys
            self.candidate = Candidate(head=head, offset=offset, place=place, keys=keys)
        if passed is None:
            return None
        self._forget([passed])
        return Outcome(kind=Kind.PASSED, pool=self.pool, length=_length(passed))

    def _confront_suspects(self) -> None:
        """Step 5: a head that is right, at or past a suspect's length, proves the contradiction."""
        standing = self.record.standing
        anchor = standing.head if standing is not None else None
        if self.candidate is not None:
            anchor = self.candidate.head
        if anchor is None:
            return
        for suspect in self._suspects.values():
            length = _length(suspect)
            if length == _length(anchor):
                accused = self._accuse(anchor, suspect, ())
            elif length > _length(anchor) or self._has_root(suspect):
                # Nothing to show yet; or only its `head` is wrong, which one head cannot show.
                continue
            else:
                tree = self.feed.leaves.hash_store(_length(anchor))
                path = tree.path_back(old_size=length, new_size=_length(anchor))
                accused = self._accuse(anchor, suspect, path)
            if accused:
                return

    def _has_root(self, head: Signed[Head]) -> bool:
        """Whether our leaves had the head's root at its length, which was passed."""
        return self.feed.leaves.root_at(_length(head)) == head.statement.end.root

    def _accuse(self, first: Signed[Head], second: Signed[Head], path: Sequence[bytes]) -> bool:
        try:
            check_contradiction(first, second, path)
        except StatementError:
            return False
        self.contradiction = Contradiction(first=first, second=second, path=tuple(path))
        self.candidate = None
        return True

    def _forget(self, heads: Iterable[Signed[Head]]) -> None:
        for head in heads:
            self._head_offsets.pop(head.digest, None)

    def _refuse(self, offset: int, length: int, reason: Refusal, detail: str) -> Outcome:
        refused = Outcome(
            kind=Kind.REFUSED, pool=self.pool, length=length, reason=reason, detail=detail
        )
        self.refused, self._refused_at = refused, offset
        return refused


def _length(head: Signed[Head]) -> int:
    return head.statement.end.length
