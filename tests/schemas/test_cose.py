"""The seal: one form, made and read; every other form refused at the check that says why."""

from __future__ import annotations

import contextlib
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from pycose.keys import OKPKey
from pycose.keys.curves import Ed25519
from pycose.messages import Sign1Message

from schemas import cbor, cose, keys
from schemas.cbor import CborError
from schemas.cose import CoseError, SignatureTask
from tests.schemas.ledgers import STEWARD, STRANGER

CORE = {"claim": "job-1", "uj": 10**12, "list": [1, None, True, b"\x00"], "empty": {}}
SEALED = cose.seal(STEWARD, CORE)
KID = keys.kid(STEWARD.public_key)
PROTECTED = bytes.fromhex("a20127045820") + KID
PAYLOAD = cbor.encode(CORE)
SIGNATURE = SEALED[-64:]


def item(data: bytes) -> bytes:
    """`data` as a CBOR byte string."""
    return cbor2.dumps(data)


def signed(
    protected: bytes = PROTECTED,
    unprotected: bytes = b"\xa0",
    payload: bytes = PAYLOAD,
    start: bytes = b"\xd2\x84",
    end: bytes = b"",
) -> bytes:
    """A statement in parts of one's choice, its signature right for them."""
    signature = STEWARD.sign(cose.sig_structure(protected, payload))
    return b"".join((start, item(protected), unprotected, item(payload), item(signature), end))


def opened_by_pycose(data: bytes) -> Any:
    """The message as pycose reads it; its own `decode` does not work with cbor2 6."""
    parts = list(cbor2.loads(data).value)
    parts[1] = dict(parts[1])
    message = Sign1Message.from_cose_obj(parts, True)
    message.key = OKPKey(crv=Ed25519, x=STEWARD.public_key, optional_params={})
    return message


def test_a_seal_is_what_the_standard_says() -> None:
    """Tag 18, four elements, alg and kid protected, nothing unprotected."""
    assert signed() == SEALED
    tag = cbor2.loads(SEALED)
    assert (tag.tag, len(tag.value)) == (18, 4)
    assert cbor2.loads(tag.value[0]) == {1: -8, 4: KID}
    assert (dict(tag.value[1]), tag.value[2], len(tag.value[3])) == ({}, PAYLOAD, 64)


def test_a_seal_opens_here() -> None:
    """The parts come out as they went in, and the signature verifies."""
    sealed = cose.split(SEALED)
    assert sealed == (KID, PAYLOAD, SIGNATURE, PROTECTED)
    cose.verify_signature(sealed, STEWARD.public_key)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65535, 65536, 1_000_000])
def test_payloads_of_every_head_length(size: int) -> None:
    """The payload's head has 1, 2, 3 or 5 bytes; all are written and read."""
    payload = bytes(size)
    data = cose.seal_payload(STEWARD, payload)
    assert cose.split(data).payload == payload
    cose.verify_signature(cose.split(data), STEWARD.public_key)
    assert cbor2.loads(data).value[2] == payload


@given(st.binary(max_size=300))
def test_the_signed_bytes_are_pycoses(payload: bytes) -> None:
    """The Sig_structure put together by hand equals the one that pycose makes."""
    sealed = cose.split(cose.seal_payload(STEWARD, payload))
    message = opened_by_pycose(cose.seal_payload(STEWARD, payload))
    assert message._create_sig_structure() == cose.sig_structure(sealed.protected, payload)
    task = cose.signature_task(sealed, STEWARD.public_key)
    assert task.message == message._create_sig_structure()


def test_a_seal_opens_under_pycose() -> None:
    """A library that knows nothing of us verifies what we sealed."""
    message = opened_by_pycose(SEALED)
    assert message.verify_signature()
    assert message.payload == PAYLOAD


ALG = b"\x01\x27"
KID_MEMBER = b"\x04\x58\x20" + KID

# What others accept and §6.6 forbids. Everything here is signed rightly for what it is.
# First protected headers: the bytes, the check that refuses them, words of the detail.
PROTECTED_REFUSED = [
    ("protected an array", b"\x80", "decode", "not a map"),
    ("protected cut", PROTECTED[:-1], "decode", "the bytes end"),
    ("bytes after the protected map", PROTECTED + b"\x00", "decode", "bytes after"),
    ("a second protected map", PROTECTED * 2, "decode", "bytes after"),
    ("label not shortest", b"\xa2\x18\x01\x27" + KID_MEMBER, "canonical", "byte 1"),
    ("alg not shortest", b"\xa2\x01\x38\x07" + KID_MEMBER, "canonical", "byte 2"),
    ("kid not shortest", b"\xa2" + ALG + b"\x04\x59\x00\x20" + KID, "canonical", "byte 4"),
    ("map not shortest", b"\xb8\x02" + ALG + KID_MEMBER, "canonical", "byte 0"),
    ("indefinite map", b"\xbf" + ALG + KID_MEMBER + b"\xff", "canonical", "byte 0"),
    ("labels in other order", b"\xa2" + KID_MEMBER + ALG, "canonical", "byte 1"),
    ("alg twice", b"\xa3" + ALG + ALG + KID_MEMBER, "canonical", "byte 0"),
    ("alg twice, another first", b"\xa3\x01\x26" + ALG + KID_MEMBER, "canonical", "byte 0"),
    ("no headers", b"", "headers", "protected"),
    ("an empty map of headers", b"\xa0", "headers", "protected"),
    ("no kid", b"\xa1" + ALG, "headers", "protected"),
    ("no alg", b"\xa1" + KID_MEMBER, "headers", "protected"),
    ("alg Ed25519 (-19)", b"\xa2\x01\x32" + KID_MEMBER, "headers", "protected"),
    ("alg ES256", b"\xa2\x01\x26" + KID_MEMBER, "headers", "protected"),
    ("short kid", b"\xa2" + ALG + b"\x04\x41\x31", "headers", "protected"),
    ("kid of 33 bytes", b"\xa2" + ALG + b"\x04\x58\x21\x00" + KID, "headers", "protected"),
    ("kid a text", b"\xa2" + ALG + b"\x04\x78\x20" + b"k" * 32, "headers", "protected"),
    ("an extra header", b"\xa3" + ALG + KID_MEMBER + b"\x18\x2a\x00", "headers", "protected"),
    ("crit", b"\xa3" + ALG + b"\x02\x81\x18\x2a" + KID_MEMBER, "headers", "protected"),
]

# Then whole statements.
STATEMENTS_REFUSED = [
    ("trailing byte", SEALED + b"\x00", "decode", "bytes after"),
    ("two statements", SEALED * 2, "decode", "bytes after"),
    ("cut", SEALED[:-1], "decode", "the bytes end"),
    ("nothing", b"", "decode", "the bytes end"),
    ("no tag", SEALED[1:], "decode", "not tagged"),
    ("another tag", b"\xd1" + SEALED[1:], "decode", "not tagged"),
    ("tag 998", b"\xd9\x03\xe6" + SEALED[1:], "decode", "not tagged"),
    ("tagged twice", b"\xd2" + SEALED, "decode", "array of four"),
    ("a fifth element", b"\xd2\x85" + SEALED[2:] + b"\xf6", "decode", "array of four"),
    ("three elements", b"\xd2\x83" + SEALED[2:-66], "decode", "array of four"),
    ("a map instead", b"\xd2\xa2" + SEALED[2:], "decode", "array of four"),
    ("detached payload", SEALED[:43] + b"\xf6" + SEALED[-66:], "decode", "wrong type"),
    ("payload a text", SEALED[:43] + b"\x60" + SEALED[-66:], "decode", "wrong type"),
    ("protected a map", b"\xd2\x84\xa1\x01\x27\xa0\x40\x40", "decode", "wrong type"),
    ("unprotected an array", signed(unprotected=b"\x80"), "decode", "wrong type"),
    ("tag not shortest", b"\xd8\x12" + SEALED[1:], "canonical", "byte 0"),
    ("array not shortest", b"\xd2\x98\x04" + SEALED[2:], "canonical", "byte 1"),
    ("indefinite array", b"\xd2\x9f" + SEALED[2:] + b"\xff", "canonical", "byte 1"),
    ("empty map of two bytes", signed(unprotected=b"\xb8\x00"), "canonical", "byte 42"),
    ("indefinite empty map", signed(unprotected=b"\xbf\xff"), "canonical", "byte 42"),
    ("payload not shortest", SEALED[:43] + b"\x59\x00" + SEALED[44:], "canonical", "byte 43"),
    ("signature not shortest", SEALED[:-66] + b"\x59\x00\x40" + SIGNATURE, "canonical", "byte"),
    ("unprotected kid", signed(unprotected=b"\xa1\x04\x41\x31"), "headers", "unprotected"),
    ("alg unprotected, too", signed(unprotected=b"\xa1" + ALG), "headers", "unprotected"),
    ("countersigned", signed(unprotected=b"\xa1\x0b\x83\x40\xa0\x40"), "headers", "unprotected"),
    ("signature of 63", SEALED[:-66] + item(SIGNATURE[:-1]), "signature", "64 bytes, not 63"),
    ("signature of 65", SEALED[:-66] + item(SIGNATURE + b"\x00"), "signature", "64 bytes, not 65"),
    ("no signature", SEALED[:-66] + b"\x40", "signature", "64 bytes, not 0"),
    # Two faults: the earlier check is the one named.
    ("no tag, other headers", signed(protected=b"\xa0", start=b"\x84"), "decode", "not tagged"),
    ("trailing, not shortest", b"\xd8\x12" + SEALED[1:] + b"\x00", "decode", "bytes after"),
    ("trailing, ES256", signed(protected=b"\xa1\x01\x26", end=b"\xf6"), "decode", "bytes after"),
    ("not shortest, ES256", signed(protected=b"\xa1\x18\x01\x26"), "canonical", "byte 1"),
    ("not shortest, unprotected", signed(unprotected=b"\xa1\x18\x04\x00"), "canonical", "byte"),
    ("ES256, no signature", signed(protected=b"\xa1\x01\x26")[:-66] + b"\x40", "headers", "prot"),
]
REFUSED = STATEMENTS_REFUSED + [
    (name, signed(protected=protected), check, words)
    for name, protected, check, words in PROTECTED_REFUSED
]


@pytest.mark.parametrize(
    ("data", "check", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_other_forms_are_refused(data: bytes, check: str, words: str) -> None:
    """Whatever is not the one form is refused at the first check that it fails."""
    with pytest.raises(CoseError, match=words) as caught:
        cose.split(data)
    assert caught.value.check == check


ACCEPTED_BY_PYCOSE = [
    "trailing byte",
    "array not shortest",
    "indefinite array",
    "tag not shortest",
    "label not shortest",
    "alg not shortest",
    "alg twice, another first",
    "labels in other order",
    "bytes after the protected map",
    "no kid",
    "an extra header",
    "crit",
    "unprotected kid",
    "countersigned",
    "kid of 33 bytes",
]


@pytest.mark.parametrize("name", ACCEPTED_BY_PYCOSE)
def test_what_pycose_accepts_and_we_do_not(name: str) -> None:
    """These verify under pycose: the strictness is ours, not a library's."""
    data = next(row[1] for row in REFUSED if row[0] == name)
    assert opened_by_pycose(data).verify_signature()


def test_a_statement_has_at_most_a_mebibyte() -> None:
    """The bound holds for the whole statement, when it is made and when it is read."""
    room = cose.SEALED_BYTES_MAX - len(cose.seal_payload(STEWARD, bytes(70_000))) + 70_000
    largest = cose.seal_payload(STEWARD, bytes(room))
    assert len(largest) == cose.SEALED_BYTES_MAX
    assert cose.split(largest).payload == bytes(room)
    with pytest.raises(CborError, match="more than 1048576"):
        cose.seal_payload(STEWARD, bytes(room + 1))
    longer = signed(payload=bytes(room + 1))
    with pytest.raises(CoseError, match="more than 1048576") as caught:
        cose.split(longer)
    assert caught.value.check == "decode"


def test_another_keys_signature_is_refused() -> None:
    """By its kid if that is the other key's, by the signature if it is not."""
    sealed = cose.split(SEALED)
    with pytest.raises(CoseError, match="kid names another") as caught:
        cose.verify_signature(sealed, STRANGER.public_key)
    assert caught.value.check == "signature"
    forged = cose.split(SEALED[:-64] + STRANGER.sign(cose.sig_structure(PROTECTED, PAYLOAD)))
    with pytest.raises(CoseError, match="not the key's") as caught:
        cose.verify_signature(forged, STEWARD.public_key)
    assert caught.value.check == "signature"


def test_a_signature_and_its_message_do_not_run_together() -> None:
    """A short signature does not take its missing bytes from the message."""
    message = b"message"
    signature = STEWARD.sign(message)
    assert cose.is_signed(SignatureTask(message, signature, STEWARD.public_key))
    shifted = SignatureTask(signature[63:] + message, signature[:63], STEWARD.public_key)
    assert shifted.signature + shifted.message == signature + message
    assert not cose.is_signed(shifted)


def test_every_byte_counts() -> None:
    """Any single byte flipped, left out or put in is refused by one of the four checks."""
    seen = set()
    for at in range(len(SEALED) + 1):
        changed = [SEALED[:at] + b"\x00" + SEALED[at:], SEALED[:at] + b"\x41" + SEALED[at:]]
        if at < len(SEALED):
            changed += [SEALED[:at], SEALED[:at] + SEALED[at + 1 :]]
            for bit in range(8):
                flipped = bytes((SEALED[at] ^ 1 << bit,))
                changed.append(SEALED[:at] + flipped + SEALED[at + 1 :])
        for data in changed:
            with pytest.raises(CoseError) as caught:
                cose.verify_signature(cose.split(data), STEWARD.public_key)
            seen.add(caught.value.check)
    assert seen == {"decode", "canonical", "headers", "signature"}


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_are_parts_or_a_cose_error(data: bytes, kept: int) -> None:
    """Nothing but CoseError comes out, also after a right beginning."""
    for candidate in (data, SEALED[:kept] + data):
        with contextlib.suppress(CoseError):
            parts = cose.split(candidate)
            protected = item(parts.protected)
            rebuilt = (b"\xd2\x84", protected, b"\xa0", item(parts.payload), item(parts.signature))
            assert b"".join(rebuilt) == candidate


def test_payload_of_looks_into_other_forms() -> None:
    """The payload can be had from any COSE_Sign1, to say what is wrong with it."""
    assert cose.payload_of(b"\xd8\x12\x9f" + SEALED[2:] + b"\xff") == PAYLOAD
    with pytest.raises(CoseError, match="not tagged"):
        cose.payload_of(SEALED[1:])
    with pytest.raises(CoseError, match="the bytes end"):
        cose.payload_of(b"")


def test_openssl_accepts_what_libsodium_signed() -> None:
    """Two libraries agree on our signatures; where they differ on others' see the vectors."""
    key = Ed25519PublicKey.from_public_bytes(STEWARD.public_key)
    key.verify(SIGNATURE, cose.sig_structure(PROTECTED, PAYLOAD))
