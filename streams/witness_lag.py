"""How far witnesses are behind the ledgers, and what they accuse, as findings for the doctor.

Not here: whether a countersignature counts (`schemas.grading` with a trust file says); a
deployment's settings (`streams.logs.kafka_doctor`).

1. A pool is judged if the caller gives its ledger's end, or if its heads or receipts are among the
   newest that are read. The lag is stated in receipts, and in the time since the oldest receipt
   without a countersignature was closed, by the ledger's clock.
2. A lag of up to `GRACE_MS` is fine: witnesses follow, they do not go ahead.
3. Fork evidence is a problem whatever else is found, however old it is: a pool that its witnesses
   left for good is not looked at further.
4. A countersignature for more receipts than the ledger has is a problem: the ledger was cut.
5. A countersignature under a steward's key is none.

Invariant: works on any log; changes nothing.
Profile: §6.7, §6.8.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from schemas import cbor
from schemas.cose import CoseError, payload_of, split
from schemas.forks import Fork, open_fork
from schemas.heads import (
    FORK_KIND,
    WITNESS_KIND,
    StatementError,
    kind_of,
    open_countersignature,
    open_head,
)
from schemas.receipts import ReceiptError, parse_core
from schemas.wellformed import CborError
from streams import topics
from streams.logs.contract import LogReader
from streams.logs.kafka_findings import Check, Finding, Level

TAIL_OFFSETS: Final = 2000
"""How many of a partition's newest heads, and of its newest receipts, are read."""
STATEMENTS_MAX: Final = 1_000_000
"""How many of a partition's newest statements are looked at: evidence may be old."""
GRACE_MS: Final = 60_000
READ_MS: Final = 1000
QUIET_READS_MAX: Final = 10
"""Reads without progress below the end, after which the rest is left."""

Point = tuple[int, int]
"""(length, the ledger's time in ms): somewhere on a ledger."""


@dataclass(slots=True)
class _Pool:
    """What was found of one pool. Each of `heads` and `receipts` says that the ledger got there."""

    heads: list[Point] = field(default_factory=list)
    receipts: list[Point] = field(default_factory=list)
    stewards: set[bytes] = field(default_factory=set)
    reached: dict[bytes, int] = field(default_factory=dict)
    """A witness's raw key to the farthest length that it signed."""
    forks: list[Fork] = field(default_factory=list)


class _Said:
    """Statements, of which few are worth what it costs to verify one: each key's newest for each
    pool, because a witness never signs for less than before, and whatever accuses.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[bytes, bytes], bytes] = {}
        self._accusing: dict[bytes, None] = {}

    def take(self, key: bytes | None, data: bytes) -> None:
        """A statement, and the record's key if it has one."""
        if FORK_KIND.encode() in data:
            self._accusing[data] = None
            return
        try:
            sealed = split(data)
            pool = _pool_of(sealed.payload) if key is None else key
        except (CoseError, CborError):
            return
        self._newest[pool, sealed.kid] = data

    def worth_opening(self) -> Iterator[bytes]:
        """What `take` kept."""
        yield from self._newest.values()
        yield from self._accusing


def _pool_of(payload: bytes) -> bytes:
    core = cbor.decode(payload)
    name = core.get("pool") if isinstance(core, dict) else None
    return name.encode() if isinstance(name, str) else b""


async def witness_lag(
    log: LogReader,
    *,
    beside: Iterable[bytes] = (),
    ends: Mapping[str, Point] | None = None,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> list[Finding]:
    """A finding for every pool that is judged or accused, by name. Raises LogTrouble.

    `beside`: statements that are not in the log (an embedded one's outboxes). `ends`: where the
    ledgers end, if the caller knows.
    """
    said = _Said()
    for data in beside:
        said.take(None, data)
    # Statements first: what comes while the rest is read makes a lag longer, never negative.
    for partition in range(await log.partitions()):
        async for key, data in _tail(log, topics.WITNESS, partition, STATEMENTS_MAX):
            said.take(key, data)
    pools: dict[str, _Pool] = defaultdict(_Pool)
    for data in said.worth_opening():
        _take_statement(pools, data)
    for name, point in (ends or {}).items():
        pools[name].receipts.append(point)
    for partition in range(await log.partitions()):
        async for _, data in _tail(log, topics.HEADS, partition, TAIL_OFFSETS):
            _take_head(pools, data)
        async for key, data in _tail(log, topics.LEDGER, partition, TAIL_OFFSETS):
            _take_receipt(pools, key, data)
    now_ms = clock_ms()
    return [one for name, pool in sorted(pools.items()) for one in _judged(name, pool, now_ms)]


async def _tail(
    log: LogReader, topic: str, partition: int, offsets_max: int
) -> AsyncIterator[tuple[bytes | None, bytes]]:
    """Key and value of the records at a partition's last `offsets_max` offsets."""
    start, end = await log.start(topic, partition), await log.end(topic, partition)
    offset, quiet = max(start, end - offsets_max), 0
    while offset < end and quiet < QUIET_READS_MAX:
        fetched = await log.read(topic, partition, offset_next=offset, timeout_ms=READ_MS)
        quiet = quiet + 1 if fetched.offset_next == offset else 0
        offset = fetched.offset_next
        for record in fetched.records:
            yield record.key, record.value


def _take_statement(pools: dict[str, _Pool], data: bytes) -> None:
    """A witness's word; what does not open is none."""
    try:
        kind = kind_of(data)
        if kind == FORK_KIND:
            fork = open_fork(data).statement
            pools[fork.pool].forks.append(fork)
        if kind == WITNESS_KIND:
            one = open_countersignature(data)
            end = one.statement.end
            reached = pools[end.pool].reached
            reached[one.key] = max(end.length, reached.get(one.key, 0))
    except StatementError:
        return


def _take_head(pools: dict[str, _Pool], data: bytes) -> None:
    try:
        head = open_head(data)
    except StatementError:
        return
    pool = pools[head.statement.end.pool]
    pool.heads.append((head.statement.end.length, head.statement.closed_at_ms))
    pool.stewards.add(head.key)


def _take_receipt(pools: dict[str, _Pool], key: bytes | None, data: bytes) -> None:
    """Where a receipt says it is; whether it verifies is for `pool verify` to say."""
    try:
        receipt = parse_core(payload_of(data))
    except (CoseError, CborError, ReceiptError):
        return
    if key == receipt.pool.encode():
        pools[receipt.pool].receipts.append((receipt.seq + 1, receipt.closed_at_ms))


def _judged(name: str, pool: _Pool, now_ms: int) -> Iterator[Finding]:
    if pool.forks:
        yield _forked(name, pool.forks)
    elif pool.heads or pool.receipts:
        yield _lag(name, pool, now_ms)


def _lag(name: str, pool: _Pool, now_ms: int) -> Finding:
    """Rules 1, 2, 4 and 5."""
    length = max(length for length, _ in pool.heads + pool.receipts)
    reached = [at for key, at in pool.reached.items() if key not in pool.stewards]
    if not reached:
        return _finding(
            Level.WARNING,
            name,
            f"no witness has signed for any of its {length} receipts: they are self-attested",
            "run `pool-witness run` with a key of its own, on another machine",
        )
    farthest = max(reached)
    what = f"{_witnesses(len(reached))} at {farthest} of {length} receipts"
    if farthest > length:
        todo = "keep this copy, find the longer one, and trust neither: pool verify --trust FILE"
        return _finding(Level.PROBLEM, name, f"{what}: the ledger was cut", todo)
    if farthest == length:
        return _finding(Level.FINE, name, what)
    since_ms = min(at for point, at in pool.heads + pool.receipts if point > farthest)
    behind_ms = max(0, now_ms - since_ms)
    what = f"{what}: {length - farthest} receipts behind, for {_span(behind_ms)}"
    if behind_ms <= GRACE_MS:
        return _finding(Level.FINE, name, what)
    if any(point > farthest for point, _ in pool.heads):
        todo = "see that the witnesses run, and what their log and `pool-witness status` say of it"
    else:
        todo = "no head of the newest ones covers them: see that the steward runs, with its key"
    return _finding(Level.WARNING, name, what, todo)


def _forked(name: str, forks: list[Fork]) -> Finding:
    """Rule 3."""
    shortest = min(forks, key=lambda fork: fork.length)
    lengths = [head.statement.end.length for head in (shortest.first, shortest.second)]
    accusers = len({fork.witness for fork in forks})
    return _finding(
        Level.PROBLEM,
        name,
        f"forked: {accusers} of its witnesses published two heads of its steward, of "
        f"{lengths[0]} and {lengths[1]} receipts, that cannot both be true, and sign no more",
        "stop its steward, keep all copies, verify with --trust, go on in a new pool with a new "
        "key (witness/README.md: When it cries fork)",
    )


def _witnesses(count: int) -> str:
    return "1 witness," if count == 1 else f"{count} witnesses, the farthest"


def _span(span_ms: int) -> str:
    """A time for a person, cut to its largest unit."""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if span_ms >= 2 * size_ms:
            return f"{span_ms // size_ms} {unit}"
    return f"{span_ms // 1000} s"


def _finding(level: Level, pool: str, what: str, todo: str = "") -> Finding:
    return Finding(check=Check.WITNESS, level=level, where=pool, what=what, todo=todo)
