"""The trust file, and what it makes of a ledger: self-attested, witnessed, forked."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.chain import ChainReader
from schemas.forks import seal_fork
from schemas.heads import End, open_head, seal_countersignature
from schemas.keys import SeedSigner, did_key
from schemas.trust import (
    Grader,
    Grading,
    LedgerGrade,
    PoolTrust,
    TrustError,
    TrustFault,
    parse_trust,
    quorum_safe,
)
from tests.witness.ledger import OTHER_STEWARD, STEWARD, Ledger, signer

WITNESSES = {name: signer(20 + number) for number, name in enumerate(("ada", "bob", "cyd", "dot"))}
ADA, BOB, CYD, DOT = WITNESSES.values()
DID = did_key(STEWARD.public_key)
TWIN = "b154bd62188ae283dd187fefe8c31f5e276edf083b4cff11c9d5cff856c74440"
NOT_KEYS = {
    "torsion twin": TWIN,
    "identity": "01" + "00" * 31,
    "low order": "00" * 32,
    "off the curve": "02" + "00" * 31,
    "not canonical": "ff" * 32,
}


def trust_text(quorum: int | None = 3, **members: str) -> str:
    names = "\n".join(f'{name} = "{did_key(key.public_key)}"' for name, key in WITNESSES.items())
    lines = ["[pools.alpha]", f'stewards = ["{DID}"]']
    if quorum is not None:
        lines.append(f"quorum = {quorum}")
    lines += [f"{name} = {value}" for name, value in members.items()]
    return "\n".join([*lines, "[pools.alpha.witnesses]", names])


def trusted(quorum: int = 3) -> PoolTrust:
    return parse_trust(trust_text(quorum)).pool("alpha")


def test_a_trust_file_is_read() -> None:
    """Stewards, witnesses by name, and the quorum, each key as its 32 bytes."""
    trust = trusted()
    assert trust.stewards == {STEWARD.public_key}
    assert trust.witnesses == {name: key.public_key for name, key in WITNESSES.items()}
    assert (trust.quorum, trust.warnings) == (3, ())


def test_without_a_quorum_the_smallest_safe_one_is_taken() -> None:
    """n witnesses and no k: 1 + floor(2n/3)."""
    assert parse_trust(trust_text(None)).pool("alpha").quorum == 3
    bare = parse_trust(f'[pools.alpha]\nstewards = ["{DID}"]').pool("alpha")
    assert (bare.quorum, dict(bare.witnesses), bare.warnings) == (0, {}, ())


def test_safe_quorums() -> None:
    """The table for n = 0 to 10."""
    assert [quorum_safe(n) for n in range(11)] == [0, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7]


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_low_quorum_is_a_warning_and_not_a_refusal(quorum: int) -> None:
    """Below 1 + floor(2n/3) the verifier is told, and goes on."""
    trust = trusted(quorum)
    assert trust.quorum == quorum
    assert len(trust.warnings) == 1
    assert "below 3" in trust.warnings[0]


REFUSALS = [
    ("pools = [", TrustFault.TOML, "the file"),
    ("", TrustFault.SHAPE, "the file.pools"),
    ("x = 1\n[pools.alpha]", TrustFault.SHAPE, "the file.x"),
    ("pools = 1", TrustFault.SHAPE, "pools"),
    ("[pools]", TrustFault.SHAPE, "pools"),
    ("[pools]\nalpha = 1", TrustFault.SHAPE, "pools.alpha"),
    ("[pools.alpha]", TrustFault.SHAPE, "pools.alpha.stewards"),
    ("[pools.alpha]\nstewards = []", TrustFault.SHAPE, "pools.alpha.stewards"),
    ("[pools.alpha]\nstewards = [7]", TrustFault.SHAPE, "pools.alpha.stewards[0]"),
    (f'[pools.alpha]\nstewards = "{DID}"', TrustFault.SHAPE, "pools.alpha.stewards"),
    (trust_text(stranger="1"), TrustFault.SHAPE, "pools.alpha.stranger"),
    (f'[pools.alpha]\nstewards=["{DID}"]\nwitnesses=[]', TrustFault.SHAPE, "pools.alpha.witnesses"),
    ('[pools.alpha]\nstewards = ["did:key:z6Mk"]', TrustFault.KEY, "pools.alpha.stewards[0]"),
    (
        f'[pools.alpha]\nstewards=["{DID}"]\nwitnesses={{ada="{DID}"}}',
        TrustFault.STEWARD_IS_WITNESS,
        "pools.alpha.witnesses.ada",
    ),
    (
        f'[pools.alpha]\nstewards=["{DID}","{DID}"]',
        TrustFault.DUPLICATE_KEY,
        "pools.alpha.stewards[1]",
    ),
    (
        trust_text() + f'\neve = "{did_key(ADA.public_key)}"',
        TrustFault.DUPLICATE_KEY,
        "pools.alpha.witnesses.eve",
    ),
    (trust_text(0), TrustFault.QUORUM, "pools.alpha.quorum"),
    (trust_text(5), TrustFault.QUORUM, "pools.alpha.quorum"),
    (
        trust_text(None).replace("stewards", "quorum = true\nstewards"),
        TrustFault.SHAPE,
        "pools.alpha.quorum",
    ),
    (
        f'[pools.alpha]\nstewards=["{DID}"]\nquorum=1',
        TrustFault.QUORUM,
        "pools.alpha.quorum",
    ),
]


@pytest.mark.parametrize(("text", "reason", "where"), REFUSALS)
def test_a_bent_trust_file_is_refused_with_its_place(
    text: str, reason: TrustFault, where: str
) -> None:
    """Every reason code, and the member at fault."""
    with pytest.raises(TrustError) as refused:
        parse_trust(text)
    assert (refused.value.reason, refused.value.where) == (reason, where)


def test_every_reason_of_a_trust_file_has_a_row() -> None:
    """The table above leaves no code out."""
    assert {reason for _, reason, _ in REFUSALS} == set(TrustFault)


@pytest.mark.parametrize("raw", NOT_KEYS.values(), ids=NOT_KEYS)
def test_what_is_no_key_is_refused_as_steward_and_as_witness(raw: str) -> None:
    """A torsion twin would pass a comparison by bytes: it is refused for what it is."""
    odd = did_key(bytes.fromhex(raw))
    as_steward = f'[pools.alpha]\nstewards = ["{odd}"]'
    as_witness = f'[pools.alpha]\nstewards = ["{DID}"]\nwitnesses = {{ada = "{odd}"}}'
    for text in (as_steward, as_witness):
        with pytest.raises(TrustError) as refused:
            parse_trust(text)
        assert refused.value.reason is TrustFault.KEY


def test_a_pool_that_the_file_does_not_name_has_no_trust() -> None:
    """An unknown pool is an error of the question, not an empty answer."""
    with pytest.raises(TrustError):
        parse_trust(trust_text()).pool("beta")


# ---- grading ----

LEDGER = Ledger().grow(20)


def countersigned(key: SeedSigner, length: int, ledger: Ledger = LEDGER) -> bytes:
    return seal_countersignature(key, open_head(ledger.head(length)), 1_750_000_500_000)


def graded(
    statements: list[bytes],
    *,
    heads: list[bytes] | None = None,
    ledger: Ledger = LEDGER,
    quorum: int = 3,
) -> Grading:
    """What `pool verify --trust` does: statements first, then the ledger, then the grade."""
    grader = Grader(trusted(quorum))
    for head in heads or []:
        grader.add_head(head)
    for statement in statements:
        grader.add_statement(statement)
    reader = ChainReader()
    wanted = grader.lengths
    for receipt in ledger.receipts:
        reader.push(receipt)
        if reader.length in wanted:
            grader.observe(
                End(pool="alpha", length=reader.length, head=reader.head, root=reader.root())
            )
    return grader.grading(reader.length)


def test_a_ledger_nobody_signed_is_self_attested() -> None:
    """Without countersignatures nothing is witnessed, and nothing is wrong."""
    grading = graded([], heads=[LEDGER.head(10), LEDGER.head()])
    assert grading.grade is LedgerGrade.SELF_ATTESTED
    assert (grading.witnessed_length, grading.witnessed_by) == (0, ())


def test_k_of_n_at_one_length_witness_up_to_there() -> None:
    """Three of four at 15: the first 15 receipts are witnessed, the others self-attested."""
    grading = graded([countersigned(key, 15) for key in (ADA, BOB, CYD)])
    assert grading.grade is LedgerGrade.WITNESSED
    assert (grading.witnessed_length, grading.witnessed_by) == (15, ("ada", "bob", "cyd"))
    assert grading.of_receipt(14) is LedgerGrade.WITNESSED
    assert grading.of_receipt(15) is LedgerGrade.SELF_ATTESTED


def test_signatures_at_several_lengths_count_for_what_all_of_them_cover() -> None:
    """20, 12 and 7 are not three for 20: the third largest, 7, is what three vouch for."""
    grading = graded([countersigned(ADA, 20), countersigned(BOB, 12), countersigned(CYD, 7)])
    assert grading.witnessed_length == 7
    assert grading.reach == {"ada": 20, "bob": 12, "cyd": 7}


def test_one_witness_counts_once_however_often_it_signs() -> None:
    """Three signatures of one key are one witness."""
    grading = graded([countersigned(ADA, length) for length in (5, 10, 15)])
    assert grading.grade is LedgerGrade.SELF_ATTESTED
    assert grading.reach == {"ada": 15}


def test_invalid_and_unknown_signatures_are_not_counted_and_do_no_harm() -> None:
    """One bent, one stranger's, one of another pool, and enough valid ones: witnessed."""
    good = [countersigned(key, 15) for key in (ADA, BOB, CYD)]
    bent = bytearray(countersigned(DOT, 15))
    bent[-1] ^= 1
    elsewhere = countersigned(DOT, 5, Ledger(pool="beta").grow(5))
    junk = [bytes(bent), countersigned(signer(99), 15), elsewhere, b"junk", LEDGER.head(3)]
    grading = graded([*junk, *good])
    assert grading.grade is LedgerGrade.WITNESSED
    assert (grading.witnessed_by, grading.ignored) == (("ada", "bob", "cyd"), 4)
    assert graded([*junk, *good[:2]]).grade is LedgerGrade.SELF_ATTESTED


def test_a_copy_that_ends_early_is_not_graded_by_what_it_does_not_have() -> None:
    """Signatures past the end of the copy do not count for it, and each signer is named."""
    short = LEDGER.branch(10)
    grading = graded([countersigned(key, 15) for key in (ADA, BOB, CYD)], ledger=short)
    assert grading.grade is LedgerGrade.SELF_ATTESTED
    assert grading.seen_length == 15
    assert "ends after 10" in grading.warnings[-1]
    assert [(o.ground, o.length, o.by) for o in grading.short_of] == [
        *(("length", 15, name) for name in ("ada", "bob", "cyd"))
    ]
    assert grading.short_of[0].detail == (
        "the ledger given ends at 10, but ada witnessed 15: it was cut short, or is an older copy"
    )


def test_a_short_copy_keeps_the_grade_of_what_it_has() -> None:
    """A genuine beginning is witnessed to the last length in it; the steward is named, too."""
    statements = [countersigned(key, length) for key in (ADA, BOB, CYD) for length in (8, 15)]
    grading = graded(statements, heads=[LEDGER.head(20)], ledger=LEDGER.branch(10))
    assert (grading.grade, grading.witnessed_length) == (LedgerGrade.WITNESSED, 8)
    assert [(o.length, o.by) for o in grading.short_of] == [
        *((15, name) for name in ("ada", "bob", "cyd")),
        (20, "steward"),
    ]
    assert graded(statements, heads=[LEDGER.head(20)]).short_of == ()


def test_witnesses_that_contradict_each_other_past_the_end_fork_it() -> None:
    """Two ends of 15 receipts, by two witnesses or by a witness and the steward, cannot both be."""
    other = LEDGER.branch(4).grow(16)
    two = [countersigned(ADA, 15), countersigned(BOB, 15, other)]
    for statements, heads in ((two, []), (two[:1], [other.head(15)])):
        grading = graded(statements, heads=heads, ledger=LEDGER.branch(10))
        assert grading.grade is LedgerGrade.FORKED
        assert {(o.ground, o.length) for o in grading.objections} == {("witness", 15)}
    assert graded([two[0], countersigned(BOB, 15)], ledger=LEDGER.branch(10)).objections == ()


def test_a_rewritten_ledger_contradicts_its_witnesses() -> None:
    """A full consistent rewrite is forked by one trusted witness's record of the old history."""
    rewritten = LEDGER.branch(4).grow(16)
    grading = graded([countersigned(ADA, 15)], ledger=rewritten)
    assert grading.grade is LedgerGrade.FORKED
    assert [(o.ground, o.length, o.by) for o in grading.objections] == [("witness", 15, "ada")]
    assert grading.of_receipt(0) is LedgerGrade.FORKED
    assert grading.witnessed_length == 0


def test_a_full_rewrite_without_any_witness_is_only_self_attested() -> None:
    """What no witness has seen leaves no trace: that is what witnesses are for."""
    rewritten = LEDGER.branch(4).grow(16)
    assert graded([], ledger=rewritten).grade is LedgerGrade.SELF_ATTESTED


def test_a_stewards_head_of_another_history_forks_the_ledger() -> None:
    """The steward's own signed head against its own signed receipts."""
    other = LEDGER.branch(4).grow(16)
    grading = graded([countersigned(key, 15) for key in (ADA, BOB, CYD)], heads=[other.head(18)])
    assert grading.grade is LedgerGrade.FORKED
    assert [(o.ground, o.length) for o in grading.objections] == [("head", 18)]


def test_two_heads_of_one_length_fork_the_ledger_even_past_its_end() -> None:
    """The stewards' contradiction needs no receipts."""
    other = LEDGER.branch(4).grow(16)
    grading = graded([], heads=[LEDGER.head(20), other.head(20)], ledger=LEDGER.branch(10))
    assert grading.grade is LedgerGrade.FORKED


def test_a_strangers_head_accuses_nobody() -> None:
    """A head by a key that the file does not name is ignored."""
    other = LEDGER.branch(4).grow(16)
    grading = graded([], heads=[other.head(20, steward=OTHER_STEWARD)])
    assert (grading.grade, grading.ignored) == (LedgerGrade.SELF_ATTESTED, 1)


def test_fork_evidence_forks_the_ledger_whoever_found_it() -> None:
    """Two heads that the trusted steward signed prove it, under a stranger's signature too."""
    other = LEDGER.branch(4).grow(16)
    first, second = open_head(LEDGER.head(12)), open_head(other.head(20))
    path = other.leaves.path_back(old_size=12, new_size=20)
    for finder, by in ((ADA, "ada"), (signer(99), did_key(signer(99).public_key))):
        evidence = seal_fork(finder, first, second, path, 1_750_000_600_000)
        grading = graded([evidence, evidence])
        assert grading.grade is LedgerGrade.FORKED
        assert [(o.ground, o.length, o.by) for o in grading.objections] == [("evidence", 12, by)]


def test_fork_evidence_between_strangers_accuses_nobody() -> None:
    """Heads by other keys than the stewards' prove nothing about this ledger."""
    one, other = Ledger(steward=OTHER_STEWARD).grow(5), Ledger(steward=OTHER_STEWARD, mark="b")
    evidence = seal_fork(ADA, open_head(one.head()), open_head(other.grow(5).head()), [], 1)
    grading = graded([evidence])
    assert (grading.grade, grading.ignored) == (LedgerGrade.SELF_ATTESTED, 1)


def test_a_witness_that_signed_two_histories_vouches_for_neither() -> None:
    """Its signature on this ledger does not undo the one on another."""
    other = LEDGER.branch(4).grow(16)
    grading = graded([countersigned(ADA, 15), countersigned(ADA, 15, other)], quorum=1)
    assert grading.grade is LedgerGrade.FORKED
    assert grading.reach == {}


def test_the_ledgers_end_may_be_told_at_any_length() -> None:
    """Lengths that nobody signed change nothing."""
    grader = Grader(trusted(1))
    grader.add_statement(countersigned(ADA, 10))
    for length in range(1, 21):
        head = sha256(LEDGER.receipts[length - 1]).digest()
        root = LEDGER.leaves.root(length)
        grader.observe(End(pool="alpha", length=length, head=head, root=root))
    assert grader.grading(20).witnessed_length == 10


@settings(max_examples=150)
@given(st.lists(st.one_of(st.binary(max_size=400), st.integers(0, 2**16)), max_size=8))
def test_nothing_that_anybody_writes_to_a_topic_stops_a_verifier(found: list[bytes | int]) -> None:
    """Made-up bytes, and real statements with a byte changed: counted as ignored, never raised."""
    statement = countersigned(ADA, 15)
    grader = Grader(trusted(1))
    for item in found:
        data = item if isinstance(item, bytes) else bent_at(statement, item)
        grader.add_head(data)
        grader.add_statement(data)
    assert grader.grading(20).grade is LedgerGrade.SELF_ATTESTED
    assert grader.grading(20).ignored == 2 * len(found)


def bent_at(data: bytes, where: int) -> bytes:
    at = where % len(data)
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
