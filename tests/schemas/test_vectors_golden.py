"""The golden vectors: made by the script, right by other means, and covering every kind."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from schemas import keys
from schemas.chain import CHECKS, Broken, verify_chain
from schemas.events import decode_event
from schemas.keys import KeyFault, KeyRefused
from schemas.receipts import Receipt, open_receipt
from schemas.records import Kind
from streams.kernel import PoolState, decide
from tests.schemas.make_vectors import FILES, VECTORS, drifted

GOLDEN = [name for name in FILES if "/" not in name]


def load(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def receipts_of(vector: Any) -> list[bytes]:
    return [bytes.fromhex(text) for text in vector["receipts"]]


def opened(vector: Any) -> list[Receipt]:
    return [open_receipt(data)[1] for data in receipts_of(vector)]


def test_nothing_has_drifted() -> None:
    """The files are what the script writes today: a change of the wire format is never silent."""
    assert drifted() == []


@pytest.mark.parametrize("name", GOLDEN)
def test_the_format_is_the_one_promised(name: str) -> None:
    """Others read these members; more may be added, none taken away."""
    vector = load(name)
    members = {"comment", "seed_hex", "events", "receipts", "head", "root"}
    assert members <= vector.keys()
    for event in vector["events"]:
        assert {"at_ms", "cause", "content_type", "value"} <= event.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_ledger_verifies_to_its_head(name: str) -> None:
    """Under the key of the seed alone: the second key is handed the ledger inside it."""
    vector = load(name)
    seed = bytes.fromhex(vector["seed_hex"])
    steward = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    reader = verify_chain(receipts_of(vector), "p", [steward])
    assert (reader.head.hex(), reader.root().hex()) == (vector["head"], vector["root"])


@pytest.mark.parametrize("name", GOLDEN)
def test_other_libraries_make_the_same_bytes(name: str) -> None:
    """From each core, cbor2 and OpenSSL alone, with no code of ours, give the receipt again."""
    vector = load(name)
    signers = [
        Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector[member]))
        for member in ("seed_hex", "successor_seed_hex")
    ]
    prev, holder = bytes(32), 0
    for data in receipts_of(vector):
        core = cbor2.loads(cbor2.loads(data).value[2])
        assert core["prev"] == prev
        signer = signers[holder]
        raw = signer.public_key().public_bytes_raw()
        kid = sha256(bytes.fromhex("a301012006215820") + raw).digest()
        protected = cbor2.dumps({1: -8, 4: kid})
        payload = cbor2.dumps(core, canonical=True)
        signature = signer.sign(cbor2.dumps(["Signature1", protected, b"", payload]))
        again = cbor2.dumps(cbor2.CBORTag(18, [protected, {}, payload, signature]))
        assert again == data
        prev = sha256(data).digest()
        holder += core["kind"] == "steward.rotated"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_kernel_decides_what_the_receipts_say(name: str) -> None:
    """Event by event: time, cause and digest are the record's, decisions are the kernel's."""
    vector = load(name)
    receipts = opened(vector)
    state = PoolState("p")
    for shown in vector["events"]:
        value, place = bytes.fromhex(shown["value"]), shown["cause"]
        event = decode_event(value, shown["content_type"], b"p")
        if shown.get("event", {}).get("type") == "pool.archived" and "claims" in place["topic"]:
            # An event on a topic that is not its own: which is whose, says `streams`.
            assert receipts.pop(0).body["field"] == "type"
            continue
        for index, decision in enumerate(decisions := decide(state, event, shown["at_ms"])):
            receipt = receipts.pop(0)
            cause = receipt.cause
            said = {key: value for key, value in receipt.body.items() if key != "event"}
            assert (receipt.kind, said) == (decision.kind, decision.body)
            assert (cause.topic, cause.partition, cause.offset) == tuple(place.values())
            assert (cause.index, cause.count) == (index, len(decisions))
            assert cause.digest == sha256(value).digest()
            assert receipt.closed_at_ms == state.now_ms
    assert not receipts


def test_every_kind_of_decision_is_there() -> None:
    """Whoever can make and read these vectors has met every kind of receipt."""
    assert {receipt.kind for name in GOLDEN for receipt in opened(load(name))} == set(Kind)


def test_events_appear_as_fields_and_as_bytes() -> None:
    """Both forms of `event` are there, and events with several receipts."""
    first = [r for n in GOLDEN for r in opened(load(n)) if r.cause.index == 0]
    events: list[Any] = [receipt.body["event"] for receipt in first]
    assert any(event.keys() == {"bytes", "content_type"} for event in events)
    assert any("type" in event for event in events)
    assert any(receipt.cause.count > 1 for receipt in first)


def test_keys() -> None:
    """The names are the keys', the refused are refused, and every reason about a key is there."""
    vector = load("refused/keys.json")
    for row in vector["keys"]:
        raw = bytes.fromhex(row["public_key"])
        assert (keys.did_key(raw), keys.kid(raw).hex()) == (row["did_key"], row["kid"])
    for row in vector["refused"]:
        with pytest.raises(KeyRefused) as caught:
            keys.check_public_key(bytes.fromhex(row["public_key"]))
        assert caught.value.reason == row["reason"]
    reasons = {row["reason"] for row in vector["refused"]}
    assert reasons == {str(fault) for fault in KeyFault} - {"form", "password"}


def test_refused_ledgers() -> None:
    """Each is broken at its index by its check, and every check but `replay` is there."""
    vector = load("refused/ledgers.json")
    stewards = [keys.from_did_key(text) for text in vector["stewards"]]
    good = [bytes.fromhex(text) for text in vector["good"]]
    verify_chain(good, vector["pool"], stewards)
    for row in vector["ledgers"]:
        items = [
            good[item] if isinstance(item, int) else bytes.fromhex(item) for item in row["receipts"]
        ]
        with pytest.raises(Broken) as caught:
            verify_chain(items, vector["pool"], stewards)
        answer = (caught.value.index, caught.value.check)
        assert answer == (row["index"], row["check"]), row["comment"]
    assert {row["check"] for row in vector["ledgers"]} == set(CHECKS) - {"replay"}


def test_drift_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed, a missing and a left-over file are all told."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((VECTORS / name).read_bytes())
    (tmp_path / "handover.json").unlink()
    (tmp_path / "old.json").write_text("{}")
    changed = load("encodings.json") | {"head": "00"}
    (tmp_path / "encodings.json").write_text(json.dumps(changed, indent=1))
    monkeypatch.setattr("tests.schemas.make_vectors.VECTORS", tmp_path)
    assert drifted() == ["encodings.json", "handover.json", "old.json"]
