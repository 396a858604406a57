"""A steward's metrics count what it did, and its health says whether it is well."""

import asyncio
from pathlib import Path

import pytest

from schemas import cbor
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import Fenced
from streams.steward import Keyring, Steward
from streams.steward.health import serve_health
from streams.steward.metrics import Metrics, Observers


def event(topic: str, **fields: object) -> Outgoing:
    """An event for the pool `p`."""
    return Outgoing(topic=topic, key=b"p", value=cbor.encode({"pool": "p", **fields}))


OPENED = {
    "type": "pool.opened",
    "capacity": {"mdev": 1000, "uj": 1000},
    "tree": [{"id": "a", "guarantee": {"mdev": 1000, "uj": 1000}}],
}
CLAIM = {"type": "claim.submitted", "gang": [{"mdev": 1000, "uj": 1}], "grade": "HwShunt"}


async def worked(directory: Path) -> tuple[Metrics, EmbeddedLog]:
    """Metrics of a steward that decided five events, one of them for no pool; one is left."""
    log = EmbeddedLog(directory)
    metrics = Metrics()
    steward = Steward(log, 0, Keyring([SeedSigner(bytes(32))]), observer=Observers([metrics]))
    await log.publish(
        [
            event(topics.ADMIN, **OPENED),
            event(topics.CLAIMS, **CLAIM, claim="one", leaf="a"),
            event(topics.CLAIMS, **CLAIM, claim="two", leaf="nowhere"),
            event(topics.CLAIMS, type="claim.committed", claim="unknown"),
            Outgoing(topic=topics.METERS, key=None, value=b"?"),
        ]
    )
    await steward.decide_all()
    await log.publish([event(topics.CLAIMS, type="claim.committed", claim="one")])
    await steward.close()
    return metrics, log


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample's value."""
    return metrics.registry.get_sample_value(name, labels)


async def test_what_was_done_is_counted(tmp_path: Path) -> None:
    """Events, decisions by kind, refusals by reason, dead letters, lengths and lag."""
    metrics, log = await worked(tmp_path)
    assert value(metrics, "pool_events_decided_total", partition="0") == 5
    assert value(metrics, "pool_decisions_total", kind="claim.admitted") == 1
    assert value(metrics, "pool_decisions_total", kind="claim.refused") == 1
    assert value(metrics, "pool_refused_total", reason="unknown-leaf") == 1
    assert value(metrics, "pool_refused_total", reason="unknown-claim") == 1
    assert value(metrics, "pool_dead_letters_total", partition="0") == 1
    assert value(metrics, "pool_chain_length", pool="p") == 4
    assert value(metrics, "pool_batch_seconds_count") == 1
    assert value(metrics, "pool_replay_ratio", partition="0") == 1
    await metrics.measure(log)
    lag = {"topic": topics.CLAIMS, "partition": "0"}
    assert value(metrics, "pool_input_lag_offsets", **lag) == 1
    await log.close()


async def test_health_follows_the_partitions() -> None:
    """Replaying is well and not ready; stopped is neither; let go does not count."""
    metrics = Metrics()
    assert (metrics.is_well, metrics.is_ready) == (True, True)
    metrics.replaying(3, 50, 100)
    assert (metrics.is_well, metrics.is_ready) == (True, False)
    assert value(metrics, "pool_replay_ratio", partition="3") == 0.5
    metrics.opened(3, {"p": 7})
    assert (metrics.is_well, metrics.is_ready) == (True, True)
    metrics.reopening(3, Fenced("x", where="y", todo="z"), 5)
    assert (metrics.is_well, metrics.is_ready) == (True, False)
    assert value(metrics, "pool_reopened_total", partition="3", trouble="Fenced") == 1
    metrics.stopped(3, ValueError())
    assert (metrics.is_well, metrics.is_ready) == (False, False)
    metrics.let_go(3)
    assert (metrics.is_well, metrics.is_ready) == (True, True)


async def get(port: int, request: bytes) -> bytes:
    """What the server answers to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /healthz HTTP/1.1", b"200"),
        (b"GET /readyz?x=1 HTTP/1.0", b"503"),
        (b"GET /metrics HTTP/1.1", b"200"),
        (b"GET /other HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"nonsense", b"405"),
    ],
)
async def test_health_is_served(request_line: bytes, status: bytes) -> None:
    """The three pages, and a status for whatever else is asked."""
    metrics = Metrics()
    metrics.replaying(0, 1, 2)
    async with serve_health(metrics) as port:
        answer = await get(port, request_line + b"\r\nHost: x\r\n\r\n")
    assert answer.split(b" ", 2)[1] == status


async def test_a_request_too_long_is_dropped() -> None:
    """A head beyond its bound gets no answer, and the next one does."""
    async with serve_health(Metrics()) as port:
        assert await get(port, b"GET /" + b"x" * 100_000 + b"\r\n\r\n") == b""
        assert b"pool_batch_seconds" in await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")
