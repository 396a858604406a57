"""Small ledgers for tests: real seals over made-up decisions, with every kind of cause."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from schemas import cose
from schemas.keys import SeedSigner, Signer, did_key
from schemas.receipts import NO_RECEIPT, Cause, Receipt, core_of
from schemas.records import Body, Kind

STEWARD = SeedSigner(b"\x01" * 32)
SUCCESSOR = SeedSigner(b"\x02" * 32)
STRANGER = SeedSigner(b"\x03" * 32)
START_MS = 1_782_907_200_000
"""2026-07-01T12:00:00.000Z."""


class Writer:
    """Seals one receipt after another, as a steward would; `sealed` is the ledger."""

    def __init__(self, signer: Signer = STEWARD, pool: str = "acme") -> None:
        self.signer = signer
        self.pool = pool
        self.sealed: list[bytes] = []
        self.offsets: dict[str, int] = {}

    @property
    def prev(self) -> bytes:
        return sha256(self.sealed[-1]).digest() if self.sealed else NO_RECEIPT

    def event(
        self, decisions: Sequence[tuple[Kind, Body]], topic: str = "pool.claims", gap: int = 0
    ) -> None:
        """Append an event's receipts; `gap` records of the topic were other pools'."""
        offset = self.offsets.get(topic, 0) + gap
        self.offsets[topic] = offset + 1
        for index, (kind, body) in enumerate(decisions):
            cause = Cause(
                topic=topic,
                partition=3,
                offset=offset,
                digest=sha256(f"{topic}:{offset}".encode()).digest(),
                index=index,
                count=len(decisions),
            )
            event: Body = {"event": {"pool": self.pool, "n": offset}} if index == 0 else {}
            self.append(self.receipt(cause, kind, {**body, **event}))

    def receipt(self, cause: Cause, kind: Kind, body: Body) -> Receipt:
        seq = len(self.sealed)
        return Receipt(
            pool=self.pool,
            seq=seq,
            prev=self.prev,
            closed_at_ms=START_MS + 1000 * cause.offset,
            steward=did_key(self.signer.public_key),
            cause=cause,
            kind=kind,
            body=body,
        )

    def append(self, receipt: Receipt) -> None:
        self.sealed.append(cose.seal(self.signer, core_of(receipt)))
        if receipt.kind is Kind.STEWARD_ROTATED:
            self.signer = SUCCESSOR


def small_ledger() -> list[bytes]:
    """Ten receipts of six events from three topics, with a handover at seq 6."""
    writer = Writer()
    writer.event([(Kind.POOL_OPENED, {})], "pool.admin")
    writer.event([(Kind.CLAIM_ADMITTED, {"claim": "a"})])
    writer.event([(Kind.CLAIM_EXPIRED, {"claim": "a"}), (Kind.CLAIM_WAITING, {"claim": "b"})])
    writer.event([(Kind.METER_GAP, {"device": "g0"})], "pool.meters", gap=5)
    writer.event(
        [
            (Kind.CLAIM_UNCERTAIN, {"claim": "b"}),
            (Kind.STEWARD_ROTATED, {"steward": did_key(SUCCESSOR.public_key)}),
        ],
        "pool.admin",
        gap=1000,
    )
    writer.event(
        [(Kind.CLAIM_SETTLED, {"claim": "b"}), (Kind.CLAIM_ADMITTED, {"claim": "c"})], gap=2000
    )
    writer.event([(Kind.REFUSED, {"reason": "malformed"})], gap=7)
    return writer.sealed
