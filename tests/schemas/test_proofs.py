"""Proofs: one receipt, one head, some countersignatures and a trust file, and nothing else."""

from __future__ import annotations

from hashlib import sha256

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycose.keys import OKPKey
from pycose.keys.curves import Ed25519
from pycose.messages import Sign1Message

from schemas import cbor, rfc9942
from schemas.consistency import (
    CONSISTENCY_KIND,
    ConsistencyReport,
    check_consistency_file,
    check_same_history,
    make_consistency_file,
)
from schemas.heads import open_head, seal_countersignature
from schemas.keys import SeedSigner, did_key, kid
from schemas.merkle import ProofError, ProofFault, inclusion_proof, leaf_hash
from schemas.proofs import PROOF_KIND, check_proof, kind_of_proof, make_proof
from schemas.trust import LedgerGrade, PoolTrust, parse_trust
from tests.schemas.cddl_support import findings, validate_proof
from tests.witness.ledger import (
    OTHER_STEWARD,
    OTHER_WITNESS,
    STEWARD,
    THIRD_WITNESS,
    WITNESS,
    Ledger,
    signer,
)

LEDGER = Ledger().grow(21)
KEYS = {"ada": WITNESS, "bob": OTHER_WITNESS, "cyd": THIRD_WITNESS}


def trusted(*names: str, quorum: int = 1, steward: SeedSigner = STEWARD) -> PoolTrust:
    witnesses = ", ".join(f'{name} = "{did_key(KEYS[name].public_key)}"' for name in names)
    text = f'[pools.alpha]\nstewards = ["{did_key(steward.public_key)}"]\n'
    text += f"witnesses = {{{witnesses}}}\n" + (f"quorum = {quorum}\n" if names else "")
    return parse_trust(text).pool("alpha")


def countersigned(key: SeedSigner, length: int, ledger: Ledger = LEDGER) -> bytes:
    return seal_countersignature(key, open_head(ledger.head(length)), 1_750_000_500_000)


def proof(
    seq: int = 3,
    *,
    heads: list[bytes] | None = None,
    statements: tuple[bytes, ...] = (),
    key: SeedSigner | None = STEWARD,
) -> bytes:
    return make_proof(
        receipt=LEDGER.receipts[seq],
        seq=seq,
        leaves=LEDGER.leaves,
        heads=[LEDGER.head(15)] if heads is None else heads,
        countersignatures=statements,
        signer=key,
    )


def refusal(data: bytes, trust: PoolTrust | None = None) -> ProofFault:
    with pytest.raises(ProofError) as refused:
        check_proof(data, trust or trusted("ada"))
    return refused.value.reason


@pytest.mark.parametrize("key", [STEWARD, None], ids=["rfc9942", "bare path"])
def test_every_receipt_of_a_head_can_be_proved(key: SeedSigner | None) -> None:
    """With or without the steward's key at hand, for every receipt that the head includes."""
    for seq in range(15):
        report = check_proof(proof(seq, key=key), trusted("ada"))
        assert (report.receipt.seq, report.length) == (seq, 15)
        assert report.grade is LedgerGrade.SELF_ATTESTED


def test_a_receipt_past_every_head_has_no_proof() -> None:
    """A proof is made only against a signed head that includes the receipt."""
    with pytest.raises(ProofError) as refused:
        proof(15)
    assert refused.value.reason is ProofFault.HEAD


def test_the_longest_head_that_the_ledger_bears_out_is_taken() -> None:
    """Heads of other histories, of more receipts, and junk are passed over."""
    other = LEDGER.branch(2).grow(18)
    heads = [LEDGER.head(9), other.head(20), Ledger().grow(40).head(), b"junk", LEDGER.head(12)]
    assert check_proof(proof(heads=heads), trusted("ada")).length == 12


def test_a_countersigned_head_is_taken_before_a_longer_one() -> None:
    """The witness's own length, if it includes the receipt; then nothing stands between the two."""
    heads, statements = (
        [LEDGER.head(length) for length in (9, 12, 15)],
        (countersigned(WITNESS, 12),),
    )
    report = check_proof(proof(heads=heads, statements=statements), trusted("ada"))
    assert (report.length, report.witnessed_length) == (12, 12)
    report = check_proof(proof(12, heads=heads, statements=statements), trusted("ada"))
    assert (report.length, report.grade) == (15, LedgerGrade.SELF_ATTESTED)


def test_how_far_the_witnesses_vouch_is_told_beside_the_heads_length() -> None:
    """A witness of 8 has not witnessed the 15 of the head; of three, the second counts for two."""
    statements = (countersigned(WITNESS, 8), countersigned(OTHER_WITNESS, 21))
    both = proof(statements=statements, heads=[LEDGER.head(15)])
    assert check_proof(both, trusted("ada")).witnessed_length == 8
    assert check_proof(both, trusted("ada", "bob", "cyd", quorum=2)).witnessed_length == 8
    assert check_proof(both, trusted("bob")).witnessed_length == 21
    assert check_proof(both, trusted("ada", "bob", "cyd", quorum=3)).witnessed_length == 0


def test_a_key_that_signed_no_head_makes_no_proof() -> None:
    """Another's key is refused and named; without any the path stands alone."""
    with pytest.raises(ProofError) as refused:
        proof(key=OTHER_STEWARD)
    assert refused.value.reason is ProofFault.SIGNATURE
    assert did_key(OTHER_STEWARD.public_key) in refused.value.detail


def test_a_ledger_of_one_receipt_is_proved_by_the_head_alone() -> None:
    """RFC 9942 has no empty path; the file then has a bare one."""
    file = cbor.decode(proof(0, heads=[LEDGER.head(1)]))
    assert isinstance(file, dict)
    assert file["path"] == []
    assert check_proof(cbor.encode(file), trusted("ada")).length == 1


def test_witnesses_that_signed_other_lengths_vouch_through_consistency() -> None:
    """Shorter and longer than the head, each with its path: two of three are two."""
    statements = (countersigned(WITNESS, 21), countersigned(OTHER_WITNESS, 8))
    report = check_proof(proof(statements=statements), trusted("ada", "bob", "cyd", quorum=2))
    assert report.grade is LedgerGrade.WITNESSED
    assert report.witnessed_by == ("ada", "bob")


def test_a_countersignature_that_ends_before_the_receipt_does_not_vouch() -> None:
    """Witness bob has signed 8 receipts: that says nothing about receipt 9."""
    statements = (countersigned(WITNESS, 15), countersigned(OTHER_WITNESS, 8))
    report = check_proof(proof(9, statements=statements), trusted("ada", "bob", quorum=2))
    assert (report.grade, report.witnessed_by) == (LedgerGrade.SELF_ATTESTED, ("ada",))


def test_strangers_do_not_vouch() -> None:
    """A key that the trust file does not name counts for nothing."""
    report = check_proof(proof(statements=(countersigned(signer(99), 15),)), trusted("ada"))
    assert report.grade is LedgerGrade.SELF_ATTESTED


def with_member(data: bytes, **changes: object) -> bytes:
    file = cbor.decode(data)
    assert isinstance(file, dict)
    merged = {name: value for name, value in (file | changes).items() if value is not None}
    return cbor.encode(merged)


def test_a_trusted_witness_of_another_history_makes_it_forked() -> None:
    """The same length, another end: whoever holds the proof is told."""
    other = LEDGER.branch(2).grow(13)
    entry = {"statement": countersigned(WITNESS, 15, other), "path": []}
    report = check_proof(with_member(proof(), witnesses=[entry]), trusted("ada"))
    assert report.grade is LedgerGrade.FORKED


def test_a_countersignature_moved_to_another_head_does_not_vouch() -> None:
    """Another length's countersignature with a path that does not hold is not counted."""
    other = LEDGER.branch(2).grow(19)
    entry = {
        "statement": countersigned(WITNESS, 21, other),
        "path": LEDGER.leaves.consistency_path(old_size=15, new_size=21),
    }
    report = check_proof(with_member(proof(), witnesses=[entry]), trusted("ada"))
    assert report.grade is LedgerGrade.SELF_ATTESTED


def edited_inclusion(**changes: int) -> bytes:
    """The proof with size or index of its RFC 9942 receipt changed: they are not signed."""
    whole = proof()
    file = cbor.decode(whole)
    assert isinstance(file, dict)
    inclusion = file["inclusion"]
    assert isinstance(inclusion, bytes)
    receipt = rfc9942.open_receipt(inclusion)
    size, index = receipt.numbers
    old = cbor.encode([size, index, list(receipt.path)])
    new = cbor.encode([changes.get("size", size), changes.get("index", index), list(receipt.path)])
    assert len(old) == len(new)
    return with_member(whole, inclusion=inclusion.replace(old, new))


def test_an_edited_tree_size_fails_against_the_head() -> None:
    """The path holds for size 16, too, and so does the signature: the head's length does not."""
    leaf = leaf_hash(LEDGER.receipts[3])
    assert inclusion_proof(LEDGER.leaves, 3, 15)[:3] == inclusion_proof(LEDGER.leaves, 3, 16)[:3]
    data = edited_inclusion(size=16)
    assert refusal(data) is ProofFault.HEAD
    file = cbor.decode(data)
    assert isinstance(file, dict)
    assert isinstance(file["inclusion"], bytes)
    with pytest.raises(ProofError) as refused:
        rfc9942.check_inclusion(
            file["inclusion"], leaf=leaf, index=3, head=open_head(LEDGER.head(16))
        )
    assert refused.value.reason is ProofFault.ROOT


def test_an_edited_index_fails() -> None:
    """The receipt's own seq is its index, and nothing else."""
    assert refusal(edited_inclusion(index=2)) is ProofFault.INDEX


OTHER = LEDGER.branch(2).grow(13)
BENT = {
    "no map": (b"\x80", ProofFault.SHAPE),
    "no CBOR": (b"\xff", ProofFault.SHAPE),
    "trailing": (proof() + b"\x00", ProofFault.SHAPE),
    "another kind": (with_member(proof(), jc_receipt="pool-head/1"), ProofFault.SHAPE),
    "unknown member": (with_member(proof(), note=1), ProofFault.SHAPE),
    "both proofs": (with_member(proof(), path=[]), ProofFault.SHAPE),
    "no proof": (with_member(proof(), inclusion=None), ProofFault.SHAPE),
    "inclusion no bytes": (with_member(proof(), inclusion=5), ProofFault.SHAPE),
    "inclusion a receipt": (with_member(proof(), inclusion=LEDGER.head()), ProofFault.SHAPE),
    "witnesses no list": (with_member(proof(), witnesses=1), ProofFault.SHAPE),
    "witness no map": (with_member(proof(), witnesses=[1]), ProofFault.SHAPE),
    "path no list": (with_member(proof(key=None), path=b"x"), ProofFault.SHAPE),
    "path of texts": (with_member(proof(key=None), path=["x"]), ProofFault.SHAPE),
    "path of short hashes": (with_member(proof(key=None), path=[b"x"]), ProofFault.HASH),
    "path too long": (with_member(proof(key=None), path=[bytes(32)] * 65), ProofFault.LENGTH),
    "path empty": (with_member(proof(key=None), path=[]), ProofFault.LENGTH),
    "path of zeros": (with_member(proof(key=None), path=[bytes(32)] * 4), ProofFault.ROOT),
    "another receipt": (with_member(proof(), receipt=LEDGER.receipts[4]), ProofFault.INDEX),
    "rewritten receipt": (with_member(proof(), receipt=OTHER.receipts[3]), ProofFault.ROOT),
    "no receipt": (with_member(proof(), receipt=b"junk"), ProofFault.RECEIPT),
    "receipt bent": (
        with_member(proof(), receipt=LEDGER.receipts[3][:-1] + b"\xff"),
        ProofFault.RECEIPT,
    ),
    "no head": (with_member(proof(), head=LEDGER.receipts[3]), ProofFault.HEAD),
    "longer head": (with_member(proof(), head=LEDGER.head(21)), ProofFault.HEAD),
    "shorter head": (with_member(proof(key=None), head=LEDGER.head(3)), ProofFault.INDEX),
    "another history's head": (with_member(proof(), head=OTHER.head(15)), ProofFault.ROOT),
    "a stranger's head": (
        with_member(proof(), head=LEDGER.head(15, steward=OTHER_STEWARD)),
        ProofFault.HEAD,
    ),
    "another pool's head": (
        with_member(proof(), head=Ledger(pool="beta").grow(15).head()),
        ProofFault.HEAD,
    ),
    "signed by a stranger": (
        with_member(
            proof(),
            inclusion=rfc9942.seal_inclusion(
                OTHER_STEWARD,
                root=LEDGER.leaves.root(15),
                size=15,
                index=3,
                path=inclusion_proof(LEDGER.leaves, 3, 15),
            ),
        ),
        ProofFault.SIGNATURE,
    ),
}


@pytest.mark.parametrize("name", BENT)
def test_a_bent_proof_is_refused_with_its_reason(name: str) -> None:
    """Whatever part is exchanged or bent, the first check that fails is told."""
    data, reason = BENT[name]
    assert refusal(data) is reason


def test_a_proof_by_an_untrusted_steward_is_refused() -> None:
    """The trust file decides whose ledger it is."""
    assert refusal(proof(), trusted("ada", steward=OTHER_STEWARD)) is ProofFault.TRUST


def test_the_last_receipt_must_be_the_one_that_the_head_names() -> None:
    """A head whose root is right and whose `head` is not does not prove its last receipt."""
    head = LEDGER.head(15, head=sha256(b"other").digest())
    assert refusal(proof(14, heads=[head])) is ProofFault.HEAD


def test_the_pool_can_be_told_before_the_trust_file_is_asked() -> None:
    """Which entry of a trust file to take."""
    assert kind_of_proof(proof()) == (PROOF_KIND, "alpha")
    assert kind_of_proof(consistency()) == (CONSISTENCY_KIND, "alpha")
    for other in (b"junk", b"\x80", b"\xa0", LEDGER.head(), with_member(proof(), receipt=b"")):
        with pytest.raises(ProofError):
            kind_of_proof(other)


@settings(max_examples=150)
@given(st.integers(0, len(proof(statements=(countersigned(WITNESS, 21),))) - 1), st.data())
def test_no_changed_byte_makes_a_better_proof(position: int, data: st.DataObject) -> None:
    """Changed anywhere, a proof is refused with ProofError, or at most loses its witness."""
    bent = bytearray(proof(statements=(countersigned(WITNESS, 21),)))
    bent[position] ^= data.draw(st.integers(1, 255))
    try:
        report = check_proof(bytes(bent), trusted("ada"))
    except ProofError:
        return
    assert report.grade is LedgerGrade.SELF_ATTESTED
    assert report.receipt.seq == 3


# ---- from one head to another ----


def consistency(
    old: int = 9,
    new: int | None = 15,
    *,
    heads: list[bytes] | None = None,
    statements: tuple[bytes, ...] = (),
    key: SeedSigner | None = STEWARD,
) -> bytes:
    return make_consistency_file(
        old_length=old,
        new_length=new,
        leaves=LEDGER.leaves,
        heads=[LEDGER.head(length) for length in (8, 9, 15, 21)] if heads is None else heads,
        countersignatures=statements,
        signer=key,
    )


def consistent(data: bytes, *names: str, quorum: int = 1) -> ConsistencyReport:
    return check_consistency_file(data, trusted(*names or ("ada",), quorum=quorum))


@pytest.mark.parametrize("key", [STEWARD, None], ids=["rfc9942", "bare path"])
@pytest.mark.parametrize(("old", "new"), [(8, 9), (8, 21), (9, 15), (15, 21)])
def test_a_shorter_head_is_the_beginning_of_a_longer_one(
    old: int, new: int, key: SeedSigner | None
) -> None:
    """With or without the steward's key at hand; both ends are told, to be compared."""
    report = consistent(consistency(old, new, key=key))
    assert report.old == open_head(LEDGER.head(old)).statement.end
    assert report.new == open_head(LEDGER.head(new)).statement.end
    assert report.grade is LedgerGrade.SELF_ATTESTED


@pytest.mark.parametrize("key", [STEWARD, None], ids=["rfc9942", "bare path"])
def test_proof_files_are_in_the_grammar(key: SeedSigner | None) -> None:
    """What is written is what `cddl/proofs.cddl` says."""
    statements = (countersigned(WITNESS, 15), countersigned(OTHER_WITNESS, 21))
    validate_proof(proof(key=key, statements=statements))
    assert not findings("consistency-file", consistency(key=key, statements=statements))


def test_witnesses_vouch_for_the_longer_ledger_as_far_as_they_signed() -> None:
    """Each at its own length; what k of them vouch for is witnessed."""
    data = consistency(statements=(countersigned(WITNESS, 12), countersigned(OTHER_WITNESS, 21)))
    report = consistent(data, "ada", "bob", "cyd", quorum=2)
    assert (report.grade, report.witnessed_length) == (LedgerGrade.WITNESSED, 12)
    assert report.witnessed_by == ("ada", "bob")
    assert consistent(data, "ada", "bob", "cyd", quorum=3).grade is LedgerGrade.SELF_ATTESTED


def test_the_newer_head_need_not_be_named() -> None:
    """The longest that was countersigned, else the longest."""
    assert consistent(consistency(9, None)).new.length == 21
    statements = (countersigned(WITNESS, 15), countersigned(WITNESS, 9))
    assert consistent(consistency(9, None, statements=statements)).new.length == 15


@pytest.mark.parametrize("length", [9, 15])
def test_a_witness_of_another_history_at_either_head_forks_it(length: int) -> None:
    """A trusted witness's word against the stewards', at a length that the file has a head of."""
    entry = {"statement": countersigned(WITNESS, length, OTHER), "path": []}
    report = consistent(with_member(consistency(), witnesses=[entry]))
    assert report.grade is LedgerGrade.FORKED


@pytest.mark.parametrize(
    ("old", "new", "key", "reason", "words"),
    [
        (0, 9, STEWARD, ProofFault.SIZE, "from 0 to 9"),
        (9, 9, STEWARD, ProofFault.SIZE, "from 9 to 9"),
        (15, 9, STEWARD, ProofFault.SIZE, "from 15 to 9"),
        (9, 22, STEWARD, ProofFault.SIZE, "22 of 21"),
        (10, 15, STEWARD, ProofFault.HEAD, "no signed head of 10 receipts; the nearest: 9 and 15"),
        (9, 20, None, ProofFault.HEAD, "no signed head of 20 receipts; the nearest: 15 and 21"),
        (0, None, STEWARD, ProofFault.HEAD, "no signed head of 0 receipts; the nearest: 8"),
        (21, None, STEWARD, ProofFault.HEAD, "no signed head of 22 or more"),
        (9, 15, OTHER_STEWARD, ProofFault.SIGNATURE, "did not sign the head"),
    ],
)
def test_what_no_consistency_file_can_be_made_of(
    old: int, new: int | None, key: SeedSigner | None, reason: ProofFault, words: str
) -> None:
    """Two lengths in order, a signed head of each, and the key of the longer one or none."""
    with pytest.raises(ProofError) as refused:
        consistency(old, new, key=key)
    assert refused.value.reason is reason
    assert words in refused.value.detail


BENT_CONSISTENCY = {
    "a proof of a receipt": (proof(), ProofFault.SHAPE),
    "unknown member": (with_member(consistency(), note=1), ProofFault.SHAPE),
    "both paths": (with_member(consistency(), path=[]), ProofFault.SHAPE),
    "no path": (with_member(consistency(), consistency=None), ProofFault.SHAPE),
    "inclusion": (
        with_member(consistency(), consistency=cbor.decode(proof())["inclusion"]),
        ProofFault.SHAPE,
    ),
    "a stranger's head": (
        with_member(consistency(), old=LEDGER.head(9, steward=OTHER_STEWARD)),
        ProofFault.HEAD,
    ),
    "another pool's head": (
        with_member(consistency(), new=Ledger(pool="beta").grow(15).head()),
        ProofFault.HEAD,
    ),
    "another old length": (with_member(consistency(), old=LEDGER.head(8)), ProofFault.HEAD),
    "one length": (with_member(consistency(), old=LEDGER.head(15)), ProofFault.SIZE),
    "turned round": (
        with_member(consistency(key=None), old=LEDGER.head(15), new=LEDGER.head(9)),
        ProofFault.SIZE,
    ),
    "another history's old head": (with_member(consistency(), old=OTHER.head(9)), ProofFault.ROOT),
    "another history's new head": (with_member(consistency(), new=OTHER.head(15)), ProofFault.ROOT),
    "path of short hashes": (with_member(consistency(key=None), path=[b"x"]), ProofFault.HASH),
    "path empty": (with_member(consistency(key=None), path=[]), ProofFault.LENGTH),
    "signed by a stranger": (
        with_member(
            consistency(),
            consistency=rfc9942.seal_consistency(
                OTHER_STEWARD,
                new_root=LEDGER.leaves.root(15),
                old_size=9,
                new_size=15,
                path=LEDGER.leaves.consistency_path(old_size=9, new_size=15),
            ),
        ),
        ProofFault.SIGNATURE,
    ),
    "witnesses no list": (with_member(consistency(), witnesses=1), ProofFault.SHAPE),
}


@pytest.mark.parametrize("name", BENT_CONSISTENCY)
def test_a_bent_consistency_file_is_refused_with_its_reason(name: str) -> None:
    """Whatever part is exchanged or bent, the first check that fails is told."""
    data, reason = BENT_CONSISTENCY[name]
    with pytest.raises(ProofError) as refused:
        consistent(data)
    assert refused.value.reason is reason


@settings(max_examples=150)
@given(st.integers(0, len(consistency()) - 1), st.integers(1, 255))
def test_no_changed_byte_proves_another_history(position: int, change: int) -> None:
    """Changed anywhere, the file is refused: it has nothing that could be lost."""
    bent = bytearray(consistency())
    bent[position] ^= change
    with pytest.raises(ProofError):
        consistent(bytes(bent))


# ---- RFC 9942 itself ----

PATH = inclusion_proof(LEDGER.leaves, 3, 15)
INCLUSION = rfc9942.seal_inclusion(
    STEWARD, root=LEDGER.leaves.root(15), size=15, index=3, path=PATH
)
CONSISTENCY_PATH = LEDGER.leaves.consistency_path(old_size=15, new_size=21)
CONSISTENCY = rfc9942.seal_consistency(
    STEWARD, new_root=LEDGER.leaves.root(21), old_size=15, new_size=21, path=CONSISTENCY_PATH
)


@pytest.mark.parametrize(
    ("data", "label", "proof_array", "root"),
    [
        (INCLUSION, -1, [15, 3, PATH], LEDGER.leaves.root(15)),
        (CONSISTENCY, -2, [15, 21, CONSISTENCY_PATH], LEDGER.leaves.root(21)),
    ],
    ids=["inclusion", "consistency"],
)
def test_an_independent_library_reads_our_receipts(
    data: bytes, label: int, proof_array: list[object], root: bytes
) -> None:
    """cbor2 finds RFC 9942's structure, and pycose verifies the signature over the root."""
    tagged = cbor2.loads(data)
    protected, unprotected, payload, signature = tagged.value
    assert tagged.tag == 18
    assert cbor2.loads(protected) == {1: -8, 4: kid(STEWARD.public_key), 395: 1}
    assert payload is None
    assert [cbor2.loads(item) for item in unprotected[396][label]] == [proof_array]
    message = Sign1Message.from_cose_obj([protected, {}, root, signature], True)
    message.key = OKPKey(crv=Ed25519, x=STEWARD.public_key)
    assert message.verify_signature()


def test_the_bytes_have_the_rfcs_labels_in_deterministic_order() -> None:
    """Protected {1, 4, 395}, unprotected {396: {-1: [one proof]}}, as in the RFC's examples."""
    assert INCLUSION.hex().startswith("d284582aa3012704")
    assert "19018b01a119018ca12081" in INCLUSION.hex()
    assert "19018b01a119018ca12181" in CONSISTENCY.hex()


def test_consistency_between_heads_is_checked_against_both() -> None:
    """A receipt or a bare path, between these two heads and no others."""
    old, new = open_head(LEDGER.head(15)), open_head(LEDGER.head(21))
    for consistency in (CONSISTENCY, CONSISTENCY_PATH):
        check_same_history(old, new, consistency=consistency)
        for one, other in (
            (old, open_head(LEDGER.head(20))),
            (open_head(LEDGER.head(14)), new),
            (open_head(LEDGER.head(15, root=bytes(32))), new),
            (old, open_head(LEDGER.branch(15).grow(6).head())),
            (old, open_head(Ledger(pool="beta").grow(21).head())),
        ):
            with pytest.raises(ProofError):
                check_same_history(one, other, consistency=consistency)


def test_a_receipt_of_one_kind_is_not_taken_for_the_other() -> None:
    """The label says what was proved."""
    old, new = open_head(LEDGER.head(15)), open_head(LEDGER.head(21))
    with pytest.raises(ProofError):
        rfc9942.check_consistency(INCLUSION, old=old, new=new)
    with pytest.raises(ProofError):
        rfc9942.check_inclusion(
            CONSISTENCY, leaf=leaf_hash(LEDGER.receipts[15]), index=15, head=new
        )


def test_no_receipt_has_an_empty_path() -> None:
    """RFC 9942 forbids it."""
    with pytest.raises(ProofError) as refused:
        rfc9942.seal_inclusion(STEWARD, root=LEDGER.leaves.root(1), size=1, index=0, path=[])
    assert refused.value.reason is ProofFault.LENGTH


@settings(max_examples=150)
@given(st.one_of(st.binary(max_size=200), st.integers(0, len(INCLUSION) - 1)))
def test_any_bytes_are_a_receipt_or_refused(found: bytes | int) -> None:
    """Cut short or made up: ProofError and nothing else."""
    data = found if isinstance(found, bytes) else INCLUSION[:found]
    with pytest.raises(ProofError):
        rfc9942.open_receipt(data)
