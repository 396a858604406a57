"""A batch in the making: records are decided, decisions sealed, dead letters written.

What is decided is `streams.kernel`; what a receipt is, `schemas.receipts`; the order of records
is `streams.steward.intake`; appending is `streams.steward.session`.

For a record, the first that applies:
1. no key, or a key that is no pool's name: dead letter, `malformed`;
2. its receipts were found to be too large for a ledger: dead letter, `malformed`;
3. its pool is not open, and the decision does not open it: dead letter with the decision's reason;
4. decided: its receipts. Nothing (a tick that settled nothing) leaves no trace.

Pools and positions are advanced while drafting. A draft that is not appended is dropped together
with them.

Invariant: receipts depend on the record, its time and the pool's ledger alone: no clock.
Profile: §3, §6.1, §6.5.
"""

from collections.abc import Collection
from hashlib import sha256

from schemas import cose
from schemas.chain import ChainReader
from schemas.keys import did_key
from schemas.receipts import Cause, Receipt, core_of
from schemas.records import INSTANT_LIMIT_MS, Body, Decision, Event, Malformed, Reason
from schemas.wellformed import CborError
from streams import topics
from streams.kernel import PoolState, decide
from streams.logs.contract import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, MAX_KEY_BYTES, Entry, Record
from streams.steward.deadletters import dead_letter
from streams.steward.fold import EVENT, event_in, fields_of, raw_form
from streams.steward.keyring import Keyring
from streams.steward.pools import Partition, Pool

Place = tuple[str, int]
"""An input record's topic and offset, within a steward's partition."""


class Unsealable(Exception):
    """An event's receipts are beyond what a ledger can hold; `place` is the event's.

    The pool's state has moved on and is of no use; started anew, the event goes to the dead
    letters.
    """

    def __init__(self, place: Place, detail: str) -> None:
        self.place = place
        super().__init__(f"the receipts of {place[0]} offset {place[1]} are too large: {detail}")


class Draft:
    """Entries for one batch. `foreign` says when a record must wait for another key."""

    def __init__(
        self, partition: Partition, keyring: Keyring, *, unsealable: Collection[Place] = ()
    ) -> None:
        self.entries: list[Entry] = []
        self.receipts: list[Receipt] = []
        self.touched: dict[str, Pool] = {}
        self.events = 0
        self.dead_letters = 0
        self.size = 0
        self._partition = partition
        self._keyring = keyring
        self._unsealable = unsealable

    def foreign(self, record: Record) -> Pool | None:
        """The record's pool, if its ledger is another key's."""
        pool = self._partition.pools.get(_name_of(record) or "")
        return pool if pool is not None and pool.signer is None else None

    def add(self, record: Record) -> None:
        """Decide a record. Raises: Unsealable, after which the partition's state is spoilt."""
        name = _name_of(record)
        self.events += 1
        if name is None:
            self._bury(record, Reason.MALFORMED, {"field": "pool"})
        elif (record.topic, record.offset) in self._unsealable:
            self._bury(record, Reason.MALFORMED, {"detail": "its receipts would be too large"})
        else:
            self._decide(record, name)

    def _decide(self, record: Record, name: str) -> None:
        pool = self._partition.pools.get(name)
        opening = pool is None
        if pool is None:
            pool = _new_pool(name, self._keyring)
        event = event_in(record)
        timestamp_ms = min(max(record.timestamp_ms, 0), INSTANT_LIMIT_MS - 1)
        decisions = decide(pool.state, event, timestamp_ms)
        if not decisions:
            return
        if opening and not pool.state.is_open:
            self._bury(record, str(decisions[0].body.get("reason")), decisions[0].body)
            return
        if opening:
            self._partition.pools[name] = pool
        self._seal(record, pool, event, decisions)

    def _seal(
        self, record: Record, pool: Pool, event: Event | Malformed, decisions: list[Decision]
    ) -> None:
        digest = sha256(record.value).digest()
        count = len(decisions)
        for index, decision in enumerate(decisions):
            cause = Cause(
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                digest=digest,
                index=index,
                count=count,
            )
            try:
                if index:
                    data, receipt = _sealed(pool, cause, decision, decision.body)
                else:
                    data, receipt = _sealed_first(pool, cause, decision, event, record)
            except CborError as error:
                raise Unsealable((record.topic, record.offset), error.detail) from error
            pool.chain.advance(data, receipt)
            self._enter(Entry(topic=topics.LEDGER, key=pool.key, value=data))
            self.receipts.append(receipt)
        if self.size > MAX_BATCH_BYTES or len(self.entries) > MAX_BATCH_RECORDS:
            raise Unsealable((record.topic, record.offset), "more than one batch holds")
        pool.signer = self._keyring.of(pool.chain.steward) if pool.chain.steward else None
        self.touched[pool.name] = pool
        self._partition.decided(record.topic, record.offset)

    def _bury(self, record: Record, reason: str, detail: Body) -> None:
        self._enter(dead_letter(record, reason, detail))
        self.dead_letters += 1
        self._partition.decided(record.topic, record.offset)

    def _enter(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.size += len(entry.value)


def _sealed_first(
    pool: Pool, cause: Cause, decision: Decision, event: Event | Malformed, record: Record
) -> tuple[bytes, Receipt]:
    """The first receipt, with the event's fields if a core can hold them, else with its bytes."""
    fields = fields_of(event, record)
    if fields is not None:
        try:
            return _sealed(pool, cause, decision, {**decision.body, EVENT: fields})
        except CborError:
            pass  # Too deep inside a core, or beyond 64 bits: the bytes that arrived always fit.
    return _sealed(pool, cause, decision, {**decision.body, EVENT: raw_form(record)})


def _sealed(pool: Pool, cause: Cause, decision: Decision, body: Body) -> tuple[bytes, Receipt]:
    signer = pool.signer
    assert signer is not None, "a ledger is written with its own key"
    receipt = Receipt(
        pool=pool.name,
        seq=pool.chain.length,
        prev=pool.chain.head,
        closed_at_ms=pool.state.now_ms,
        steward=did_key(signer.public_key),
        cause=cause,
        kind=decision.kind,
        body=body,
    )
    return cose.seal(signer, core_of(receipt)), receipt


def _new_pool(name: str, keyring: Keyring) -> Pool:
    return Pool(
        name=name,
        key=name.encode(),
        chain=ChainReader(name),
        state=PoolState(name),
        signer=keyring.primary,
    )


def _name_of(record: Record) -> str | None:
    key = record.key
    if not key or len(key) > MAX_KEY_BYTES:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None
