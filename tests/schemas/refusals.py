"""Ledgers that do not verify, and why: for the tests, and for whoever writes another verifier.

Each is a small good ledger with one thing done to it. Everything is signed rightly for what it is,
so that only the check named can find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from schemas import cbor, cose
from schemas.keys import did_key
from schemas.receipts import Cause, core_of, open_receipt
from tests.schemas.ledgers import STEWARD, STRANGER, SUCCESSOR, small_ledger

LEDGER = small_ledger()
RECEIPTS = [open_receipt(data)[1] for data in LEDGER]
HANDOVER = 6
"""The index of the receipt that hands the ledger over."""


def resealed(index: int, signer: Any = None, **changes: Any) -> list[bytes]:
    """The ledger with one receipt changed and sealed again by the one who then held it."""
    holder = STEWARD if index <= HANDOVER else SUCCESSOR
    receipt = replace(RECEIPTS[index], **changes)
    return [
        *LEDGER[:index],
        cose.seal(signer or holder, core_of(receipt)),
        *LEDGER[index + 1 :],
    ]


def caused(at: int, **changes: Any) -> Cause:
    return replace(RECEIPTS[at].cause, **changes)


def with_receipt(index: int, data: bytes) -> list[bytes]:
    """The ledger with other bytes in a receipt's place."""
    return [*LEDGER[:index], data, *LEDGER[index + 1 :]]


CORE = cose.split(LEDGER[2]).payload
PROTECTED = cose.protected_header(STEWARD.public_key)
ALG, KID = PROTECTED[1:3], PROTECTED[3:]


def enveloped(
    *,
    core: bytes = CORE,
    protected: bytes = PROTECTED,
    unprotected: bytes = b"\xa0",
    start: bytes = b"\xd2\x84",
    end: bytes = b"",
) -> list[bytes]:
    """The ledger with receipt 2 in another envelope, or with another core, signed for it."""
    signature = STEWARD.sign(cose.sig_structure(protected, core))
    parts = (cbor.encode(protected), unprotected, cbor.encode(core), cbor.encode(signature))
    return with_receipt(2, start + b"".join(parts) + end)


ROTATED = {"steward": did_key(STRANGER.public_key)}

FAULTS: list[tuple[str, int, str, Callable[[], list[bytes]]]] = [
    # (what, index, check, the ledger): each receipt rightly sealed but for what is said.
    ("prev of another", 3, "chain", lambda: resealed(3, prev=b"x" * 32)),
    ("prev at the start", 0, "chain", lambda: resealed(0, prev=b"x" * 32)),
    ("zero prev later", 5, "chain", lambda: resealed(5, prev=bytes(32))),
    ("body rewritten", 5, "chain", lambda: resealed(4, body={"event": {}})),
    ("seq ahead", 3, "sequence", lambda: resealed(3, seq=4)),
    ("seq behind", 3, "sequence", lambda: resealed(3, seq=2)),
    ("seq at the start", 0, "sequence", lambda: resealed(0, seq=1)),
    ("another pool", 3, "sequence", lambda: resealed(3, pool="other")),
    ("offset again", 2, "sequence", lambda: resealed(2, cause=caused(2, offset=0))),
    ("offset of its own event", 3, "sequence", lambda: resealed(3, cause=caused(3, offset=2))),
    ("another digest", 3, "sequence", lambda: resealed(3, cause=caused(3, digest=b"e" * 32))),
    ("another count", 3, "sequence", lambda: resealed(3, cause=caused(3, count=3))),
    ("another topic", 3, "sequence", lambda: resealed(3, cause=caused(3, topic="pool.admin"))),
    ("another partition", 3, "sequence", lambda: resealed(3, cause=caused(3, partition=4))),
    ("begins in the middle", 1, "sequence", lambda: resealed(
        1, cause=caused(1, index=1, count=2), body={}
    )),
    ("never ends", 3, "sequence", lambda: resealed(
        3, cause=caused(3, index=0), body={"event": {}}
    )),
    ("skips one", 3, "sequence", lambda: resealed(3, cause=caused(3, index=2, count=3))),
    ("clock back", 3, "sequence", lambda: resealed(3, closed_at_ms=RECEIPTS[2].closed_at_ms - 1)),
    ("another key", 4, "signature", lambda: resealed(4, STRANGER)),
    ("another key and name", 4, "signature", lambda: resealed(
        4, STRANGER, steward=did_key(STRANGER.public_key)
    )),
    ("another name", 4, "signature", lambda: resealed(4, steward=did_key(STRANGER.public_key))),
    ("successor too early", HANDOVER, "signature", lambda: resealed(
        HANDOVER, SUCCESSOR, steward=did_key(SUCCESSOR.public_key)
    )),
    ("predecessor again", HANDOVER + 1, "signature", lambda: resealed(
        HANDOVER + 1, STEWARD, steward=did_key(STEWARD.public_key)
    )),
    ("handed to another", HANDOVER + 1, "signature", lambda: resealed(HANDOVER, body=ROTATED)),
    ("handed to no key", HANDOVER, "decode", lambda: resealed(
        HANDOVER, body={"steward": did_key(b"\x01" + bytes(31))}
    )),
    ("no receipt", 3, "decode", lambda: [*LEDGER[:3], cose.seal(STEWARD, {}), *LEDGER[3:]]),
    ("no statement", 3, "decode", lambda: [*LEDGER[:3], b"\xf6", *LEDGER[3:]]),
    ("a byte after it", 2, "decode", lambda: enveloped(end=b"\x00")),
    ("cut", 2, "decode", lambda: with_receipt(2, LEDGER[2][:-1])),
    ("no tag", 2, "decode", lambda: enveloped(start=b"\x84")),
    ("another tag", 2, "decode", lambda: enveloped(start=b"\xd8\x62\x84")),
    ("a fifth element", 2, "decode", lambda: enveloped(start=b"\xd2\x85", end=b"\xf6")),
    ("after the protected map", 2, "decode", lambda: enveloped(protected=PROTECTED + b"\x00")),
    ("after the core", 2, "decode", lambda: enveloped(core=CORE + b"\x00")),
    ("a float in the core", 2, "decode", lambda: enveloped(core=float_in_core())),
    ("tag not shortest", 2, "canonical", lambda: enveloped(start=b"\xd8\x12\x84")),
    ("indefinite", 2, "canonical", lambda: enveloped(start=b"\xd2\x9f", end=b"\xff")),
    ("alg not shortest", 2, "canonical", lambda: enveloped(
        protected=b"\xa2\x01\x38\x07" + KID
    )),
    ("alg twice", 2, "canonical", lambda: enveloped(protected=b"\xa3" + ALG + ALG + KID)),
    ("labels in other order", 2, "canonical", lambda: enveloped(protected=b"\xa2" + KID + ALG)),
    ("core not shortest", 2, "canonical", lambda: enveloped(
        core=CORE.replace(b"\x63seq\x02", b"\x63seq\x18\x02")
    )),
    ("core with a key twice", 2, "canonical", lambda: enveloped(
        core=b"\xab" + CORE[1:].replace(b"\x63seq\x02", b"\x63seq\x02\x63seq\x02")
    )),
    ("core in other order", 2, "canonical", lambda: enveloped(
        core=CORE[:1] + b"\x63seq\x02" + CORE[1:].replace(b"\x63seq\x02", b"")
    )),
    ("ES256", 2, "headers", lambda: enveloped(protected=b"\xa2\x01\x26" + KID)),
    ("Ed25519 (-19)", 2, "headers", lambda: enveloped(protected=b"\xa2\x01\x32" + KID)),
    ("no kid", 2, "headers", lambda: enveloped(protected=b"\xa1" + ALG)),
    ("an extra header", 2, "headers", lambda: enveloped(
        protected=b"\xa3" + ALG + KID + b"\x18\x2a\x00"
    )),
    ("kid unprotected, too", 2, "headers", lambda: enveloped(unprotected=b"\xa1" + KID)),
    ("short signature", 2, "signature", lambda: with_receipt(
        2, LEDGER[2][:-66] + b"\x58\x3f" + LEDGER[2][-64:-1]
    )),
    ("another kind", 2, "signature", lambda: with_receipt(
        2, LEDGER[2].replace(b"claim.expired", b"claim.starved")
    )),
    ("a receipt dropped", 3, "sequence", lambda: LEDGER[:3] + LEDGER[4:]),
    ("a receipt repeated", 4, "sequence", lambda: LEDGER[:4] + LEDGER[3:]),
    ("two receipts swapped", 3, "sequence", lambda: [*LEDGER[:3], LEDGER[4], LEDGER[3]]),
    ("cut inside an event", 3, "sequence", lambda: LEDGER[:3]),
    # Two faults: the earlier step is the one named.
    ("seq and prev", 3, "sequence", lambda: resealed(3, seq=9, prev=b"x" * 32)),
    ("key and seq", 3, "signature", lambda: resealed(3, STRANGER, seq=9)),
    ("key and prev", 3, "signature", lambda: resealed(3, STRANGER, prev=b"x" * 32)),
    ("key and no receipt", 3, "decode", lambda: [*LEDGER[:3], cose.seal(STRANGER, {})]),
    ("two receipts", 3, "sequence", lambda: [*resealed(3, seq=9)[:5], b"", *LEDGER[6:]]),
]  # fmt: skip


def float_in_core() -> bytes:
    """Receipt 2's core with a float where `seq` is."""
    return CORE.replace(b"\x63seq\x02", b"\x63seq\xf9\x40\x00")
