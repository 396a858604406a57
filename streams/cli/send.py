"""`pool send`: publish events and print what was decided about each.

1. An event goes to the topic that its type belongs on (profile §3), in the form that it came in.
   One of no known type goes to `pool.claims`, and is answered there as from anybody else.
2. On an embedded log a steward decides within the command, and `at_ms` in an event is its time;
   elsewhere the broker's clock is, and an event that brings a time is refused.
3. Events are decided in the order of the file. On a broker topics have no order between them, so
   there the decisions of one topic's events are awaited before the next topic's are published.
4. The answer to an event is all the receipts that it caused, or its dead letter. The status is 1 if
   any event was refused; 3 if no steward answered in time.
5. A tick that settles nothing is answered by nobody; it is waited for on an embedded log only.
6. A file is looked at as a whole before its first event is published. A pipe cannot be read twice:
   where an event in it cannot be sent, it is said which were published.

Not here: judging events: they are decided, and refused with a reason.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from schemas import cbor
from schemas.events import CONTENT_TYPE_CBOR
from schemas.records import INSTANT_LIMIT_MS, EventType
from streams import topics
from streams.cli.answers import Answer, Answers
from streams.cli.eventfile import Given, read_events
from streams.cli.keys import password_option, read_key
from streams.cli.lines import decision_line, show_decision
from streams.cli.session import Answered, Failure, Session, Status, common
from streams.cli.stewarding import embedded
from streams.cli.where import Where, on_a_log
from streams.client import decision_of
from streams.logs.contract import Log, Outgoing
from streams.steward.fold import TOPIC_OF

CHUNK_EVENTS = 512
_TOPICS = {str(kind): topic for kind, topic in TOPIC_OF.items()}
Decide = Callable[[], Awaitable[None]]


@click.command()
@click.argument("file", type=click.File("rb"))
@on_a_log
@click.option("--key", type=click.Path(path_type=Path), help="The steward's [DIR/steward.pem].")
@password_option
@click.option("--no-wait", is_flag=True, help="Publish only; do not wait for decisions.")
@click.option("--timeout", type=click.IntRange(1), default=30, help="Seconds to wait [30].")
@common
@click.pass_obj
def send(
    session: Session,
    file: BinaryIO,
    where: Where,
    key: Path | None,
    password_file: Path | None,
    no_wait: bool,
    timeout: int,
) -> None:
    """Publish the events of FILE (`-`: stdin) and print what is decided about each."""
    _check(file, where.is_embedded)
    given = read_events(file)
    opened = _opened(where, key, password_file, decides=not no_wait)
    refused = asyncio.run(_send(session, given, where, opened, None if no_wait else timeout))
    if refused:
        raise Answered


def _check(file: BinaryIO, is_embedded: bool) -> None:
    """Look at all of an input that can be read again. Raises Failure: nothing was published."""
    if file.seekable():
        begin = file.tell()
        for one in read_events(file):
            _outgoing(one, is_embedded)
        file.seek(begin)


async def _send(
    session: Session,
    given: Iterator[Given],
    where: Where,
    opened: AbstractAsyncContextManager[tuple[Log, Decide]],
    timeout: int | None,
) -> bool:
    """Publish chunk by chunk; whether any event was refused."""
    refused = False
    number = 0
    ready = ((one, _outgoing(one, where.is_embedded)) for one in given)
    async with opened as (log, decide):
        # First what stands: a steward that cannot decide here must not publish either.
        await decide()
        answers = Answers(log)
        await answers.begin()
        chunks = _chunks(ready, one_topic=not where.is_embedded and timeout is not None)
        while chunk := _next(chunks, number):
            positions = await log.publish([outgoing for _, outgoing in chunk])
            if timeout is not None:
                await decide()
                wait_s = 0 if where.is_embedded else timeout
                found = await answers.of(positions, timeout_s=wait_s)
                for at, ((one, _), answer) in enumerate(zip(chunk, found, strict=True), number):
                    refused |= _told(session, at, one, answer, where.is_embedded)
            else:
                _told_positions(session, number, ((p.topic, p.offset) for p in positions))
            number += len(chunk)
    return refused


def _chunks(
    ready: Iterator[tuple[Given, Outgoing]], *, one_topic: bool
) -> Iterator[list[tuple[Given, Outgoing]]]:
    """Bounded chunks; `one_topic`: each of one topic, since topics have no order between them."""
    for _, run in groupby(ready, key=lambda pair: pair[1].topic if one_topic else ""):
        while chunk := list(islice(run, CHUNK_EVENTS)):
            yield chunk


def _next(
    chunks: Iterator[list[tuple[Given, Outgoing]]], published: int
) -> list[tuple[Given, Outgoing]]:
    """The next chunk; none at the end. Raises Failure that says what became of those before."""
    try:
        with _interruptible():
            return next(chunks, [])
    except Failure as failure:
        before = f"events 0 to {published - 1} were published, and no other"
        told = before if published else "nothing was published"
        raise Failure(f"{failure}; {told}", status=failure.status) from failure


@contextmanager
def _interruptible() -> Iterator[None]:
    """An interrupt ends what blocks here; else it would be heard when the task waits next."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or isinstance(before, signal.Handlers):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def _opened(
    where: Where, key: Path | None, password_file: Path | None, *, decides: bool
) -> AsyncIterator[tuple[Log, Decide]]:
    """The log and what makes it decide: the steward in this command, or nothing on Kafka."""

    async def elsewhere() -> None:
        """A steward decides it, wherever it runs."""

    if where.data is not None and decides:
        signer = None if key is None else read_key(key, password_file)
        async with embedded(where.data, signer=signer, password_file=password_file) as stewards:
            yield stewards.log, stewards.decide_all
    else:
        async with where.log(create=True) as log:
            yield log, elsewhere


def _outgoing(given: Given, is_embedded: bool) -> Outgoing:
    """The record that an event becomes. Raises Failure where it names no pool or no time."""
    if not isinstance(given.value, dict):
        raise _unusable(given, "an event is a map")
    fields: dict[str, Any] = dict(given.value)
    at_ms = fields.pop("at_ms", None)
    if isinstance(at_ms, str) and at_ms.isascii() and at_ms.isdigit():
        at_ms = int(at_ms[:20])
    if at_ms is not None and (type(at_ms) is not int or not 0 <= at_ms < INSTANT_LIMIT_MS):
        raise _unusable(given, "at_ms is an instant in ms since the Unix epoch")
    if at_ms is not None and not is_embedded:
        raise _unusable(given, "on Kafka the broker gives the time: leave at_ms out")
    pool = fields.get("pool")
    if not isinstance(pool, str) or not pool:
        raise _unusable(given, "`pool` must say which pool it is for")
    kind = fields.get("type")
    return Outgoing(
        topic=_TOPICS.get(kind, topics.CLAIMS) if isinstance(kind, str) else topics.CLAIMS,
        key=pool.encode("utf-8", "surrogatepass"),
        value=_encoded(fields, given.content_type),
        content_type=given.content_type,
        timestamp_ms=at_ms,
    )


def _encoded(fields: dict[str, Any], content_type: str) -> bytes:
    if content_type == CONTENT_TYPE_CBOR:
        return cbor.encode(fields)
    return json.dumps(fields, separators=(",", ":")).encode()


def _unusable(given: Given, detail: str) -> Failure:
    return Failure("cannot send", where=given.place, todo=detail, status=Status.USAGE)


def _told(
    session: Session, number: int, given: Given, answer: Answer | None, is_embedded: bool
) -> bool:
    """Print an event's answer; whether it was refused. Raises Failure if there is none in time."""
    kind = str(given.value.get("type"))
    if answer is None:
        if is_embedded or kind == EventType.TICK:
            return False
        raise Failure(
            f"no steward answered event {number}",
            where=given.place,
            todo="it was published and will be decided; see that a steward runs (pool doctor)",
            status=Status.TROUBLE,
        )
    if answer.dead_reason is not None:
        body = {"reason": answer.dead_reason, "detail": answer.dead_detail}
        _print(session, number, {"kind": "dead-letter", **body})
        return True
    for receipt in answer.receipts:
        _print(session, number, decision_line(receipt))
    decision = decision_of(answer.receipts, kind, given.value.get("claim"))
    return decision is not None and decision.kind in ("refused", "claim.refused")


def _print(session: Session, number: int, line: dict[str, Any]) -> None:
    if session.json:
        session.line({"event": number, **line})
    else:
        session.say(f"event {number:>5}  {show_decision(line)}")


def _told_positions(session: Session, number: int, places: Iterable[tuple[str, int]]) -> None:
    for at, (topic, offset) in enumerate(places, start=number):
        if session.json:
            session.line({"event": at, "topic": topic, "offset": offset})
        else:
            session.say(f"event {at:>5}  published to {topic} at offset {offset}")
