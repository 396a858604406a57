"""What the steward writes is in the grammar: the golden cases, and long random sequences.

Not here: hand-made receipts (`test_cddl_receipts`), whether the decisions are right (the cases and
the model in `tests/model`).

Profile: §3-§6.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cddl_verifier.cbor import decode

from schemas.chain import verify_chain
from schemas.records import Kind
from tests.model.generate import PROFILES, generate
from tests.schemas.cddl_support import CDDL, validate_receipt
from tests.schemas.sealed_ledgers import Written, written

CASES = sorted((CDDL.parent / "cases").glob("*.json"))
VECTORS = sorted((CDDL.parent / "vectors").glob("*.json"))
LENGTH = 100
OPENED = {
    "type": "pool.opened",
    "pool": "p",
    "capacity": {"mdev": 8, "uj": 80},
    "tree": [{"id": "a", "guarantee": {"mdev": 4, "uj": 40}}],
}
# What no golden case decides: read in turn by JSON and CBOR, and once under another key.
REST: list[Any] = [
    OPENED,
    {"type": "policy.set", "pool": "p", "policy": {"history": 3}},
    {"type": "steward.rotate", "pool": "p", "steward": "replaced"},
    {"type": "pool.archived", "pool": "p"},
    {"type": "policy.set", "pool": "p", "policy": {}},
]


def kinds_checked(found: Written) -> set[str]:
    """Check every receipt and every chain; the kinds that were met."""
    kinds = set()
    for pool, ledger in found.ledgers.items():
        assert verify_chain(ledger, pool=pool).length == len(ledger)
    for receipt in found.receipts:
        validate_receipt(receipt)
        kinds.add(decode(decode(receipt).value[2])["kind"])
    return kinds


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_receipts_of_a_golden_case_are_in_the_grammar(path: Path) -> None:
    """Each event of each case, decided and sealed by the steward, gives receipts as described."""
    case: dict[str, Any] = json.loads(path.read_bytes())
    found = written(case["events"])
    expected = {decision["kind"] for decisions in case["decisions"] for decision in decisions}
    assert kinds_checked(found) <= expected
    assert found.receipts or found.dead


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_golden_vectors_are_in_the_grammar(path: Path) -> None:
    """The bytes that other implementations are held to are what the grammar says they are."""
    receipts = json.loads(path.read_bytes())["receipts"]
    assert receipts
    for receipt in receipts:
        validate_receipt(bytes.fromhex(receipt))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_receipts_of_random_sequences_are_in_the_grammar(profile: str) -> None:
    """Tight trees, starvation, reclaims, meters and faults."""
    assert kinds_checked(written(generate(0, LENGTH, profile)))


def test_what_is_too_deep_for_a_core_is_kept_as_bytes() -> None:
    """A pool whose `meta` fills the depth of an event is opened, and its event kept as it came."""
    deep: Any = 1
    for _ in range(13):
        deep = [deep]
    found = written([OPENED | {"meta": {"deep": deep}}])
    assert kinds_checked(found) == {"pool.opened"}
    event = decode(decode(found.receipts[0]).value[2])["body"]["event"]
    assert event.keys() == {"bytes", "content_type"}


def test_every_kind_of_decision_is_met() -> None:
    """By the golden cases, and by what they leave out: no rule of the grammar is untried."""
    met = kinds_checked(written(REST))
    for path in CASES:
        for decisions in json.loads(path.read_bytes())["decisions"]:
            met |= {decision["kind"] for decision in decisions}
    assert met == {kind.value for kind in Kind}
