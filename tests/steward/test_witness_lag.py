"""The doctor sees which pools' witnesses are behind, missing, or cry fork."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from schemas.forks import seal_fork
from schemas.heads import open_head, seal_countersignature, seal_head
from schemas.keys import SeedSigner
from streams import topics
from streams import witness_lag as lag_module
from streams.logs.contract import CONTENT_COSE, Entry, Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.logs.kafka_findings import Finding, Level
from streams.witness_lag import GRACE_MS, witness_lag
from tests.witness.ledger import START_MS, Ledger

STEWARD, WITNESS, OTHER = (SeedSigner(bytes([number] * 32)) for number in range(3))
NOW_MS = 1_700_000_000_000
LATE_MS = GRACE_MS + 1


def head(length: int, age_ms: int = 0, *, pool: str = "p", root: bytes = bytes(32)) -> bytes:
    """A steward's head of so many receipts, so old."""
    return seal_head(STEWARD, pool, length, bytes(32), root, NOW_MS - age_ms)


def countersigned(length: int, key: SeedSigner = WITNESS, pool: str = "p") -> bytes:
    """A witness's statement for so many receipts."""
    return seal_countersignature(key, open_head(head(length, pool=pool)), NOW_MS)


def evidence(key: SeedSigner = WITNESS, pool: str = "p") -> bytes:
    """A witness's word that the steward signed two heads of 5 receipts."""
    one, other = (open_head(head(5, pool=pool, root=bytes([n] * 32))) for n in range(2))
    return seal_fork(key, one, other, (), NOW_MS)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path)
    yield log
    await log.close()


async def write(log: EmbeddedLog, topic: str, values: Sequence[bytes]) -> None:
    """What a steward writes."""
    writer = await log.open_writer(0)
    await writer.append([Entry(topic=topic, key=b"p", value=value) for value in values])
    await writer.close()


async def publish(log: EmbeddedLog, values: Sequence[bytes]) -> None:
    """What witnesses publish."""
    await log.publish(
        [
            Outgoing(topic=topics.WITNESS, key=b"p", value=value, content_type=CONTENT_COSE)
            for value in values
        ]
    )


async def found(
    log: EmbeddedLog,
    *,
    beside: Sequence[bytes] = (),
    ends: Mapping[str, tuple[int, int]] | None = None,
    now_ms: int = NOW_MS,
) -> Finding:
    """The one finding; it says what to do unless it is fine."""
    (finding,) = await witness_lag(log, beside=beside, ends=ends, clock_ms=lambda: now_ms)
    assert finding.where == "p"
    assert bool(finding.todo) == (finding.level is not Level.FINE)
    return finding


@pytest.mark.parametrize(
    ("heads", "signed", "level", "words"),
    [
        ([(10, 0)], None, Level.WARNING, "any of its 10 receipts: they are self-attested"),
        ([(10, LATE_MS)], 10, Level.FINE, "1 witness, at 10 of 10 receipts"),
        ([(10, LATE_MS), (20, 0)], 10, Level.FINE, "at 10 of 20 receipts: 10 receipts behind"),
        ([(10, LATE_MS), (20, 9_000)], 10, Level.FINE, "10 receipts behind, for 9 s"),
        ([(10, LATE_MS), (20, -9_000)], 10, Level.FINE, "10 receipts behind, for 0 s"),
        ([(20, LATE_MS), (21, 0)], 10, Level.WARNING, "11 receipts behind, for 60 s"),
        ([(49, 7_300_000)], 10, Level.WARNING, "at 10 of 49 receipts: 39 receipts behind, for 2 h"),
        ([(10, LATE_MS)], 12, Level.PROBLEM, "at 12 of 10 receipts: the ledger was cut"),
    ],
)
async def test_a_witness_is_behind_or_not(
    log: EmbeddedLog,
    heads: list[tuple[int, int]],
    signed: int | None,
    level: Level,
    words: str,
) -> None:
    """The lag is told in receipts and time: nobody signed, all signed, a fresh head is not missed
    yet, an old one is, and a witness cannot be ahead.
    """
    await write(log, topics.HEADS, [*(head(*one) for one in heads), b"no head"])
    if signed is not None:
        await publish(log, [countersigned(1), countersigned(signed), b"no statement"])
    finding = await found(log)
    assert finding.level is level
    assert words in finding.what


async def test_receipts_without_a_head_are_behind_too(log: EmbeddedLog) -> None:
    """A ledger that grows while its heads stop: the time is that since the first such receipt."""
    ledger = Ledger(pool="p").grow(12)
    await write(log, topics.HEADS, [head(10)])
    await write(log, topics.LEDGER, [*ledger.receipts, b"no receipt"])
    await publish(log, [countersigned(10)])
    finding = await found(log, now_ms=START_MS + 10 + 3 * 60_000)
    assert finding.level is Level.WARNING
    assert finding.what == "1 witness, at 10 of 12 receipts: 2 receipts behind, for 3 min"
    assert "the steward runs" in finding.todo


async def test_the_farthest_of_several_witnesses_counts(log: EmbeddedLog) -> None:
    """Each witness's newest statement; one under the steward's own key is no witness's."""
    await write(log, topics.HEADS, [head(30)])
    await publish(log, [countersigned(20), countersigned(25, OTHER), countersigned(30, STEWARD)])
    assert (await found(log)).what.startswith("2 witnesses, the farthest at 25 of 30 receipts")


async def test_fork_evidence_is_a_problem_however_old(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever signed all the rest, and whatever came after it; each witness is counted once."""
    monkeypatch.setattr(lag_module, "TAIL_OFFSETS", 3)
    await write(log, topics.HEADS, [head(10)])
    await publish(log, [evidence(), evidence(), evidence(OTHER)])
    await publish(log, [countersigned(10)] * 20)
    finding = await found(log)
    assert finding.level is Level.PROBLEM
    assert finding.what.startswith("forked: 2 of its witnesses published two heads")
    assert "5 and 5 receipts" in finding.what
    assert "new pool" in finding.todo


async def test_what_only_looks_like_evidence_accuses_nobody(log: EmbeddedLog) -> None:
    """Evidence counts if it opens: both heads' signatures and the contradiction."""
    await write(log, topics.HEADS, [head(10)])
    bent = evidence()
    await publish(log, [countersigned(10), bent[:-1] + bytes([bent[-1] ^ 1]), b"pool-fork/1"])
    assert (await found(log)).level is Level.FINE


async def test_statements_beside_a_log_and_quiet_pools_are_seen(log: EmbeddedLog) -> None:
    """An embedded log's outboxes, and a ledger whose end only the caller knows."""
    ends = {"p": (49, NOW_MS - LATE_MS)}
    finding = await found(log, beside=[countersigned(10), b"junk"], ends=ends)
    assert finding.level is Level.WARNING
    assert "39 receipts behind" in finding.what
    assert (await found(log, beside=[evidence()], ends=ends)).level is Level.PROBLEM
    assert (await found(log, beside=[evidence()])).level is Level.PROBLEM


async def test_a_quiet_deployment_has_no_finding(tmp_path: Path) -> None:
    """Without a head there is nothing that a witness could be behind of."""
    log = EmbeddedLog(tmp_path)
    assert await witness_lag(log) == []
    await log.close()
