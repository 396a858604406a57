"""Whether a text is the `did:key` of an Ed25519 key that counts as one (§6.7).

Not handled here: anything that signs.  Plain arithmetic, from RFC 8032 and the did:key method.

Rules: 1. `did:key:z`, then base58btc of the bytes ed 01 and 32 more; 2. these are the canonical
encoding of a point of the curve; 3. it is of the prime-order subgroup, and not the identity.
"""

from __future__ import annotations

PREFIX = "did:key:z"
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
IDENTITY = (0, 1)
Point = tuple[int, int]


def is_did_key(text: str) -> bool:
    if not text.startswith(PREFIX) or not set(text[len(PREFIX) :]) <= set(ALPHABET):
        return False
    number = 0
    for letter in text[len(PREFIX) :]:
        number = number * 58 + ALPHABET.index(letter)
    if not 2 ** (8 * 33) <= number < 2 ** (8 * 34):
        return False
    raw = number.to_bytes(34, "big")
    return raw[:2] == b"\xed\x01" and is_key(raw[2:])


def is_key(raw: bytes) -> bool:
    point = decoded(raw)
    return point is not None and point != IDENTITY and times(ORDER, point) == IDENTITY


def decoded(raw: bytes) -> Point | None:
    """The point that 32 bytes encode, or None where they are no canonical encoding."""
    number = int.from_bytes(raw, "little")
    y, odd = number % 2**255, number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or (x == 0 and odd):
        return None
    return (P - x if x % 2 != odd else x, y)


def added(a: Point, b: Point) -> Point:
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, P) % P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P) % P
    return (x, y)


def times(factor: int, point: Point) -> Point:
    found = IDENTITY
    while factor:
        if factor & 1:
            found = added(found, point)
        point = added(point, point)
        factor >>= 1
    return found
