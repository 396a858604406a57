"""The libraries to ask, and the receipts to ask them about. Profile: §6.5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

import pytest

from schemas import cbor, keys
from schemas.receipts import NO_RECEIPT, Cause, Receipt, core_of
from schemas.records import Kind
from tests.interop import libraries
from tests.interop.sloppy import Maker

Ask = Callable[[Sequence[bytes], bytes], list[libraries.Answer]]

SIGNER = keys.SeedSigner(sha256(b"interop").digest())


@pytest.fixture(scope="session")
def libraries_asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ask]:
    """Each library by name, as something that answers for messages and a public key."""
    cwt = libraries.cwt_command()
    go_cose = libraries.go_cose_command(tmp_path_factory.mktemp("gocose"))
    return {
        "pycose": libraries.ask_pycose,
        "cwt": lambda messages, key: libraries.ask_program(cwt, messages, key),
        "go-cose": lambda messages, key: libraries.ask_program(go_cose, messages, key),
    }


@pytest.fixture(scope="session")
def receipt() -> Receipt:
    """A ledger's first receipt."""
    event = {"type": "pool.opened", "pool": "p", "capacity": {"mdev": 8000}, "tree": []}
    cause = Cause(
        topic="pool.admin",
        partition=0,
        offset=0,
        digest=sha256(cbor.encode(event)).digest(),
        index=0,
        count=1,
    )
    return Receipt(
        pool="p",
        seq=0,
        prev=NO_RECEIPT,
        closed_at_ms=1_764_441_840_120,
        steward=keys.did_key(SIGNER.public_key),
        cause=cause,
        kind=Kind.POOL_OPENED,
        body={"event": event},
    )


@pytest.fixture(scope="session")
def maker(receipt: Receipt) -> Maker:
    """Makes the receipt's sloppy forms, with the steward's key."""
    payload = cbor.encode(core_of(receipt))
    return Maker(SIGNER.sign, keys.kid(SIGNER.public_key), payload)
