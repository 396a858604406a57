"""The command as a test calls it, in this process or as one of its own; a demo to ask about."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.cli.main import run
from tests.cli.calling import ROOT, Outcome, Pool, command


@pytest.fixture
def pool(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pool:
    """Call `pool` in this process; `given` is its stdin."""

    def call(*arguments: object, given: bytes | str = b"") -> Outcome:
        data = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Outcome(int(status), said.out, said.err)

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[str]]:
    """Start `pool` as a process; `environment` adds to this one's."""

    def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*arguments),
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A demo's directory and what the demo answered. Tests do not change it."""
    data = tmp_path_factory.mktemp("made") / "demo-data"
    done = subprocess.run(
        command("demo", "--data", data, "--json"), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return data, json.loads(done.stdout)


@pytest.fixture
def data(made: tuple[Path, dict[str, Any]]) -> Path:
    """The demo's directory."""
    return made[0]
