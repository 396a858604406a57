"""Sending events, and a steward that runs: decisions come back, time passes, the rest is read."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import cbor
from tests.cli.calling import ROOT, Pool, command

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-16 00:02:04,62.0,1,62.0,a\n"
OPENED = {
    "pool": "p",
    "type": "pool.opened",
    "capacity": {"mdev": 4000, "uj": "9007199254740993"},
    "tree": [{"id": "acme", "guarantee": {"mdev": 2000, "uj": 1000}}],
    "at_ms": 1000,
}


def _claim(name: str, mdev: int = 1000, **more: Any) -> dict[str, Any]:
    return {
        "pool": "p",
        "type": "claim.submitted",
        "claim": name,
        "leaf": "acme",
        "gang": [{"mdev": mdev, "uj": 1}],
        "grade": "ModelBased",
        **more,
    }


def _lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def test_decisions_come_back_with_their_event_and_their_place(pool: Pool, tmp_path: Path) -> None:
    """Each line says which event it answers, its seq, and the decision; times are the events'."""
    events = _lines(OPENED, _claim("a", at_ms=2000), _claim("b", mdev=4000, at_ms=3000))
    outcome = pool("send", "-", "--data", tmp_path, "--json", given=events)
    assert outcome.status == 0
    told = [(line["event"], line["seq"], line["kind"], line["at"]) for line in outcome.lines]
    assert told == [
        (0, 0, "pool.opened", "1970-01-01T00:00:01.000Z"),
        (1, 1, "claim.admitted", "1970-01-01T00:00:02.000Z"),
        (2, 2, "claim.waiting", "1970-01-01T00:00:03.000Z"),
    ]
    assert (tmp_path / "steward.pem").stat().st_mode & 0o777 == 0o600


def test_big_integers_stay_exact(pool: Pool, tmp_path: Path) -> None:
    """Above 2**53 they are decimal strings on the way in and on the way out."""
    pool("send", "-", "--data", tmp_path, given=_lines(OPENED))
    root = pool("usage", "--data", tmp_path, "--json").lines[0]
    assert root["resources"]["uj"]["guarantee"] == "9007199254740993"


def test_a_refusal_is_an_answer_with_status_1(pool: Pool, tmp_path: Path) -> None:
    """Refused, malformed, or for no open pool: the reason is told, and all else is decided."""
    outcome = pool("send", "-", "--data", tmp_path, "--json", given=_lines(_claim("a", at_ms=1)))
    assert outcome.status == 1
    assert (outcome.answer["kind"], outcome.answer["reason"]) == ("dead-letter", "unknown-pool")
    wrong = [_claim("a", at_ms=5), _claim("x", leaf="no", at_ms=6), {"pool": "p", "type": "nap"}]
    outcome = pool("send", "-", "--data", tmp_path, "--json", given=_lines(OPENED, *wrong))
    assert outcome.status == 1
    reasons = [line.get("reason") for line in outcome.lines]
    assert reasons == [None, None, "unknown-leaf", "malformed"]


@pytest.mark.parametrize("at", [1, 600])
def test_what_cannot_be_sent_leaves_a_file_unsent(pool: Pool, tmp_path: Path, at: int) -> None:
    """A file is looked at as a whole before its first event is published."""
    ticks = [{"pool": "p", "type": "tick"}] * at
    (tmp_path / "events").write_text(_lines(OPENED, *ticks, {"type": "tick"}, *ticks))
    outcome = pool("send", tmp_path / "events", "--data", tmp_path / "d")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"events:{at + 2}): `pool` must say" in outcome.err
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("before", "told"),
    [(1, "nothing was published"), (600, "events 0 to 511 were published, and no other")],
)
def test_what_cannot_be_sent_from_a_pipe_is_told_with_what_was(
    tmp_path: Path, before: int, told: str
) -> None:
    """A pipe cannot be read again: what was published before the fault is said."""
    events = _lines(OPENED, *[{"pool": "p", "type": "tick"}] * before, {"type": "tick"})
    sent = subprocess.run(
        command("send", "-", "--data", tmp_path, "--no-wait", "--json"),
        cwd=ROOT, input=events, capture_output=True, text=True,
    )  # fmt: skip
    assert sent.returncode == 2
    assert sent.stderr.endswith(f"which pool it is for; {told}\n")
    assert len(sent.stdout.splitlines()) == (512 if before > 512 else 0)


def test_cbor_comes_in_as_it_is(pool: Pool, tmp_path: Path) -> None:
    """A CBOR sequence is published as CBOR; sent again, the claim is a duplicate."""
    opened = OPENED | {"capacity": {"mdev": 4000, "uj": 1000}}
    (tmp_path / "events").write_bytes(b"".join(map(cbor.encode, (opened, _claim("a")))))
    first = pool("send", tmp_path / "events", "--data", tmp_path / "d", "--json")
    assert [line["kind"] for line in first.lines] == ["pool.opened", "claim.admitted"]
    again = pool("send", tmp_path / "events", "--data", tmp_path / "d", "--json")
    assert [line["kind"] for line in again.lines] == ["refused", "duplicate"]


def test_no_wait_publishes_and_the_next_steward_decides(pool: Pool, tmp_path: Path) -> None:
    """Published and not decided; a later command's steward decides what stands."""
    outcome = pool("send", "-", "--data", tmp_path, "--no-wait", "--json", given=_lines(OPENED))
    assert outcome.answer == {"event": 0, "topic": "pool.admin", "offset": 0}
    assert pool("usage", "--data", tmp_path).status == 1
    waiting = pool("doctor", "--data", tmp_path, "--json").lines
    assert any("wait to be decided" in finding["what"] for finding in waiting)
    sent = pool("send", "-", "--data", tmp_path, "--json", given=_lines(_claim("a", at_ms=1500)))
    assert sent.answer["kind"] == "claim.admitted"


def test_a_pool_must_be_named_where_there_are_several(pool: Pool, tmp_path: Path) -> None:
    """With two pools, `--pool` says which; the error lists them."""
    pool("send", "-", "--data", tmp_path, given=_lines(OPENED, OPENED | {"pool": "q"}))
    unclear = pool("usage", "--data", tmp_path)
    assert unclear.status == 2
    assert "--pool p or q" in unclear.err
    assert pool("usage", "--data", tmp_path, "--pool", "q").status == 0
    assert pool("usage", "--data", tmp_path, "--pool", "r").status == 1


def test_the_environment_names_the_directory(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """POOL_DATA stands for --data, in a replay too."""
    monkeypatch.setenv("POOL_DATA", str(tmp_path / "named"))
    assert pool("send", "-", given=_lines(OPENED)).status == 0
    assert pool("verify", "--json").answer["length"] == 1
    (tmp_path / "trace.csv").write_text(PHILLY)
    replayed = pool("replay", tmp_path / "trace.csv", "--format", "philly", "--json")
    assert replayed.answer["data"] == str(tmp_path / "named")


def test_a_running_steward_lets_time_pass_and_stops_in_order(
    pool: Pool, process: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """What is due is settled by ticks; others read beside it; SIGTERM ends it with 0."""
    late = _claim("a", commit_within_ms=1)
    late.pop("at_ms", None)
    pool("send", "-", "--data", tmp_path, given=_lines(OPENED, late))
    running = process("run", "--data", tmp_path, "--port", "0")
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            kinds = [
                line["kind"]
                for line in pool("watch", "--no-follow", "--data", tmp_path, "--json").lines
            ]
            if "claim.expired" in kinds:
                break
            time.sleep(0.2)
        assert kinds == ["pool.opened", "claim.admitted", "claim.expired"]
        held = pool("send", "-", "--data", tmp_path, given=_lines(_claim("b")))
        assert held.status == 3
        assert pool("verify", "--data", tmp_path, "--json").answer["ok"]
    finally:
        running.send_signal(signal.SIGTERM)
        said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert said[0] == ""
    assert "health: http://127.0.0.1:" in said[1]
    assert pool("prove", 2, "--data", tmp_path, "--out", tmp_path / "x.proof").status == 0


def test_an_interrupt_ends_the_wait_for_events(tmp_path: Path) -> None:
    """One is enough, though nothing comes on stdin."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sending = subprocess.Popen(
        command("send", "-", "--data", tmp_path / "d"), cwd=ROOT, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert sending.stderr is not None
    deadline = time.monotonic() + 60
    while not (tmp_path / "d" / "steward.pem").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    sending.send_signal(signal.SIGINT)
    assert sending.wait(60) == 3
    assert sending.stderr.read() == "pool: stopped\n"


def test_watching_ends_well_when_it_is_interrupted(
    process: Callable[..., subprocess.Popen[str]], pool: Pool, tmp_path: Path
) -> None:
    """What stands is printed, then it follows; Ctrl-C ends it with 0."""
    # A shell starts what runs in its background deaf to Ctrl-C, and a child inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pool("send", "-", "--data", tmp_path, given=_lines(OPENED))
    watching = process("watch", "--data", tmp_path, "--json")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["kind"] == "pool.opened"
    pool("send", "-", "--data", tmp_path, given=_lines(_claim("a", at_ms=2000)))
    assert json.loads(watching.stdout.readline())["kind"] == "claim.admitted"
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert (watching.returncode, err) == (0, "")
