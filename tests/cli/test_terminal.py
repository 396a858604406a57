"""What reaches a terminal: nothing that steers it, in any encoding, and no traceback ever."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from schemas.visible import visible, visible_lines
from streams.cli.trouble import of_system
from tests.cli.calling import ROOT, Pool, command

STEERING = ["\x1b]0;pwn\x07", "\x1b[31m", "a\nb", "\x9b31m", "\u202eevil", "\u2066x", "\x7f"]
MARKUP = ["[/x]", "[bold]b", "\\[x]"]


@pytest.fixture
def evil(pool: Pool, tmp_path: Path) -> Path:
    """A log whose claims have what terminals obey in their ids, and in their classes."""
    common = {"pool": "p", "type": "claim.submitted", "leaf": "acme", "grade": "ModelBased"}
    tree = [{"id": "acme", "guarantee": {"mdev": 2000, "uj": 10}}]
    opened = {"pool": "p", "type": "pool.opened", "capacity": {"mdev": 2000, "uj": 10}, "at_ms": 1}
    events = [opened | {"tree": tree}] + [
        common | {"claim": name, "class": name, "gang": [{"mdev": 1500, "uj": 1}], "at_ms": 2}
        for name in STEERING + MARKUP
    ]
    outcome = pool("send", "-", "--data", tmp_path / "d", given="\n".join(map(json.dumps, events)))
    assert outcome.status == 0
    _harmless(outcome.out)
    return tmp_path / "d"


def _harmless(text: str) -> None:
    assert text
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)


def test_what_steers_a_terminal_is_spelled_out(pool: Pool, evil: Path) -> None:
    """Whatever a tenant called a claim, an operator reads it and the terminal does not obey."""
    for question in (
        ("usage",),
        ("claims",),
        ("watch", "--no-follow"),
        ("doctor",),
        ("verify",),
        ("audit",),
        *(("explain", name) for name in STEERING),
    ):
        outcome = pool(*question, "--data", evil)
        assert outcome.status == 0, outcome
        _harmless(outcome.out)
    assert "\\u001b]0;pwn\\u0007" in pool("claims", "--data", evil).out
    _harmless(pool("explain", "\x1b[1mnone", "--data", evil).err)
    assert [line["claim"] for line in pool("claims", "--data", evil, "--json").lines] == [
        *STEERING,
        *MARKUP,
    ]


def test_markup_is_nobody_elses(pool: Pool, evil: Path) -> None:
    """A claim called `[/x]` is shown so; it neither colours nor breaks a table."""
    told = pool("claims", "--data", evil).out
    for name in MARKUP:
        assert f"{name} " in told
        assert name in pool("explain", name, "--data", evil).out


def test_one_line_stays_one_line() -> None:
    """A line break is the program's own, or it is spelled."""
    assert visible("a\nb\tc\u2028d\ud800") == "a\\u000ab\\u0009c\\u2028d\\ud800"
    assert visible_lines("a\nb\x1b") == "a\nb\\u001b"
    assert visible("é 加 plain [x]") == "é 加 plain [x]"


def _asked(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, env=os.environ | environment
    )


def test_an_ascii_stdout_gets_an_answer(pool: Pool, tmp_path: Path) -> None:
    """What it cannot have is spelled out for people, and in escapes for programs."""
    opened = {"pool": "p", "type": "pool.opened", "capacity": {"mdev": 1, "uj": 1}, "at_ms": 1}
    opened["tree"] = [{"id": "a", "guarantee": {"mdev": 1, "uj": 1}}]
    claim = {"pool": "p", "type": "claim.submitted", "claim": "加", "leaf": "a", "at_ms": 2}
    claim |= {"gang": [{"mdev": 1, "uj": 1}], "grade": "ModelBased"}
    events = "\n".join(map(json.dumps, (opened, claim)))
    assert pool("send", "-", "--data", tmp_path, given=events).status == 0
    for encoding in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        shown = _asked("claims", "--data", tmp_path, **encoding)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "\\u52a0" in shown.stdout
        told = _asked("claims", "--data", tmp_path, "--json", **encoding)
        assert json.loads(told.stdout)["claim"] == "加"
        why = _asked("explain", "加", "--data", tmp_path, "--json", **encoding)
        assert json.loads(why.stdout)["claim"] == "加"


def test_a_full_disk_is_told_with_its_place_and_what_to_do(data: Path) -> None:
    """stdout on a full disk: one line, and not the interpreter's last words about it."""
    with open("/dev/full", "w") as full:
        for extra in ((), ("--json",)):
            ended = subprocess.run(
                command("usage", "--data", data, *extra), cwd=ROOT, stdout=full,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert ended.returncode == 3
            assert ended.stderr == (
                "pool: No space left on device (stdout): make room, then run it again\n"
            )


def test_every_trouble_of_the_system_says_what_to_do() -> None:
    """What, where, what to do, whether or not the error names a file."""
    for error in (OSError(28, "No space"), FileNotFoundError(2, "No such", "x"), OSError("odd")):
        assert all(of_system(error))


def test_a_port_that_is_taken_is_named(pool: Pool, tmp_path: Path) -> None:
    """The address, and that another may be taken; for the steward and for the read side."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for asked in (("run", "--data", tmp_path), ("serve", "--data", tmp_path, "--read-only")):
            outcome = pool(*asked, "--port", port)
            assert outcome.status == 3
            assert f"(127.0.0.1:{port}): stop who has it, or take another --port" in outcome.err


@pytest.mark.parametrize("seconds", [0.1, 0.15, 0.2, 0.3, 0.45])
def test_who_is_interrupted_is_told_so_in_one_line(seconds: float) -> None:
    """While it loads, too: status 3, one line, no traceback."""
    # A shell starts what runs in its background deaf to Ctrl-C, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    script = (
        "import sys; print(flush=True); from streams.cli.main import main; main(['decide', '-'])"
    )
    asked = subprocess.Popen(
        [command()[0], "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert asked.stdout is not None
    # Before this the interpreter itself starts, and none of it is ours.
    asked.stdout.readline()
    time.sleep(seconds)
    asked.send_signal(signal.SIGINT)
    _, err = asked.communicate(timeout=60)
    assert (asked.returncode, err) == (3, "pool: stopped\n")


def test_a_terminal_has_no_blank_line_about_an_interrupt(data: Path) -> None:
    """The word takes the place of the ^C that the terminal shows."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ours, its = pty.openpty()
    asked = subprocess.Popen(
        command("audit", "--data", data), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=its
    )
    os.close(its)
    said = os.read(ours, 1)
    asked.send_signal(signal.SIGINT)
    with suppress(OSError):
        while more := os.read(ours, 4096):
            said += more
    os.close(ours)
    assert asked.wait(60) == 3
    assert said.endswith(b"\rpool: stopped\r\n")
    assert b"\n\r\n" not in said
