"""Ledgers that travel, are checked by strangers, and were tampered with on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.cbor import split_sequence
from tests.cli.calling import Pool

Items = list[bytes]


@pytest.fixture(scope="module")
def items(made: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Items:
    """The demo's receipts, exported."""
    from streams.cli.main import run

    file = tmp_path_factory.mktemp("exported") / "ledger.cbor"
    assert run(["export", "demo", str(file), "--data", str(made[0])]) == 0
    return list(split_sequence(file.read_bytes()))


def _flipped(items: Items, at: int, position: int) -> Items:
    data = bytearray(items[at])
    data[position] ^= 1
    return [*items[:at], bytes(data), *items[at + 1 :]]


TAMPERED: list[tuple[str, Callable[[Items], Items], int, set[str]]] = [
    (
        "a byte of the payload",
        lambda i: _flipped(i, 7, 90),
        7,
        {"signature", "decode", "canonical"},
    ),
    ("the last byte of a signature", lambda i: _flipped(i, 9, -1), 9, {"signature"}),
    ("a byte of the protected header", lambda i: _flipped(i, 5, 4), 5, {"decode", "headers"}),
    ("the tag", lambda i: _flipped(i, 3, 0), 3, {"decode"}),
    ("a receipt dropped", lambda i: [*i[:11], *i[12:]], 11, {"sequence"}),
    ("a receipt repeated", lambda i: [*i[:13], i[12], *i[13:]], 13, {"sequence"}),
    ("two receipts swapped", lambda i: [*i[:15], i[16], i[15], *i[17:]], 15, {"sequence"}),
    ("the first receipt dropped", lambda i: i[1:], 0, {"sequence"}),
    ("a torn end", lambda i: [*i[:20], i[20][:-3]], 20, {"decode"}),
    ("bytes after the end", lambda i: [*i, b"\x00"], -1, {"decode"}),
    ("nothing but a text", lambda i: [b"\x63abc"], 0, {"decode"}),
]


@pytest.mark.parametrize(("name", "tamper", "index", "checks"), TAMPERED, ids=lambda x: str(x)[:30])
def test_what_was_tampered_with_is_found_where_it_is(
    pool: Pool,
    items: Items,
    tmp_path: Path,
    name: str,
    tamper: Callable[[Items], Items],
    index: int,
    checks: set[str],
) -> None:
    """Status 1, the index of the first broken receipt, and the check that failed."""
    (tmp_path / "ledger.cbor").write_bytes(b"".join(tamper(items)))
    outcome = pool("verify", tmp_path / "ledger.cbor", "--json")
    assert outcome.status == 1
    broken = outcome.answer["broken"]
    assert broken["index"] == (index if index >= 0 else len(items))
    assert broken["check"] in checks, broken
    assert outcome.answer["ok"] is False
    assert outcome.answer["length"] == broken["index"]
    said = pool("verify", tmp_path / "ledger.cbor")
    assert f"broken at receipt {broken['index']}: {broken['check']}" in said.out


def test_an_export_verifies_like_the_log(pool: Pool, data: Path, items: Items, made: Any) -> None:
    """Same length, head and root, whether read from the log or from the file."""
    answer = pool("verify", "--data", data, "--json").answer
    assert answer["length"] == len(items) == made[1]["length"]
    assert answer["head"] == hashlib.sha256(items[-1]).hexdigest() == made[1]["head"]
    assert (answer["grade"], answer["witnessed"]) == ("self-attested", 0)


def test_a_trust_file_says_how_far_it_is_witnessed(pool: Pool, data: Path, items: Items) -> None:
    """By whom and to which length; a stranger's trust file refuses the steward's key."""
    answer = pool("verify", "--data", data, "--trust", data / "trust.toml", "--json").answer
    assert answer["ok"]
    assert answer["grade"] == "witnessed"
    assert (answer["witnessed"], answer["witnessed_by"]) == (len(items), ["demo"])


def test_another_steward_than_the_trusted_is_refused(
    pool: Pool, data: Path, tmp_path: Path
) -> None:
    """The first receipt is not signed by a key that the trust file names."""
    other = pool("keys", "new", tmp_path / "other.pem", "--json").answer["did"]
    (tmp_path / "trust.toml").write_text(f'[pools.demo]\nstewards = ["{other}"]\n')
    outcome = pool("verify", "--data", data, "--trust", tmp_path / "trust.toml", "--json")
    assert outcome.status == 1
    assert outcome.answer["broken"]["check"] == "signature"


def test_a_copy_is_graded_by_heads_in_a_file(
    pool: Pool, data: Path, items: Items, tmp_path: Path
) -> None:
    """Countersignatures that travelled beside the export count as well."""
    (tmp_path / "ledger.cbor").write_bytes(b"".join(items))
    (statements,) = (data / "witness").glob("*.cborseq")
    answer = pool(
        *("verify", tmp_path / "ledger.cbor", "--heads", statements),
        *("--trust", data / "trust.toml", "--json"),
    ).answer
    assert (answer["grade"], answer["witnessed"]) == ("witnessed", len(items))


def test_checking_writes_nothing(pool: Pool, data: Path) -> None:
    """Verify, audit and every question leave each file of the directory as it was."""

    def state() -> dict[str, str]:
        files = (path for path in sorted(data.rglob("*")) if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = state()
    for question in ("verify", "audit", "usage", "claims", "doctor"):
        assert pool(question, "--data", data).status == 0
    assert state() == before


def test_an_audit_finds_the_decision_that_differs(
    pool: Pool, items: Items, data: Path, tmp_path: Path
) -> None:
    """A steward that signs a wrong decision is found though every signature is right."""
    from schemas import cose
    from schemas.cbor import decode, encode
    from schemas.keys import signer_from_pem

    signer = signer_from_pem((data / "steward.pem").read_bytes())
    cores: list[Any] = [decode(cose.split(item).payload) for item in items[:60]]
    at = next(n for n, core in enumerate(cores) if core["kind"] == "claim.admitted")
    cores[at]["body"]["mode"] = "borrowed"
    cores[at]["body"]["borrowed"] = {}
    forged: Items = []
    for core in cores:
        core["prev"] = hashlib.sha256(forged[-1]).digest() if forged else bytes(32)
        forged.append(cose.seal_payload(signer, encode(core)))
    (tmp_path / "forged.cbor").write_bytes(b"".join(forged))
    assert pool("verify", tmp_path / "forged.cbor").status == 0
    outcome = pool("audit", tmp_path / "forged.cbor", "--json")
    assert outcome.status == 1
    assert outcome.answer["differs"]["seq"] == at
    assert outcome.answer["differs"]["decided"]["mode"] == "guaranteed"
    assert f"differs at receipt {at}" in pool("audit", tmp_path / "forged.cbor").out


def test_a_ledger_moves_and_deciding_goes_on(
    pool: Pool, data: Path, items: Items, tmp_path: Path
) -> None:
    """Imported byte for byte; the same key goes on from there, another is refused."""
    (tmp_path / "ledger.cbor").write_bytes(b"".join(items))
    there = tmp_path / "there"
    for _ in range(2):
        moved = pool("import", tmp_path / "ledger.cbor", "--data", there, "--json").answer
        assert (moved["length"], moved["head"]) == (
            len(items),
            hashlib.sha256(items[-1]).hexdigest(),
        )
    event = json.dumps({"pool": "demo", "type": "claim.cancelled", "claim": "night-big"})
    refused = pool("send", "-", "--data", there, given=event)
    assert refused.status == 2
    assert "is written by did:key:" in refused.err
    (there / "steward.pem").unlink()
    sent = pool("send", "-", "--data", there, "--key", data / "steward.pem", "--json", given=event)
    assert sent.status == 0, sent.err
    assert "claim.cancelled" in {line["kind"] for line in sent.lines}
    assert pool("verify", "--data", there, "--json").answer["length"] == len(items) + len(
        sent.lines
    )


def test_another_ledger_of_the_pool_is_not_overwritten(
    pool: Pool, data: Path, items: Items, tmp_path: Path
) -> None:
    """An import over a ledger that is not its beginning is refused."""
    (tmp_path / "ledger.cbor").write_bytes(b"".join(items))
    opened = {"pool": "demo", "type": "pool.opened", "capacity": {"mdev": 1}, "tree": []}
    pool("send", "-", "--data", tmp_path / "d", given=json.dumps(opened))
    outcome = pool("import", tmp_path / "ledger.cbor", "--data", tmp_path / "d")
    assert outcome.status == 1
    assert "another directory" in outcome.err


def test_a_longer_ledger_is_not_cut_short(
    pool: Pool, data: Path, items: Items, tmp_path: Path
) -> None:
    """An import of the beginning of what stands is refused, and what stands stays."""
    (tmp_path / "ledger.cbor").write_bytes(b"".join(items))
    (tmp_path / "short.cbor").write_bytes(b"".join(items[:1]))
    assert pool("import", tmp_path / "ledger.cbor", "--data", tmp_path / "d").status == 0
    outcome = pool("import", tmp_path / "short.cbor", "--data", tmp_path / "d")
    assert outcome.status == 1
    assert "longer ledger of pool 'demo' stands here" in outcome.err
    assert pool("verify", "--data", tmp_path / "d", "--json").answer["length"] == len(items)


@pytest.mark.parametrize(("content", "status"), [(b"", 2), (b"no ledger", 1)])
def test_what_is_no_ledger_makes_no_log(
    pool: Pool, tmp_path: Path, content: bytes, status: int
) -> None:
    """The file is named, and the directory is not even made."""
    (tmp_path / "file").write_bytes(content)
    outcome = pool("import", tmp_path / "file", "--data", tmp_path / "d")
    assert outcome.status == status
    assert str(tmp_path / "file") in outcome.err
    assert not (tmp_path / "d").exists()


def test_a_receipt_is_proved_to_whoever_has_two_keys(
    pool: Pool, data: Path, tmp_path: Path
) -> None:
    """The proof file and the trust file are enough; a changed byte proves nothing."""
    proof = tmp_path / "receipt.proof"
    assert pool("prove", 188, "--data", data, "--out", proof).status == 0
    checked = pool("check-proof", proof, "--trust", data / "trust.toml", "--json").answer
    assert checked["ok"]
    assert (checked["grade"], checked["receipt"]["seq"]) == ("witnessed", 188)
    changed = bytearray(proof.read_bytes())
    changed[len(changed) // 2] ^= 1
    proof.write_bytes(changed)
    outcome = pool("check-proof", proof, "--trust", data / "trust.toml", "--json")
    assert outcome.status == 1
    assert outcome.answer["ok"] is False


def test_a_receipt_that_is_not_there_cannot_be_proved(pool: Pool, data: Path) -> None:
    """Status 1: the ledger is shorter."""
    outcome = pool("prove", 10**6, "--data", data)
    assert outcome.status == 1
    assert "no receipt 1000000" in outcome.err
