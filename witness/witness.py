"""The witness itself: what was found right is signed, made durable, and only then let out.

What is right is decided in `witness.follow`; logs are read in `witness.runner`; durability is
`witness.store`.

One signature, in this order; a process may die between any two of them (`witness.faults`):
1. checked: the candidate's every receipt was verified, and our last signed head is its past.
2. signed: the time is the clock's, but never before the last statement's; the statement is opened
   again under our own key, so that a bit that flipped in signing does not leave.
3. persisted: one durable compare-and-swap of the record that was read. If it fails, the statement
   is dropped with this object: it never leaves.
4. Only now the statement is returned, to be published. It stands in the record: after a crash it is
   published from there (`statements`), and publishing it again changes nothing.

Fork evidence goes the same way, and halts its pool for good.

Invariant: no statement leaves that is not in the store. No two statements of one length differ but
in time and in which signed head of that same end they name.
Profile: §6.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from schemas.forks import open_fork, seal_fork
from schemas.heads import (
    StatementError,
    open_countersignature,
    open_head,
    seal_countersignature,
)
from schemas.keys import Signer
from schemas.records import INSTANT_LIMIT_MS
from witness import faults, guard, record, store
from witness.follow import Candidate, Contradiction, Follow
from witness.inquest import Inquest
from witness.leaves import Leaves
from witness.objections import contradiction, refused
from witness.outcome import Kind, Outcome, Refusal
from witness.record import Record, RecordDamaged, Standing
from witness.trouble import Reason, Trouble

POOLS_MAX: Final = 65_536
INQUIRED_MAX: Final = 64
CLOCK_SLACK_MS: Final = 300_000
"""A clock that is behind the last statement by more than this is reported."""


class Witness:
    """One witness: one key, one store, any number of pools. Use from one thread.

    `clock` gives ms since the epoch. `stewards` names the pools that are followed and the raw keys
    that may have begun each; None follows any pool and pins the key of its first receipt. The same
    end is signed again only `refresh_ms` after the last time. Raises Trouble.
    """

    def __init__(
        self,
        opened: store.Store,
        signer: Signer,
        *,
        clock: Callable[[], int],
        stewards: Mapping[str, frozenset[bytes]] | None = None,
        threads: int = 1,
        refresh_ms: int = 0,
    ) -> None:
        guard.check_keys(signer.public_key, stewards)
        self._store = opened
        self._signer = signer
        self._clock = clock
        self._stewards = stewards
        self._threads = threads
        self._refresh_ms = refresh_ms
        self._bodies: dict[str, bytes] = opened.records()
        self._follows: dict[str, Follow] = {}
        self._refused = {one.pool: refused(*one) for one in opened.refused()}
        self.clock_behind_ms = 0
        for pool in self._bodies:
            self._follows[pool] = self._load(pool)
        for pool in self._refused:
            self._follow(pool)

    @classmethod
    def open(
        cls,
        state: Path,
        signer: Signer,
        *,
        clock: Callable[[], int],
        stewards: Mapping[str, frozenset[bytes]] | None = None,
        threads: int = 1,
        refresh_ms: int = 0,
    ) -> Witness:
        """A witness on the store at `state`, made by `witness.store.create`. Raises Trouble."""
        guard.check_keys(signer.public_key, stewards)
        opened = store.open_store(state, signer.public_key)
        try:
            return cls(
                opened,
                signer,
                clock=clock,
                stewards=stewards,
                threads=threads,
                refresh_ms=refresh_ms,
            )
        except BaseException:
            opened.close()
            raise

    @property
    def public_key(self) -> bytes:
        """This witness's raw public key."""
        return self._signer.public_key

    @property
    def store(self) -> store.Store:
        """The store that it holds."""
        return self._store

    @property
    def pools(self) -> Mapping[str, Follow]:
        """Every pool that it has seen."""
        return self._follows

    def close(self) -> None:
        """Let go of the store; twice is allowed."""
        self._store.close()

    def step(self, head: bytes, receipts: Iterable[bytes] = ()) -> Outcome:
        """Take one head and receipts that lead to it, and do all there is to do about it.

        For a witness inside another process; `receipts` may begin before the last signed length.
        The outcome is this head's, or, if it must wait, that of a shorter one which waited and now
        was signed.
        """
        try:
            opened = open_head(head)
        except StatementError as error:
            return Outcome(
                kind=Kind.REFUSED, pool="", length=0, reason=Refusal.STATEMENT, detail=str(error)
            )
        end = opened.statement.end
        self.take_receipts(end.pool, ((0, data) for data in receipts))
        at_once = self.take_head(end.pool, head)
        outcomes = self.judge(end.pool)
        told = [outcome for outcome in outcomes if outcome.kind is Kind.FORKED]
        told = told or [outcome for outcome in outcomes if outcome.length == end.length]
        told = told or [outcome for outcome in outcomes if outcome.statement]
        if at_once is not None or told:
            return at_once or told[-1]
        detail = self._follows[end.pool].feed.fault or "receipts missing"
        return Outcome(kind=Kind.NOT_YET, pool=end.pool, length=end.length, detail=detail)

    def take_receipts(self, pool: str, items: Iterable[tuple[int, bytes]]) -> None:
        """Take (offset, receipt) pairs of a pool, in the log's order."""
        follow = self._follow(pool)
        if follow is not None and follow.record.fork is None:
            follow.feed.take(items)

    def take_head(self, pool: str, data: bytes, offset: int = 0) -> Outcome | None:
        """Take a head that was published for a pool. None: `judge` will tell."""
        follow = self._follow(pool)
        if follow is None:
            return Outcome(
                kind=Kind.REFUSED, pool=pool, length=0, reason=Refusal.UNKNOWN_POOL, detail=pool
            )
        return follow.take_head(data, offset)

    def judge(self, pool: str) -> list[Outcome]:
        """Check what was taken for a pool; sign the longest head that is right. Raises Trouble."""
        follow = self._follow(pool)
        if follow is None or follow.record.fork is not None:
            return []
        outcomes: list[Outcome] = []
        if follow.contradiction is None:
            outcomes = follow.judge()
        if follow.contradiction is not None:
            outcomes.append(self._convict(follow, follow.contradiction))
        elif follow.candidate is not None:
            outcomes.append(self._sign(follow, follow.candidate))
        return outcomes

    def inquest(self, pool: str) -> Inquest:
        """To be given a pool's whole ledger as it lies there, for `conclude`."""
        return Inquest(pool, self._follows[pool].feed.leaves)

    def conclude(self, inquest: Inquest) -> Outcome | None:
        """Accuse, if the history of a head that does not fit was found. Raises Trouble."""
        follow = self._follows[inquest.pool]
        if follow.record.fork is not None:
            return None
        for head in follow.unsettled()[:INQUIRED_MAX]:
            tree = inquest.tree(head.statement.end)
            if tree is not None and follow.convict(head, tree) and follow.contradiction:
                return self._convict(follow, follow.contradiction)
        return None

    def restart(self, pool: str) -> None:
        """Forget what was read past the record: a pool's receipts are to be read again."""
        follow = self._follows[pool]
        follow.restart(follow.record, self._leaves(follow.record))

    def statements(self) -> Iterable[tuple[str, bytes]]:
        """(pool, statement) for everything that the store says may be published."""
        for pool, follow in self._follows.items():
            if follow.record.standing is not None:
                yield pool, follow.record.standing.countersignature.data
            if follow.record.fork is not None:
                yield pool, follow.record.fork.data

    def check_published(self, data: bytes) -> None:
        """Compare a published statement with the store. Raises Trouble(`store-behind`)."""
        guard.check_published(data, self.public_key, self._follows, self._store.path)

    def _follow(self, pool: str) -> Follow | None:
        """The pool as it is followed; None if it is not one of `stewards`."""
        if self._stewards is not None and pool not in self._stewards:
            return None
        if pool not in self._follows:
            if len(self._follows) >= POOLS_MAX:
                return None
            self._follows[pool] = self._load(pool)
        return self._follows[pool]

    def _load(self, pool: str) -> Follow:
        """Read a pool's record and leaves, and verify them. Raises Trouble(`store-damaged`)."""
        body = self._bodies.get(pool)
        try:
            known = record.decode(body, self.public_key) if body else Record(pool=pool, keys=())
        except RecordDamaged as error:
            raise self._damaged(pool, str(error)) from error
        stewards = None if self._stewards is None else self._stewards.get(pool)
        guard.check_beginning(known, stewards)
        return Follow(
            known,
            self._leaves(known),
            own_key=self.public_key,
            stewards=stewards,
            refused=self._refused.get(pool),
            threads=self._threads,
        )

    def _leaves(self, known: Record) -> Leaves:
        pool = known.pool
        leaves = Leaves.stored(
            known.length, self._store.tile_roots(pool), lambda tile: self._store.tile(pool, tile)
        )
        if leaves is None:
            raise self._damaged(pool, "leaves are missing")
        if known.standing is not None and leaves.root_at(known.length) != known.standing.end.root:
            raise self._damaged(pool, "the leaves do not lead to the signed root")
        return leaves

    def _damaged(self, pool: str, what: str) -> Trouble:
        return Trouble(
            Reason.STORE_DAMAGED,
            f"the record of {pool} is damaged: {what}",
            where=str(self._store.path),
            todo="retire this key and run `pool-witness init` with a new one",
        )

    def _sign(self, follow: Follow, candidate: Candidate) -> Outcome:
        """Steps 1 to 4 for a head that is right."""
        faults.reach(faults.Point.CHECKED)
        known, head = follow.record, candidate.head
        length = head.statement.end.length
        now_ms = self._now(known)
        if length == known.length and now_ms < known.closed_at_ms + max(1, self._refresh_ms):
            follow.settled(known)
            return Outcome(kind=Kind.KNOWN, pool=known.pool, length=length)
        data = seal_countersignature(self._signer, head, now_ms)
        own = open_countersignature(data, {self.public_key})
        faults.reach(faults.Point.SIGNED)
        standing = Standing(place=candidate.place.to_plain(), head=head, countersignature=own)
        self._swap(follow, Record(pool=known.pool, keys=candidate.keys, standing=standing))
        return Outcome(kind=Kind.SIGNED, pool=known.pool, length=length, statement=data)

    def _convict(self, follow: Follow, found: Contradiction) -> Outcome:
        """Evidence: sealed, checked, durable; then the pool is halted."""
        known = follow.record
        first, second = found.first, found.second
        faults.reach(faults.Point.CHECKED)
        data = seal_fork(self._signer, first, second, found.path, self._now(known))
        own = open_fork(data, signers={self.public_key})
        faults.reach(faults.Point.SIGNED)
        evidence = Record(pool=known.pool, keys=known.keys, standing=known.standing, fork=own)
        self._swap(follow, evidence)
        return Outcome(
            kind=Kind.FORKED,
            pool=known.pool,
            length=own.statement.length,
            statement=data,
            detail=contradiction(first, second),
        )

    def _swap(self, follow: Follow, new: Record) -> None:
        """Step 3. After any error the store is closed, and this object of no more use."""
        pool, body = new.pool, new.encode()
        tiles = follow.feed.leaves.unsaved(new.length)
        self._store.swap(pool, self._bodies.get(pool), body, tiles)
        self._bodies[pool] = body
        follow.settled(new)
        faults.reach(faults.Point.PERSISTED)

    def _now(self, known: Record) -> int:
        """The clock's time, but never before the pool's last statement."""
        now_ms = min(max(0, self._clock()), INSTANT_LIMIT_MS - 1)
        behind_ms = known.closed_at_ms - now_ms
        self.clock_behind_ms = behind_ms if behind_ms > CLOCK_SLACK_MS else 0
        return max(now_ms, known.closed_at_ms)
