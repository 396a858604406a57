"""A record that is no event or no pool's is answered or buried once, and the partition goes on."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steward_support import (
    POOL,
    SIGNER,
    claim,
    decide,
    ledger,
    opened,
    published,
    records,
    verified,
)

from schemas import cbor
from schemas.receipts import Receipt
from schemas.records import EVENT_BYTES_MAX, Kind
from streams import topics
from streams.logs.contract import Outgoing, Record
from streams.logs.embedded import EmbeddedLog
from streams.steward import Keyring, audit
from streams.steward.deadletters import source_of
from streams.steward.draft import Draft
from streams.steward.pools import Partition

DEEP: object = 1
for _ in range(14):
    DEEP = {"a": DEEP}

MALFORMED = {
    "not CBOR": (Outgoing(topic=topics.CLAIMS, key=b"p", value=b"\xff\xff"), None),
    "empty": (Outgoing(topic=topics.CLAIMS, key=b"p", value=b""), None),
    "not JSON": (
        Outgoing(topic=topics.CLAIMS, key=b"p", value=b"{", content_type="application/json"),
        None,
    ),
    "another content type": (
        Outgoing(topic=topics.CLAIMS, key=b"p", value=b"x", content_type="text/plain"),
        None,
    ),
    "another pool than its key's": (claim("a", 1, pool="q", leaf="x"), "pool"),
    "no type": (Outgoing(topic=topics.CLAIMS, key=b"p", value=cbor.encode({"pool": "p"})), "type"),
    "an unknown field": (claim("a", 1, colour="red"), "colour"),
    "an admin event among the claims": (
        published({"type": "policy.set", "pool": POOL, "policy": {}}, 1, topic=topics.CLAIMS),
        "type",
    ),
    "a claim among the readings": (
        published({"type": "claim.cancelled", "pool": POOL, "claim": "a"}, 1, topic=topics.METERS),
        "type",
    ),
    "meta too deep for a core": (
        published(
            {"type": "pool.opened", "pool": POOL, "capacity": {}, "tree": [], "meta": DEEP}, 1
        ),
        "already-open",
    ),
}


def rekeyed(event: Outgoing) -> Outgoing:
    """The event under the key of the pool `p`."""
    return Outgoing(
        topic=event.topic,
        key=b"p",
        value=event.value,
        content_type=event.content_type,
        timestamp_ms=1500,
    )


@pytest.mark.parametrize("name", MALFORMED)
async def test_no_event_gets_one_answer(name: str, tmp_path: Path) -> None:
    """It is refused with its field in the key's pool; the next event is decided; audit agrees."""
    event, field = MALFORMED[name]
    log = EmbeddedLog(tmp_path)
    await decide(log, [opened(), rekeyed(event), claim("b", 2000)])
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts] == [
        Kind.POOL_OPENED,
        Kind.REFUSED,
        Kind.CLAIM_ADMITTED,
    ]
    body = receipts[1].body
    if field == "already-open":
        assert body["reason"] == "already-open"
        assert set(raw_event(receipts[1])) == {"bytes", "content_type"}
    else:
        assert (body["reason"], body.get("field")) == ("malformed", field)
        assert raw_event(receipts[1]) == {
            "bytes": event.value,
            "content_type": event.content_type,
        }
    assert audit(receipts) is None
    assert await records(log, topics.DEAD) == []
    await log.close()


def raw_event(receipt: Receipt) -> dict[str, object]:
    """The event as a receipt carries it."""
    event = receipt.body["event"]
    assert isinstance(event, dict)
    return dict(event)


BURIED = {
    "no key": (Outgoing(topic=topics.CLAIMS, key=None, value=b"x"), "malformed", {"field": "pool"}),
    "an empty key": (
        Outgoing(topic=topics.CLAIMS, key=b"", value=b"x"),
        "malformed",
        {"field": "pool"},
    ),
    "a key that is no text": (
        Outgoing(topic=topics.CLAIMS, key=b"\xff", value=b"x"),
        "malformed",
        {"field": "pool"},
    ),
    "a pool that is not open": (
        claim("a", 1, pool="q"),
        "unknown-pool",
        {"reason": "unknown-pool"},
    ),
    "no event for a pool that is not open": (
        Outgoing(topic=topics.CLAIMS, key=b"q", value=b"x"),
        "malformed",
        {"reason": "malformed"},
    ),
    "an opening that is refused": (
        published(
            {
                "type": "pool.opened",
                "pool": "q",
                "capacity": {"mdev": 1, "uj": 1},
                "tree": [],
                "resources": ["uj"],
            },
            1,
        ),
        "malformed",
        None,
    ),
}


@pytest.mark.parametrize("name", BURIED)
async def test_what_no_pool_can_be_told_is_buried_once(name: str, tmp_path: Path) -> None:
    """The dead letter has the record's bytes, the reason and the source; no second one is made."""
    event, reason, detail = BURIED[name]
    log = EmbeddedLog(tmp_path)
    await decide(log, [opened(), event])
    for _ in range(2):
        await decide(log, [claim("b", 2000)])
    (letter,) = await records(log, topics.DEAD)
    assert (letter.key, letter.value) == (event.key, event.value)
    assert letter.content_type == event.content_type
    headers = dict(letter.headers)
    assert headers["reason"] == reason.encode()
    if detail is not None:
        assert json.loads(headers["detail"]) == detail
    (source,) = [r for r in await records(log, event.topic) if r.value == event.value]
    assert source_of(letter) == (source.topic, source.partition, source.offset)
    _, receipts = verified(await ledger(log))
    assert len(receipts) == 3
    await log.close()


async def test_a_pool_opens_after_it_was_unknown(tmp_path: Path) -> None:
    """A refusal of an unknown pool leaves nothing behind that its opening would meet."""
    log = EmbeddedLog(tmp_path)
    await decide(log, [claim("a", 1000), opened(at_ms=1001), claim("a", 1002)])
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts] == [Kind.POOL_OPENED, Kind.CLAIM_ADMITTED]
    assert audit(receipts) is None
    await log.close()


async def test_an_event_as_large_as_may_be_fits_its_receipt(tmp_path: Path) -> None:
    """The largest event that the log takes is answered in the ledger, decodable or not."""
    noise = Outgoing(topic=topics.CLAIMS, key=b"p", value=bytes(EVENT_BYTES_MAX))
    rest = len(cbor.encode({"pool": POOL, "type": "period.opened", "period": ""})) + 4
    long = published(
        {"type": "period.opened", "pool": POOL, "period": "x" * (EVENT_BYTES_MAX - rest)}
    )
    assert EVENT_BYTES_MAX - 1 <= len(long.value) <= EVENT_BYTES_MAX
    log = EmbeddedLog(tmp_path)
    await decide(log, [opened(), noise, claim("b", 2000)])
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts][1:] == [Kind.REFUSED, Kind.CLAIM_ADMITTED]
    await log.close()


async def test_receipts_too_large_for_a_ledger_are_buried(tmp_path: Path) -> None:
    """An event whose answer no receipt can hold goes to the dead letters; the partition goes on."""
    period = "x" * (EVENT_BYTES_MAX - 100)
    huge = published({"type": "period.opened", "pool": POOL, "period": period}, 1500)
    log = EmbeddedLog(tmp_path)
    await decide(log, [opened(), huge, claim("b", 2000)])
    _, receipts = verified(await ledger(log))
    assert [receipt.kind for receipt in receipts] == [Kind.POOL_OPENED, Kind.CLAIM_ADMITTED]
    assert audit(receipts) is None
    (letter,) = await records(log, topics.DEAD)
    assert dict(letter.headers)["reason"] == b"malformed"
    await decide(log, [claim("c", 3000)])
    assert len(await records(log, topics.DEAD)) == 1
    await log.close()


def test_a_time_beyond_reason_does_not_stop_the_partition() -> None:
    """A broker that lets producers choose the time cannot make the steward fall over."""
    partition = Partition(number=0)
    draft = Draft(partition, Keyring([SIGNER]))
    for offset, timestamp_ms in enumerate((-1, 2**62)):
        event = opened() if offset == 0 else claim("a", None)
        draft.add(
            Record(
                topic=event.topic,
                partition=0,
                offset=offset,
                timestamp_ms=timestamp_ms,
                order=offset,
                key=event.key,
                value=event.value,
            )
        )
    assert [receipt.closed_at_ms for receipt in draft.receipts] == [0, 253_402_300_799_999]


VALID = [opened().value, claim("a", 1).value, b'{"pool": "p", "type": "tick"}']
BYTES = st.one_of(
    st.binary(max_size=60),
    st.tuples(st.sampled_from(VALID), st.integers(0, 200), st.integers(0, 255)).map(
        lambda how: how[0][: how[1]] + bytes([how[2]]) + how[0][how[1] + 1 :]
    ),
    st.sampled_from(VALID),
)
FUZZED = st.builds(
    Outgoing,
    topic=st.sampled_from(topics.INPUT_TOPICS),
    key=st.sampled_from([b"p", b"p", b"p", b"q", b"", None, b"\xff"]),
    value=BYTES,
    content_type=st.sampled_from(["application/cbor", "application/json", "", "x"]),
    timestamp_ms=st.integers(-5, 5000),
)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(FUZZED, max_size=12))
def test_any_bytes_are_decided_or_buried(events: list[Outgoing]) -> None:
    """Whatever arrives, nothing escapes, every record is past, and the ledger audits clean."""
    partition = Partition(number=0)
    draft = Draft(partition, Keyring([SIGNER]))
    at = dict.fromkeys(topics.INPUT_TOPICS, 0)
    for event in [opened(), *events]:
        draft.add(record_of(event, at[event.topic]))
        at[event.topic] += 1
    for pool in partition.pools:
        sealed = [
            entry.value
            for entry in draft.entries
            if entry.topic == topics.LEDGER and entry.key == pool.encode()
        ]
        assert audit(verified(sealed, pool)[1]) is None
    buried = [entry for entry in draft.entries if entry.topic == topics.DEAD]
    assert len(buried) == draft.dead_letters
    answered = {(receipt.cause.topic, receipt.cause.offset) for receipt in draft.receipts}
    assert draft.events >= len(answered) + len(buried)
    for topic in topics.INPUT_TOPICS:
        assert partition.positions[topic] <= at[topic]


def record_of(event: Outgoing, offset: int) -> Record:
    """The record that an event would be."""
    return Record(
        topic=event.topic,
        partition=0,
        offset=offset,
        timestamp_ms=event.timestamp_ms or 0,
        order=offset,
        key=event.key,
        value=event.value,
        content_type=event.content_type,
    )
