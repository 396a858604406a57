"""Heads, countersignatures and fork evidence: sealed, opened, and refused where they are bent."""

from __future__ import annotations

from hashlib import sha256

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import cbor, cose
from schemas.forks import check_contradiction, open_fork, seal_fork
from schemas.heads import (
    StatementError,
    kind_of,
    open_countersignature,
    open_head,
    seal_countersignature,
    seal_head,
)
from schemas.keys import did_key, kid
from schemas.merkle import HashStore
from tests.witness.ledger import OTHER_STEWARD, STEWARD, WITNESS, Ledger

LEDGER = Ledger().grow(9)
HEAD = LEDGER.head()
OPENED = open_head(HEAD)
COUNTERSIGNATURE = seal_countersignature(WITNESS, OPENED, 1_750_000_100_000)
CORE = {
    "jc_receipt": "pool-head/1",
    "pool": "alpha",
    "length": 9,
    "head": bytes(32),
    "root": bytes(32),
    "closed_at": "2025-06-15T15:06:40.009Z",
    "steward": did_key(STEWARD.public_key),
}


def test_a_head_says_what_was_sealed() -> None:
    """Pool, length, head, root, time and key come back as they went in."""
    head = OPENED.statement
    assert (head.end.pool, head.end.length) == ("alpha", 9)
    assert head.end.head == sha256(LEDGER.receipts[-1]).digest()
    assert head.end.root == LEDGER.leaves.root()
    assert head.closed_at_ms == 1_750_000_000_009
    assert head.steward == did_key(STEWARD.public_key)
    assert OPENED.key == STEWARD.public_key
    assert OPENED.digest == sha256(HEAD).digest()


def test_a_head_is_sealed_as_a_receipt_is() -> None:
    """Tag 18, protected {1: -8, 4: kid}, nothing unprotected, exactly the members of §6.7."""
    tagged = cbor2.loads(HEAD)
    assert tagged.tag == 18
    protected, unprotected, payload, signature = tagged.value
    assert cbor2.loads(protected) == {1: -8, 4: kid(STEWARD.public_key)}
    assert (dict(unprotected), len(signature)) == ({}, 64)
    assert set(cbor2.loads(payload)) == set(CORE)


def test_a_countersignature_carries_the_heads_fields_and_its_digest() -> None:
    """A witness repeats the end it checked and names the very statement it saw."""
    signed = open_countersignature(COUNTERSIGNATURE)
    assert signed.statement.end == OPENED.statement.end
    assert signed.statement.head_digest == OPENED.digest
    assert signed.statement.witness == did_key(WITNESS.public_key)
    assert signed.statement.closed_at_ms == 1_750_000_100_000
    assert signed.key == WITNESS.public_key


def test_kinds_are_told_apart() -> None:
    """Each statement says which kind it is, and is refused as another."""
    assert kind_of(HEAD) == "pool-head/1"
    assert kind_of(COUNTERSIGNATURE) == "pool-witness/1"
    for opened, data in ((open_head, COUNTERSIGNATURE), (open_countersignature, HEAD)):
        with pytest.raises(StatementError) as refused:
            opened(data)
        assert refused.value.check == "members"


def resealed(**changes: object) -> bytes:
    core = CORE | changes
    return cose.seal(STEWARD, {name: value for name, value in core.items() if value is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {"length": 0},
        {"length": -1},
        {"length": 2**63},
        {"length": True},
        {"length": "9"},
        {"pool": ""},
        {"pool": 7},
        {"head": bytes(31)},
        {"head": "0" * 32},
        {"root": bytes(33)},
        {"closed_at": "2025-06-15T15:06:40Z"},
        {"closed_at": 5},
        {"closed_at": "2025-02-30T15:06:40.000Z"},
        {"steward": "did:key:z6Mk"},
        {"steward": did_key(bytes([1]) + bytes(31))},
        {"jc_receipt": "pool/1"},
        {"root": None},
        {"note": "x"},
    ],
    ids=repr,
)
def test_a_head_with_a_bent_member_is_refused(changes: dict[str, object]) -> None:
    """A missing, unknown, mistyped or impossible member is `members`, whoever signed it."""
    with pytest.raises(StatementError) as refused:
        open_head(resealed(**changes))
    assert refused.value.check == "members"


def test_only_keys_that_count_may_have_signed() -> None:
    """With `signers` given, another key is `key`; a stolen name under another key, `signature`."""
    assert open_head(HEAD, {STEWARD.public_key}).key == STEWARD.public_key
    with pytest.raises(StatementError) as refused:
        open_head(HEAD, {OTHER_STEWARD.public_key})
    assert refused.value.check == "key"
    with pytest.raises(StatementError) as refused:
        open_head(cose.seal(OTHER_STEWARD, CORE))
    assert refused.value.check == "signature"


@pytest.mark.parametrize(
    ("data", "check"),
    [
        (b"", "decode"),
        (HEAD + b"\x00", "decode"),
        (HEAD[1:], "decode"),
        (HEAD[:-1] + bytes([HEAD[-1] ^ 1]), "signature"),
        (HEAD.replace(b"\xa0\x58", b"\xa1\x01\x01\x58", 1), "headers"),
        (HEAD.replace(bytes.fromhex("a20127"), bytes.fromhex("a20132"), 1), "headers"),
        (HEAD.replace(b"\xd2\x84", b"\xd2\x98\x04", 1), "canonical"),
        (cose.seal_payload(STEWARD, b"\xa0\x00"), "decode"),
        (cose.seal_payload(STEWARD, b"\xa1\x61a\x18\x01"), "canonical"),
        (cose.seal_payload(STEWARD, b"\x80"), "members"),
    ],
)
def test_a_bent_envelope_names_the_check_that_fails(data: bytes, check: str) -> None:
    """Heads are as strict as receipts: the first failing check is the one told."""
    with pytest.raises(StatementError) as refused:
        open_head(data)
    assert refused.value.check == check


@settings(max_examples=150)
@given(st.integers(0, len(HEAD) - 1), st.integers(1, 255))
def test_no_single_changed_byte_is_accepted(position: int, change: int) -> None:
    """Every byte of a statement is covered: changed anywhere, it is refused with StatementError."""
    bent = bytearray(HEAD)
    bent[position] ^= change
    with pytest.raises(StatementError):
        open_head(bytes(bent))


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_statement_or_refused(data: bytes) -> None:
    """Nothing but StatementError leaves the openers."""
    for opened in (open_head, open_countersignature, open_fork):
        with pytest.raises(StatementError):
            opened(data)


def test_two_heads_of_one_length_are_a_fork() -> None:
    """Same length, other head or other root: the evidence needs no path."""
    other_root = open_head(LEDGER.head(root=bytes(32)))
    other_head = open_head(LEDGER.head(head=bytes(32)))
    for second in (other_root, other_head):
        data = seal_fork(WITNESS, OPENED, second, [], 1_750_000_200_000)
        fork = open_fork(data, {STEWARD.public_key}, {WITNESS.public_key}).statement
        assert (fork.first, fork.second, fork.length) == (OPENED, second, 9)
        assert kind_of(data) == "pool-fork/1"


def test_a_longer_head_of_another_history_is_a_fork() -> None:
    """For every pair of lengths, the longer tree's own nodes show that it had another root."""
    other = LEDGER.branch(3).grow(13)
    for short, long in ((5, 16), (4, 8), (8, 9), (9, 16)):
        first = open_head(LEDGER.head(short))
        second = open_head(other.head(long))
        path = other.leaves.path_back(old_size=short, new_size=long)
        fork = open_fork(seal_fork(WITNESS, first, second, path, 1)).statement
        assert fork.length == short
        assert fork.path == tuple(path)


def test_a_shorter_head_of_another_history_is_a_fork() -> None:
    """A rollback that was decided on: the witnessed, longer tree contradicts the shorter head."""
    rolled_back = LEDGER.branch(3).grow(3)
    path = LEDGER.leaves.path_back(old_size=6, new_size=9)
    second = open_head(rolled_back.head())
    assert open_fork(seal_fork(WITNESS, OPENED, second, path, 1)).statement.length == 6


def refused_contradiction(first: bytes, second: bytes, path: list[bytes]) -> str:
    with pytest.raises(StatementError) as refused:
        check_contradiction(open_head(first), open_head(second), path)
    assert refused.value.check == "contradiction"
    return refused.value.detail


def test_what_is_no_contradiction_is_no_evidence() -> None:
    """An honest steward cannot be accused: growth, repetition and other pools are no forks."""
    store = LEDGER.leaves
    honest = store.path_back(old_size=4, new_size=9)
    assert "extends" in refused_contradiction(LEDGER.head(4), HEAD, honest)
    again = LEDGER.head(closed_at_ms=1_750_000_999_000)
    assert "the same" in refused_contradiction(HEAD, again, [])
    assert "no path" in refused_contradiction(HEAD, LEDGER.head(root=bytes(32)), honest)
    elsewhere = Ledger(pool="beta").grow(9)
    assert "two pools" in refused_contradiction(HEAD, elsewhere.head(), [])
    other = LEDGER.branch(3).grow(13)
    wrong_tree = HashStore(LEDGER.leaves.leaf(at) for at in range(9))
    path = wrong_tree.path_back(old_size=5, new_size=9)
    assert refused_contradiction(LEDGER.head(5), other.head(9), path)
    assert refused_contradiction(LEDGER.head(5), other.head(9), [])


def test_fork_evidence_by_strangers_keys_is_refused() -> None:
    """Heads must be the stewards' that count; a bent or foreign part spoils the whole."""
    second = open_head(LEDGER.head(root=bytes(32)))
    data = seal_fork(WITNESS, OPENED, second, [], 1)
    for stewards, signers in (({OTHER_STEWARD.public_key}, None), (None, {STEWARD.public_key})):
        with pytest.raises(StatementError) as refused:
            open_fork(data, stewards, signers)
        assert refused.value.check == "key"


@pytest.mark.parametrize(
    "changes",
    [
        {"heads": [HEAD]},
        {"heads": [HEAD, HEAD, HEAD]},
        {"heads": HEAD},
        {"heads": [HEAD, "text"]},
        {"path": bytes(32)},
        {"path": [bytes(31)]},
        {"path": [bytes(32)] * 65},
        {"pool": "beta"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_bent_fork_statements_are_refused(changes: dict[str, object]) -> None:
    """Each member is of its type and in its bounds, and the pool is the heads'."""
    core = cbor.decode(
        cose.split(
            seal_fork(WITNESS, OPENED, open_head(LEDGER.head(root=bytes(32))), [], 1)
        ).payload
    )
    assert isinstance(core, dict)
    with pytest.raises(StatementError) as refused:
        open_fork(cose.seal(WITNESS, core | changes))
    assert refused.value.check == "members"


def test_seal_head_takes_the_stewards_own_figures() -> None:
    """The steward's call: signer, pool, length, head, root, time."""
    data = seal_head(STEWARD, "alpha", 9, OPENED.statement.end.head, OPENED.statement.end.root, 5)
    assert open_head(data).statement.end == OPENED.statement.end
