"""The topics of a deployment: their names, who writes them, and which partition a pool lives in.

What a record on them means is `schemas`; how a log stores them is `streams.logs`.

1. All topics have the same number of partitions and are keyed by the pool id in UTF-8, so that a
   pool's inputs and its ledger share a partition number.
2. Inputs are written by producers; each input topic has its own access list, so an event counts
   only on the topic that section 3 of the profile names for it (`streams.steward.intake` checks).
3. `pool.ledger`, `pool.heads` and `pool.dead` are written by stewards only, through a `Writer`.
4. `pool.witness` is written by witnesses only.

Source: architecture.md "Topics"; pool-1.md section 3.
"""

from typing import Final

ADMIN: Final = "pool.admin"
CLAIMS: Final = "pool.claims"
METERS: Final = "pool.meters"
LEDGER: Final = "pool.ledger"
HEADS: Final = "pool.heads"
WITNESS: Final = "pool.witness"
DEAD: Final = "pool.dead"

INPUT_TOPICS: Final = (ADMIN, CLAIMS, METERS)
"""In the order that settles ties between records that stand equal."""

WRITER_TOPICS: Final = (LEDGER, HEADS, DEAD)
"""What one atomic batch of a steward may contain."""

PUBLISHED_TOPICS: Final = (*INPUT_TOPICS, WITNESS)
"""What anybody but a steward writes, one record at a time."""

ALL_TOPICS: Final = (*INPUT_TOPICS, *WRITER_TOPICS, WITNESS)

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_for(key: bytes | None, partitions: int) -> int:
    """The partition of a key among `partitions`: murmur2 as Kafka's own clients compute it.

    A record without a key goes to partition 0; it ends among the dead letters there.
    """
    if key is None:
        return 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with Kafka's seed, as an unsigned integer."""
    value = (_MURMUR_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = (word * _MURMUR_MULTIPLIER) & _MASK
        word = ((word ^ (word >> 24)) * _MURMUR_MULTIPLIER) & _MASK
        value = ((value * _MURMUR_MULTIPLIER) & _MASK) ^ word
    tail = data[whole:]
    if tail:
        value = ((value ^ int.from_bytes(tail, "little")) * _MURMUR_MULTIPLIER) & _MASK
    value = ((value ^ (value >> 13)) * _MURMUR_MULTIPLIER) & _MASK
    return value ^ (value >> 15)
