"""The wire contract of `pool/1`: what events, receipts and signed statements are, byte for byte.

Nothing here does I/O, reads a clock or knows of Kafka: files, topics and sockets belong to the
callers. The modules are imported by name (`from schemas import cbor`); this one imports none of
them, so that a kernel that needs `schemas.records` does not load a signature library.

1. `records`, `events`: the frozen records, and what a well-formed event is (profile §2, §3).
2. `wellformed`, `cbor`, `jsonform`: bytes to values and back, strictly (§6.6, §2.1).
3. `keys`, `cose`, `receipts`: whose a receipt is, its seal and its core (§6.5).
4. `chain`, `batch`: the numbered verification of a whole ledger (§6.6).
5. `treehash`, `merkle`, `hashstore`, `heads`, `forks`, `trust`, `grading`, `proofs`, `rfc9942`:
   what is signed about a ledger, and by whom (§6.7-§6.9).

Profile: the whole of `pool-1.md`, which lies beside this file.
"""

PROFILE = "pool/1"
"""The profile's name: `jc_receipt` of every receipt (§6.5)."""
