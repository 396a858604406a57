"""Receipts that are not quite receipts: each says what a good one says, signed, but sloppily.

Nothing of `schemas` is used here: the bytes are put together by hand, from the RFCs, so that what
is tested is not what made the test. Signatures are right for what each variant signs: whoever
refuses one, refuses its form.

1. `good` is the receipt as §6.5 has it.
2. `variants` are its sloppy forms, each with the check that §6.6 says fails.

Profile: §6.5, §6.6. RFC 8949 §3, §4.2.1; RFC 9052 §4.2, §4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

Sign = Callable[[bytes], bytes]

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's base point: adding it to a signature's S gives another S of the same value."""


class Variant(NamedTuple):
    """A sloppy receipt: what is sloppy about it, its bytes, and the check that it fails."""

    name: str
    data: bytes
    check: str


def head(major: int, argument: int) -> bytes:
    """The shortest head of a CBOR item."""
    if argument < 24:
        return bytes([major << 5 | argument])
    size = next(size for size in (1, 2, 4, 8) if argument < 1 << 8 * size)
    return bytes([major << 5 | 23 + size.bit_length()]) + argument.to_bytes(size, "big")


def octets(content: bytes) -> bytes:
    """A byte string item."""
    return head(2, len(content)) + content


class Maker:
    """Puts receipts of one kid and payload together, signed by `sign`."""

    def __init__(self, sign: Sign, kid: bytes, payload: bytes) -> None:
        self.sign = sign
        self.kid = octets(kid)
        self.payload = payload
        self.protected = b"\xa2\x01\x27\x04" + self.kid

    def signature(self, protected: bytes, payload: bytes) -> bytes:
        """Over the Sig_structure: ["Signature1", protected, h'', payload]."""
        return self.sign(b"\x84\x6aSignature1" + octets(protected) + b"\x40" + octets(payload))

    def parts(self, protected: bytes | None = None, payload: bytes | None = None) -> list[bytes]:
        """The four items, in order, signed over the protected header and payload given."""
        signed = self.protected if protected is None else protected
        said = self.payload if payload is None else payload
        return [octets(signed), b"\xa0", octets(said), octets(self.signature(signed, said))]

    def good(self) -> bytes:
        """The receipt as §6.5 has it."""
        return b"\xd2\x84" + b"".join(self.parts())

    def variants(self) -> Iterator[Variant]:
        """Every sloppy form, envelope first."""
        yield from self._around()
        yield from self._headers()
        yield from self._payloads()

    def _around(self) -> Iterator[Variant]:
        """The envelope: what is around the four items, and how their lengths are written."""
        good, items = self.good(), self.parts()
        first, rest = items[0], b"".join(items[1:])
        yield Variant("a byte after the end", good + b"\x00", "decode")
        yield Variant("the receipt twice", good + good, "decode")
        yield Variant("no tag", good[1:], "decode")
        yield Variant("the tag of a COSE_Mac0", b"\xd1" + good[1:], "decode")
        yield Variant("a CWT tag around it", b"\xd8\x3d" + good, "decode")
        yield Variant("a fifth element", b"\xd2\x85" + good[2:] + b"\xf6", "decode")
        yield Variant("a longer tag", b"\xd8\x12" + good[1:], "canonical")
        yield Variant("a longer array head", b"\xd2\x98\x04" + good[2:], "canonical")
        yield Variant("an array without length", b"\xd2\x9f" + good[2:] + b"\xff", "canonical")
        longer = b"\x59\x00" + first[1:]
        yield Variant("a longer header length", b"\xd2\x84" + longer + rest, "canonical")
        chunks = b"\x5f" + items[2] + b"\xff"
        pieces = [first, items[1], chunks, items[3]]
        yield Variant("a payload in chunks", b"\xd2\x84" + b"".join(pieces), "canonical")
        yield Variant("a longer S", self._malleated(), "signature")

    def _malleated(self) -> bytes:
        """The signature with the group's order added to S: equal to it, were that not checked."""
        good = self.good()
        scalar = int.from_bytes(good[-32:], "little") + GROUP_ORDER
        return good[:-32] + scalar.to_bytes(32, "little")

    def _headers(self) -> Iterator[Variant]:
        """The headers: others than §6.5 names, or the same written otherwise."""
        alg, kid = b"\x01\x27", b"\x04" + self.kid
        for name, protected, check in (
            ("a content type, protected", b"\xa3" + alg + b"\x03\x00" + kid, "headers"),
            (
                "an unknown critical header",
                b"\xa4" + alg + b"\x02\x81\x18\x63" + kid + b"\x18\x63\x00",
                "headers",
            ),
            ("no kid", b"\xa1" + alg, "headers"),
            ("alg as its longer integer", b"\xa2\x01\x38\x07" + kid, "canonical"),
            ("a longer label", b"\xa2\x18\x01\x27" + kid, "canonical"),
            ("kid before alg", b"\xa2" + kid + alg, "canonical"),
            ("alg twice", b"\xa3" + alg + alg + kid, "canonical"),
            ("alg twice, the first another", b"\xa3\x01\x26" + alg + kid, "canonical"),
            ("a header map without length", b"\xbf" + alg + kid + b"\xff", "canonical"),
            ("a byte after the header map", self.protected + b"\x00", "decode"),
        ):
            yield Variant(name, b"\xd2\x84" + b"".join(self.parts(protected)), check)
        for name, protected, unprotected in (
            ("a content type, unprotected", self.protected, b"\xa1\x03\x00"),
            ("kid unprotected as well", self.protected, b"\xa1" + kid),
            ("kid unprotected only", b"\xa1" + alg, b"\xa1" + kid),
            ("alg unprotected only", b"\xa1" + kid, b"\xa1" + alg),
            ("all unprotected", b"", b"\xa2" + alg + kid),
        ):
            items = self.parts(protected)
            items[1] = unprotected
            yield Variant(name, b"\xd2\x84" + b"".join(items), "headers")

    def _payloads(self) -> Iterator[Variant]:
        """The core: in bytes that §6.6 forbids. COSE does not look at it, we do."""
        seq = b"\x63seq\x00"
        before, after = self.payload[1:].split(seq)
        count = self.payload[0] & 31
        same, more = bytes([0xA0 | count]), bytes([0xA0 | count + 1])
        for name, payload, check in (
            ("a longer integer", same + before + b"\x63seq\x18\x00" + after, "canonical"),
            ("a longer key", same + before + b"\x78\x03seq\x00" + after, "canonical"),
            ("keys out of order", same + seq + before + after, "canonical"),
            ("a key twice", more + before + seq + seq + after, "canonical"),
            (
                "a key twice, the first another",
                more + before + b"\x63seq\x01" + seq + after,
                "canonical",
            ),
            ("a core without length", b"\xbf" + self.payload[1:] + b"\xff", "canonical"),
            ("a text in chunks", same + before + b"\x7f\x63seq\xff\x00" + after, "canonical"),
            ("a float", same + before + b"\x63seq\xf9\x00\x00" + after, "decode"),
            ("a bignum", same + before + b"\x63seq\xc2\x40" + after, "decode"),
            ("undefined", same + before + b"\x63seq\xf7" + after, "decode"),
            ("an integer key", same + before + b"\x00\x00" + after, "decode"),
            ("a byte after the core", self.payload + b"\x00", "decode"),
        ):
            data = b"\xd2\x84" + b"".join(self.parts(payload=payload))
            yield Variant("core: " + name, data, check)
