"""The client library asks, awaits and follows, on an embedded log and on Kafka alike."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import QUICK

from schemas.keys import SeedSigner
from schemas.records import Actual, Grade, Kind, Occupant
from streams.client import Client, Unanswered
from streams.logs.contract import Log, Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_options import Connection
from streams.receiving import Untrusted
from streams.requests import (
    Cancellation,
    Claim,
    Commit,
    Progress,
    Reading,
    Release,
    Renewal,
    Request,
)
from streams.steward import Keyring, Steward

SIGNER = SeedSigner(bytes(range(32)))
GANG = ({"mdev": 1000, "uj": 1_000_000},)
OPENED = {
    "pool": "p",
    "type": "pool.opened",
    "capacity": {"mdev": 2000, "uj": 10**12},
    "tree": [{"id": "a", "guarantee": {"mdev": 2000, "uj": 10**12}}],
}


@pytest.fixture(params=["embedded", "kafka"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    """A log with one partition, of either kind."""
    log: Log
    if request.param == "embedded":
        log = EmbeddedLog(tmp_path)
    else:
        prefix = f"t{uuid.uuid4().hex[:10]}."
        address = request.getfixturevalue("broker")
        connection = Connection(bootstrap=address, prefix=prefix, tuning=QUICK)
        await create_topics(connection, partitions=1, replicas=1)
        log = KafkaLog(connection)
    yield log
    await log.close()


@pytest.fixture
async def stewarded(shared: Log) -> AsyncIterator[Log]:
    """The log with a steward at work on it."""
    stopping = asyncio.Event()
    steward = asyncio.create_task(Steward(shared, 0, Keyring([SIGNER])).run(stopping))
    yield shared
    stopping.set()
    await steward


def claim(name: str, **more: object) -> Claim:
    """A claim of one device."""
    return Claim(claim=name, leaf="a", gang=GANG, grade=Grade.MODEL_BASED, **more)  # type: ignore[arg-type]


async def test_a_claim_is_answered(stewarded: Log) -> None:
    """Admitted, waiting and refused claims get their decision, with the reason."""
    async with Client(stewarded, "p") as client:
        await client.ask_all([OPENED])
        first = await client.ask(claim("one"))
        assert first.decision is not None
        assert (first.decision.kind, first.is_refused) == (Kind.CLAIM_ADMITTED, False)
        await client.ask(claim("two"))
        third = await client.ask(claim("three"))
        assert third.decision is not None
        assert (third.decision.kind, third.reason) == (Kind.CLAIM_WAITING, "share")
        nowhere = await client.ask(
            Claim(claim="four", leaf="b", gang=GANG, grade=Grade.MODEL_BASED)
        )
        assert (nowhere.is_refused, nowhere.reason) == (True, "unknown-leaf")


async def test_a_claim_lives_and_ends(stewarded: Log) -> None:
    """Every request that a producer makes has its answer."""
    window = {"from_ms": 1_000, "to_ms": 2_000, "uj": 500, "grade": Grade.HW_SHUNT}
    steps: list[tuple[Request, Kind]] = [
        (claim("one", lease_ms=60_000, id="e1"), Kind.CLAIM_ADMITTED),
        (claim("one", lease_ms=60_000, id="e1"), Kind.DUPLICATE),
        (Commit(claim="one"), Kind.CLAIM_COMMITTED),
        (Renewal(claim="one"), Kind.CLAIM_RENEWED),
        (Progress(claim="one", completed=7), Kind.CLAIM_PROGRESSED),
        (
            Reading(device="d", occupants=[Occupant(claim="one", mdev=1000)], **window),  # type: ignore[arg-type]
            Kind.METER_SPLIT,
        ),
        (Reading(device="d", from_ms=2_000, to_ms=3_000, uj=None), Kind.METER_GAP),
        (claim("two"), Kind.CLAIM_ADMITTED),
        (claim("three"), Kind.CLAIM_WAITING),
        (Cancellation(claim="three"), Kind.CLAIM_CANCELLED),
        (
            Release(claim="one", outcome="completed", actual=Actual(uj=900, grade="HwShunt")),
            Kind.CLAIM_SETTLED,
        ),
        (Claim(claim="x", leaf="a", gang=[{"mdev": 1}], class_="c"), Kind.CLAIM_REFUSED),
    ]
    async with Client(stewarded, "p") as client:
        await client.ask_all([OPENED])
        for request, kind in steps:
            answer = await client.ask(request)
            assert answer.decision is not None
            assert answer.decision.kind == kind, request


async def test_what_it_set_off_is_told_apart(stewarded: Log) -> None:
    """A release that lets another claim in is answered by its own settlement."""
    async with Client(stewarded, "p") as client:
        await client.ask_all([OPENED])
        for name in ("one", "two", "three"):
            await client.ask(claim(name))
        answer = await client.ask(Release(claim="one", outcome="completed"))
        assert answer.decision is not None
        assert answer.decision.kind is Kind.CLAIM_SETTLED
        kinds = [receipt.kind for receipt in answer.receipts]
        assert kinds == [Kind.CLAIM_SETTLED, Kind.CLAIM_ADMITTED]


async def test_a_dead_letter_is_an_answer(stewarded: Log) -> None:
    """A request for a pool that is not open is answered with the reason."""
    async with Client(stewarded, "p") as client:
        answer = await client.ask(claim("one"))
    assert (answer.decision, answer.is_refused) == (None, True)
    assert answer.reason == "unknown-pool"


async def test_many_are_answered_in_their_order(stewarded: Log) -> None:
    """Answers stand in the order of what was asked, though they arrive in any."""
    async with Client(stewarded, "p") as client, Client(stewarded, "p") as other:
        await client.ask_all([OPENED])
        names = [f"c{number}" for number in range(40)]
        answers = await asyncio.gather(
            *(one.ask(claim(name)) for one, name in zip([client, other] * 20, names, strict=True))
        )
    told = [answer.decision.body["claim"] for answer in answers if answer.decision]
    assert told == names


async def test_decisions_are_followed_from_a_seq(stewarded: Log) -> None:
    """Following begins where it is told to, and goes on with what comes."""
    async with Client(stewarded, "p", stewards=[SIGNER.public_key]) as client:
        await client.ask_all([OPENED])
        await client.ask_all(
            [{"pool": "p", "type": "period.opened", "period": str(n)} for n in range(1500)]
        )
        seen = [receipt.seq async for receipt in client.follow(1400, seq_until=1410)]
        assert seen == list(range(1400, 1410))
        coming = client.follow(1501)
        waiting = asyncio.ensure_future(anext(coming))  # type: ignore[arg-type]
        await client.ask(claim("one"))
        assert (await waiting).kind is Kind.CLAIM_ADMITTED


async def test_without_a_steward_it_says_so(shared: Log) -> None:
    """Nobody decides: the request is in the log, and the error says where."""
    async with Client(shared, "p") as client:
        with pytest.raises(Unanswered, match="check that a steward runs") as unanswered:
            await client.ask(claim("one"), timeout_ms=100)
    assert unanswered.value.position.topic == "pool.claims"


async def test_another_key_is_not_believed(stewarded: Log) -> None:
    """Receipts of a key that is not among the trusted ones are refused, not returned."""
    async with Client(stewarded, "p", stewards=[SeedSigner(bytes(32)).public_key]) as client:
        with pytest.raises(Untrusted):
            await client.ask_all([OPENED])


async def test_what_is_no_receipt_is_passed_over(stewarded: Log, shared: Log) -> None:
    """Events that are no events are answered too, and others' keys are left alone."""
    async with Client(stewarded, "p") as client:
        await client.ask_all([OPENED])
        await shared.publish([Outgoing(topic="pool.claims", key=b"q", value=b"\x00")])
        (answer,) = await client.ask_all([{"pool": "p", "type": "claim.committed"}])
    assert (answer.is_refused, answer.reason) == (True, "malformed")
