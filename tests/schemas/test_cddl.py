"""The grammar as a whole: one, with nothing idle in it; the envelope, statements and proofs.

Not here: what events and receipts may say (`test_cddl_events`, `test_cddl_receipts`); whether
signatures and hashes are right (`schemas.cose`, `schemas.chain`, `schemas.heads`).

Profile: §6.5, §6.6, §6.7, §6.9.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import pytest
from cddl_verifier import Validator
from cddl_verifier.cbor import CBORTag

from schemas.forks import seal_fork
from schemas.heads import Head, Signed, open_head, seal_countersignature, seal_head
from schemas.keys import SeedSigner
from schemas.merkle import HashStore, leaf_hash, root_of
from schemas.rfc9942 import seal_consistency, seal_inclusion
from tests.schemas.cddl_support import (
    CDDL,
    PARTS,
    encoded,
    findings,
    validate_proof,
    validate_receipt,
    validate_statement,
)
from tests.schemas.test_cddl_events import DID
from tests.schemas.test_cddl_receipts import CLAIM, HASH, core

HEADER = encoded({1: -8, 4: HASH})
PAYLOAD = encoded(core("claim.committed", CLAIM))
SIGNATURE = bytes(64)
END = {
    "pool": "p",
    "length": 5,
    "head": HASH,
    "root": HASH,
    "closed_at": "2026-11-29T18:44:00.120Z",
}
HEAD = END | {"jc_receipt": "pool-head/1", "steward": DID}
WITNESS = END | {"jc_receipt": "pool-witness/1", "head_digest": HASH, "witness": DID}


def sealed(**changes: Any) -> bytes:
    """A receipt's bytes by hand, the four elements replaced by name."""
    parts = {"protected": HEADER, "unprotected": {}, "payload": PAYLOAD, "signature": SIGNATURE}
    return encoded(CBORTag(18, list((parts | changes).values())))


def test_the_parts_are_one_grammar_without_imports() -> None:
    """A tool that reads no import comment is given the five, concatenated in order."""
    text = "".join((CDDL / f"{part}.cddl").read_text() for part in PARTS)
    whole = Validator(re.sub(r";#.*", "", text))
    assert whole.validate(sealed(), "receipt").valid


def test_no_rule_is_idle_and_none_is_too_wide() -> None:
    """Every rule is used by another or is one that a reader starts at; no `any` in the grammar."""
    text = "".join(re.sub(r";.*", "", (CDDL / f"{part}.cddl").read_text()) for part in PARTS)
    rules = re.findall(r"^([a-z][\w-]*)(?:<.*?>)? = ", text, re.M)
    words = re.findall(r"[a-z$][\w-]*(?!: )\b", text)
    idle = {rule for rule in rules if words.count(rule) < 2}
    assert idle == {"statement", "proof-file", "consistency-file"}
    assert "any" not in words


def test_a_receipt_is_a_tagged_sign1_with_these_headers() -> None:
    """§6.5: the envelope of a good core is in the grammar."""
    validate_receipt(sealed())


@pytest.mark.parametrize(
    "data",
    [
        sealed(protected=b""),
        sealed(protected=HEADER + b"\x00"),
        sealed(protected=encoded({1: -7, 4: HASH})),
        sealed(protected=encoded({1: -8})),
        sealed(protected=encoded({1: -8, 4: HASH[1:]})),
        sealed(protected=encoded({1: -8, 4: HASH, 3: "application/cbor"})),
        sealed(protected=bytes.fromhex("a20458201127") + HASH),
        sealed(protected=bytes.fromhex("a2045820") + HASH + bytes.fromhex("0127")),
        sealed(protected={1: -8, 4: HASH}),
        sealed(unprotected={4: HASH}),
        sealed(unprotected=None),
        sealed(payload=None),
        sealed(payload=PAYLOAD + b"\x00"),
        sealed(payload=core("claim.committed", CLAIM)),
        sealed(signature=bytes(63)),
        sealed(signature=None),
        encoded(CBORTag(18, [HEADER, {}, PAYLOAD, SIGNATURE, b""])),
        encoded(CBORTag(18, [HEADER, {}, PAYLOAD])),
        encoded(CBORTag(98, [HEADER, {}, PAYLOAD, SIGNATURE])),
        encoded([HEADER, {}, PAYLOAD, SIGNATURE]),
        sealed() + b"\x00",
        sealed()[:-1],
        b"",
    ],
    ids=str,
)
def test_no_other_envelope_is_a_receipt(data: bytes) -> None:
    """§6.6: other headers, another form, a fifth element, no tag, trailing bytes: refused."""
    with pytest.raises(AssertionError):
        validate_receipt(data)


def test_what_decodes_but_is_not_deterministic_is_no_receipt() -> None:
    """§6.6: a longer form, keys out of order, a key twice, in the payload as outside."""
    longer = b"\xd8\x12" + sealed()[1:]
    shuffled = dict(reversed(core("claim.committed", CLAIM).items()))
    unsorted = encoded_as_given(shuffled)
    assert unsorted != PAYLOAD
    for data in (longer, sealed(payload=unsorted), sealed(payload=PAYLOAD[:1] + b"\x00")):
        with pytest.raises(AssertionError):
            validate_receipt(data)


def encoded_as_given(value: dict[str, Any]) -> bytes:
    """A map of at most 23 text keys, in the order it has."""
    members = b"".join(encoded(key) + encoded(it) for key, it in value.items())
    return bytes([0xA0 + len(value)]) + members


@pytest.mark.parametrize("value", [HEAD, WITNESS], ids=lambda value: str(value["jc_receipt"]))
def test_statements_are_in_the_grammar(value: dict[str, Any]) -> None:
    """§6.7: heads and countersignatures, in the receipts' own envelope."""
    validate_statement(sealed(payload=encoded(value)))


def test_a_fork_statement_holds_two_signed_heads_and_a_path() -> None:
    """§6.7: the evidence is the two heads' own bytes, whole, and hashes that tie them together."""
    heads = [sealed(payload=encoded(HEAD)), sealed(payload=encoded(HEAD | {"root": bytes(32)}))]
    fork = {
        "jc_receipt": "pool-fork/1",
        "pool": "p",
        "heads": heads,
        "path": [HASH] * 64,
        "witness": DID,
        "closed_at": END["closed_at"],
    }
    validate_statement(sealed(payload=encoded(fork)))
    for bad in (heads[:1], [*heads, heads[0]], [heads[0], sealed()], [heads[0], b""]):
        assert findings("fork-core", encoded(fork | {"heads": bad}))
    for path in ([HASH] * 65, [HASH[1:]], None):
        assert findings("fork-core", encoded(fork | {"path": path}))


def test_the_statements_that_the_code_seals_are_in_the_grammar() -> None:
    """A head, its countersignature, and both kinds of fork evidence, as sealed."""
    steward, witness = SeedSigner(bytes([1]) * 32), SeedSigner(bytes([2]) * 32)

    def head(receipts: list[bytes]) -> Signed[Head]:
        root = root_of(leaf_hash(it) for it in receipts)
        last = sha256(receipts[-1]).digest()
        return open_head(seal_head(steward, "p", len(receipts), last, root, 1_764_441_840_120))

    true, false, later = head([b"a", b"b"]), head([b"a", b"c"]), head([b"a", b"c", b"d"])
    path = [root_of([leaf_hash(b"a"), leaf_hash(b"c")]), leaf_hash(b"d")]
    for data in (
        true.data,
        seal_countersignature(witness, true, 1_764_441_841_000),
        seal_fork(witness, true, false, [], 1_764_441_841_000),
        seal_fork(witness, true, later, path, 1_764_441_841_000),
    ):
        validate_statement(data)


@pytest.mark.parametrize(
    "change",
    [
        {"jc_receipt": "pool-head/2"},
        {"length": 0},
        {"length": 2**63},
        {"head": HASH[1:]},
        {"root": None},
        {"closed_at": "2026-11-29T18:44:00Z"},
        {"steward": HASH},
        {"witness": DID},
        {"pool": ""},
    ],
    ids=str,
)
def test_a_head_is_closed_and_typed(change: dict[str, Any]) -> None:
    """A head of nothing, another type, a field of another statement: none of them is a head."""
    assert not findings("head-core", encoded(HEAD))
    assert findings("head-core", encoded(HEAD | change))


def test_a_receipt_is_no_statement_and_a_statement_no_receipt() -> None:
    """Readers of the family dispatch on `jc_receipt`; no core passes for another."""
    with pytest.raises(AssertionError):
        validate_statement(sealed())
    with pytest.raises(AssertionError):
        validate_receipt(sealed(payload=encoded(HEAD)))


LEAVES = HashStore([leaf_hash(bytes([index])) for index in range(5)])


def inclusion(signer: SeedSigner, index: int = 2) -> bytes:
    """The COSE Receipt of a leaf of the tree of five."""
    path = LEAVES.inclusion_path(index=index, size=5)
    return seal_inclusion(signer, root=LEAVES.root(5), size=5, index=index, path=path)


def test_cose_receipts_are_in_the_grammar() -> None:
    """§6.9: both kinds as sealed, and neither passes for the other."""
    signer = SeedSigner(bytes([1]) * 32)
    path = LEAVES.consistency_path(old_size=3, new_size=5)
    one = inclusion(signer)
    other = seal_consistency(signer, new_root=LEAVES.root(5), old_size=3, new_size=5, path=path)
    for rule, right, wrong in (
        ("inclusion-receipt", one, other),
        ("consistency-receipt", other, one),
    ):
        assert not findings(rule, right)
        assert findings(rule, wrong)
        assert findings(rule, right.replace(b"\x19\x01\x8b\x01", b"\x19\x01\x8b\x02"))
        assert findings(rule, right.replace(b"\xf6\x58\x40", b"\x40\x58\x40"))


def test_a_proof_file_is_closed_and_typed() -> None:
    """§6.9: a receipt, a head, one way into its tree, and what witnesses signed."""
    proof = {
        "jc_receipt": "pool-proof/1",
        "receipt": sealed(),
        "head": sealed(payload=encoded(HEAD)),
        "path": [],
        "witnesses": [{"statement": sealed(payload=encoded(WITNESS)), "path": [HASH]}],
    }
    validate_proof(encoded(proof))
    receipt = inclusion(SeedSigner(bytes([1]) * 32))
    included = {key: it for key, it in proof.items() if key != "path"} | {"inclusion": receipt}
    validate_proof(encoded(included))
    for bad in (
        proof | {"inclusion": receipt},
        proof | {"head": sealed()},
        proof | {"receipt": proof["head"]},
        proof | {"witnesses": [{"statement": proof["head"], "path": []}]},
        proof | {"path": [HASH] * 65},
        proof | {"note": "x"},
    ):
        with pytest.raises(AssertionError):
            validate_proof(encoded(bad))


def test_a_consistency_file_is_closed_and_typed() -> None:
    """§6.9: two heads, one way between their trees, and what witnesses signed."""
    head = sealed(payload=encoded(HEAD))
    file = {
        "jc_receipt": "pool-consistency/1",
        "old": head,
        "new": head,
        "path": [HASH],
        "witnesses": [{"statement": sealed(payload=encoded(WITNESS)), "path": []}],
    }
    assert not findings("consistency-file", encoded(file))
    receipt = seal_consistency(
        SeedSigner(bytes([1]) * 32),
        new_root=LEAVES.root(5),
        old_size=3,
        new_size=5,
        path=LEAVES.consistency_path(old_size=3, new_size=5),
    )
    led = {key: it for key, it in file.items() if key != "path"} | {"consistency": receipt}
    assert not findings("consistency-file", encoded(led))
    for bad in (
        file | {"consistency": receipt},
        file | {"path": []},
        file | {"new": sealed()},
        file | {"note": "x"},
        led | {"consistency": inclusion(SeedSigner(bytes([1]) * 32))},
    ):
        assert findings("consistency-file", encoded(bad))
