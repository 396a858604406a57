"""Proofs made by one who has the log and checked by one who has keys: receipts, heads, forks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from schemas import cbor
from schemas.cbor import split_sequence
from schemas.forks import seal_fork
from schemas.heads import HEAD_KIND, kind_of, open_head, seal_head
from schemas.keys import signer_from_pem
from schemas.prooffile import members_of
from schemas.proofs import kind_of_proof
from tests.cli.calling import ROOT, Pool, command
from tests.witness.ledger import Ledger

OTHER = bytes(31) + b"\x01"


@pytest.fixture(scope="module")
def heads(
    made: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> list[bytes]:
    """The demo's signed heads, the shortest first."""
    from streams.cli.main import run

    there = tmp_path_factory.mktemp("heads")
    arguments = ["export", "demo", str(there / "ledger"), "--heads", str(there / "heads")]
    assert run([*arguments, "--data", str(made[0])]) == 0
    items = split_sequence((there / "heads").read_bytes())
    return [item for item in items if kind_of(item) == HEAD_KIND]


@pytest.fixture
def lengths(heads: list[bytes]) -> list[int]:
    """The lengths that were signed."""
    return sorted({open_head(head).statement.end.length for head in heads})


def test_an_old_head_is_proved_to_be_the_beginning_of_a_new_one(
    pool: Pool, data: Path, heads: list[bytes], lengths: list[int], tmp_path: Path
) -> None:
    """Made from the log, checked with a trust file and the head that somebody kept."""
    proof, kept = tmp_path / "grown.proof", tmp_path / "kept.head"
    kept.write_bytes(heads[0])
    made = pool("prove", "--from", lengths[0], "--data", data, "--out", proof, "--json").answer
    assert made == {
        "pool": "demo",
        "from": lengths[0],
        "to": lengths[-1],
        "file": str(proof),
        "bytes": proof.stat().st_size,
        "rfc9942": True,
        "objections": [],
    }
    arguments = ("check-proof", proof, "--trust", data / "trust.toml", "--heads", kept)
    answer = pool(*arguments, "--json").answer
    end = open_head(heads[0]).statement.end
    assert answer["from"] == {
        "length": end.length,
        "head": end.head.hex(),
        "root": end.root.hex(),
    }
    assert (answer["ok"], answer["to"]["length"]) == (True, lengths[-1])
    assert (answer["grade"], answer["witnessed"]) == ("witnessed", lengths[-1])
    said = pool(*arguments).out
    assert "proved: the ledger of pool demo only grew" in said
    assert f"witnessed to {lengths[-1]:,} by demo" in said


def test_both_lengths_may_be_named(
    pool: Pool, data: Path, lengths: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is called by what it is about."""
    monkeypatch.chdir(tmp_path)
    old, new = lengths[0], lengths[1]
    assert pool("prove", "--from", old, "--to", new, "--data", data).status == 0
    file = tmp_path / f"demo-{old}-{new}.proof"
    answer = pool("check-proof", file, "--trust", data / "trust.toml", "--json").answer
    assert (answer["from"]["length"], answer["to"]["length"]) == (old, new)


UNPROVABLE: list[tuple[Callable[[list[int]], tuple[object, ...]], int, str]] = [
    (lambda _: (), 2, "say what to prove"),
    (lambda known: (3, "--from", known[0]), 2, "say what to prove"),
    (lambda known: (3, "--to", known[0]), 2, "say what to prove"),
    (lambda known: ("--from", known[0] + 1), 1, "the nearest:"),
    (lambda known: ("--from", known[0], "--to", known[0]), 1, "nothing leads from"),
    (lambda known: ("--from", known[-1]), 1, "no signed head of"),
    (lambda known: ("--from", known[0], "--to", 10**6), 1, "nothing leads from"),
]


@pytest.mark.parametrize(("arguments", "status", "words"), UNPROVABLE)
def test_what_cannot_be_proved_is_told(
    pool: Pool,
    data: Path,
    lengths: list[int],
    tmp_path: Path,
    arguments: Callable[[list[int]], tuple[object, ...]],
    status: int,
    words: str,
) -> None:
    """Which lengths are signed near by; no file is left."""
    out = tmp_path / "x.proof"
    outcome = pool("prove", *arguments(lengths), "--data", data, "--out", out)
    assert (outcome.status, out.exists()) == (status, False)
    assert words in outcome.err


def test_a_held_head_that_the_proof_is_not_about_proves_nothing(
    pool: Pool, data: Path, heads: list[bytes], lengths: list[int], tmp_path: Path
) -> None:
    """Another length, another history of the same length, a file without heads."""
    proof, held = tmp_path / "receipt.proof", tmp_path / "held.heads"
    assert pool("prove", 3, "--data", data, "--out", proof).status == 0
    arguments = ("check-proof", proof, "--trust", data / "trust.toml", "--heads", held, "--json")
    held.write_bytes(heads[0])
    outcome = pool(*arguments)
    assert (outcome.status, outcome.answer["ok"]) == (1, False)
    assert f"of: {lengths[0]}" in outcome.answer["broken"]["detail"]
    held.write_bytes(_another(data, heads[-1]))
    outcome = pool(*arguments)
    assert (outcome.status, outcome.answer["grade"]) == (1, "forked")
    assert outcome.answer["objections"][0]["length"] == lengths[-1]
    held.write_bytes(heads[-1])
    assert pool(*arguments).answer["ok"]
    held.write_bytes(Ledger().grow(2).head())
    assert pool(*arguments).status == 2


def test_a_changed_consistency_proof_proves_nothing(
    pool: Pool, data: Path, lengths: list[int], tmp_path: Path
) -> None:
    """A byte of the path, and another pool's keys."""
    proof = tmp_path / "grown.proof"
    assert pool("prove", "--from", lengths[0], "--data", data, "--out", proof).status == 0
    whole = members_of(proof.read_bytes())
    bent = bytearray(whole["consistency"])  # type: ignore[arg-type]
    bent[-100] ^= 1
    proof.write_bytes(cbor.encode(whole | {"consistency": bytes(bent)}))
    outcome = pool("check-proof", proof, "--trust", data / "trust.toml", "--json")
    assert (outcome.status, outcome.answer["ok"]) == (1, False)


def _another(data: Path, head: bytes) -> bytes:
    """A head of the same length and another history, by the steward's own key."""
    end = open_head(head).statement.end
    steward = signer_from_pem((data / "steward.pem").read_bytes())
    return seal_head(steward, end.pool, end.length, OTHER, OTHER, 1_750_000_000_000)


def test_a_key_that_did_not_sign_the_head_is_refused(
    pool: Pool, data: Path, lengths: list[int], tmp_path: Path
) -> None:
    """Without its RFC 9942 receipt the proof is not what was asked for: no file is written."""
    key, out = tmp_path / "other.pem", tmp_path / "x.proof"
    did = pool("keys", "new", key, "--json").answer["did"]
    for what in ((188,), ("--from", lengths[0])):
        outcome = pool("prove", *what, "--data", data, "--out", out, "--key", key)
        assert (outcome.status, out.exists()) == (2, False)
        assert did in outcome.err and "did not sign the head" in outcome.err


def test_a_key_that_merely_lies_there_is_warned_of(pool: Pool, data: Path, tmp_path: Path) -> None:
    """A directory whose steward is another by now: the bare path, and it is said."""
    there, out = tmp_path / "there", tmp_path / "x.proof"
    shutil.copytree(data, there)
    (there / "steward.pem").unlink()
    outcome = pool("prove", 188, "--data", there, "--out", out, "--json")
    assert (outcome.answer["rfc9942"], outcome.err) == (False, "")
    pool("keys", "new", there / "steward.pem")
    outcome = pool("prove", 188, "--data", there, "--out", out, "--json")
    assert (outcome.status, outcome.answer["rfc9942"]) == (0, False)
    assert "no RFC 9942 receipt" in outcome.err
    answer = pool("check-proof", out, "--trust", data / "trust.toml", "--json").answer
    assert (answer["ok"], answer["grade"]) == (True, "witnessed")


def test_an_encrypted_key_signs_with_its_password(pool: Pool, data: Path, tmp_path: Path) -> None:
    """`--password-file` opens the key that lies there, for the doctor too."""
    there, out, word = tmp_path / "there", tmp_path / "x.proof", tmp_path / "word"
    shutil.copytree(data, there)
    word.write_text("secret\n")
    key = load_pem_private_key((there / "steward.pem").read_bytes(), None)
    hidden = BestAvailableEncryption(b"secret")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
    (there / "steward.pem").write_bytes(pem)
    refused = pool("prove", 188, "--data", there, "--out", out)
    assert (refused.status, out.exists()) == (2, False)
    assert "--password-file" in refused.err
    given = ("--data", there, "--password-file", word)
    assert pool("prove", 188, *given, "--out", out, "--json").answer["rfc9942"] is True
    levels = {one["where"]: one["level"] for one in pool("doctor", *given, "--json").lines}
    assert levels["steward.pem"] == "fine"


def test_what_convicts_the_steward_is_told_beside_a_proof(
    pool: Pool, data: Path, heads: list[bytes], tmp_path: Path
) -> None:
    """Evidence that a witness put beside the log: on stderr and in the answer."""
    there, out = tmp_path / "there", tmp_path / "x.proof"
    shutil.copytree(data, there)
    witness = signer_from_pem((data / "witness.pem").read_bytes())
    two = open_head(heads[0]), open_head(_another(data, heads[0]))
    with next((there / "witness").glob("*.cborseq")).open("ab") as stream:
        stream.write(seal_fork(witness, *two, [], 1_750_000_000_000))
    outcome = pool("prove", 188, "--data", there, "--out", out, "--json")
    (objection,) = outcome.answer["objections"]
    assert (outcome.status, objection["ground"]) == (0, "evidence")
    assert objection["length"] == two[0].statement.end.length
    assert "the steward signed two histories" in outcome.err


def test_how_far_it_is_witnessed_is_told_beside_the_heads_length(
    pool: Pool, data: Path, made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """A receipt past what the witness signed, and one before: neither head is the witness's."""
    there, out = tmp_path / "there", tmp_path / "x.proof"
    shutil.copytree(data, there)
    event = json.dumps({"pool": "demo", "type": "claim.cancelled", "claim": "night-big"})
    assert pool("send", "-", "--data", there, given=event).status == 0
    witnessed = made[1]["length"]
    check = ("check-proof", out, "--trust", data / "trust.toml")
    assert pool("prove", witnessed - 1, "--data", there, "--out", out).status == 0
    assert f"head of {witnessed:,} receipts; witnessed to {witnessed:,} by demo" in pool(*check).out
    assert pool("prove", witnessed, "--data", there, "--out", out).status == 0
    assert "receipts; self-attested\n" in pool(*check).out
    answer = pool(*check, "--json").answer
    assert (answer["grade"], answer["witnessed"], answer["witnessed_by"]) == (
        *("self-attested", 0),
        [],
    )
    assert answer["length"] > witnessed


def test_a_ledger_of_one_receipt_is_proved_by_its_head(pool: Pool, tmp_path: Path) -> None:
    """RFC 9942 has no empty path: with a key named, that is said."""
    opened = {"pool": "lab", "type": "pool.opened", "capacity": {"mdev": 1}, "tree": []}
    data, out = tmp_path / "lab", tmp_path / "x.proof"
    assert pool("send", "-", "--data", data, given=json.dumps(opened)).status == 0
    outcome = pool(
        *("prove", 0, "--data", data, "--out", out, "--key", data / "steward.pem", "--json")
    )
    assert (outcome.status, outcome.answer["rfc9942"]) == (0, False)
    assert "no receipt for a ledger of one" in outcome.err


def test_a_proof_is_written_whole_or_not_at_all(
    pool: Pool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails leaves the older file, and nothing beside it."""
    out = tmp_path / "x.proof"
    out.write_bytes(b"older")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert pool("prove", 3, "--data", data, "--out", out).status == 3
    assert out.read_bytes() == b"older" and list(tmp_path.iterdir()) == [out]


def test_a_proof_goes_down_a_pipe(data: Path, tmp_path: Path) -> None:
    """To stdout it is the proof and nothing else; the answer is on stderr."""
    done = subprocess.run(
        command("prove", 3, "--data", data, "--out", "/dev/stdout"), cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert kind_of_proof(done.stdout) == ("pool-proof/1", "demo")
    assert b"bytes" in done.stderr


def test_a_pools_name_cannot_lead_elsewhere(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof is called by its pool, in this directory."""
    monkeypatch.chdir(tmp_path)
    opened = {"pool": "../x/\u0000", "type": "pool.opened", "capacity": {"mdev": 1}, "tree": []}
    assert pool("send", "-", "--data", "lab", given=json.dumps(opened)).status == 0
    assert pool("prove", 0, "--data", "lab").status == 0
    assert (tmp_path / ".._x__-0.proof").exists()
