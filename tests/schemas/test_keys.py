"""Which byte strings are keys, what they are called, and that only a key's holder signs."""

from __future__ import annotations

from hashlib import sha256

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import keys
from schemas.keys import KeyFault, KeyRefused, SeedSigner

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SEED = bytes(range(32))
KEY = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
TWIN = "b154bd62188ae283dd187fefe8c31f5e276edf083b4cff11c9d5cff856c74440"
TWIN_SIGNATURE = (
    "2fc8193625a23977f861e0aa5a7a5b929dcfac7a5eedda9fe19301da18805d75"
    "698cc45500ed85b7610a91e24a343355e898e424b5925427f4bb1f574ae2040f"
)

REFUSED = [
    ("", KeyFault.LENGTH),
    (KEY[:-2], KeyFault.LENGTH),
    (KEY + "00", KeyFault.LENGTH),
    ("ff" * 32, KeyFault.NOT_CANONICAL),
    # y = p, p + 1, p + 5, with and without the sign of x
    ("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyFault.NOT_CANONICAL),
    ("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", KeyFault.NOT_CANONICAL),
    ("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyFault.NOT_CANONICAL),
    ("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", KeyFault.NOT_CANONICAL),
    ("f2ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyFault.NOT_CANONICAL),
    # x = -0, at y = 1 and at y = -1
    ("0100000000000000000000000000000000000000000000000000000000000080", KeyFault.NOT_CANONICAL),
    ("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", KeyFault.NOT_CANONICAL),
    ("0200000000000000000000000000000000000000000000000000000000000000", KeyFault.OFF_CURVE),
    ("0700000000000000000000000000000000000000000000000000000000000000", KeyFault.OFF_CURVE),
    ("0100000000000000000000000000000000000000000000000000000000000000", KeyFault.IDENTITY),
    # orders 2, 4, 4, 8, 8, 8, 8
    ("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", KeyFault.LOW_ORDER),
    ("0000000000000000000000000000000000000000000000000000000000000000", KeyFault.LOW_ORDER),
    ("0000000000000000000000000000000000000000000000000000000000000080", KeyFault.LOW_ORDER),
    ("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", KeyFault.LOW_ORDER),
    ("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85", KeyFault.LOW_ORDER),
    ("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", KeyFault.LOW_ORDER),
    ("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa", KeyFault.LOW_ORDER),
    (TWIN, KeyFault.MIXED_ORDER),
]


@pytest.mark.parametrize(("key_hex", "reason"), REFUSED)
def test_what_is_no_key_is_refused(key_hex: str, reason: KeyFault) -> None:
    """Every kind of byte string that is no key has its reason."""
    with pytest.raises(KeyRefused) as caught:
        keys.check_public_key(bytes.fromhex(key_hex))
    assert caught.value.reason is reason


def test_every_reason_about_a_key_has_a_row() -> None:
    """The table covers the closed list; `form` and `password` are about texts and files."""
    assert {reason for _, reason in REFUSED} == set(KeyFault) - {KeyFault.FORM, KeyFault.PASSWORD}


def test_the_torsion_twin_really_signs() -> None:
    """Why `mixed-order` is refused: one secret, two keys with different bytes, both verify."""
    signer = SeedSigner(SEED)
    assert signer.public_key.hex() == KEY
    twin = Ed25519PublicKey.from_public_bytes(bytes.fromhex(TWIN))
    twin.verify(bytes.fromhex(TWIN_SIGNATURE), b"witness head 42")
    keys.check_public_key(signer.public_key)


Point = tuple[int, int]


def add(one: Point, other: Point) -> Point:
    """Edwards addition in affine coordinates: slow, plain, and nobody's library."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def times(scalar: int, point: Point) -> Point:
    total = (0, 1)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point = add(point, point)
        scalar >>= 1
    return total


def is_key_by_the_book(raw: bytes) -> bool:
    """RFC 8032 §5.1.3's decoding, then [L]A = 0 and A != 0, with no library's help."""
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number % 2**255
    if y >= P:
        return False
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or (x == 0 and sign):
        return False
    if x % 2 != sign:
        x = P - x
    return (x, y) != (0, 1) and times(L, (x, y)) == (0, 1)


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_libsodium_judges_as_the_book_does(raw: bytes) -> None:
    """Arbitrary bytes, mostly off the curve or of mixed order, and keys: one judgement."""
    for candidate in (raw, SeedSigner(raw).public_key):
        try:
            keys.check_public_key(candidate)
        except KeyRefused:
            assert not is_key_by_the_book(candidate)
        else:
            assert is_key_by_the_book(candidate)


def test_the_refused_are_no_keys_by_the_book() -> None:
    """The table above, against arithmetic that has nothing to do with libsodium."""
    for key_hex, reason in REFUSED:
        if reason is not KeyFault.LENGTH:
            assert not is_key_by_the_book(bytes.fromhex(key_hex))
    assert is_key_by_the_book(bytes.fromhex(KEY))


def test_kid_is_the_cose_key_thumbprint() -> None:
    """RFC 9679: SHA-256 over the deterministic COSE_Key with kty, crv and x alone."""
    raw = bytes.fromhex(KEY)
    cose_key = bytes.fromhex("a3 01 01 20 06 21 5820") + raw
    assert cbor2.loads(cose_key) == {1: 1, -1: 6, -2: raw}
    assert keys.kid(raw) == sha256(cose_key).digest()


@pytest.mark.parametrize(
    ("key_hex", "did"),
    [
        # The example of the did:key specification, and the key of this seed.
        (
            "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6",
            "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
        ),
        (KEY, "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"),
    ],
)
def test_did_key(key_hex: str, did: str) -> None:
    """A key's name is the specification's."""
    assert keys.did_key(bytes.fromhex(key_hex)) == did
    assert keys.from_did_key(did) == bytes.fromhex(key_hex)


@given(st.binary(min_size=32, max_size=32))
def test_did_key_round_trip(seed: bytes) -> None:
    """Every key is found again by its name."""
    raw = SeedSigner(seed).public_key
    assert keys.from_did_key(keys.did_key(raw)) == raw


@given(st.text(max_size=80) | st.text("123456789ABCmkz", max_size=47).map("did:key:z6Mk".__add__))
def test_any_other_text_is_no_key(text: str) -> None:
    """A text is a key's only name, or it is refused."""
    try:
        raw = keys.from_did_key(text)
    except KeyRefused:
        return
    assert keys.did_key(raw) == text


DID = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", KeyFault.FORM),
        (DID[:-1], KeyFault.FORM),
        (DID + "1", KeyFault.FORM),
        (DID.replace("z6Mk", "z16Mk", 1)[:-1], KeyFault.FORM),
        (" " + DID, KeyFault.FORM),
        (DID + "\n", KeyFault.FORM),
        (DID.replace("did:key", "DID:key"), KeyFault.FORM),
        (DID[:-1] + "0", KeyFault.FORM),
        (DID[:-1] + "l", KeyFault.FORM),
        (DID[:-1] + "é", KeyFault.FORM),
        ("did:key:z" + "z" * 47, KeyFault.FORM),
        # An X25519 key (prefix 0xec01), and did:key names of keys that are none.
        ("did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc", KeyFault.FORM),
        (keys.did_key(bytes.fromhex(TWIN)), KeyFault.MIXED_ORDER),
        (keys.did_key(b"\x01" + bytes(31)), KeyFault.IDENTITY),
        (keys.did_key(b"\xff" * 32), KeyFault.NOT_CANONICAL),
    ],
)
def test_refused_did_keys(text: str, reason: KeyFault) -> None:
    """A name of no key, or another way to write one, is refused with its reason."""
    with pytest.raises(KeyRefused) as caught:
        keys.from_did_key(text)
    assert caught.value.reason is reason


def test_a_seed_signs_as_everybody_does() -> None:
    """Ed25519 is deterministic: another library makes the very same signature."""
    signer = SeedSigner(SEED)
    other = Ed25519PrivateKey.from_private_bytes(SEED)
    assert signer.sign(b"message") == other.sign(b"message")
    assert len(signer.sign(b"")) == keys.SIGNATURE_BYTES
    assert SEED.hex() not in repr(signer)
    with pytest.raises(KeyRefused, match="32 bytes"):
        SeedSigner(SEED[:-1])


@pytest.mark.parametrize("password", [None, b"correct horse"])
def test_pem_round_trip(password: bytes | None) -> None:
    """A seed survives its PEM form, encrypted or not; two new keys differ."""
    pem = keys.pem_of_seed(SEED, password)
    assert keys.signer_from_pem(pem, password).seed == SEED
    assert (b"ENCRYPTED" in pem) == (password is not None)
    first, second = keys.new_pem(password), keys.new_pem(password)
    assert keys.signer_from_pem(first, password).seed != keys.signer_from_pem(second, password).seed


X25519_PEM = X25519PrivateKey.generate().private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)


@pytest.mark.parametrize(
    ("pem", "password", "reason"),
    [
        (b"", None, KeyFault.FORM),
        (b"not a key", None, KeyFault.FORM),
        (b"\xff\xfe", b"x", KeyFault.FORM),
        (X25519_PEM, None, KeyFault.FORM),
        (keys.pem_of_seed(SEED)[:-40], None, KeyFault.FORM),
        (keys.pem_of_seed(SEED, b"right"), None, KeyFault.PASSWORD),
        (keys.pem_of_seed(SEED, b"right"), b"wrong", KeyFault.PASSWORD),
        (keys.pem_of_seed(SEED), b"needless", KeyFault.PASSWORD),
    ],
)
def test_refused_pem(pem: bytes, password: bytes | None, reason: KeyFault) -> None:
    """A file that is no key of ours, or does not open, is refused with its reason."""
    with pytest.raises(KeyRefused) as caught:
        keys.signer_from_pem(pem, password)
    assert caught.value.reason is reason


def test_an_empty_password_is_refused() -> None:
    """A key that only looks protected is not written."""
    with pytest.raises(KeyRefused) as caught:
        keys.new_pem(b"")
    assert caught.value.reason is KeyFault.PASSWORD
