"""The demo: what its day shows, what it leaves, and the commands that it names."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import ROOT, Pool, command

Made = tuple[Path, dict[str, Any]]


@pytest.mark.parametrize(
    "kind",
    [
        "claim.waiting",
        "claim.refused",
        "claim.expired",
        "claim.uncertain",
        "claim.preempting",
        "claim.spared",
        "claim.settled",
        "claim.progressed",
        "claim.renewed",
        "meter.split",
        "meter.gap",
        "idle.reviewed",
    ],
)
def test_the_day_shows_each_kind_of_decision(made: Made, kind: str) -> None:
    """What the demo promises to show is in its ledger."""
    assert made[1]["decisions"][kind] > 0


def test_the_day_borrows_refuses_a_guess_and_returns_energy(made: Made) -> None:
    """Borrowing, a refused guess, energy that came back, and waits for several reasons."""
    answer = made[1]
    assert 0 < answer["borrowed"] < answer["decisions"]["claim.admitted"]
    assert {"claim": "cygnus-guess", "reason": "never-fits", "grade": "Estimator"} in answer[
        "refused"
    ]
    assert int(answer["returned_uj"]) > 0
    assert int(answer["guessed_uj"]) > 0
    assert set(answer["waiting"].values()) >= {
        "share",
        "guess-cannot-borrow",
        "awaiting-reclaim",
    }


def test_a_witness_signed_the_whole_ledger(made: Made) -> None:
    """The demo's witness countersigned its last head."""
    assert made[1]["grade"] == "witnessed"
    assert made[1]["witnessed"] == made[1]["length"] > 2000


def test_every_command_to_try_next_works_when_pasted(tmp_path: Path) -> None:
    """Each is run by a shell, in order, after a demo in a directory whose name needs quotes."""
    where = tmp_path / "a demo"
    done = subprocess.run(
        command("demo", "--data", where, "--json"), cwd=ROOT, capture_output=True, check=True
    )
    commands: dict[str, str] = json.loads(done.stdout)["next"]
    assert len(commands) == 10
    script = "\n".join(("set -e", *commands.values()))
    tried = subprocess.run(
        ["sh", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert tried.returncode == 0, tried.stderr


def test_a_second_demo_replaces_the_first(pool: Pool, tmp_path: Path) -> None:
    """Same decisions, new keys: another head of the same length."""
    first = pool("demo", "--data", tmp_path / "d", "--json").answer
    second = pool("demo", "--data", tmp_path / "d", "--json").answer
    assert first["decisions"] == second["decisions"]
    assert first["head"] != second["head"]
    kept = {path.name for path in (tmp_path / "d").iterdir()}
    assert {"log", "steward.pem", "witness.pem", "trust.toml", "demo.json"} <= kept
    for name in ("steward.pem", "witness.pem"):
        assert (tmp_path / "d" / name).stat().st_mode & 0o777 == 0o600


def test_a_directory_of_somebody_else_is_left_alone(pool: Pool, tmp_path: Path) -> None:
    """Not empty and not a demo's: refused, and nothing in it changes."""
    (tmp_path / "thesis.tex").write_text("years of work")
    outcome = pool("demo", "--data", tmp_path)
    assert outcome.status == 2
    assert "not a demo's directory" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
