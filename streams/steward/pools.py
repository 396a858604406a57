"""What a steward holds in memory of a partition: its pools and its positions.

How it comes to hold them is `streams.steward.replay`; how they grow is `streams.steward.draft`.

Invariant: `positions` is what the ledgers and dead letters of the partition say (the log contract's
position rule), never what was merely read.
"""

from dataclasses import dataclass, field

from schemas.chain import ChainReader
from schemas.keys import Signer
from streams import topics
from streams.kernel import PoolState


@dataclass(slots=True, kw_only=True)
class Pool:
    """One pool: its chain's end, its state, whose it is, and where its last receipt lies.

    `signer` is None when the ledger was handed to a key that this steward does not have.
    `offset` is the last receipt's, known for what was read back; a snapshot needs it.
    """

    name: str
    key: bytes
    chain: ChainReader
    state: PoolState
    signer: Signer | None = None
    offset: int = -1


@dataclass(slots=True, kw_only=True)
class Partition:
    """One partition's pools by name, and the offsets to go on at.

    `positions`: input topic to the next offset to decide. `ledger_next`, `dead_next`: what was
    read back of those topics lies below.
    """

    number: int
    pools: dict[str, Pool] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(topics.INPUT_TOPICS, 0))
    ledger_next: int = 0
    dead_next: int = 0

    def decided(self, topic: str, offset: int) -> None:
        """Everything of `topic` up to `offset` is decided."""
        if offset >= self.positions[topic]:
            self.positions[topic] = offset + 1
