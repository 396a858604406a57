"""Writes the golden vectors in `schemas/vectors`, or says which of them have drifted.

    python -m tests.schemas.make_vectors            # write
    python -m tests.schemas.make_vectors --check    # exit 1 if a file is not what it would write

Records go through the steward's own `Draft`, so the receipts are those that a deployment writes;
that they are right is for `test_golden_vectors` to say, by other means. A changed vector is a
changed wire format: it needs a reason in the changelog.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas import cbor
from schemas.cbor import CborError
from schemas.chain import ChainReader, verify_chain
from schemas.jsonform import to_json
from schemas.keys import SeedSigner, did_key, kid
from streams import topics
from streams.logs.contract import CONTENT_CBOR, CONTENT_JSON, Record
from streams.steward.draft import Draft
from streams.steward.fold import TOPIC_OF
from streams.steward.keyring import Keyring
from streams.steward.pools import Partition
from tests.schemas.ledgers import STEWARD
from tests.schemas.refusals import FAULTS, LEDGER
from tests.schemas.test_keys import REFUSED as REFUSED_KEYS

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
VECTORS = SCHEMAS / "vectors"
SEED = bytes(range(32))
SUCCESSOR_SEED = bytes(range(32, 64))
START_MS = 1_782_907_200_000
PARTITION = 3

CASES = (
    "idle-unknown-is-not-idle",
    "lease-expires-and-lapses",
    "meter-window-rules",
    "period-takes-its-own-share",
    "reclaim-worst-per-unit-first",
    "repeats",
    "spared-when-the-claimant-leaves",
    "starved-first",
    "tree-set-leaf-in-use",
)
"""Of the golden cases, those that together have nearly every kind of decision."""

TREE = [
    {"id": "acme", "guarantee": {"mdev": 4000, "uj": 2**55}},
    {"id": "bolt", "guarantee": {"mdev": 4000, "uj": 2**55}, "lend": ["mdev"], "weight": 2},
]
OPENING = {
    "pool": "p",
    "type": "pool.opened",
    "capacity": {"mdev": 8000, "vcpu": 64, "uj": 2**56},
    "resources": ["mdev", "vcpu", "uj"],
    "tree": TREE,
    "meta": {"site": "Zürich", "note": [None, True, {"raw": b"\x00\xff"}]},
}


class Inputs:
    """Records in the making: one offset after another in each topic, one time after another."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self.records: list[Record] = []
        self.now_ms = start_ms
        self._offsets = dict.fromkeys(topics.INPUT_TOPICS, 0)

    def event(self, fields: dict[str, Any], at_ms: int | None = None) -> None:
        """An event on its topic, in deterministic CBOR."""
        self.raw(TOPIC_OF[fields["type"]], cbor.encode(fields), at_ms=at_ms)

    def json(self, fields: dict[str, Any]) -> None:
        """The same as JSON text."""
        self.raw(TOPIC_OF[fields["type"]], json.dumps(fields).encode(), CONTENT_JSON)

    def raw(
        self, topic: str, value: bytes, content_type: str = CONTENT_CBOR, at_ms: int | None = None
    ) -> None:
        """Whatever bytes."""
        self.now_ms = self.now_ms + 1000 if at_ms is None else at_ms
        offset = self._offsets[topic]
        self._offsets[topic] = offset + 1
        self.records.append(
            Record(
                topic=topic,
                partition=PARTITION,
                offset=offset,
                timestamp_ms=self.now_ms,
                order=self.now_ms,
                key=b"p",
                value=value,
                content_type=content_type,
            )
        )

    def skip(self, topic: str, records: int) -> None:
        """Other pools' records lie between."""
        self._offsets[topic] += records


def case_inputs(name: str) -> Inputs:
    """The events of a golden case, at its times."""
    inputs = Inputs()
    for given in json.loads((SCHEMAS / "cases" / f"{name}.json").read_text())["events"]:
        event = dict(given)
        inputs.event(event, at_ms=event.pop("at_ms"))
    return inputs


def submitted(claim: str, **changes: Any) -> dict[str, Any]:
    """A claim in acme for one device."""
    return {
        "pool": "p",
        "type": "claim.submitted",
        "claim": claim,
        "leaf": "acme",
        "gang": [{"mdev": 1000, "uj": 10}],
        "grade": "ModelBased",
        **changes,
    }


def encodings_inputs() -> Inputs:
    """Events in every encoding that a producer may use, and some that are no events."""
    inputs = Inputs()
    inputs.event(OPENING)
    inputs.skip(topics.CLAIMS, 7)
    inputs.event(submitted("a", gang=[{"mdev": 1000, "vcpu": 3, "uj": 2**54}], id="first"))
    inputs.json(submitted("b", gang=[{"mdev": "2000", "uj": str(2**54)}], priority=-7))
    # Keys in another order than the deterministic one, and a length in more bytes than it needs.
    loose = cbor.encode({"pool": "p", "type": "claim.committed"})[1:]
    inputs.raw(topics.CLAIMS, b"\xb8\x03" + loose + b"\x65claim\x61a")
    inputs.event({"pool": "p", "type": "claim.committed", "claim": "ü-ж-水"})
    inputs.raw(topics.CLAIMS, b"\xff\x00 not an event")
    inputs.raw(topics.CLAIMS, b'{"pool": "p", "pool": "p"}', CONTENT_JSON)
    inputs.raw(topics.CLAIMS, b"", "text/plain")
    inputs.event(submitted("c", leaf="acme", colour="red"))
    inputs.event(submitted("d", gang=[{"mdev": 2**63}]))
    inputs.event(submitted("e", lease_ms=-1))
    inputs.event(submitted("f", pool="q"))
    inputs.raw(topics.CLAIMS, cbor.encode({"pool": "p", "type": "pool.archived"}))
    inputs.event({"pool": "p", "type": "policy.set", "policy": deep(14)})
    inputs.event({"pool": "p", "type": "tick"})
    inputs.event({"pool": "p", "type": "tick"}, at_ms=START_MS)
    return inputs


def deep(depth: int) -> Any:
    """A value that nests as deep: as an event still allowed, in a core no longer."""
    return {"x": deep(depth - 1)} if depth > 1 else {}


def handover_inputs() -> Inputs:
    """A ledger that changes hands, and its pool's end."""
    inputs = Inputs()
    inputs.event(OPENING)
    inputs.event({"pool": "p", "type": "policy.set", "policy": {"max_wait_ms": 5000}})
    for claim in ("a", "b", "c", "d", "e"):
        inputs.event(submitted(claim, gang=[{"mdev": 2000, "uj": 10}], preemptible=False))
    successor = did_key(SeedSigner(SUCCESSOR_SEED).public_key)
    # Late enough that claims are refused for waiting too long by the same event, before it.
    late_ms = inputs.now_ms + 60_000
    inputs.event({"pool": "p", "type": "steward.rotate", "steward": successor}, at_ms=late_ms)
    inputs.event(submitted("f", gang=[{"mdev": 8000}]))
    inputs.event({"pool": "p", "type": "steward.rotate", "steward": "did:key:nobody"})
    inputs.event({"pool": "p", "type": "pool.archived"})
    inputs.event(submitted("g"))
    return inputs


def sealed(inputs: Inputs) -> list[bytes]:
    """The receipts that a steward with both keys writes of these records."""
    keyring = Keyring([SeedSigner(SEED), SeedSigner(SUCCESSOR_SEED)])
    draft = Draft(Partition(number=PARTITION), keyring)
    for record in inputs.records:
        draft.add(record)
    return [entry.value for entry in draft.entries if entry.topic == topics.LEDGER]


def readable(record: Record) -> dict[str, Any]:
    """A record as a vector has it; `event` says for people what `value` says to the steward."""
    shown: dict[str, Any] = {
        "at_ms": record.timestamp_ms,
        "cause": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
        "content_type": record.content_type,
        "value": record.value.hex(),
    }
    with contextlib.suppress(CborError, ValueError):
        is_json = record.content_type == CONTENT_JSON
        said = json.loads(record.value) if is_json else cbor.decode_loose(record.value)
        shown["event"] = to_json(said)
    return shown


def vector(comment: str, inputs: Inputs) -> dict[str, Any]:
    """One golden vector, in the format of `schemas/README.md`."""
    receipts = sealed(inputs)
    reader: ChainReader = verify_chain(receipts, "p", [SeedSigner(SEED).public_key])
    return {
        "comment": comment,
        "pool": "p",
        "seed_hex": SEED.hex(),
        "successor_seed_hex": SUCCESSOR_SEED.hex(),
        "events": [readable(record) for record in inputs.records],
        "receipts": [data.hex() for data in receipts],
        "head": reader.head.hex(),
        "root": reader.root().hex(),
    }


def keys_vector() -> dict[str, Any]:
    """Names of keys, and byte strings that are none."""
    named = [SeedSigner(seed).public_key for seed in (SEED, SUCCESSOR_SEED, bytes(32))]
    return {
        "comment": "keys with their names, and byte strings that are no key, with the reason",
        "keys": [
            {"public_key": key.hex(), "did_key": did_key(key), "kid": kid(key).hex()}
            for key in named
        ],
        "refused": [{"public_key": text, "reason": str(reason)} for text, reason in REFUSED_KEYS],
    }


def ledgers_vector() -> dict[str, Any]:
    """Ledgers that do not verify: the first broken receipt and the check that it fails."""
    places = {data: index for index, data in enumerate(LEDGER)}
    return {
        "comment": "ledgers that do not verify: the first broken receipt and the check it fails; "
        "a number stands for that receipt of the good ledger",
        "pool": "acme",
        "stewards": [did_key(STEWARD.public_key)],
        "good": [data.hex() for data in LEDGER],
        "ledgers": [
            {
                "comment": comment,
                "receipts": [places.get(data, data.hex()) for data in ledger()],
                "index": index,
                "check": check,
            }
            for comment, index, check, ledger in FAULTS
        ],
    }


FILES: dict[str, Callable[[], dict[str, Any]]] = {
    **{
        f"case-{name}.json": (
            lambda name=name: vector(f"the golden case {name}", case_inputs(name))
        )
        for name in CASES
    },
    "encodings.json": lambda: vector(
        "events as CBOR and JSON, in order or not, and records that are no events",
        encodings_inputs(),
    ),
    "handover.json": lambda: vector(
        "a ledger handed to a second key, and a pool archived", handover_inputs()
    ),
    "refused/keys.json": keys_vector,
    "refused/ledgers.json": ledgers_vector,
}


def rendered(name: str) -> str:
    """A vector file's whole text."""
    return json.dumps(FILES[name](), indent=1, ensure_ascii=False) + "\n"


def drifted() -> list[str]:
    """The files that are not what this script would write, missing and left over ones included."""
    found = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*.json")}
    different = {
        name
        for name in FILES
        if name in found and (VECTORS / name).read_text(encoding="utf-8") != rendered(name)
    }
    return sorted((found ^ FILES.keys()) | different)


def main() -> int:
    parser = argparse.ArgumentParser(description="write the golden vectors")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on drift")
    if parser.parse_args().check:
        names = drifted()
        for name in names:
            print(f"{name} is not what make_vectors writes", file=sys.stderr)
        return 1 if names else 0
    for name in FILES:
        path = VECTORS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rendered(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
