"""The library that producers and consumers import: ask a pool, await its decision, follow it.

Not here: what may be asked (`streams.requests`); the log (`streams.logs`), on which it works the
same whether embedded or on Kafka.

1. A request is answered by the receipts whose cause it is, all of them at once, or by a dead
   letter. The client looks at the ledger from its end at the start: what it asked came later.
2. Every receipt is opened and its signature checked, against `stewards` if they are given, else
   against the key it names. From the first one seen on, each must extend the one before; a record
   that does not is passed over, as by every reader.
3. After `OutcomeUnknown` a request may have been taken: with an `id` it can be sent again, and the
   answer is then `duplicate`, of the first one.

Invariant: an answer that is returned is in the ledger, committed.
Profile: §3, §6.5.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from schemas import cbor
from schemas.receipts import Receipt
from schemas.records import EventType, Kind, Value
from streams import topics
from streams.logs.contract import DEAD_DETAIL, DEAD_REASON, Log, Outgoing, Position, Record
from streams.logs.errors import LogTrouble, Remedy
from streams.receiving import Link, follow
from streams.requests import Request, fields_of
from streams.steward.deadletters import source_of
from streams.steward.fold import TOPIC_OF

READ_MS: Final = 1000
ANSWER_MS: Final = 30_000
PAUSE_SECONDS: Final = 0.5
KEPT_ANSWERS: Final = 8192
"""Answers that nobody has asked for yet; they may be there before the publication returns."""

_ANSWERS: Final[Mapping[str, frozenset[Kind]]] = {
    EventType.CLAIM_SUBMITTED: frozenset(
        {Kind.CLAIM_ADMITTED, Kind.CLAIM_WAITING, Kind.CLAIM_REFUSED}
    ),
    EventType.CLAIM_COMMITTED: frozenset({Kind.CLAIM_COMMITTED}),
    EventType.CLAIM_RENEWED: frozenset({Kind.CLAIM_RENEWED}),
    EventType.CLAIM_PROGRESSED: frozenset({Kind.CLAIM_PROGRESSED}),
    EventType.CLAIM_CANCELLED: frozenset({Kind.CLAIM_CANCELLED}),
    EventType.CLAIM_RELEASED: frozenset({Kind.CLAIM_SETTLED}),
    EventType.METER_READ: frozenset({Kind.METER_SPLIT, Kind.METER_GAP}),
    EventType.POOL_OPENED: frozenset({Kind.POOL_OPENED}),
    EventType.TREE_SET: frozenset({Kind.TREE_SET}),
    EventType.POLICY_SET: frozenset({Kind.POLICY_SET}),
    EventType.PERIOD_OPENED: frozenset({Kind.PERIOD_OPENED}),
    EventType.POOL_ARCHIVED: frozenset({Kind.POOL_ARCHIVED}),
    EventType.STEWARD_ROTATE: frozenset({Kind.STEWARD_ROTATED}),
    EventType.IDLE_REVIEW: frozenset({Kind.IDLE_REVIEWED}),
}
_NO: Final = frozenset({Kind.REFUSED, Kind.CLAIM_REFUSED})
_ANY: Final = frozenset({Kind.REFUSED, Kind.DUPLICATE})


class Unanswered(Exception):
    """No steward answered in time; the request is in the log at `position` and will be decided."""

    def __init__(self, position: Position, timeout_ms: int) -> None:
        self.position = position
        super().__init__(
            f"no answer within {timeout_ms} ms ({position.topic}/{position.partition} "
            f"offset {position.offset}): check that a steward runs"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a request: its receipts in order, or why it became a dead letter.

    `decision` answers the request itself; among the receipts are also the deadlines that were due
    before it, and what it set off for others. It is None for a dead letter.
    """

    position: Position
    receipts: tuple[Receipt, ...] = ()
    decision: Receipt | None = None
    dead_reason: str | None = None
    dead_detail: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether nothing came of it: refused, or sent to a pool that is not open."""
        return self.decision is None or self.decision.kind in _NO

    @property
    def reason(self) -> str | None:
        """Why it was refused or waits; None if it was done."""
        if self.decision is None:
            return self.dead_reason
        reason = self.decision.body.get("reason")
        return reason if isinstance(reason, str) else None


def decision_of(receipts: Sequence[Receipt], event_type: str, claim: Value) -> Receipt | None:
    """Of an event's receipts the one that answers it."""
    kinds = _ANSWERS.get(event_type, frozenset()) | _ANY
    for receipt in reversed(receipts):
        if receipt.kind in kinds and receipt.body.get("claim", claim) == claim:
            return receipt
    return receipts[-1] if receipts else None


_Place = tuple[str, int]
_Heard = tuple[Receipt, ...] | Record


class Client:
    """One pool's client; `async with` it. `stewards`: raw public keys that may write its ledger."""

    def __init__(self, log: Log, pool: str, *, stewards: Collection[bytes] | None = None) -> None:
        self.pool = pool
        self._log = log
        self._stewards = stewards
        self._link = Link(pool, stewards)
        self._partition = 0
        self._positions: dict[str, int] = {}
        self._open: list[Receipt] = []
        self._heard: OrderedDict[_Place, _Heard] = OrderedDict()
        self._asked: dict[_Place, asyncio.Future[_Heard]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Look where the ledger ends. Raises LogTrouble."""
        self._partition = topics.partition_for(self.pool.encode(), await self._log.partitions())
        for topic in (topics.LEDGER, topics.DEAD):
            self._positions[topic] = await self._log.end(topic, self._partition)
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening. The log stays open: it is the caller's."""
        assert self._listening is not None
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def ask(self, request: Request, *, timeout_ms: int = ANSWER_MS) -> Answer:
        """Send a request and await its answer. Raises: LogTrouble, Unanswered, Untrusted."""
        return (await self.ask_all([fields_of(request, self.pool)], timeout_ms=timeout_ms))[0]

    async def send(self, requests: Sequence[Request]) -> list[Position]:
        """Send requests without waiting for answers. Raises LogTrouble."""
        return await self._publish([fields_of(request, self.pool) for request in requests])

    async def ask_all(
        self, events: Sequence[Mapping[str, Value]], *, timeout_ms: int = ANSWER_MS
    ) -> list[Answer]:
        """Send events given by their fields and await every answer.

        Raises: LogTrouble, Unanswered (the first one), Untrusted; ValueError for an unknown type
        or a tick, which is not answered; CborError.
        """
        positions = await self._publish(events)
        heard = await asyncio.gather(*(self._hear(place, timeout_ms) for place in positions))
        return [
            _answer(position, event, one)
            for position, event, one in zip(positions, events, heard, strict=True)
        ]

    def follow(self, seq_from: int = 0, *, seq_until: int | None = None) -> AsyncIterator[Receipt]:
        """The pool's receipts from a `seq` on, as they come. Raises: LogTrouble, Untrusted."""
        return follow(
            self._log,
            self.pool,
            seq_from=seq_from,
            seq_until=seq_until,
            stewards=self._stewards,
        )

    async def _publish(self, events: Sequence[Mapping[str, Value]]) -> list[Position]:
        outgoing = []
        for event in events:
            kind = EventType(str(event.get("type")))
            if kind is EventType.TICK:
                raise ValueError("a tick is not answered")
            topic = TOPIC_OF[kind]
            value = cbor.encode(event)
            outgoing.append(Outgoing(topic=topic, key=self.pool.encode(), value=value))
        return await self._log.publish(outgoing)

    async def _hear(self, position: Position, timeout_ms: int) -> _Heard:
        place = (position.topic, position.offset)
        if place in self._heard:
            return self._heard.pop(place)
        assert self._listening is not None, "use the client with `async with`"
        future: asyncio.Future[_Heard] = asyncio.get_running_loop().create_future()
        self._asked[place] = future
        try:
            waiting: set[asyncio.Future[Any]] = {future, self._listening}
            await asyncio.wait(
                waiting,
                timeout=timeout_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            del self._asked[place]
        if future.done():
            return future.result()
        if self._listening.done():
            self._listening.result()
        raise Unanswered(position, timeout_ms)

    async def _listen(self) -> None:
        """Take in what comes, whoever asked for it. Raises: LogTrouble, Untrusted."""
        while True:
            try:
                found = await self._log.read_any(
                    self._partition, self._positions, timeout_ms=READ_MS
                )
            except LogTrouble as trouble:
                if trouble.remedy is not Remedy.RETRY:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            for record in found[topics.LEDGER].records:
                self._take(self._link.push(record))
            for record in found[topics.DEAD].records:
                source = source_of(record)
                if source is not None and record.key == self.pool.encode():
                    self._tell((source[0], source[2]), record)
            self._positions = {topic: fetched.offset_next for topic, fetched in found.items()}

    def _take(self, receipt: Receipt | None) -> None:
        """Gather an event's receipts; they are complete with the last of them."""
        if receipt is None:
            return
        if receipt.cause.index == 0:
            self._open = []
        self._open.append(receipt)
        # Listening may begin in the middle of an event: of that one nobody here is waiting.
        if receipt.cause.index + 1 == receipt.cause.count == len(self._open):
            self._tell((receipt.cause.topic, receipt.cause.offset), tuple(self._open))

    def _tell(self, place: _Place, heard: _Heard) -> None:
        future = self._asked.get(place)
        if future is not None and not future.done():
            future.set_result(heard)
            return
        self._heard[place] = heard
        while len(self._heard) > KEPT_ANSWERS:
            self._heard.popitem(last=False)


def _answer(position: Position, event: Mapping[str, Value], heard: _Heard) -> Answer:
    if isinstance(heard, tuple):
        decision = decision_of(heard, str(event["type"]), event.get("claim"))
        return Answer(position=position, receipts=heard, decision=decision)
    headers = dict(heard.headers)
    return Answer(
        position=position,
        dead_reason=headers.get(DEAD_REASON, b"").decode("utf-8", "replace"),
        dead_detail=headers.get(DEAD_DETAIL, b"").decode("utf-8", "replace"),
    )
