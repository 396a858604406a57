"""What was signed about a ledger, as a file beside it: who gets it, what it says, what is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.cbor import split_sequence
from schemas.forks import seal_fork
from schemas.heads import HEAD_KIND, WITNESS_KIND, kind_of, open_head, seal_head
from schemas.keys import signer_from_pem
from tests.cli.calling import Pool
from tests.witness.ledger import Ledger, signer


@pytest.fixture(scope="module")
def exported(
    made: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The demo's ledger and what was signed about it, as `pool export --heads` writes them."""
    from streams.cli.main import run

    there = tmp_path_factory.mktemp("signed")
    ledger, heads = there / "ledger.cbor", there / "heads.cbor"
    arguments = ["export", "demo", str(ledger), "--heads", str(heads), "--data", str(made[0])]
    assert run(arguments) == 0
    return ledger, heads


def _items(file: Path) -> list[bytes]:
    return list(split_sequence(file.read_bytes()))


def test_a_stranger_gets_what_was_signed_with_the_ledger(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Two files and a trust file grade the copy as the log does, for somebody who has no log."""
    ledger, heads = (shutil.copy(file, tmp_path) for file in exported)
    trust = shutil.copy(data / "trust.toml", tmp_path)
    answer = pool("verify", ledger, "--heads", heads, "--trust", trust, "--json").answer
    assert (answer["ok"], answer["grade"], answer["objections"]) == (True, "witnessed", [])
    assert answer["witnessed"] == answer["length"] == len(_items(exported[0]))
    assert "self-attested" not in pool("verify", ledger, "--heads", heads, "--trust", trust).out


def test_an_export_says_how_much_was_signed(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Heads by length, then countersignatures; each statement once."""
    ledger, heads = tmp_path / "ledger.cbor", tmp_path / "heads.cbor"
    answer = pool("export", "demo", ledger, "--heads", heads, "--data", data, "--json").answer
    items = _items(heads)
    assert items == _items(exported[1])
    assert answer["heads"] == str(heads)
    assert answer["statements"] == len(items) == len(set(items))
    kinds = [kind_of(item) for item in items]
    count = kinds.count(HEAD_KIND)
    assert kinds == [HEAD_KIND] * count + [WITNESS_KIND] * (len(items) - count)
    lengths = [open_head(item).statement.end.length for item in items[:count]]
    assert lengths == sorted(lengths) and len(lengths) > 1


def test_without_a_head_there_is_nothing_to_export(pool: Pool, data: Path, tmp_path: Path) -> None:
    """An imported ledger has no heads yet: status 1, and neither file is written."""
    assert pool("export", "demo", tmp_path / "a.cbor", "--data", data).status == 0
    assert pool("import", tmp_path / "a.cbor", "--data", tmp_path / "there").status == 0
    ledger, heads = tmp_path / "ledger.cbor", tmp_path / "heads.cbor"
    outcome = pool("export", "demo", ledger, "--heads", heads, "--data", tmp_path / "there")
    assert outcome.status == 1
    assert "nothing was signed about pool" in outcome.err
    assert not ledger.exists() and not heads.exists()
    same = pool("export", "demo", ledger, "--heads", ledger, "--data", data)
    assert (same.status, ledger.exists()) == (2, False)


def test_fork_evidence_leaves_with_the_heads(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """What one witness found is told everybody who gets the file; what is bent stays behind."""
    there, heads = tmp_path / "there", tmp_path / "heads.cbor"
    shutil.copytree(data, there)
    steward, witness = (
        signer_from_pem((data / f"{who}.pem").read_bytes()) for who in ("steward", "witness")
    )
    first = open_head(_items(exported[1])[0])
    end = first.statement.end
    second = open_head(
        seal_head(steward, "demo", end.length, end.root, end.head, 1_750_000_000_000)
    )
    evidence = seal_fork(witness, first, second, [], 1_750_000_000_000)
    again = seal_fork(witness, first, second, [], 1_750_000_000_001)
    with next((there / "witness").glob("*.cborseq")).open("ab") as stream:
        stream.write(evidence + again + evidence[:-1] + b"\x00")
    arguments = ("export", "demo", tmp_path / "ledger.cbor", "--heads", heads, "--data", there)
    assert pool(*arguments).status == 0
    assert _items(heads) == [*_items(exported[1]), again]
    outcome = pool(
        *("verify", tmp_path / "ledger.cbor", "--heads", heads),
        *("--trust", data / "trust.toml", "--json"),
    )
    assert (outcome.status, outcome.answer["grade"]) == (1, "forked")
    assert [one["ground"] for one in outcome.answer["objections"]] == ["evidence"]


REFUSED: list[tuple[str, Callable[[Path, Path], bytes], str]] = [
    ("a ledger", lambda ledger, _: ledger.read_bytes(), "receipts of pool demo ("),
    ("an empty file", lambda *_: b"", "but nothing at all"),
    ("another pool's", lambda *_: Ledger(pool="lab").grow(3).head(), "heads of pool lab (1)"),
    ("other CBOR", lambda *_: b"\x01\x63abc", "other items (2)"),
    ("no CBOR", lambda *_: b"\xff", "not a CBOR sequence"),
    ("a torn end", lambda _, heads: heads.read_bytes()[:-1], "not a CBOR sequence"),
]


@pytest.mark.parametrize(("name", "content", "words"), REFUSED, ids=lambda x: str(x)[:30])
def test_a_file_that_has_no_heads_is_refused_and_not_ignored(
    pool: Pool,
    data: Path,
    exported: tuple[Path, Path],
    tmp_path: Path,
    name: str,
    content: Callable[[Path, Path], bytes],
    words: str,
) -> None:
    """Bad input, and what is in it: as if nobody had witnessed it would be the wrong answer."""
    (tmp_path / "heads.cbor").write_bytes(content(*exported))
    outcome = pool(
        *("verify", exported[0], "--heads", tmp_path / "heads.cbor"),
        *("--trust", data / "trust.toml", "--json"),
    )
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err and "heads.cbor" in outcome.err


def test_heads_say_nothing_without_keys_that_count(pool: Pool, exported: tuple[Path, Path]) -> None:
    """Without a trust file the ledger is verified, and it is said that they were not judged."""
    for command in ("verify", "audit"):
        outcome = pool(command, exported[0], "--heads", exported[1], "--json")
        assert outcome.status == 0
        assert outcome.answer["grade"] == "self-attested"
        assert "--heads says nothing without --trust" in outcome.err


def test_statements_that_do_not_count_are_told(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of a stranger's key, or bent: a warning, and the grade that is left."""
    others = Ledger(pool="demo", steward=signer(99)).grow(3)
    (tmp_path / "heads.cbor").write_bytes(exported[1].read_bytes() + others.head() + others.head(2))
    outcome = pool(
        *("verify", exported[0], "--heads", tmp_path / "heads.cbor"),
        *("--trust", data / "trust.toml"),
    )
    assert outcome.status == 0 and "witnessed to" in outcome.out
    assert "2 statements do not count" in outcome.err


# ---- a copy that ends before what was signed ----


def _cut(file: Path, length: int, to: Path) -> Path:
    to.write_bytes(b"".join(_items(file)[:length]))
    return to


def _whole_event(items: list[bytes], length: int) -> int:
    """The last length up to this one at which an event's receipts are all there."""
    from schemas.receipts import open_receipt

    while open_receipt(items[length])[1].cause.index:
        length -= 1
    return length


def test_a_truncated_copy_is_not_passed(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """What is left is in order; that more was witnessed is an objection, and the answer is no."""
    items = _items(exported[0])
    length = _whole_event(items, 2000)
    cut = _cut(exported[0], length, tmp_path / "cut.cbor")
    arguments = (cut, "--heads", exported[1], "--trust", data / "trust.toml")
    for command in ("verify", "audit"):
        outcome = pool(command, *arguments, "--json")
        answer = outcome.answer
        assert (outcome.status, answer["ok"], answer["broken"]) == (1, False, None)
        assert answer["grade"] in ("self-attested", "witnessed")
        assert answer["witnessed"] < length == answer["length"]
        witness = {"ground": "length", "by": "demo", "length": len(items)}
        (found,) = (one for one in answer["objections"] if one["by"] == "demo")
        assert found.items() >= witness.items()
        assert f"ends at {length}, but demo witnessed {len(items)}" in found["detail"]
    said = pool("verify", *arguments)
    assert said.out.startswith("ends early  pool demo")
    assert "it was cut short, or is an older copy" in said.out


def test_an_older_copy_may_be_asked_about_as_one(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Who knows that it is older says so: the answer is yes, and what was signed is told still."""
    length = _whole_event(_items(exported[0]), 2000)
    cut = _cut(exported[0], length, tmp_path / "cut.cbor")
    arguments = ("verify", cut, "--heads", exported[1], "--trust", data / "trust.toml")
    outcome = pool(*arguments, "--older-copy", "--json")
    assert (outcome.status, outcome.answer["ok"]) == (0, True)
    assert {one["ground"] for one in outcome.answer["objections"]} == {"length"}
    assert "older copy" in pool(*arguments, "--older-copy").out


def test_a_short_rewrite_is_not_passed_even_as_an_older_copy(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Rewritten before any signed length, it differs there: forked, by the steward's own heads."""
    rewritten = _rewritten(_items(exported[0])[:2000], data, at=40)
    (tmp_path / "other.cbor").write_bytes(b"".join(rewritten))
    arguments = ("verify", tmp_path / "other.cbor", "--trust", data / "trust.toml")
    for option in ((), ("--older-copy",)):
        outcome = pool(*arguments, "--heads", exported[1], *option, "--json")
        assert (outcome.status, outcome.answer["grade"]) == (1, "forked")
        assert "head" in {one["ground"] for one in outcome.answer["objections"]}
    # With the last countersignature alone nobody can tell the two apart: it ends early.
    (tmp_path / "last.cbor").write_bytes(_items(exported[1])[-1])
    outcome = pool(*arguments, "--heads", tmp_path / "last.cbor", "--json")
    assert (outcome.status, outcome.answer["grade"]) == (1, "self-attested")


def _rewritten(items: list[bytes], data: Path, *, at: int) -> list[bytes]:
    """The ledger with another time at one receipt, chained and signed anew by its own steward."""
    from hashlib import sha256

    from schemas import cose
    from schemas.cbor import decode, encode

    steward = signer_from_pem((data / "steward.pem").read_bytes())
    length = _whole_event(items, len(items) - 1)
    made = items[:at]
    for number, item in enumerate(items[at:length]):
        core: Any = decode(cose.split(item).payload)
        core["prev"] = sha256(made[-1]).digest()
        if number == 0:
            core["cause"]["digest"] = bytes(32)
        made.append(cose.seal_payload(steward, encode(core)))
    return made


def test_a_log_that_lost_receipts_is_told_by_its_heads(
    pool: Pool, data: Path, exported: tuple[Path, Path], tmp_path: Path
) -> None:
    """Heads given beside a log count with the log's own: an older backup is found out."""
    length = _whole_event(_items(exported[0]), 2000)
    cut = _cut(exported[0], length, tmp_path / "cut.cbor")
    assert pool("import", cut, "--data", tmp_path / "restored").status == 0
    where = ("--data", tmp_path / "restored", "--trust", data / "trust.toml")
    assert pool("verify", *where).status == 0
    outcome = pool("verify", *where, "--heads", exported[1], "--json")
    assert outcome.status == 1
    assert "length" in {one["ground"] for one in outcome.answer["objections"]}
