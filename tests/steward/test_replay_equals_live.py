"""What was decided live, what replay makes of the ledger, and what an audit decides are one."""

import json
from pathlib import Path

import pytest
from steward_support import (
    CASES,
    POOL,
    SIGNER,
    busy_day,
    case_events,
    claim,
    decide,
    ledger,
    opened,
    published,
    records,
    released,
    steward,
    verified,
)

from schemas.heads import open_head
from schemas.receipts import Receipt
from schemas.records import Kind
from streams import topics
from streams.kernel import PoolState
from streams.logs.contract import Outgoing
from streams.logs.embedded import EmbeddedLog
from streams.steward import audit, replay_pool
from streams.steward.deadletters import source_of
from streams.steward.fold import decision_of


def pinned(receipts: list[Receipt], expected: list[dict[str, object]]) -> None:
    """The receipts of one event have the kinds and the body fields that a case pins."""
    assert [str(receipt.kind) for receipt in receipts] == [want["kind"] for want in expected]
    for receipt, want in zip(receipts, expected, strict=True):
        body = decision_of(receipt).body
        found = {name: body.get(name) for name in want if name != "kind"}
        assert found == {name: value for name, value in want.items() if name != "kind"}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
async def test_a_case_through_a_real_log(path: Path, tmp_path: Path) -> None:
    """Every golden case holds through log and ledger, and replays and audits to the same."""
    case = json.loads(path.read_text())
    log = EmbeddedLog(tmp_path)
    await log.publish(case_events(path))
    one = steward(log)
    await one.decide_all()
    assert one.partition is not None
    for pool, held in one.partition.pools.items():
        _, receipts = verified(await ledger(log, pool), pool)
        assert replay_pool(receipts).to_plain() == held.state.to_plain()
        assert audit(receipts) is None
    pool = case["events"][0]["pool"]
    _, receipts = verified(await ledger(log, pool), pool)
    answers = by_event(receipts)
    buried = {source_of(letter): dict(letter.headers) for letter in await records(log, topics.DEAD)}
    orders = {}
    for topic in topics.INPUT_TOPICS:
        for record in await records(log, topic):
            orders[record.order] = (topic, record.offset)
    for number, expected in enumerate(case["decisions"]):
        topic, offset = orders[number]
        if (topic, 0, offset) in buried:
            detail = json.loads(buried[topic, 0, offset]["detail"])
            assert [{"kind": "refused", **detail}] == expected
        elif expected:
            pinned(answers[orders[number]], expected)
        else:
            assert orders[number] not in answers
    await one.finish()
    await log.close()


def by_event(receipts: list[Receipt]) -> dict[tuple[str, int], list[Receipt]]:
    """Receipts by where their event came from."""
    found: dict[tuple[str, int], list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault((receipt.cause.topic, receipt.cause.offset), []).append(receipt)
    return found


async def test_the_same_inputs_give_the_same_receipts(tmp_path: Path) -> None:
    """Run twice, in one batch or in many, the ledgers are the same bytes, and so are the heads."""
    events = busy_day(120)
    heads = []
    for name, step in (("one", len(events)), ("other", 29)):
        log = EmbeddedLog(tmp_path / name)
        for start in range(0, len(events), step):
            await decide(log, events[start : start + step])
        sealed = await ledger(log)
        chain, _ = verified(sealed)
        (*_, last) = await records(log, topics.HEADS)
        head = open_head(last.value, [SIGNER.public_key]).statement
        assert (head.end.length, head.end.head, head.end.root) == (
            chain.length,
            chain.head,
            chain.root(),
        )
        assert head.closed_at_ms == chain.closed_at_ms
        heads.append((sealed, last.value))
        await log.close()
    assert heads[0] == heads[1]


async def test_the_order_of_publication_is_the_order_of_decision(tmp_path: Path) -> None:
    """Events of three topics at one time are decided in the order that they were published."""
    log = EmbeddedLog(tmp_path)
    events = [opened()]
    for number in range(40):
        events.append(claim(f"c{number}", 2000))
        events.append(published({"type": "idle.review", "pool": POOL}, 2000))
        events.append(released(f"c{number}", 2000))
    await decide(log, events[:50])
    await decide(log, events[50:])
    _, receipts = verified(await ledger(log))
    firsts = [receipt.body["event"] for receipt in receipts if receipt.cause.index == 0]
    assert [event["type"] for event in firsts] == [  # type: ignore[index, call-overload]
        "pool.opened",
        *["claim.submitted", "idle.review", "claim.released"] * 40,
    ]
    await log.close()


async def test_json_and_cbor_are_alike(tmp_path: Path) -> None:
    """An event in JSON and the same in CBOR leave receipts that differ in the digest only."""
    cbor_event = claim("a", 2000)
    fields = {
        "type": "claim.submitted",
        "pool": POOL,
        "claim": "a",
        "leaf": "acme",
        "gang": [{"mdev": "1000", "uj": "10"}],
        "grade": "ModelBased",
    }
    json_event = Outgoing(
        topic=topics.CLAIMS,
        key=b"p",
        value=json.dumps(fields).encode(),
        content_type="application/json",
        timestamp_ms=2000,
    )
    found = []
    for name, event in (("cbor", cbor_event), ("json", json_event)):
        log = EmbeddedLog(tmp_path / name)
        await decide(log, [opened(), event])
        _, receipts = verified(await ledger(log))
        found.append((receipts[1].kind, receipts[1].body))
        assert audit(receipts) is None
        await log.close()
    assert found[0] == found[1]


async def test_an_audit_finds_the_first_decision_that_differs(tmp_path: Path) -> None:
    """A receipt that was made up, changed or left out is named by its place."""
    log = EmbeddedLog(tmp_path)
    await decide(log, busy_day(30))
    _, receipts = verified(await ledger(log))
    await log.close()
    assert audit(receipts) is None
    admitted = next(r for r in receipts if r.kind is Kind.CLAIM_ADMITTED and r.cause.index == 0)
    body = {**admitted.body, "mode": "borrowed"}
    changed = [changed_receipt(r, body=body) if r is admitted else r for r in receipts]
    difference = audit(changed)
    assert difference is not None
    assert (difference.seq, difference.detail) == (admitted.seq, "another body")
    assert difference.decided is not None
    assert difference.decided.body["mode"] == "guaranteed"

    other = [changed_receipt(r, kind=Kind.CLAIM_RENEWED) if r is admitted else r for r in receipts]
    assert audit(other).detail == "another decision"  # type: ignore[union-attr]
    late = [
        changed_receipt(r, closed_at_ms=r.closed_at_ms - 1) if r is receipts[-1] else r
        for r in receipts
    ]
    assert audit(late).seq == receipts[-1].seq  # type: ignore[union-attr]
    several = next(r for r in receipts if r.cause.count > 1 and r.cause.index == 0)
    cut = list(receipts[: several.seq + 1])
    cut[-1] = changed_receipt(several, cause=changed_cause(several.cause, count=1))
    left_out = audit(cut)
    assert left_out is not None
    assert (left_out.seq, left_out.detail) == (several.seq + 1, "left out")


def changed_receipt(receipt: Receipt, **changes: object) -> Receipt:
    """A copy with other members."""
    names = ("pool", "seq", "prev", "closed_at_ms", "steward", "cause", "kind", "body")
    return Receipt(**{**{name: getattr(receipt, name) for name in names}, **changes})


def changed_cause(cause: object, **changes: object) -> object:
    """A copy of a cause with other members."""
    names = ("topic", "partition", "offset", "digest", "index", "count")
    return type(cause)(**{**{name: getattr(cause, name) for name in names}, **changes})


def test_a_replay_needs_a_receipt() -> None:
    """A pool without receipts has no state; with a state it stays as it is."""
    with pytest.raises(ValueError, match="without receipts"):
        replay_pool([])
    state = PoolState(POOL)
    assert replay_pool([], state) is state
