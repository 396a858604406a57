"""Receipts under COSE libraries that know nothing of us; and what they take that §6.6 forbids.

Not here: the published vectors of COSE, CBOR and Ed25519 (`tests/schemas`).

1. Three libraries in two languages open what we seal, to the same payload.
2. Each sloppy form of a receipt, signed by the right key, is refused here with the check that
   §6.6 has for it, by the parts and by the verification of a ledger as a whole.
3. The table says what each library answers to it: for whoever builds a verifier on one of them.

Profile: §6.5, §6.6, §6.9. RFC 9052.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import schemas
from schemas import cbor, cose, keys
from schemas.chain import Broken, ChainReader
from schemas.heads import open_head, seal_countersignature, seal_head
from schemas.merkle import HashStore, leaf_hash
from schemas.receipts import Receipt, core_of, parse_core
from schemas.rfc9942 import seal_inclusion
from tests.interop.conftest import SIGNER, Ask
from tests.interop.sloppy import Maker, Variant

VECTORS = sorted((Path(schemas.__file__).parent / "vectors").glob("*.json"))
NAMES = ("pycose", "cwt", "go-cose")

# pycose 1.1.0 over cbor2 6.3, python-cwt 3.3.0 over cbor2 5.9, go-cose 1.3.0: what they answer.
TABLE = """
a byte after the end                 | accepts | accepts | refuses
the receipt twice                    | accepts | accepts | refuses
no tag                               | refuses | refuses | refuses
the tag of a COSE_Mac0               | refuses | refuses | refuses
a CWT tag around it                  | refuses | refuses | refuses
a fifth element                      | accepts | refuses | refuses
a longer tag                         | accepts | accepts | refuses
a longer array head                  | accepts | accepts | refuses
an array without length              | accepts | accepts | refuses
a longer header length               | accepts | accepts | accepts
a payload in chunks                  | accepts | accepts | refuses
a longer S                           | refuses | refuses | refuses
a content type, protected            | accepts | accepts | accepts
an unknown critical header           | accepts | accepts | accepts
no kid                               | accepts | accepts | accepts
alg as its longer integer            | accepts | accepts | accepts
a longer label                       | accepts | accepts | accepts
kid before alg                       | accepts | accepts | accepts
alg twice                            | accepts | accepts | refuses
alg twice, the first another         | accepts | accepts | refuses
a header map without length          | accepts | accepts | refuses
a byte after the header map          | accepts | accepts | refuses
a content type, unprotected          | accepts | accepts | accepts
kid unprotected as well              | accepts | accepts | accepts
kid unprotected only                 | accepts | accepts | accepts
alg unprotected only                 | accepts | accepts | refuses
all unprotected                      | accepts | accepts | refuses
core: a longer integer               | accepts | accepts | accepts
core: a longer key                   | accepts | accepts | accepts
core: keys out of order              | accepts | accepts | accepts
core: a key twice                    | accepts | accepts | accepts
core: a key twice, the first another | accepts | accepts | accepts
core: a core without length          | accepts | accepts | accepts
core: a text in chunks               | accepts | accepts | accepts
core: a float                        | accepts | accepts | accepts
core: a bignum                       | accepts | accepts | accepts
core: undefined                      | accepts | accepts | accepts
core: an integer key                 | accepts | accepts | accepts
core: a byte after the core          | accepts | accepts | accepts
"""
ANSWERS = {
    name.strip(): tuple(answer.strip() for answer in answers)
    for name, *answers in (line.split("|") for line in TABLE.strip().splitlines())
}


@pytest.fixture(scope="module")
def variants(maker: Maker) -> dict[str, Variant]:
    """Every sloppy form by its name."""
    return {variant.name: variant for variant in maker.variants()}


def test_we_write_what_the_rfcs_say(maker: Maker, receipt: Receipt) -> None:
    """Our sealing gives the very bytes that the hand-made receipt has, and opens them."""
    data = maker.good()
    assert cose.seal(SIGNER, core_of(receipt)) == data
    sealed = cose.split(data)
    cose.verify_signature(sealed, SIGNER.public_key)
    assert parse_core(sealed.payload) == receipt
    assert ChainReader().push(data) == receipt


@pytest.mark.parametrize("name", NAMES)
def test_a_receipt_opens_under(name: str, maker: Maker, libraries_asked: dict[str, Ask]) -> None:
    """A stranger's library, the raw bytes and the raw public key are all it takes."""
    (answer,) = libraries_asked[name]([maker.good()], SIGNER.public_key)
    assert answer.payload == maker.payload, answer.detail


@pytest.mark.parametrize("name", NAMES)
def test_statements_and_payloads_of_any_length_open_under(
    name: str, libraries_asked: dict[str, Ask]
) -> None:
    """Heads and countersignatures too, and payloads on both sides of each length's head."""
    head = seal_head(SIGNER, "p", 1, bytes(32), bytes(32), 0)
    witness = keys.SeedSigner(bytes([3]) * 32)
    countersigned = seal_countersignature(witness, open_head(head), 1)
    sized = [cose.seal_payload(SIGNER, b"x" * size) for size in (0, 23, 24, 255, 256, 65535, 65536)]
    answers = libraries_asked[name]([head, *sized], SIGNER.public_key)
    answers += libraries_asked[name]([countersigned], witness.public_key)
    for message, answer in zip([head, *sized, countersigned], answers, strict=True):
        assert answer.payload == cose.split(message).payload, answer.detail


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_golden_ledger_opens_under(
    name: str, path: Path, libraries_asked: dict[str, Ask]
) -> None:
    """Receipt by receipt, with the key that wrote it: after a handover, the successor's."""
    vector = json.loads(path.read_bytes())
    by_key: dict[str, list[bytes]] = {}
    for receipt in map(bytes.fromhex, vector["receipts"]):
        by_key.setdefault(parse_core(cose.split(receipt).payload).steward, []).append(receipt)
    for steward, receipts in by_key.items():
        answers = libraries_asked[name](receipts, keys.from_did_key(steward))
        for receipt, answer in zip(receipts, answers, strict=True):
            assert answer.payload == cose.split(receipt).payload, answer.detail


@pytest.mark.parametrize("name", NAMES)
def test_an_inclusion_receipt_opens_under(name: str, libraries_asked: dict[str, Ask]) -> None:
    """RFC 9942: the root put back in its place, it is a signed message like any other."""
    leaves = HashStore([leaf_hash(bytes([index])) for index in range(5)])
    root, path = leaves.root(5), leaves.inclusion_path(index=2, size=5)
    detached = seal_inclusion(SIGNER, root=root, size=5, index=2, path=path)
    nil, signature = b"\xf6", b"\x58\x40" + detached[-64:]
    assert detached.endswith(nil + signature)
    attached = detached.removesuffix(nil + signature) + b"\x58\x20" + root + signature
    (answer,) = libraries_asked[name]([attached], SIGNER.public_key)
    assert answer.payload == root, answer.detail


@pytest.mark.parametrize("name", NAMES)
def test_another_key_or_another_payload_opens_under_none(
    name: str, maker: Maker, libraries_asked: dict[str, Ask]
) -> None:
    """The libraries do check: a changed payload or signature, or another key, is refused."""
    good = maker.good()
    changed = good.replace(b"p:0", b"p:1")
    torn = good[:-1] + bytes([good[-1] ^ 1])
    other = keys.SeedSigner(bytes([4]) * 32).public_key
    refused = libraries_asked[name]([changed, torn], SIGNER.public_key)
    refused += libraries_asked[name]([good], other)
    assert [answer.verdict for answer in refused] == ["refuses"] * 3


def test_every_sloppy_form_has_an_answer(variants: dict[str, Variant], maker: Maker) -> None:
    """The table and the forms are the same list, and each form is another than the receipt."""
    assert list(variants) == list(ANSWERS)
    assert len({maker.good(), *(variant.data for variant in variants.values())}) == 1 + len(ANSWERS)


@pytest.mark.parametrize("form", ANSWERS)
def test_we_refuse(form: str, variants: dict[str, Variant]) -> None:
    """Structure, signature and core, in this order: the first fault has the form's check."""
    variant = variants[form]
    with pytest.raises((cose.CoseError, cbor.CborError)) as refused:
        _opened(variant.data)
    assert refused.value.check == variant.check
    in_core = isinstance(refused.value, cbor.CborError)
    assert in_core == form.startswith("core: ")


def _opened(data: bytes) -> cbor.Value:
    sealed = cose.split(data)
    cose.verify_signature(sealed, SIGNER.public_key)
    return cbor.decode(sealed.payload)


@pytest.mark.parametrize("form", ANSWERS)
def test_a_ledger_with_it_is_broken_there(
    form: str, variants: dict[str, Variant], receipt: Receipt
) -> None:
    """The verification of a ledger names index 0 and the same check, and takes nothing over."""
    reader = ChainReader(stewards=[SIGNER.public_key])
    with pytest.raises(Broken) as broken:
        reader.push(variants[form].data)
    assert (broken.value.index, broken.value.check) == (0, variants[form].check)
    assert reader.length == 0


@pytest.mark.parametrize("name", NAMES)
def test_what_the_libraries_answer(
    name: str, maker: Maker, variants: dict[str, Variant], libraries_asked: dict[str, Ask]
) -> None:
    """Most of what §6.6 forbids, a COSE library takes: none of them replaces our checks."""
    forms = list(variants.values())
    answers = libraries_asked[name]([form.data for form in forms], SIGNER.public_key)
    column = NAMES.index(name)
    found = {form.name: answer.verdict for form, answer in zip(forms, answers, strict=True)}
    assert found == {form: verdicts[column] for form, verdicts in ANSWERS.items()}
    for form, answer in zip(forms, answers, strict=True):
        if answer.payload is not None and not form.name.startswith("core: "):
            assert answer.payload == maker.payload
