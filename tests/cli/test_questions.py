"""What a pool can be asked, each answer for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from streams.cli.commands import pool as group
from tests.cli.calling import Pool

QUESTIONS = [
    ("usage",),
    ("claims",),
    ("claims", "--state", "waiting"),
    ("claims", "--leaf", "atlas"),
    ("explain", "night-borealis"),
    ("explain", "sweep-3"),
    ("explain", "cygnus-guess"),
    ("watch", "--no-follow", "--from", "2300"),
    ("verify",),
    ("audit",),
    ("doctor",),
]


def _commands(command: click.Command, path: str = "") -> list[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        inner = command.commands.items()
        return [found for name, one in inner for found in _commands(one, f"{path} {name}")]
    return [(path.strip(), command)]


@pytest.mark.parametrize(("path", "command"), _commands(group))
def test_every_command_takes_json_and_verbose(path: str, command: click.Command) -> None:
    """`--json` and `-v` are everywhere, and every command says in a sentence what it does."""
    options = {name for parameter in command.params for name in parameter.opts}
    assert {"--json", "-v"} <= options, path
    assert command.help, path


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_json_lines_or_words(pool: Pool, data: Path, question: tuple[str, ...]) -> None:
    """With --json every line is an object; without it there is something to read."""
    told = pool(*question, "--data", data, "--json")
    assert told.status == 0, told.err
    assert told.lines
    said = pool(*question, "--data", data)
    assert said.status == 0
    assert said.out.strip()
    assert "{" not in said.out.splitlines()[0]


def test_usage_adds_up(pool: Pool, data: Path) -> None:
    """Every inner node is the sum of its children, and nothing is lent that nobody borrowed."""
    *nodes, rest = pool("usage", "--data", data, "--json").lines
    by_id = {node["node"]: node["resources"] for node in nodes}
    for resource in ("mdev", "uj"):
        for figure in ("used", "held"):
            top = sum(int(by_id[n][resource][figure]) for n in ("atlas", "borealis", "cygnus"))
            assert int(by_id["/"][resource][figure]) == top
        for siblings in (("atlas", "borealis", "cygnus"), ("atlas/train", "atlas/serve")):
            lent = sum(int(by_id[n][resource]["lent"]) for n in siblings)
            borrowed = sum(int(by_id[n][resource]["borrowed"]) for n in siblings)
            assert lent <= borrowed
    assert rest["node"] is None
    assert int(rest["overhead_uj"]) > 0
    assert set(rest["settled_uj"]) == {"measured", "modelled", "guessed", "reserved"}


def test_what_is_being_reclaimed_is_said_with_for_whom(pool: Pool, data: Path) -> None:
    """The victim, and the claimant whose guarantee it is for."""
    root = pool("usage", "--data", data, "--json").lines[0]
    (reclaim,) = root["reclaiming"]
    assert reclaim["for"] == "night-borealis"
    victim = pool("explain", reclaim["claim"], "--data", data, "--json").answer
    assert victim["now"]["reclaimed_for"] == "night-borealis"
    assert any("to stop for night-borealis" in words for words in victim["words"])


def test_a_waiting_claim_is_explained_as_of_now(pool: Pool, data: Path) -> None:
    """The kernel says why; the receipts say why it began to wait."""
    answer = pool("explain", "night-borealis", "--data", data, "--json").answer
    assert answer["state"] == "waiting"
    assert answer["why"]["reason"] == "awaiting-reclaim"
    assert answer["why"]["victims"]
    kinds = [receipt["kind"] for receipt in answer["receipts"]]
    assert kinds[-1] == "claim.waiting"


def test_every_preemption_is_explained_by_its_evidence(pool: Pool, data: Path, made: Any) -> None:
    """Each victim's receipts say for whom it stopped, and by what it was chosen."""
    preempted: dict[str, str] = made[1]["preempted"]
    for victim, claimant in list(preempted.items())[:6]:
        answer = pool("explain", victim, "--data", data, "--json").answer
        orders = [one for one in answer["receipts"] if one["kind"] == "claim.preempting"]
        assert any(one["for"] == claimant for one in orders if one["claim"] == victim)
        assert all(one["basis"] in ("measured", "declared") for one in orders)


def test_receipts_are_graded_by_a_trust_file(pool: Pool, data: Path) -> None:
    """With a trust file each receipt says how it is attested."""
    answer = pool(
        "explain", "sweep-3", "--data", data, "--trust", data / "trust.toml", "--json"
    ).answer
    assert {receipt["attested"] for receipt in answer["receipts"]} == {"witnessed"}


def test_a_claim_that_nobody_knows_is_not_found(pool: Pool, data: Path) -> None:
    """Status 1, and one line that says which pool was asked."""
    outcome = pool("explain", "nobody", "--data", data, "--json")
    assert (outcome.status, outcome.out) == (1, "")
    assert "pool 'demo'" in outcome.err


def test_watch_begins_where_it_is_told_to(pool: Pool, data: Path, made: Any) -> None:
    """From a seq to the end, without a hole."""
    length = made[1]["length"]
    lines = pool("watch", "--no-follow", "--from", length - 5, "--data", data, "--json").lines
    assert [line["seq"] for line in lines] == list(range(length - 5, length))
