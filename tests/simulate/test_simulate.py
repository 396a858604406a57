"""What-ifs on small traces whose outcome can be worked out by hand, and on some of Philly."""

from __future__ import annotations

import errno
import json
import os
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.records import MDEV, Grade
from streams.cli import simulate as command
from streams.cli.main import run
from streams.simulate import Outcome, parse_policy, simulate
from streams.simulate.figures import figures, series
from streams.simulate.picture import picture
from streams.simulate.planning import dealt, planned, tuning_of
from streams.traces import Job, Plan, read_philly
from streams.traces.plan import HOUR_MS
from tests.shared import shared

TRACE = shared("data", "philly_vc", "philly_2017-10-16_to_29.csv")
EXAMPLES = Path(__file__).parents[2] / "streams" / "simulate" / "examples"
WATT = 1_000_000


def job(claim: str, leaf: str, at_h: int, devices: int, hours: int, **more: Any) -> Job:
    """A job of whole devices that draws 100 W a device for whole hours."""
    given: dict[str, Any] = {
        "claim": claim,
        "leaf": leaf,
        "submit_ms": at_h * HOUR_MS,
        "member": {MDEV: 1000},
        "count": devices,
        "grade": Grade.MODEL_BASED,
        "reserved_uw": 100 * WATT,
        "declared_ms": hours * HOUR_MS,
        "drawn_uw": devices * 100 * WATT,
        "run_ms": hours * HOUR_MS,
    }
    return Job(**{**given, **more})


def plan(*jobs: Job, **policy: Any) -> Plan:
    """Two tenants with two of four devices each, and more energy than they can spend."""
    capacity = {MDEV: 4000, "uj": 10**15}
    half = {MDEV: 2000, "uj": 5 * 10**14}
    return Plan(
        pool="p",
        opened_ms=0,
        opened={
            "capacity": dict(capacity),
            "tree": [{"id": "a", "guarantee": dict(half)}, {"id": "b", "guarantee": dict(half)}],
            "policy": policy,
        },
        jobs=jobs,
        period_ms=1000 * HOUR_MS,
        grace_ms=HOUR_MS,
    )


def outcome(text: str, *jobs: Job) -> Outcome:
    """A policy's run of these jobs."""
    file = parse_policy(text, "x.toml")
    return simulate(file.name, planned(plan(*jobs), file, 0))


JOBS = (
    job("j1", "a", 0, 4, 10),
    job("j2", "b", 2, 2, 4),
    job("j3", "b", 3, 2, 1),
)


def test_without_borrowing_a_large_job_never_fits() -> None:
    """Four devices where two are guaranteed: refused at once; the others run as they come."""
    shown = figures(outcome("[tree]\nborrow = false\n", *JOBS))
    assert (shown["admitted"], shown["gave_up"]) == (2, 1)
    assert shown["refusals"] == {"never-fits": 1}
    assert shown["wait_ms"] == {"median": 0, "p95": 3 * HOUR_MS, "max": 3 * HOUR_MS}
    assert shown["energy_uj"]["ModelBased"] == (2 * 4 + 2 * 1) * 100 * WATT * 3600


def test_what_is_borrowed_is_reclaimed_and_counted() -> None:
    """The large job borrows two devices, is told to stop at 2 h, ends at 3 h, goes on at 7 h."""
    found = outcome("", *JOBS)
    shown = figures(found)
    assert (shown["borrowing"], shown["preempted"], shown["evicted"]) == (3, 1, 1)
    assert shown["evicted_uj"] == 4 * 3 * 100 * WATT * 3600
    # j2 from 3 h to 7 h, j3 borrows from 3 h to 4 h; j1 for 3 h, then for 7 h from 7 h on.
    assert shown["tenants"]["b"]["wait_ms"]["max"] == HOUR_MS
    assert shown["tenants"]["a"]["wait_ms"]["max"] == 4 * HOUR_MS
    assert shown["borrowed_ppm"] == (2 * 10 + 2 * 1) * 1_000_000 // 50
    assert shown["ended_ms"] == 14 * HOUR_MS
    assert shown["used_ppm"] == 50 * 1_000_000 // (4 * 14)


def test_the_energy_of_all_runs_is_the_jobs_energy() -> None:
    """Whatever was evicted and resumed, every device hour is settled once."""
    for text in ("", "[tree]\nguarantee_ppm = 0\n", "[policy]\nreserve_after_ms = 0\n"):
        shown = figures(outcome(text, *JOBS))
        assert sum(shown["energy_uj"].values()) == 50 * 100 * WATT * 3600
        held = sum(one["held_mdev_ms"] for one in shown["tenants"].values())
        assert held == 50 * 1000 * HOUR_MS


def test_unmet_is_what_was_guaranteed_wanted_and_not_had() -> None:
    """b waits for its two devices from 2 h to 3 h; later it has what it is guaranteed."""
    shown = figures(outcome("", *JOBS))
    # And a, from 3 h to 7 h, wants four, is entitled to two and has none while b has two.
    assert shown["unmet_mdev_ms"] == (2 * 1 + 2 * 4) * 1000 * HOUR_MS
    assert shown["waited_for"] == {"awaiting-reclaim mdev": 1, "share mdev": 1}


def test_weights_limits_and_what_jobs_say_can_be_changed() -> None:
    """Each key of a file reaches the plan."""
    text = """
        name = "odd"
        [policy]
        aging_ms = 5
        [tree]
        lend = ["mdev"]
        max_live = 3
        weights = { a = 7 }
        limits_ppm = { b = 750000 }
        [jobs]
        preemptible = false
        max_wait_ms = 9
    """
    file = parse_policy(text, "x.toml")
    made = planned(plan(*JOBS, power_limit_uw=5), file, 0)
    a, b = made.opened["tree"]  # type: ignore[misc]
    assert (file.name, a["weight"], b["weight"]) == ("odd", 7, 1)  # type: ignore[index,call-overload]
    assert a["lend"] == ["mdev"] and a["max_live"] == 3  # type: ignore[index,call-overload]
    assert b["limit"] == {MDEV: 3000} and "limit" not in a  # type: ignore[index,call-overload,operator]
    assert made.opened["policy"] == {"power_limit_uw": 5, "aging_ms": 5}
    assert {(one.preemptible, one.max_wait_ms) for one in made.jobs} == {(False, 9)}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[policy]\ncolour = 1\n", "colour"),
        ("[policy]\naging_ms = -1\n", "aging_ms"),
        ("[tree]\nguarantee_ppm = 1000001\n", "guarantee_ppm"),
        ("[tree]\nborrow = 1\n", "borrow"),
        ("[tree]\nlend = 1\n", "lend"),
        ("[tree]\nweights = { nobody = 2 }\n", "nobody"),
        ("[tree]\nweights = { a = 0 }\n", "weights.a"),
        ("[tree]\nweights = 2\n", "weights"),
        ("[pool]\ngpus = 0\n", "gpus"),
        ("[jobs]\ncolour = 1\n", "colour"),
        ("colour = 1\n", "colour"),
        ("tree = 1\n", "tree"),
        ("no toml", "TOML"),
    ],
)
def test_a_misspelt_policy_is_not_simulated_as_another(
    text: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, status 2, with the key."""
    file = tmp_path / "x.toml"
    file.write_text(text)
    status = run(["simulate", str(TRACE), "--rows", "50", "--policy", str(file)])
    said = capsys.readouterr()
    assert (int(status), said.out) == (2, "")
    assert key in said.err.splitlines()[-1]


def test_the_same_trace_policy_and_seed_give_the_same_figures() -> None:
    """And another seed deals other energies to the same jobs."""
    file = parse_policy((EXAMPLES / "borrow.toml").read_text(), "borrow.toml")
    base = read_philly(TRACE, tuning_of(file, 400))
    shown = [figures(simulate("x", planned(base, file, seed))) for seed in (0, 0, 7, 7)]
    assert shown[0] == shown[1] and shown[2] == shown[3] and shown[0] != shown[2]
    jobs = dealt(base.jobs, 7)
    assert [replace(one, **_fate_of(two)) for one, two in zip(jobs, base.jobs, strict=True)] == [
        *base.jobs
    ]
    assert sorted(one.drawn_uw for one in jobs) == sorted(one.drawn_uw for one in base.jobs)


def _fate_of(job: Job) -> dict[str, Any]:
    names = ("grade", "reserved_uw", "drawn_uw", "max_wait_ms", "reports", "preemptible")
    return {name: getattr(job, name) for name in names}


def test_the_readmes_policy_is_one() -> None:
    """It is the file that it is said to be, for Philly."""
    text = (EXAMPLES.parent / "README.md").read_text().split("```toml\n")[1].split("```")[0]
    file = parse_policy(text, "readme.toml")
    assert (file.name, file.guarantee_ppm, file.lend) == ("half", 500_000, ("mdev",))
    made = planned(read_philly(TRACE, tuning_of(file, None)), file, 0)
    assert figures(simulate(file.name, replace(made, jobs=made.jobs[:50])))["jobs"] == 50


def test_the_examples_are_policies() -> None:
    """Each parses and runs some of Philly."""
    for path in sorted(EXAMPLES.glob("*.toml")):
        file = parse_policy(path.read_text(), path.name)
        made = planned(read_philly(TRACE, tuning_of(file, 100)), file, 0)
        assert figures(simulate(file.name, made))["jobs"] == 100


def test_the_command_compares_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object a policy, with its buckets; an SVG with a panel for each."""
    drawing = tmp_path / "usage.svg"
    arguments = ["simulate", TRACE, "--rows", "300", "--picture", drawing]
    for name in ("quota", "half"):
        arguments += ["--policy", EXAMPLES / f"{name}.toml"]
    assert run([*map(str, arguments), "--json", "--series"]) == 0
    said = capsys.readouterr()
    quota, half = [json.loads(line) for line in said.out.splitlines()]
    assert (quota["policy"], half["policy"], quota["borrowing"]) == ("quota", "half", 0)
    assert half["borrowing"] > 0 and half["derivation"]
    held = half["series"]["held_mdev"]
    assert set(held) == set(half["tenants"])
    root = ElementTree.fromstring(drawing.read_text())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "quota" in texts and "half" in texts and "waiting" in texts
    assert run([*map(str, arguments), "--tenants"]) == 0
    assert "device time borrowed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("drawing", "said"),
    [("usage.png", "what is drawn is SVG"), ("nowhere/usage.svg", "there is no such directory")],
)
def test_a_picture_that_cannot_be_is_refused_before_the_work(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    drawing: str,
    said: str,
) -> None:
    """Nothing is simulated for a picture that could not be kept."""
    monkeypatch.setattr(command, "run_policy", None)
    asked = ["simulate", TRACE, "--policy", EXAMPLES / "quota.toml", "--picture"]
    assert run([*map(str, asked), str(tmp_path / drawing)]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_figures_are_answered_though_the_picture_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the end: status 3, the figures, and the old picture as it was."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    drawing = tmp_path / "usage.svg"
    drawing.write_text("old")
    asked = ["simulate", TRACE, "--rows", "50", "--policy", EXAMPLES / "quota.toml", "--json"]
    assert run([*map(str, asked), "--picture", str(drawing)]) == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["jobs"] == 50
    assert f"No space left on device ({drawing}): make room" in said.err
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("usage.svg", "old")]


def test_a_trace_of_no_known_name_needs_its_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not guessed from the contents."""
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE.read_text()[:2000].rpartition("\n")[0] + "\n")
    policy = str(EXAMPLES / "quota.toml")
    assert run(["simulate", str(file), "--policy", policy]) == 2
    assert "--format" in capsys.readouterr().err
    assert run(["simulate", str(file), "--format", "philly", "--policy", policy, "--json"]) == 0


def test_openb_runs_too() -> None:
    """Fractions of devices, pods that never start, pods that outlast the trace."""
    from streams.traces import read_openb

    pods = shared("data", "openb_2023", "openb_pod_list_default.csv")
    file = parse_policy((EXAMPLES / "borrow.toml").read_text(), "borrow.toml")
    made = planned(read_openb(pods, tuning_of(file, 300)), file, 3)
    found = simulate(file.name, made)
    assert figures(found)["jobs"] == 300
    shown = picture([("borrow", series(found))], found.capacity_mdev, "openb")
    assert ElementTree.fromstring(shown).tag.endswith("svg")
