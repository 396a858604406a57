"""`pool serve` and `pool token`: what is refused before anything is served, and a whole run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from views_support import copy_of

from streams.cli.main import run
from streams.views.access import digest_of, parse_tokens

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "loopback only"),
        (("--tables", "t"), "--tables is for Kafka"),
        (("--kafka", "localhost:1", "--tables", "t", "--port", "0"), "reach this server"),
        (("--data", "none", "--read-only"), "none"),
        (("--trust", "{empty}"), "not a trust file"),
        (("--tokens", "{empty}"), "not a token file"),
        (("--port", "70000"), "70000"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2 and what to do, before anything listens."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("")
    named = [one.format(empty=tmp_path / "empty") for one in arguments]
    assert run(["serve", *named]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1] and "Traceback" not in "".join(lines)


def test_a_token_is_made_with_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines make a token file that knows the token; what makes no sense is refused."""
    assert run(["token", "ci", "--role", "claims", "--subtree", "acme", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    grants = parse_tokens("\n".join(made["lines"]))
    assert grants[made["sha256"]].subtree == "acme" and made["token"] not in str(made["lines"])
    assert run(["token", "ci", "--role", "claims"]) == 2
    capsys.readouterr()
    assert run(["token", "ci", "--role", "read"]) == 0
    said = capsys.readouterr()
    (digest,) = parse_tokens(said.out)
    secret = said.err.split()[-1]
    assert digest == digest_of(secret) and secret not in said.out and "#" not in said.out
    assert run(["token", 'x"]\n[y', "--role", "read"]) == 2


def test_it_serves_with_tokens_until_it_is_told_to_stop(
    day_directory: Path, tmp_path: Path
) -> None:
    """A token opens it, none does not; DIR is held; SIGTERM ends it with 0, the log closed."""
    data = copy_of(day_directory, tmp_path / "data")
    made = _pool("token", "me", "--role", "read", "--json")
    token = json.loads(made.stdout)
    (tmp_path / "tokens.toml").write_text("\n".join(token["lines"]))
    options = ["--tokens", str(tmp_path / "tokens.toml"), "--read-only", "--port", "0", "--json"]
    serving = subprocess.Popen(
        [sys.executable, "-m", "streams.cli.main", "serve", "--data", str(data), *options],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert serving.stdout is not None
    try:
        said = json.loads(serving.stdout.readline())
        assert said["writes"] is False
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{said['url']}compute-pools", timeout=10)
        assert refused.value.code == 401
        asked = urllib.request.Request(f"{said['url']}compute-pools")
        asked.add_header("Authorization", f"Bearer {token['token']}")
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert "pools" in json.load(answer)
    finally:
        serving.send_signal(signal.SIGTERM)
    assert serving.wait(30) == 0


def _pool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streams.cli.main", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
