"""What a witness makes of heads: scenarios T1 to T5, T11 to T15, T23 and T24."""

from __future__ import annotations

from pathlib import Path

import cbor2
import pytest

from schemas import cose
from schemas.forks import open_fork
from schemas.heads import open_countersignature, open_head
from schemas.keys import SeedSigner, did_key, from_did_key, kid, pem_of_seed, signer_from_pem
from schemas.merkle import PATH_MAX
from tests.witness.ledger import (
    OTHER_STEWARD,
    OTHER_WITNESS,
    START_MS,
    STEWARD,
    WITNESS,
    Ledger,
)
from tests.witness.support import NOW_MS, Clock, new_state, opened, said
from witness import store
from witness.guard import check_keys
from witness.outcome import Kind, Outcome, Refusal
from witness.trouble import Reason, Trouble
from witness.witness import Witness


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def witness(tmp_path: Path, clock: Clock) -> Witness:
    return opened(new_state(tmp_path), clock=clock)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger().grow(20)


def evidence(outcome: Outcome) -> tuple[bytes, bytes]:
    """The two heads of fork evidence, which verifies under the steward's key alone."""
    assert outcome.kind is Kind.FORKED
    assert outcome.statement is not None
    fork = open_fork(outcome.statement, {STEWARD.public_key}, {WITNESS.public_key}).statement
    return fork.first.data, fork.second.data


def test_t01_a_shorter_head_is_never_signed(witness: Witness, ledger: Ledger) -> None:
    """T1: a rollback: of our own history it is stale, of another it is a fork."""
    assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED
    assert witness.step(ledger.head(12)).kind is Kind.STALE
    rolled_back = ledger.branch(8).grow(4)
    outcome = witness.step(rolled_back.head(), rolled_back.receipts)
    assert evidence(outcome) == (ledger.head(), rolled_back.head())


@pytest.mark.parametrize("bent", ["root", "head"])
def test_t02_a_second_head_of_one_length_is_a_fork(
    witness: Witness, ledger: Ledger, bent: str
) -> None:
    """T2: another root, or another chain head alone: both signed heads are kept and published."""
    witness.step(ledger.head(), ledger.receipts)
    second = ledger.head(**{bent: bytes(32)})
    outcome = witness.step(second)
    assert evidence(outcome) == (ledger.head(), second)
    assert [data for _, data in witness.statements()][-1] == outcome.statement


def test_t02_a_wrong_head_accuses_once_a_right_one_shows_it(
    witness: Witness, ledger: Ledger
) -> None:
    """T2: a head that does not fit is "not yet", until two signed heads contradict each other."""
    wrong = ledger.head(15, root=bytes(32))
    assert witness.step(wrong, ledger.receipts[:15]).kind is Kind.NOT_YET
    ledger.grow(5)
    outcome = witness.step(ledger.head(), ledger.receipts[15:])
    assert evidence(outcome) == (ledger.head(), wrong)
    assert witness.pools["alpha"].record.length == 0


def test_t03_a_longer_chain_that_does_not_extend_is_not_signed(
    witness: Witness, ledger: Ledger
) -> None:
    """T3: without the other history it is "not yet"; with it, the longer tree convicts."""
    witness.step(ledger.head(), ledger.receipts)
    other = ledger.branch(9).grow(30)
    assert witness.step(other.head(), other.receipts[20:]).kind is Kind.NOT_YET
    inquest = witness.inquest("alpha")
    for receipt in other.receipts:
        inquest.add(receipt)
    outcome = witness.conclude(inquest)
    assert outcome is not None
    assert evidence(outcome) == (ledger.head(), other.head())


def test_t03_a_longer_head_whose_history_is_nowhere_accuses_nobody(
    witness: Witness, ledger: Ledger
) -> None:
    """T3: a head without its receipts proves nothing."""
    witness.step(ledger.head(), ledger.receipts)
    other = ledger.branch(9).grow(30)
    witness.step(other.head())
    inquest = witness.inquest("alpha")
    for receipt in [*ledger.receipts, *other.receipts[:-2]]:
        inquest.add(receipt)
    assert witness.conclude(inquest) is None


def test_t04_the_same_head_again_gets_a_newer_time(
    witness: Witness, ledger: Ledger, clock: Clock
) -> None:
    """T4: the fields stay, the time grows, and without a newer time nothing is signed."""
    first = said(witness.step(ledger.head(), ledger.receipts))
    assert witness.step(ledger.head()).kind is Kind.KNOWN
    clock.now_ms += 60_000
    second = said(witness.step(ledger.head()))
    assert second.end == first.end
    assert second.head_digest == first.head_digest
    assert (first.closed_at_ms, second.closed_at_ms) == (NOW_MS, NOW_MS + 60_000)


def test_t04_the_same_end_in_another_signed_head_is_no_fork(
    witness: Witness, ledger: Ledger, clock: Clock
) -> None:
    """T4: a head with another time says the same; its own digest is countersigned."""
    witness.step(ledger.head(), ledger.receipts)
    clock.now_ms += 1
    again = ledger.head(closed_at_ms=START_MS + 999)
    assert said(witness.step(again)).head_digest == open_head(again).digest


def test_t05_the_first_head_may_be_of_any_length(tmp_path: Path) -> None:
    """T5: one receipt, or many; a length of 0 is no head at all."""
    for number, length in enumerate((1, 2, 20)):
        ledger = Ledger().grow(length)
        witness = opened(new_state(tmp_path, name=f"{number}.db"))
        assert said(witness.step(ledger.head(), ledger.receipts)).end.length == length
        witness.close()
    core = {
        "jc_receipt": "pool-head/1",
        "pool": "alpha",
        "length": 0,
        "head": bytes(32),
        "root": bytes(32),
        "closed_at": "2026-01-01T00:00:00.000Z",
        "steward": did_key(STEWARD.public_key),
    }
    witness = opened(new_state(tmp_path))
    assert witness.step(cose.seal(STEWARD, core)).reason is Refusal.STATEMENT


def test_t05_the_first_head_needs_the_whole_ledger(witness: Witness, ledger: Ledger) -> None:
    """T5: nothing is taken on trust, not even where a ledger begins."""
    assert witness.step(ledger.head(), ledger.receipts[5:]).kind is Kind.NOT_YET
    assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED


def test_t11_a_clock_that_goes_back_does_not_take_our_time_back(
    witness: Witness, ledger: Ledger, clock: Clock
) -> None:
    """T11: one hour back: heads are signed on, at the last time, and the lag is told."""
    witness.step(ledger.head(10), ledger.receipts[:10])
    clock.now_ms -= 3_600_000
    outcome = witness.step(ledger.head(), ledger.receipts[10:])
    assert said(outcome).closed_at_ms == NOW_MS
    assert witness.clock_behind_ms == 3_600_000
    assert witness.step(ledger.head()).kind is Kind.KNOWN


def test_t11_a_clock_that_leaps_forward_is_outlived(
    witness: Witness, ledger: Ledger, clock: Clock
) -> None:
    """T11: ten years ahead and back: signing goes on, and never with an earlier time."""
    ten_years_ms = 10 * 365 * 86_400_000
    clock.now_ms += ten_years_ms
    witness.step(ledger.head(10), ledger.receipts[:10])
    clock.now_ms = NOW_MS
    assert said(witness.step(ledger.head(), ledger.receipts[10:])).closed_at_ms == (
        NOW_MS + ten_years_ms
    )


def test_t12_another_pools_head_is_refused(witness: Witness, ledger: Ledger) -> None:
    """T12: a head counts only in the pool that it names."""
    other = Ledger(pool="beta").grow(20)
    witness.step(ledger.head(10), ledger.receipts[:10])
    outcome = witness.take_head("alpha", other.head())
    assert outcome is not None
    assert (outcome.kind, outcome.reason) == (Kind.REFUSED, Refusal.UNKNOWN_POOL)
    witness.take_receipts("alpha", [(0, receipt) for receipt in other.receipts])
    assert witness.step(ledger.head(), ledger.receipts[10:]).kind is Kind.SIGNED


def test_t12_only_the_pools_of_the_trust_file_are_followed(tmp_path: Path, ledger: Ledger) -> None:
    """T12: an unknown pool, and a known one that another steward began, get nothing."""
    witness = opened(new_state(tmp_path), stewards={"alpha": frozenset([STEWARD.public_key])})
    stranger = Ledger(pool="beta").grow(3)
    assert witness.step(stranger.head(), stranger.receipts).reason is Refusal.UNKNOWN_POOL
    taken = Ledger(steward=OTHER_STEWARD).grow(3)
    assert witness.step(taken.head(), taken.receipts).kind is Kind.NOT_YET
    assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED


def test_t12_a_countersignature_moved_to_another_head_names_the_head_it_saw(
    witness: Witness, ledger: Ledger
) -> None:
    """T12: `head_digest` and the fields bind it to what was checked."""
    statement = said(witness.step(ledger.head(), ledger.receipts))
    assert statement.head_digest == open_head(ledger.head()).digest
    assert statement.head_digest != open_head(ledger.head(closed_at_ms=1)).digest


TWIN = bytes.fromhex("b154bd62188ae283dd187fefe8c31f5e276edf083b4cff11c9d5cff856c74440")
TWIN_OF = SeedSigner(bytes(range(32)))


@pytest.mark.parametrize("form", ["raw", "pem", "did"])
def test_t13_the_stewards_own_key_is_refused_in_every_form(tmp_path: Path, form: str) -> None:
    """T13: equality is of the 32 raw bytes, however the key was written down."""
    same = signer_from_pem(pem_of_seed(STEWARD.seed)) if form == "pem" else STEWARD
    named = from_did_key(did_key(STEWARD.public_key)) if form == "did" else STEWARD.public_key
    stewards = {"alpha": frozenset([named])}
    with pytest.raises(Trouble) as refused:
        opened(new_state(tmp_path, key=same), same, stewards=stewards)
    assert refused.value.reason is Reason.KEY_IS_STEWARDS


@pytest.mark.parametrize(
    "raw",
    [TWIN, bytes([1]) + bytes(31), bytes(32), bytes([2]) + bytes(31), b"\xff" * 32, b"short"],
    ids=["torsion twin", "identity", "low order", "off the curve", "not canonical", "length"],
)
def test_t13_what_is_no_key_is_no_witness(raw: bytes) -> None:
    """T13: a twin of the steward's key would differ in its bytes: it is refused for what it is."""
    assert TWIN_OF.public_key.hex().startswith("03a107bf")
    with pytest.raises(Trouble) as refused:
        check_keys(raw, None)
    assert refused.value.reason is Reason.KEY_REFUSED


def test_t13_a_steward_that_takes_the_witnesss_key_gets_no_signature(witness: Witness) -> None:
    """T13: without a trust file the ledger itself shows it."""
    own = Ledger(steward=WITNESS).grow(3)
    outcome = witness.step(own.head(), own.receipts)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSED, Refusal.OWN_KEY)


def test_t13_a_ledger_handed_to_the_witnesss_key_gets_no_more_signatures(
    witness: Witness, ledger: Ledger
) -> None:
    """T13: the same by way of a handover."""
    witness.step(ledger.head(), ledger.receipts)
    ledger.rotate(WITNESS).grow(2)
    outcome = witness.step(ledger.head(), ledger.receipts[20:])
    assert (outcome.kind, outcome.reason) == (Kind.REFUSED, Refusal.OWN_KEY)


def with_unprotected(data: bytes, unprotected: dict[int, object]) -> bytes:
    protected, _, payload, signature = cbor2.loads(data).value
    return cbor2.dumps(cbor2.CBORTag(18, [protected, unprotected, payload, signature]))


def resigned(data: bytes, protected: bytes) -> bytes:
    """The same payload under another protected header, rightly signed by the steward."""
    payload = cbor2.loads(data).value[2]
    message = cbor2.dumps(["Signature1", protected, b"", payload])
    signature = STEWARD.sign(message)
    return cbor2.dumps(cbor2.CBORTag(18, [protected, {}, payload, signature]))


def test_t14_a_head_with_anything_unprotected_is_refused(witness: Witness, ledger: Ledger) -> None:
    """T14: a forged countersignature, or anything else that no signature covers."""
    forged = with_unprotected(ledger.head(), {11: [b"", {}, bytes(64)]})
    for bent in (forged, with_unprotected(ledger.head(), {99: 1})):
        outcome = witness.step(bent, ledger.receipts)
        assert (outcome.reason, outcome.detail[:7]) == (Refusal.STATEMENT, "headers")
    assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED


KID = kid(STEWARD.public_key)
PROTECTED = {
    "alg -19": cbor2.dumps({1: -19, 4: KID}),
    "no alg": cbor2.dumps({4: KID}),
    "no kid": cbor2.dumps({1: -8}),
    "crit": cbor2.dumps({1: -8, 2: [99], 4: KID}),
    "alg twice": b"\xa3\x01\x27\x01\x27\x04\x58\x20" + KID,
    "trailing in the header": cbor2.dumps({1: -8, 4: KID}) + b"\x00",
    "alg not minimal": b"\xa2\x01\x38\x07\x04\x58\x20" + KID,
    "indefinite header": b"\xbf\x01\x27\x04\x58\x20" + KID + b"\xff",
    "another kid": cbor2.dumps({1: -8, 4: bytes(32)}),
}


@pytest.mark.parametrize("name", PROTECTED)
def test_t15_a_rightly_signed_head_in_another_form_is_refused(
    witness: Witness, ledger: Ledger, name: str
) -> None:
    """T15: the signature alone does not make a head."""
    outcome = witness.step(resigned(ledger.head(), PROTECTED[name]), ledger.receipts)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSED, Refusal.STATEMENT)


@pytest.mark.parametrize(
    "bend",
    [
        lambda data: data + b"\x00",
        lambda data: data[1:],
        lambda data: b"\xd2\x9f" + data[2:] + b"\xff",
        lambda data: b"\xd8\x12" + data[1:],
        lambda data: data[:-1],
        lambda data: with_unprotected(data, {1: -8}),
    ],
    ids=["trailing", "untagged", "indefinite", "tag not minimal", "cut", "alg unprotected"],
)
def test_t15_another_envelope_is_refused(witness: Witness, ledger: Ledger, bend) -> None:
    """T15: one form, and no other."""
    assert witness.step(bend(ledger.head()), ledger.receipts).reason is Refusal.STATEMENT


def test_t23_heads_twice_and_out_of_order_come_to_one_signature(
    witness: Witness, ledger: Ledger
) -> None:
    """T23: duplicates and disorder cost nothing: the longest is signed, the others passed."""
    witness.take_receipts("alpha", enumerate(ledger.receipts))
    for length in (20, 5, 10, 5, 20, 15):
        assert witness.take_head("alpha", ledger.head(length)) is None
    kinds = [(outcome.kind, outcome.length) for outcome in witness.judge("alpha")]
    passed = [(Kind.PASSED, 5), (Kind.PASSED, 10), (Kind.PASSED, 15)]
    assert kinds == [*passed, (Kind.SIGNED, 20)]
    for length in (15, 5):
        assert witness.step(ledger.head(length)).kind is Kind.STALE


def test_t23_a_heads_topic_with_holes_is_good_enough(witness: Witness, ledger: Ledger) -> None:
    """T23: a compacted topic keeps the last head: every receipt before it is verified anyway."""
    assert said(witness.step(ledger.head(), ledger.receipts)).end.length == 20


def test_t23_receipts_twice_and_beyond_a_gap_do_not_matter(
    witness: Witness, ledger: Ledger
) -> None:
    """T23: repeats are passed over; a gap waits."""
    receipts = ledger.receipts
    assert witness.step(ledger.head(), [*receipts[:12], *receipts[5:9]]).kind is Kind.NOT_YET
    assert witness.step(ledger.head(), [*receipts[13:], *receipts[12:]]).kind is Kind.SIGNED


def test_t24_oversized_and_too_deep_statements_are_refused(
    witness: Witness, ledger: Ledger
) -> None:
    """T24: a megabyte, a depth bomb, a proof of too many or too short hashes."""
    assert witness.step(bytes(1_048_577)).reason is Refusal.STATEMENT
    bomb = cose.seal_payload(STEWARD, b"\x81" * 500 + b"\x80")
    assert witness.step(bomb).reason is Refusal.STATEMENT
    assert witness.step(b"\x81" * 10_000).reason is Refusal.STATEMENT
    base = {
        "jc_receipt": "pool-fork/1",
        "pool": "alpha",
        "heads": [ledger.head(5), ledger.head(9)],
        "witness": did_key(OTHER_WITNESS.public_key),
        "closed_at": "2026-01-01T00:00:00.000Z",
    }
    for path in ([bytes(32)] * (PATH_MAX + 1), [bytes(31)], [bytes(33)]):
        with pytest.raises(Exception, match="members"):
            open_fork(cose.seal(OTHER_WITNESS, base | {"path": path}))
    assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED


def test_a_handover_is_followed(witness: Witness, ledger: Ledger) -> None:
    """§6.10: heads past the handover are the new key's, and the old key's are refused."""
    ledger.rotate(OTHER_STEWARD).grow(5)
    outcome = witness.step(ledger.head(26, steward=STEWARD), ledger.receipts)
    assert (outcome.kind, outcome.reason) == (Kind.REFUSED, Refusal.KEY)
    assert witness.step(ledger.head()).kind is Kind.SIGNED
    assert witness.step(ledger.head(20, steward=STEWARD)).kind is Kind.STALE
    assert witness.step(ledger.head(21)).kind is Kind.STALE
    assert witness.step(ledger.head(24, steward=STEWARD)).reason is Refusal.KEY


def test_a_handover_outlives_a_restart(tmp_path: Path, ledger: Ledger) -> None:
    """§6.10: who signs from where on is in the record."""
    state = new_state(tmp_path)
    witness = opened(state)
    ledger.rotate(OTHER_STEWARD).grow(5)
    witness.step(ledger.head(), ledger.receipts)
    witness.close()
    witness = opened(state)
    ledger.grow(4)
    assert witness.step(ledger.head(), ledger.receipts[26:]).kind is Kind.SIGNED
    assert witness.step(ledger.head(20, steward=STEWARD)).kind is Kind.STALE


def test_a_new_key_without_a_handover_is_no_extension(witness: Witness, ledger: Ledger) -> None:
    """§6.10: a ledger that changes its key by itself stops being countersigned."""
    witness.step(ledger.head(), ledger.receipts)
    ledger.steward = OTHER_STEWARD
    ledger.grow(3)
    outcome = witness.step(ledger.head(), ledger.receipts[20:])
    assert outcome.kind is Kind.NOT_YET
    assert "was not handed the ledger" in outcome.detail


def test_a_head_inside_an_event_is_passed(witness: Witness, ledger: Ledger) -> None:
    """An event's receipts are appended together: a place inside one cannot be gone on from."""
    ledger.append("refused", {"reason": "x"}, index=0, count=2)
    inside = ledger.head()
    assert witness.step(inside, ledger.receipts).kind is Kind.PASSED
    ledger.append("refused", {"reason": "x"}, index=1, count=2)
    assert witness.step(ledger.head(), ledger.receipts[21:]).kind is Kind.SIGNED


def test_after_a_fork_nothing_is_signed_for_the_pool(witness: Witness, ledger: Ledger) -> None:
    """The pool is halted for good; others go on."""
    witness.step(ledger.head(), ledger.receipts)
    witness.step(ledger.head(root=bytes(32)))
    ledger.grow(5)
    assert witness.step(ledger.head(), ledger.receipts[20:]).kind is Kind.HALTED
    other = Ledger(pool="beta").grow(3)
    assert witness.step(other.head(), other.receipts).kind is Kind.SIGNED


def test_a_fork_outlives_a_restart(tmp_path: Path, ledger: Ledger) -> None:
    """Evidence is durable, published again at the next start, and keeps the pool halted."""
    state = new_state(tmp_path)
    witness = opened(state)
    witness.step(ledger.head(), ledger.receipts)
    statement = witness.step(ledger.head(root=bytes(32))).statement
    witness.close()
    again = opened(state)
    assert ("alpha", statement) in list(again.statements())
    ledger.grow(5)
    assert again.step(ledger.head(), ledger.receipts[20:]).kind is Kind.HALTED


def test_every_countersignature_opens_under_the_witnesss_key(
    witness: Witness, ledger: Ledger
) -> None:
    """What leaves is what the profile asks for."""
    outcome = witness.step(ledger.head(), ledger.receipts)
    assert outcome.statement is not None
    signed = open_countersignature(outcome.statement, {WITNESS.public_key})
    assert signed.statement.end == open_head(ledger.head()).statement.end


def test_many_pools_are_followed_at_once(witness: Witness) -> None:
    """Each pool has its own record; what one does is nothing to another."""
    ledgers = [Ledger(pool=f"pool-{number}", mark=str(number)).grow(7) for number in range(9)]
    for ledger in ledgers:
        assert witness.step(ledger.head(), ledger.receipts).kind is Kind.SIGNED
    assert {pool: f.record.length for pool, f in witness.pools.items()} == {
        ledger.pool: 7 for ledger in ledgers
    }


def test_a_store_belongs_to_one_key(tmp_path: Path) -> None:
    """Another witness's store is not taken for one's own."""
    with pytest.raises(Trouble) as refused:
        opened(new_state(tmp_path), OTHER_WITNESS)
    assert refused.value.reason is Reason.KEY_OF_ANOTHER
    assert store.inspect(tmp_path / "witness.db").public_key == WITNESS.public_key
