"""Sealing and opening: COSE_Sign1 with Ed25519, in the one form that §6.5 allows.

What the payload says is not looked at (`schemas.receipts`, `schemas.heads`), nor whose key it
should be (`schemas.chain`, `schemas.trust`); many signatures at once are `schemas.batch`'s.

`split` takes the bytes apart and checks, in this order; `verify_signature` does the last:
1. `decode`: one well-formed item with nothing after it: tag 18 on an array of four, a byte string
   (the protected header: one map and nothing after it, or empty), a map, two byte strings.
2. `canonical`: the envelope and the protected map are in deterministic encoding.
3. `headers`: the protected map is `{1: -8, 4: kid}` with a kid of 32 bytes, the unprotected empty.
4. `signature`: it has 64 bytes, the kid is the key's, and libsodium accepts it.

Bytes that pass 1 to 3 are fixed but for kid, payload and signature, so those that have this
form are taken by comparison; only others are parsed, to name the check that fails.

Invariant: `split(seal_payload(signer, payload)).payload == payload`.
Profile: §6.5, §6.6. RFC 9052 §4.2, §4.4; RFC 9053 §2.2.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, NoReturn

from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError

from schemas import cbor
from schemas.keys import SIGNATURE_BYTES, Signer, kid
from schemas.wellformed import (
    CborError,
    Head,
    deterministic_form,
    first_difference,
    item_end,
    read_head,
    write_head,
)

Check = Literal["decode", "canonical", "headers", "signature"]

SEALED_BYTES_MAX = cbor.BYTES_MAX
"""A sealed statement has at most this many bytes, envelope included."""

NOT_SIGNED = "the signature is not the key's over these bytes"

_TAG_SIGN1 = 18
_HEADERS = bytes.fromhex("a20127045820")
"""`{1: -8, 4: <32 bytes>}` without those 32 bytes."""
_PROTECTED_BYTES = len(_HEADERS) + 32
_START = bytes.fromhex("d284") + write_head(2, _PROTECTED_BYTES) + _HEADERS
_PAYLOAD_AT = len(_START) + 33
"""Where the payload's head begins: after the kid and the empty unprotected map."""
_EMPTY_MAP = 0xA0
_SIGNATURE_HEAD = write_head(2, SIGNATURE_BYTES)
_SIGNATURE_ITEM_BYTES = len(_SIGNATURE_HEAD) + SIGNATURE_BYTES


class CoseError(Exception):
    """Bytes that are no statement of ours; `check` is the first of the module's that fails."""

    def __init__(self, check: Check, detail: str) -> None:
        super().__init__(f"{check}: {detail}")
        self.check: Check = check
        self.detail = detail


class Sealed(NamedTuple):
    """A COSE_Sign1 taken apart: kid (32 bytes), payload, signature (64), protected header."""

    kid: bytes
    payload: bytes
    signature: bytes
    protected: bytes


class SignatureTask(NamedTuple):
    """One signature to be checked: the signed message, the signature, the raw public key."""

    message: bytes
    signature: bytes
    public_key: bytes


def seal(signer: Signer, core: Mapping[str, object]) -> bytes:
    """The core's deterministic encoding, sealed. Raises `CborError` for a core outside §6.6."""
    return seal_payload(signer, cbor.encode(core))


def seal_payload(signer: Signer, payload: bytes) -> bytes:
    """The COSE_Sign1 bytes over `payload` as it is.

    Raises `CborError("decode")` if they would be more than `SEALED_BYTES_MAX`.
    """
    before, signed_start = _frame(signer.public_key)
    item = write_head(2, len(payload)) + payload
    signature = signer.sign(signed_start + item)
    sealed = b"".join((before, item, _SIGNATURE_HEAD, signature))
    if len(sealed) > SEALED_BYTES_MAX:
        raise CborError("decode", f"{len(sealed)} bytes are more than {SEALED_BYTES_MAX}")
    return sealed


def protected_header(public_key: bytes) -> bytes:
    """The protected header of what `public_key` signs: the encoded map, not yet a byte string."""
    return _HEADERS + kid(public_key)


def sig_structure(protected: bytes, payload: bytes) -> bytes:
    """What is signed (RFC 9052 §4.4): `["Signature1", protected, h'', payload]`, encoded."""
    parts = (b"\x84\x6aSignature1", write_head(2, len(protected)), protected, b"\x40")
    return b"".join((*parts, write_head(2, len(payload)), payload))


def split(data: bytes) -> Sealed:
    """The parts of a COSE_Sign1 that passes the module's checks 1 to 3.

    Raises `CoseError`. The signature is not checked, but for its length.
    """
    payload_end = len(data) - _SIGNATURE_ITEM_BYTES
    if payload_end < _PAYLOAD_AT or not data.startswith(_START) or len(data) > SEALED_BYTES_MAX:
        _refuse(data)
    length_head_end = _payload_start(data, payload_end)
    if (
        length_head_end == 0
        or data[_PAYLOAD_AT - 1] != _EMPTY_MAP
        or data[payload_end : payload_end + 2] != _SIGNATURE_HEAD
    ):
        _refuse(data)
    return Sealed(
        data[len(_START) : _PAYLOAD_AT - 1],
        data[length_head_end:payload_end],
        data[payload_end + 2 :],
        data[len(_START) - len(_HEADERS) : _PAYLOAD_AT - 1],
    )


def payload_of(data: bytes) -> bytes:
    """The payload of a COSE_Sign1 in whatever encoding, under whatever headers.

    For telling what is wrong with it. Raises `CoseError("decode")` if it is no COSE_Sign1.
    """
    try:
        return _parts(data)[2][1]
    except CborError as error:
        raise CoseError("decode", f"{error.detail} (byte {error.position})") from error


def signature_task(sealed: Sealed, public_key: bytes) -> SignatureTask:
    """What `is_signed` checks for this statement and this key.

    Raises `CoseError("signature")` if the kid names another key.
    """
    if sealed.kid != kid(public_key):
        raise CoseError("signature", "the kid names another key")
    message = sig_structure(sealed.protected, sealed.payload)
    return SignatureTask(message, sealed.signature, public_key)


def verify_signature(sealed: Sealed, public_key: bytes) -> None:
    """Raises `CoseError("signature")` unless `public_key` (32 raw bytes) signed the statement.

    The key itself is not judged: whoever trusts it has (`schemas.keys.check_public_key`).
    """
    if not is_signed(signature_task(sealed, public_key)):
        raise CoseError("signature", NOT_SIGNED)


def is_signed(task: SignatureTask) -> bool:
    """Whether libsodium accepts the signature; one that has not 64 bytes is none."""
    if len(task.signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(task.signature + task.message, task.public_key)
    except CryptoError:
        return False
    return True


@lru_cache(maxsize=256)
def _frame(public_key: bytes) -> tuple[bytes, bytes]:
    """What precedes the payload, in the statement and in what is signed."""
    protected = protected_header(public_key)
    item = write_head(2, len(protected)) + protected
    return b"\xd2\x84" + item + b"\xa0", b"\x84\x6aSignature1" + item + b"\x40"


def _payload_start(data: bytes, payload_end: int) -> int:
    """Where the payload's content begins, if a shortest head there says it ends as it does."""
    initial = data[_PAYLOAD_AT]
    size = 1 if initial < 0x58 else 1 + (1 << (initial - 0x58)) if initial < 0x5C else 0
    start = _PAYLOAD_AT + size
    length = payload_end - start
    if size == 0 or length < 0 or data[_PAYLOAD_AT:start] != write_head(2, length):
        return 0
    return start


def _refuse(data: bytes) -> NoReturn:
    """Names the check that fails for bytes that have not the one form `split` takes."""
    try:
        _refuse_parts(data, _parts(data))
    except CborError as error:
        raise CoseError("decode", f"{error.detail} (byte {error.position})") from error


def _parts(data: bytes) -> list[tuple[Head, bytes]]:
    """Head and bytes of the four elements of a COSE_Sign1 in whatever encoding (check 1)."""
    if len(data) > SEALED_BYTES_MAX:
        raise CoseError("decode", f"{len(data)} bytes are more than {SEALED_BYTES_MAX}")
    form = deterministic_form(data)
    tag = read_head(form, 0)
    if tag[0] != 6 or tag.argument != _TAG_SIGN1:
        raise CoseError("decode", "not tagged as a COSE_Sign1 (18)")
    array = read_head(form, tag.after)
    if array.major != 4 or array.argument != 4:
        raise CoseError("decode", "a COSE_Sign1 is an array of four")
    parts, position = [], array.after
    for major in (2, 5, 2, 2):
        head, end = read_head(form, position), item_end(form, position)
        if head.major != major:
            raise CoseError("decode", "an element of a COSE_Sign1 is of the wrong type")
        parts.append((head, form[head.after : end]))
        position = end
    return parts


def _refuse_parts(data: bytes, parts: list[tuple[Head, bytes]]) -> NoReturn:
    """The rest of check 1, and checks 2 to 4; one of them fails."""
    protected, signature = parts[0][1], parts[3][1]
    inner = deterministic_form(protected) if protected else b""
    if inner and read_head(inner, 0).major != 5:
        raise CoseError("decode", "the protected header is not a map")
    for given, form in ((data, deterministic_form(data)), (protected, inner)):
        if given != form:
            at = first_difference(given, form)
            raise CoseError("canonical", f"not the deterministic encoding (byte {at})")
    if not protected.startswith(_HEADERS) or len(protected) != _PROTECTED_BYTES:
        raise CoseError("headers", "the protected header is not {1: -8, 4: kid of 32 bytes}")
    if parts[1][0].argument:
        raise CoseError("headers", "the unprotected header is not empty")
    assert len(signature) != SIGNATURE_BYTES, "split refuses only what one of its checks refuses"
    raise CoseError("signature", f"an Ed25519 signature has 64 bytes, not {len(signature)}")
