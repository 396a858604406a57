"""The doctor sees which pools' witnesses are behind, missing, or cry fork."""

from pathlib import Path

import pytest

from schemas.heads import open_head, seal_countersignature, seal_head
from schemas.keys import SeedSigner
from streams import topics
from streams.logs.contract import CONTENT_COSE, Entry, Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.logs.kafka_findings import Level
from streams.witness_lag import GRACE_MS, witness_lag

STEWARD, WITNESS = SeedSigner(bytes(32)), SeedSigner(bytes([1] * 32))
NOW_MS = 1_700_000_000_000


def head(length: int, age_ms: int) -> bytes:
    """A steward's head of so many receipts, so old."""
    return seal_head(STEWARD, "p", length, bytes(32), bytes(32), NOW_MS - age_ms)


@pytest.mark.parametrize(
    ("heads", "signed", "level", "words"),
    [
        ([(10, 0)], None, Level.WARNING, "self-attested"),
        ([(10, GRACE_MS + 1)], 10, Level.FINE, "at 10 of 10"),
        ([(10, GRACE_MS + 1), (20, 0)], 10, Level.FINE, "at 10 of 20"),
        ([(10, GRACE_MS + 2), (20, GRACE_MS + 1)], 10, Level.WARNING, "at 10 of 20"),
    ],
)
async def test_a_witness_is_behind_or_not(
    tmp_path: Path, heads: list[tuple[int, int]], signed: int | None, level: Level, words: str
) -> None:
    """Nobody signed, all signed, a fresh head is not missed yet, an old one is."""
    log = EmbeddedLog(tmp_path)
    writer = await log.open_writer(0)
    sealed = [head(length, age_ms) for length, age_ms in heads]
    entries = [Entry(topic=topics.HEADS, key=b"p", value=data) for data in [*sealed, b"no head"]]
    await writer.append(entries)
    if signed is not None:
        value = seal_countersignature(WITNESS, open_head(head(signed, 0)), NOW_MS)
        published = [value, b"no statement"]
        await log.publish(
            [
                Outgoing(topic=topics.WITNESS, key=b"p", value=data, content_type=CONTENT_COSE)
                for data in published
            ]
        )
    (finding,) = await witness_lag(log, clock_ms=lambda: NOW_MS)
    assert (finding.where, finding.level) == ("p", level)
    assert words in finding.what
    assert bool(finding.todo) == (level is not Level.FINE)
    await log.close()


async def test_a_quiet_deployment_has_no_finding(tmp_path: Path) -> None:
    """Without a head there is nothing that a witness could be behind of."""
    log = EmbeddedLog(tmp_path)
    assert await witness_lag(log) == []
    await log.close()
