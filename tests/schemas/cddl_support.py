"""Checks bytes against the grammar in `schemas/cddl`, for any test that writes some.

Not here: what no grammar says (signatures, hashes, sums): `schemas.chain` and `schemas.heads`.

1. A receipt or a statement must be deterministically encoded: the envelope, the protected header
   and the payload, each judged by a codec that is not ours.
2. Then its structure must be what the grammar has, in closed maps.
3. An event need not be deterministic: producers are not asked for it (profile §6.6).

Invariant: each `validate_*` returns None or raises `AssertionError` that says what is wrong.
"""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

from cddl_verifier import Validator
from cddl_verifier.cbor import decode, encode

from schemas.records import Kind

CDDL = Path(__file__).resolve().parents[2] / "schemas" / "cddl"
# Its findings are returned; logged as well, they would bury a failing test's own report.
logging.getLogger("cddl_verifier").setLevel(logging.CRITICAL)
PARTS = ("common", "events", "receipts", "statements", "proofs")


# The envelope, whatever is in it: what is wrong there is said before the core is looked at.
_WHOLE = """
;# import proofs
envelope = sealed<any>
"""


@functools.cache
def grammar(part: str = "") -> Validator:
    """The grammar up to a part, or the whole with `envelope` beside it."""
    source = CDDL / f"{part}.cddl" if part else _WHOLE
    return Validator(source, module_path=[CDDL], strict_modules=True, bundled_modules=False)


def encoded(value: Any) -> bytes:
    """Deterministic CBOR (RFC 8949 §4.2.1) of a hand-made value, by the grammar tool's codec."""
    data: bytes = encode(value, canonical=True)
    return data


def findings(rule: str, data: bytes, *, part: str = "", deterministic: bool = True) -> list[str]:
    """What is wrong with these bytes under a rule of the grammar; nothing where they are right."""
    result = grammar(part).validate(data, rule, require_deterministic=deterministic)
    if result.valid:
        return []
    return [_shortened(str(message)) for message in result.errors] or ["refused"]


def _shortened(message: str) -> str:
    """Of a choice's alternatives, those that failed for another reason than their name."""
    alternatives = message.split("; ")
    told = [one for one in alternatives if "'kind'" not in one and "'type'" not in one]
    return "; ".join(told or alternatives)[:2000]


def validate_event(data: bytes, content_type: str = "application/cbor") -> None:
    """One event as a producer may send it, in CBOR or, with `application/json`, in JSON."""
    if content_type == "application/json":
        result = grammar("json").validate(json.loads(data), "event")
        found = [] if result.valid else [_shortened(str(error)) for error in result.errors]
    else:
        found = findings("event", data, deterministic=False)
    assert not found, f"not an event: {found}"


def validate_receipt(data: bytes) -> None:
    """One receipt's whole COSE_Sign1 bytes."""
    payload = _unsealed(data)
    found = core_findings(payload)
    assert not found, f"not a receipt: {found}"


def core_findings(payload: bytes) -> list[str]:
    """What is wrong with a receipt's core, by its kind's own rule where it has a known kind.

    The same as by `receipt-core`, a choice of these rules, but quick and to the point.
    """
    core = decode(payload)
    kind = core.get("kind") if isinstance(core, dict) else None
    known = isinstance(kind, str) and kind in {name.value for name in Kind}
    return findings(f"{kind}-core".replace(".", "-") if known else "receipt-core", payload)


def validate_statement(data: bytes) -> None:
    """One head, countersignature or fork statement's whole COSE_Sign1 bytes."""
    payload = _unsealed(data)
    core = decode(payload)
    kind = core.get("jc_receipt") if isinstance(core, dict) else None
    rule = _STATEMENTS.get(kind, "head-core")
    found = findings(rule, payload)
    assert not found, f"not a {rule}: {found}"


_STATEMENTS = {
    "pool-head/1": "head-core",
    "pool-witness/1": "witness-core",
    "pool-fork/1": "fork-core",
}


def validate_proof(data: bytes) -> None:
    """One proof file's whole bytes; the COSE Receipt in it is judged with it."""
    found = findings("proof-file", data)
    assert not found, f"not a proof file: {found}"


def _unsealed(data: bytes) -> bytes:
    """The payload of an envelope; payload and headers are each one item."""
    found = findings("envelope", data)
    assert not found, f"not an envelope: {found}"
    protected, _, payload, _ = decode(data).value
    found = findings("sealed-header", protected)
    assert not found, f"not a protected header: {found}"
    return bytes(payload)
