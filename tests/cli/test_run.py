"""`pool run` on an embedded log: what it tells a metrics scraper."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.cli.calling import Pool

OPENED = (
    '{"pool": "p", "type": "pool.opened", "capacity": {"mdev": 1000, "uj": 9}, '
    '"tree": [{"id": "a", "guarantee": {"mdev": 1000, "uj": 9}}]}\n'
)


def test_the_lag_of_the_inputs_is_measured(
    pool: Pool, process: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """It was never measured where `pool run` served the metrics: an alarm on it slept for ever."""
    pool("send", "-", "--no-wait", "--data", tmp_path, given=OPENED)
    running = process("run", "--data", tmp_path, "--port", "0")
    assert running.stderr is not None
    try:
        while "health: " not in (line := running.stderr.readline()):
            assert line
        url = line.split("health: ")[1].strip().replace("/healthz", "/metrics")
        deadline = time.monotonic() + 60
        while 'pool_input_lag_offsets{partition="0",topic="pool.admin"} 0.0' not in _text(url):
            assert time.monotonic() < deadline, _text(url)
            time.sleep(0.1)
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert running.returncode == 0


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text
