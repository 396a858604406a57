"""Who interrupts `pool-witness` is heard at once, whatever it is doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.witness.support import Process, Steward, environment

STOPPED = (3, "pool-witness: stopped\n")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    steward = Steward(tmp_path / "log")
    process = Process(tmp_path, tmp_path / "log")
    process.init()
    (tmp_path / "own").mkdir()
    yield process
    steward.close()


def started(process: Process, script: str, *options: str) -> subprocess.Popen[str]:
    """A run that has said by a line that it begins."""
    # A shell starts what runs in its background deaf to Ctrl-C, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    line = process.arguments("run", "--data", str(process.data), *options)[3:]
    running = subprocess.Popen(
        [sys.executable, "-c", f"from witness.main import main; {script}; main({line!r})"],
        env=environment() | {"TMPDIR": str(process.key.with_name("own"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    running.stdout.readline()
    return running


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.2, 0.4, 0.8])
def test_who_is_interrupted_is_told_so_in_one_line(process: Process, seconds: float) -> None:
    """While it loads, too: status 3 and no traceback. A run that has begun ends well, as ever."""
    running = started(process, "print(flush=True)")
    time.sleep(seconds)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) in [STOPPED, *[(0, "")] * (seconds > 0.1)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_once_is_ended_in_the_middle(process: Process, number: signal.Signals) -> None:
    """It does not read on to the log's end, and leaves nothing behind."""
    waits = "import asyncio, witness.runner; witness.runner.Runner.once = lambda self: wait()"
    script = f"""exec({waits!r})
async def wait():
    print(flush=True)
    await asyncio.sleep(60)
"""
    running = started(process, f"exec({script!r})", "--once")
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert (running.returncode, err) == STOPPED
    assert os.listdir(process.key.with_name("own")) == []
