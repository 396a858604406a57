"""Killed with -9 wherever it hurts and started again, a steward ends as an undisturbed one does."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from steward_support import audit_clean, busy_day, decide, ledger, records

from streams import topics
from streams.faults import Point
from streams.logs.embedded import EmbeddedLog

HERE = Path(__file__).parent
EVENTS = 400
KILLS_MAX = 40

RUN = f"""
    import asyncio, sys
    from pathlib import Path
    from steward_support import TIMELESS, busy_day, steward
    from dataclasses import replace
    from streams import topics
    from streams.logs.embedded import EmbeddedLog

    async def main():
        directory = Path(sys.argv[1])
        log = EmbeddedLog(directory)
        settings = replace(TIMELESS, batch_events=16, head_receipts=50, snapshot_receipts=64)
        one = steward(log, settings=settings, snapshots=directory / "snapshots")
        events = busy_day({EVENTS})
        await one.decide_all()
        done = sum([await log.end(topic, 0) for topic in topics.INPUT_TOPICS])
        for start in range(done, len(events), 100):
            await log.publish(events[start : start + 100])
            await one.decide_all()
        await one.finish()
        print("done")

    asyncio.run(main())
"""


def start(directory: Path, fault: str = "") -> subprocess.Popen[str]:
    """A process that publishes and decides the day, going on where the last one was killed."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parents[1]}", "POOL_FAULT": fault}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUN), str(directory)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
async def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The ledger of the same day without any trouble."""
    log = EmbeddedLog(tmp_path_factory.mktemp("undisturbed"))
    await decide(log, busy_day(EVENTS))
    sealed = await ledger(log)
    await log.close()
    return sealed


async def ends_alike(directory: Path, undisturbed: list[bytes]) -> None:
    """The ledger has the very bytes of the undisturbed one, and audits clean."""
    log = EmbeddedLog(directory)
    sealed = await ledger(log)
    assert sealed == undisturbed
    audit_clean(sealed)
    heads = [record.value for record in await records(log, topics.HEADS)]
    assert heads
    await log.close()


async def test_killed_at_random_moments(tmp_path: Path, undisturbed: list[bytes]) -> None:
    """However often it is killed, every event is decided once, and the chain is the same."""
    for killed in range(KILLS_MAX):
        process = start(tmp_path)
        try:
            # Starting takes most of this; the window reaches from opening to well into deciding.
            process.wait(random.uniform(0.2, 0.9) if killed < 6 else 60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        said, complained = process.communicate(timeout=60)
        if process.returncode == 0:
            assert said == "done\n"
            break
        assert process.returncode == -signal.SIGKILL, complained
    assert process.returncode == 0
    await ends_alike(tmp_path, undisturbed)


EMBEDDED_POINTS = (
    Point.BEFORE_DECIDE,
    Point.BEFORE_APPEND,
    Point.INSIDE_APPEND,
    Point.AFTER_APPEND,
    Point.BEFORE_SNAPSHOT,
    Point.INSIDE_SNAPSHOT,
)


async def test_killed_between_any_two_steps(tmp_path: Path, undisturbed: list[bytes]) -> None:
    """Killed at each named point, at its second time, one after the other, it ends the same."""
    for point in EMBEDDED_POINTS:
        process = start(tmp_path, f"{point}:2")
        _, complained = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, (point, complained)
    assert start(tmp_path).wait(60) == 0
    await ends_alike(tmp_path, undisturbed)


async def test_a_stopped_steward_keeps_the_directory(tmp_path: Path) -> None:
    """Stopped (not killed) at a point, the process still holds its directory, and can go on."""
    process = start(tmp_path, f"{Point.AFTER_APPEND}:1:stop")
    deadline = time.monotonic() + 30
    while Path(f"/proc/{process.pid}/stat").read_text().split()[2] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
