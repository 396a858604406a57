"""Publishing a replay: what stands of it already is compared, only the rest is published."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schemas import cbor
from streams import topics
from streams.logs.contract import Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.traces import Stamped, TraceError
from streams.traces import publish as publishing
from streams.traces.publish import publish


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """An empty log."""
    opened = EmbeddedLog(tmp_path)
    yield opened
    await opened.close()


def _events(count: int) -> list[Stamped]:
    kinds = (topics.CLAIMS, topics.CLAIMS, topics.ADMIN)
    return [
        Stamped(at_ms=n, topic=kinds[n % 3], event={"pool": "p", "type": "t", "n": n})
        for n in range(count)
    ]


async def _nothing() -> None:
    """Nobody decides in these tests."""


@pytest.mark.parametrize("standing", [0, 1, 5, 6])
async def test_the_rest_is_published(log: EmbeddedLog, standing: int) -> None:
    """After any beginning, the log holds the whole, each once and in order."""
    await publish(_events(standing), pool="p", log=log, decide=_nothing)
    done = await publish(_events(6), pool="p", log=log, decide=_nothing)
    assert (done.standing, done.published) == (standing, 6 - standing)
    for topic, wanted in ((topics.CLAIMS, [0, 1, 3, 4]), (topics.ADMIN, [2, 5])):
        found = (await log.read(topic, 0, offset_next=0)).records
        assert [cbor.decode(one.value)["n"] for one in found] == wanted
        assert [one.timestamp_ms for one in found] == wanted


async def test_batches_are_decided_one_after_the_other(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steward is asked at the start and after each batch; the log is never far ahead."""
    monkeypatch.setattr(publishing, "BATCH_EVENTS", 4)
    ends: list[int] = []

    async def decide() -> None:
        ends.append(await log.end(topics.CLAIMS, 0) + await log.end(topics.ADMIN, 0))

    await publish(_events(10), pool="p", log=log, decide=decide)
    assert ends == [0, 4, 8, 10]


async def test_another_pools_events_do_not_matter(log: EmbeddedLog) -> None:
    """Only what stands under the replay's pool is compared."""
    other = cbor.encode({"pool": "q"})
    await log.publish([Outgoing(topic=topics.CLAIMS, key=b"q", value=other, timestamp_ms=9)])
    done = await publish(_events(3), pool="p", log=log, decide=_nothing)
    assert (done.standing, done.published) == (0, 3)


@pytest.mark.parametrize(
    "foreign",
    [
        Outgoing(topic=topics.CLAIMS, key=b"p", value=b"\xa0", timestamp_ms=0),
        Outgoing(topic=topics.METERS, key=b"p", value=b"\xa0", timestamp_ms=0),
        Outgoing(
            topic=topics.CLAIMS,
            key=b"p",
            value=cbor.encode({"pool": "p", "type": "t", "n": 0}),
            timestamp_ms=1,
        ),
    ],
)
async def test_what_is_not_of_the_replay_stops_it(log: EmbeddedLog, foreign: Outgoing) -> None:
    """Another value, another topic, another instant: refused, with the place."""
    await log.publish([foreign])
    with pytest.raises(TraceError, match=f"{foreign.topic} offset 0 of pool 'p'"):
        await publish(_events(3), pool="p", log=log, decide=_nothing)
    assert await log.end(topics.ADMIN, 0) == 0
