"""Ed25519 keys: which byte strings are one, how they are named, and how a seed signs.

Files are not read or written here: PEM comes and goes as bytes, the callers see to mode 0600.
What is signed is made in `schemas.cose`.

A public key is refused, with the first reason that applies (§6.7):
1. `length`: it is not 32 bytes.
2. `not-canonical`: its y is not below p, or it is the negative of zero.
3. `off-curve`: no point has that y.
4. `identity`: the neutral element, under which anybody can sign.
5. `low-order`: a point of order 2, 4 or 8.
6. `mixed-order`: not in the prime-order subgroup. Such a key is the *torsion twin* of another: the
   same secret signs for both, so a comparison of keys by their bytes would not tell them apart.

libsodium, the implementation of record, judges; the reason is found here, by plain arithmetic.

Invariant: `from_did_key(did_key(raw)) == raw` for every key that is not refused.
Profile: §6.5, §6.7. RFC 8032 §5.1.3; RFC 9679 (kid); W3C CCG did:key.
"""

from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from nacl.bindings import (
    crypto_core_ed25519_is_valid_point,
    crypto_sign,
    crypto_sign_seed_keypair,
)

KEY_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64
KNOWN_KEYS_MAX = 1024
"""How many keys' forms are remembered; a ledger has few, a hostile stream may have many."""

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_DID_PREFIX = "did:key:z"
_MULTICODEC_ED25519 = b"\xed\x01"
_DID_LENGTH = len(_DID_PREFIX) + 47
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_VALUES = {symbol: value for value, symbol in enumerate(_BASE58)}
_COSE_KEY_ED25519 = bytes.fromhex("a301012006215820")
"""RFC 9679 §3: {1: 1 (OKP), -1: 6 (Ed25519), -2: x} without its last 32 bytes, x itself."""


class KeyFault(StrEnum):
    """Why something is not a key. The order is the order of the checks."""

    FORM = "form"
    PASSWORD = "password"
    LENGTH = "length"
    NOT_CANONICAL = "not-canonical"
    OFF_CURVE = "off-curve"
    IDENTITY = "identity"
    LOW_ORDER = "low-order"
    MIXED_ORDER = "mixed-order"


class KeyRefused(Exception):
    """A key that is none, with the reason; `form` and `password` are about texts and PEM."""

    def __init__(self, reason: KeyFault, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Signer(Protocol):
    """Whatever holds a secret: a seed, later perhaps an HSM."""

    @property
    def public_key(self) -> bytes:
        """The 32 raw bytes of the Ed25519 public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the Ed25519 signature over `message`."""
        ...


class SeedSigner:
    """Signs with a secret seed of 32 bytes that lies in this process's memory."""

    __slots__ = ("_secret", "public_key", "seed")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise KeyRefused(KeyFault.LENGTH, f"a seed has 32 bytes, not {len(seed)}")
        self.seed = seed
        self.public_key: bytes
        self.public_key, self._secret = crypto_sign_seed_keypair(seed)

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the Ed25519 signature over `message`."""
        signed: bytes = crypto_sign(message, self._secret)
        return signed[:SIGNATURE_BYTES]

    def __repr__(self) -> str:
        return f"SeedSigner({did_key(self.public_key)})"


@lru_cache(maxsize=KNOWN_KEYS_MAX)
def check_public_key(raw: bytes) -> None:
    """Raises `KeyRefused` unless `raw` encodes a point of the prime-order subgroup, not zero."""
    if len(raw) != KEY_BYTES:
        raise KeyRefused(KeyFault.LENGTH, f"a public key has 32 bytes, not {len(raw)}")
    if not crypto_core_ed25519_is_valid_point(raw):
        raise KeyRefused(_fault_of(raw), f"{raw.hex()} is not an Ed25519 public key")


@lru_cache(maxsize=KNOWN_KEYS_MAX)
def kid(raw: bytes) -> bytes:
    """The key's COSE Key Thumbprint (RFC 9679) with SHA-256: 32 bytes."""
    return sha256(_COSE_KEY_ED25519 + raw).digest()


@lru_cache(maxsize=KNOWN_KEYS_MAX)
def did_key(raw: bytes) -> str:
    """The key as `did:key:z6Mk...`: base58 of the multicodec prefix and the 32 bytes."""
    number = int.from_bytes(_MULTICODEC_ED25519 + raw, "big")
    symbols = ""
    while number:
        number, remainder = divmod(number, 58)
        symbols = _BASE58[remainder] + symbols
    return _DID_PREFIX + symbols


@lru_cache(maxsize=KNOWN_KEYS_MAX)
def from_did_key(text: str) -> bytes:
    """The 32 raw bytes of a `did:key`. Raises `KeyRefused` for any other text or key."""
    if not text.startswith(_DID_PREFIX) or len(text) != _DID_LENGTH:
        raise KeyRefused(KeyFault.FORM, "an Ed25519 did:key is needed (did:key:z6Mk...)")
    number = 0
    for symbol in text[len(_DID_PREFIX) :]:
        value = _BASE58_VALUES.get(symbol)
        if value is None:
            raise KeyRefused(KeyFault.FORM, f"{symbol!r} is no base58 symbol")
        number = number * 58 + value
    size = len(_MULTICODEC_ED25519) + KEY_BYTES
    if number >> (8 * size) or not (data := number.to_bytes(size, "big")).startswith(
        _MULTICODEC_ED25519
    ):
        raise KeyRefused(KeyFault.FORM, "a did:key of another kind than Ed25519")
    raw = data[len(_MULTICODEC_ED25519) :]
    check_public_key(raw)
    return raw


def signer_from_pem(pem: bytes, password: bytes | None = None) -> SeedSigner:
    """The signer of a PKCS#8 PEM private key, encrypted if a password is given.

    Raises `KeyRefused`: `form` if it is no Ed25519 private key, `password` if the password is
    missing, wrong, or given for a key that has none.
    """
    try:
        key = load_pem_private_key(pem, password)
    except TypeError as error:
        raise KeyRefused(KeyFault.PASSWORD, str(error)) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if password is not None and b"ENCRYPTED" in pem:
            raise KeyRefused(KeyFault.PASSWORD, "the password does not open this key") from error
        raise KeyRefused(KeyFault.FORM, "not a PKCS#8 PEM private key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyRefused(KeyFault.FORM, "a private key of another kind than Ed25519")
    return SeedSigner(key.private_bytes_raw())


def pem_of_seed(seed: bytes, password: bytes | None = None) -> bytes:
    """The seed as PKCS#8 PEM, encrypted if a password is given; an empty one is refused."""
    encryption: KeySerializationEncryption = NoEncryption()
    if password == b"":
        raise KeyRefused(KeyFault.PASSWORD, "an empty password protects nothing")
    if password is not None:
        encryption = BestAvailableEncryption(password)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def new_pem(password: bytes | None = None) -> bytes:
    """A new private key, from the system's random source, as PKCS#8 PEM."""
    return pem_of_seed(Ed25519PrivateKey.generate().private_bytes_raw(), password)


def _fault_of(raw: bytes) -> KeyFault:
    """Why libsodium refuses these 32 bytes. Slow (milliseconds), and only for what is refused."""
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= _P:
        return KeyFault.NOT_CANONICAL
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if x_squared == 0:
        if sign:
            return KeyFault.NOT_CANONICAL
        return KeyFault.IDENTITY if y == 1 else KeyFault.LOW_ORDER
    if pow(x_squared, (_P - 1) // 2, _P) != 1:
        return KeyFault.OFF_CURVE
    return KeyFault.LOW_ORDER if _order_divides_8(x_squared, y) else KeyFault.MIXED_ORDER


def _order_divides_8(x_squared: int, y: int) -> bool:
    """Whether doubling a point of the curve three times gives the identity."""
    for _ in range(3):
        # y(2P) = (y^2 + x^2) / (1 - d x^2 y^2), and x^2 follows from y by the curve's equation.
        y = (y * y + x_squared) * pow(1 - _D * x_squared * y * y, -1, _P) % _P
        x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return y == 1
