"""The public COSE_Sign1 examples: Ed25519's signed bytes are ours, no example is a receipt.

Each example with the check at which `split` refuses it and why. None can pass: §6.5 wants the kid
protected, and these have it unprotected; so our own vectors are in `schemas/vectors`.
"""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest

from schemas import cose
from schemas.cose import CoseError, SignatureTask
from tests.shared import vectors

# (folder, file, check, words, why)
EXAMPLES = [
    ("eddsa-examples", "eddsa-sig-01", "headers", "protected", "Ed25519, with a content type"),
    ("eddsa-examples", "eddsa-sig-02", "headers", "protected", "EdDSA, but Ed448"),
    ("eddsa-examples", "eddsa-01", "decode", "not tagged", "a COSE_Sign, tag 98"),
    ("eddsa-examples", "eddsa-02", "decode", "not tagged", "a COSE_Sign, tag 98"),
    ("sign1-tests", "sign-pass-01", "headers", "protected", "ES256, unprotected"),
    ("sign1-tests", "sign-pass-02", "headers", "protected", "ES256"),
    ("sign1-tests", "sign-pass-03", "decode", "not tagged", "ES256, without a tag"),
    ("sign1-tests", "sign-fail-01", "decode", "not tagged", "tag 998"),
    ("sign1-tests", "sign-fail-02", "headers", "protected", "ES256, payload changed"),
    ("sign1-tests", "sign-fail-03", "headers", "protected", "alg -999"),
    ("sign1-tests", "sign-fail-04", "headers", "protected", "alg 'unknown'"),
    ("sign1-tests", "sign-fail-06", "headers", "protected", "ES256, header added"),
    ("sign1-tests", "sign-fail-07", "headers", "protected", "ES256, header removed"),
]


def example(folder: str, name: str) -> Any:
    return json.loads(vectors("cose-wg-Examples", folder, f"{name}.json").read_text())


def test_every_example_has_a_row() -> None:
    """No example of the suite goes without an answer."""
    found = {(path.parent.name, path.stem) for path in vectors("cose-wg-Examples").glob("*/*.json")}
    assert found == {row[:2] for row in EXAMPLES}


@pytest.mark.parametrize(("folder", "name", "check", "words", "why"), EXAMPLES)
def test_no_example_is_of_our_form(
    folder: str, name: str, check: str, words: str, why: str
) -> None:
    """Each is refused at the check that its row names."""
    data = bytes.fromhex(example(folder, name)["output"]["cbor"])
    with pytest.raises(CoseError, match=words) as caught:
        cose.split(data)
    assert caught.value.check == check


def test_the_ed25519_example_verifies() -> None:
    """Our Sig_structure of its parts is the one published, and its signature is the key's."""
    published = example("eddsa-examples", "eddsa-sig-01")
    data = bytes.fromhex(published["output"]["cbor"])
    protected, _, payload, signature = cbor2.loads(data).value
    message = cose.sig_structure(protected, payload)
    assert message.hex().upper() == published["intermediates"]["ToBeSign_hex"]
    key = bytes.fromhex(published["input"]["sign0"]["key"]["x_hex"])
    assert cose.is_signed(SignatureTask(message, signature, key))
    assert not cose.is_signed(SignatureTask(message + b"\x00", signature, key))
    assert cose.payload_of(data) == payload


SAME_MESSAGE = {"sign-pass-03", "sign-fail-01"}


@pytest.mark.parametrize("name", [row[1] for row in EXAMPLES if row[0] == "sign1-tests"])
def test_what_is_signed_under_other_algorithms(name: str) -> None:
    """Ours is the published message, unless the example means it to be another.

    Payload or headers were changed after signing (fail-02 to -07), there is external data
    (pass-02), or an empty protected map stands for none (pass-01): a receipt has none of these.
    """
    published = example("sign1-tests", name)
    parts = cbor2.loads(bytes.fromhex(published["output"]["cbor"]))
    protected, _, payload, _ = parts.value if isinstance(parts, cbor2.CBORTag) else parts
    message = cose.sig_structure(protected, payload).hex().upper()
    expected = published["intermediates"]["ToBeSign_hex"]
    assert (message == expected) == (name in SAME_MESSAGE)
