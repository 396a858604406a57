"""The README's commands for strangers: pasted beside a demo, they say what the text says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.calling import ROOT

POOL = Path(sys.executable).parent / "pool"


def test_a_stranger_gets_witnessed_from_the_commands_as_they_stand(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Export and prove where the log is; verify, audit and check where only files are."""
    text = (ROOT / "README.md").read_text().split("## Verify a ledger yourself\n")[1]
    blocks = re.findall(r"^```sh\n(.*?)^```$", text.split("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    shutil.copytree(made[0], tmp_path / "demo-data")
    said = []
    for block in blocks:
        done = subprocess.run(
            ["sh", "-ec", block.replace(".venv/bin/pool", shlex.quote(str(POOL)))],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
        # The trust file is given by hand; whoever checks has no log.
        for path in set((tmp_path / "demo-data").iterdir()) - {tmp_path / "demo-data/trust.toml"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    length = f"{made[1]['length']:,}"
    assert said[1].count(f"witnessed to {length} by demo") == 2
    assert "self-attested from there on" not in said[1]
    assert "every decision follows from its event" in said[1]


def test_a_pool_of_ones_own_comes_of_the_commands_as_they_stand(tmp_path: Path) -> None:
    """Three events on a new directory: opened, admitted, settled; the ledger is whole."""
    text = (ROOT / "README.md").read_text().split("## Run it\n")[1].split("\n## ")[0]
    demo, own = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert demo == "make demo\n"
    done = subprocess.run(
        ["sh", "-ec", own.replace(".venv/bin/pool", shlex.quote(str(POOL)))],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "train-1 admitted" in done.stdout and "3 receipts" in done.stdout
