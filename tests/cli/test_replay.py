"""`pool replay`: the same head every time, however often it is killed on the way."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.faults import Point
from tests.cli.calling import Pool
from tests.shared import shared

PHILLY = shared("data", "philly_vc", "philly_2017-10-16_to_29.csv")
OPENB = shared("data", "openb_2023", "openb_pod_list_default.csv")
SLICE = ("--format", "philly", "--rows", "200", "--gpus", "24")
Process = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the slice comes to when nobody disturbs it."""
    from tests.cli.calling import command

    data = tmp_path_factory.mktemp("undisturbed")
    done = subprocess.run(
        command("replay", PHILLY, *SLICE, "--data", data, "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_replay_is_the_same_every_time(
    pool: Pool, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """Another directory, the same head; a second run there finds all of it standing."""
    again = pool("replay", PHILLY, *SLICE, "--data", tmp_path, "--json").answer
    assert again["head"] == undisturbed["head"]
    assert again["length"] == undisturbed["length"] > 900
    third = pool("replay", PHILLY, *SLICE, "--data", tmp_path, "--json").answer
    assert (third["published"], third["standing"]) == (0, again["events"])
    assert third["head"] == again["head"]


def test_a_replay_waits_borrows_and_reclaims(pool: Pool, undisturbed: dict[str, Any]) -> None:
    """With few devices and all of them guaranteed, what was borrowed is called back."""
    assert undisturbed["borrowed"] > 0
    assert undisturbed["waits"]["awaiting-reclaim"] > 0
    assert undisturbed["decisions"]["claim.preempting"] > 0
    settled = undisturbed["decisions"]["claim.settled"]
    assert settled == undisturbed["decisions"]["claim.admitted"]


@pytest.mark.parametrize(
    "fault",
    [
        f"{Point.BEFORE_DECIDE}:2",
        f"{Point.BEFORE_APPEND}:1",
        f"{Point.INSIDE_APPEND}:2",
        f"{Point.AFTER_APPEND}:2",
    ],
)
def test_killed_between_two_steps_it_ends_at_the_same_head(
    pool: Pool, process: Process, undisturbed: dict[str, Any], tmp_path: Path, fault: str
) -> None:
    """Killed at a named point, started again: the same ledger to the byte, verified and audited."""
    killed = process("replay", PHILLY, *SLICE, "--data", tmp_path, POOL_FAULT=fault)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    answer = pool("replay", PHILLY, *SLICE, "--data", tmp_path, "--json").answer
    assert answer["head"] == undisturbed["head"]
    assert answer["standing"] > 0
    assert pool("audit", "--data", tmp_path, "--json").answer["head"] == answer["head"]


def test_killed_at_random_moments_it_ends_at_the_same_head(
    pool: Pool, process: Process, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """kill -9 again and again while it decides; no moment is special."""
    moments = random.Random(20171016)
    slowly = ("--speed", "50000")  # the slice spans eight days: 14 s however quick the machine is
    for _ in range(4):
        running = process("replay", PHILLY, *SLICE, *slowly, "--data", tmp_path)
        assert running.stderr is not None
        assert any("a preempted job stops" in line for line in running.stderr)
        time.sleep(moments.random())
        assert running.poll() is None
        running.kill()
        running.communicate()
    answer = pool("replay", PHILLY, *SLICE, "--data", tmp_path, "--json").answer
    assert answer["head"] == undisturbed["head"]
    assert pool("verify", "--data", tmp_path, "--json").answer["length"] == answer["length"]


def test_other_options_are_another_replay(pool: Pool, tmp_path: Path) -> None:
    """What stands was made otherwise: refused, and nothing is published."""
    small = ("--format", "philly", "--rows", "30")
    first = pool("replay", PHILLY, *small, "--data", tmp_path, "--json").answer
    outcome = pool("replay", PHILLY, *small, "--gpus", "7", "--data", tmp_path)
    assert outcome.status == 2
    assert "pool.admin offset 0 of pool 'philly' is not of this replay" in outcome.err
    outcome = pool("replay", PHILLY, "--format", "philly", "--rows", "29", "--data", tmp_path)
    assert outcome.status == 2
    assert pool("verify", "--data", tmp_path, "--json").answer["head"] == first["head"]


def test_openb_has_fractions_further_resources_and_pods_that_never_ran(
    pool: Pool, tmp_path: Path
) -> None:
    """vCPUs and memory are accounted for; what stayed pending is cancelled or expires."""
    arguments = ("--format", "openb", "--rows", "400", "--gpus", "16", "--data", tmp_path)
    answer = pool("replay", OPENB, *arguments, "--json").answer
    assert answer["decisions"]["claim.expired"] + answer["decisions"]["claim.cancelled"] > 20
    said = pool("replay", OPENB, *arguments)
    assert "vcpu" in said.err
    assert "memory_mib" in said.err
    assert "never ran" in said.err
    *nodes, _ = pool("usage", "--data", tmp_path, "--json").lines
    assert set(nodes[0]["resources"]) == {"mdev", "vcpu", "memory_mib", "uj"}
    live = pool("claims", "--data", tmp_path, "--json").lines
    assert any(0 < claim["demand"]["mdev"] < 1000 for claim in live)
    assert pool("audit", "--data", tmp_path).status == 0


def test_two_replays_live_in_one_directory(pool: Pool, tmp_path: Path) -> None:
    """Different pools do not meet; each is found by its name."""
    pool("replay", PHILLY, "--format", "philly", "--rows", "40", "--data", tmp_path)
    pool("replay", OPENB, "--format", "openb", "--rows", "40", "--data", tmp_path)
    for name in ("philly", "openb"):
        assert pool("verify", "--data", tmp_path, "--pool", name).status == 0
    assert pool("verify", "--data", tmp_path).status == 2


def test_speed_paces_a_replay(pool: Pool, tmp_path: Path) -> None:
    """At a number it takes the trace's time over that number, and ends at the same head."""
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-16 00:00:00,60.0,1,60.0,a\n2017-10-16 00:01:00,60.0,1,60.0,a\n"
    )
    arguments = ("replay", trace, "--format", "philly", "--json", "--data")
    fast = pool(*arguments, tmp_path / "fast").answer
    slow = pool(*arguments, tmp_path / "slow", "--speed", "200").answer
    assert slow["head"] == fast["head"]
    assert slow["milliseconds"] >= 500
