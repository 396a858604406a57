"""The service around the witness: its commands, its health answer, its metrics."""

from __future__ import annotations

import json
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from schemas.keys import did_key, new_pem
from tests.witness.ledger import OTHER_STEWARD, STEWARD, WITNESS, Ledger
from tests.witness.support import Process, Steward, environment, lines, new_state, opened, published
from witness import web
from witness.cli import main
from witness.health import Health
from witness.kafka import parse_options
from witness.outcome import Kind, Outcome, Refusal
from witness.trouble import Reason, Trouble


class Ticks:
    """A steady clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def health(ticks: Ticks) -> Health:
    return Health(patience_s=60, silence_s=600, clock=ticks)


@pytest.fixture
def steward(tmp_path: Path) -> Iterator[Steward]:
    steward = Steward(tmp_path / "log")
    yield steward
    steward.close()


def codes(health: Health) -> list[str]:
    return [fault["code"] for fault in health.faults()]


def round_done(health: Health, *, behind_ms: int = 0, unpublished: int = 0) -> None:
    health.round_done(clock_behind_ms=behind_ms, unpublished=unpublished)


def test_a_witness_that_works_is_well(health: Health, ticks: Ticks) -> None:
    """Rounds and heads keep the answer good."""
    for _ in range(100):
        ticks.now += 50
        health.head_came("alpha")
        round_done(health)
    assert health.report()["ok"] is True


def test_the_answer_turns_bad_when_heads_stop_coming(health: Health, ticks: Ticks) -> None:
    """No head for the time of silence; and good again with the next."""
    for _ in range(11):
        ticks.now += 55
        round_done(health)
    assert codes(health) == ["no-heads"]
    health.head_came("alpha")
    assert codes(health) == []


def test_silence_may_be_allowed(ticks: Ticks) -> None:
    """A pool where nothing happens has no heads: `silence_s=0` says that this is fine."""
    health = Health(patience_s=60, silence_s=0, clock=ticks)
    ticks.now += 1e6
    round_done(health)
    assert codes(health) == []


def test_the_answer_turns_bad_when_it_stops_signing(
    health: Health, ticks: Ticks, tmp_path: Path
) -> None:
    """Receipts that no countersignature covers: a ledger that grows without heads, too."""
    ledger = Ledger().grow(10)
    witness = opened(new_state(tmp_path))
    witness.step(ledger.head(), ledger.receipts)
    ledger.grow(5)
    witness.take_receipts("alpha", enumerate(ledger.receipts[10:]))
    for _ in range(3):
        health.pool(witness.pools["alpha"])
        health.head_came("alpha")
        round_done(health)
        ticks.now += 31
    round_done(health)
    assert codes(health) == ["not-signing"]
    witness.step(ledger.head())
    health.pool(witness.pools["alpha"])
    assert codes(health) == []


def test_a_fork_stays_bad(health: Health, ticks: Ticks, tmp_path: Path) -> None:
    """Nothing makes a forked pool well again."""
    ledger = Ledger().grow(10)
    witness = opened(new_state(tmp_path))
    witness.step(ledger.head(), ledger.receipts)
    health.outcome(witness.step(ledger.head(root=bytes(32))))
    health.pool(witness.pools["alpha"])
    ticks.now += 10
    round_done(health)
    assert health.faults() == [
        {
            "code": "forked",
            "pool": "alpha",
            "detail": "forked 10: heads of 10 and 10 receipts cannot both be true",
        }
    ]


def test_what_else_makes_it_bad(health: Health, ticks: Ticks) -> None:
    """Standing still, an unreadable log, a clock behind, statements that cannot be published."""
    round_done(health, behind_ms=400_000)
    assert codes(health) == ["clock"]
    round_done(health)
    health.went_back()
    assert codes(health) == ["log-went-back"]
    ticks.now += 61
    assert codes(health) == ["standing-still", "log-unreadable"]
    health.trouble("log-unavailable", "no answer")
    assert codes(health) == ["log-unreadable"]
    round_done(health, unpublished=1)
    ticks.now += 61
    round_done(health, unpublished=1)
    assert codes(health) == ["unpublished"]
    round_done(health)
    refused = Outcome(kind=Kind.REFUSED, pool="alpha", length=3, reason=Refusal.OWN_KEY)
    health.outcome(refused)
    assert codes(health) == ["own-key"]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_answers_over_http(health: Health, ticks: Ticks) -> None:
    """200 or 503 on /health, always 200 on /live, Prometheus text on /metrics, else 404."""
    server = web.serve(health, port=0)
    base = f"http://127.0.0.1:{server.server_port}"
    health.outcome(Outcome(kind=Kind.SIGNED, pool="alpha", length=3, statement=b"x"))
    assert get(base + "/health")[0] == 200
    ticks.now += 1e6
    status, body = get(base + "/health")
    assert status == 503
    assert "no-heads" in [fault["code"] for fault in json.loads(body)["faults"]]
    assert get(base + "/live") == (200, '{"ok": true}')
    status, text = get(base + "/metrics")
    assert status == 200
    assert 'pool_witness_heads_total{outcome="signed",pool="alpha"} 1.0' in text
    assert "pool_witness_healthy 0.0" in text
    assert get(base + "/other")[0] == 404
    with pytest.raises(Trouble) as trouble:
        web.serve(health, port=server.server_port)
    assert trouble.value.reason is Reason.BAD_INPUT
    server.shutdown()


def test_the_whole_service_in_a_process(tmp_path: Path, steward: Steward) -> None:
    """init, run with a health page, a head signed while it runs, SIGTERM, status, show."""
    ledger = Ledger().grow(10)
    steward.write_ledger(ledger)
    process = Process(tmp_path, tmp_path / "log")
    assert process.init().returncode == 0
    arguments = process.arguments("run", "--data", str(process.data), "--port", "0")
    running = subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    found = re.search(r"http://\S+/health", running.stderr.readline())
    assert found is not None
    deadline = time.monotonic() + 30
    report: dict[str, object] = {}
    while time.monotonic() < deadline and report.get("pools", {}) == {}:
        report = json.loads(get(found[0])[1])
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 0, err
    assert json.loads(out) == {"outcome": "signed", "pool": "alpha", "length": 10}
    assert report["ok"] is True
    shown = lines(process.call("show", "alpha", "--out", str(tmp_path / "kept.cborseq")))[0]
    assert (shown["length"], shown["forked"]) == (10, False)
    kept = (tmp_path / "kept.cborseq").read_bytes()
    assert kept == ledger.head() + published(tmp_path / "log")[0]


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert isinstance(end.value.code, int)
    return end.value.code


def run_line(tmp_path: Path, **changes: str | None) -> list[str]:
    options: dict[str, str | None] = {
        "--data": str(tmp_path / "log"),
        "--key": str(tmp_path / "witness.pem"),
        "--state": str(tmp_path / "witness.db"),
    }
    options |= {f"--{name}": value for name, value in changes.items()}
    given = [part for name, value in options.items() if value is not None for part in (name, value)]
    return ["run", "--once", *given]


def test_init_makes_key_and_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command makes both; again, it refuses, and leaves both alone."""
    line = ["init", "--key", str(tmp_path / "w.pem"), "--state", str(tmp_path / "w.db"), "--json"]
    assert ended(line) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["key_made"] is True
    assert answer["did"].startswith("did:key:z6Mk")
    assert (tmp_path / "w.pem").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "w.db").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "w.pem").read_bytes(), (tmp_path / "w.db").read_bytes()
    assert ended(line) == 2
    assert "there is a store already" in capsys.readouterr().err
    assert ((tmp_path / "w.pem").read_bytes(), (tmp_path / "w.db").read_bytes()) == before


def test_a_lost_store_is_not_made_again_for_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that had a store is refused, and nothing is made; who vouches for it gets one."""
    key, state = tmp_path / "w.pem", tmp_path / "w.db"
    line = ["init", "--key", str(key), "--state", str(state), "--json"]
    assert ended(line) == 0
    made = json.loads(capsys.readouterr().out)
    state.unlink()
    before = key.read_bytes()
    assert ended(line) == 2
    err = capsys.readouterr().err
    assert "a store was made for this key already" in err
    assert "a lost store means a new key" in err
    assert not state.exists()
    assert key.read_bytes() == before
    assert ended([*line, "--key-never-used"]) == 0
    taken = json.loads(capsys.readouterr().out)
    assert taken == made | {"key_made": False}
    missing = ["init", "--key", str(tmp_path / "n.pem"), "--state", str(tmp_path / "n.db")]
    assert ended([*missing, "--key-never-used"]) == 2
    assert not (tmp_path / "n.db").exists()


def test_a_new_key_of_another_tool_is_taken_once(tmp_path: Path) -> None:
    """`init` takes a key that never had a store, and leaves it as it was if the store fails."""
    key = tmp_path / "w.pem"
    key.write_bytes(new_pem(None))
    key.chmod(0o600)
    before = key.read_bytes()
    line = ["init", "--key", str(key), "--state"]
    assert ended([*line, str(tmp_path / "none" / "w.db")]) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("witness.store._SCHEMA", "no schema")
        assert ended([*line, str(tmp_path / "w.db")]) == 3
    assert key.read_bytes() == before
    assert ended([*line, str(tmp_path / "w.db")]) == 0
    assert key.read_bytes().startswith(before.rstrip(b"\n"))
    assert key.stat().st_mode & 0o777 == 0o600
    assert ended([*line, str(tmp_path / "second.db")]) == 2
    assert not (tmp_path / "second.db").exists()


def test_what_is_printed_steers_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path or a pool's name is spelled out like everything else that others chose."""
    state = tmp_path / "\x1b[31mw.db"
    line = ["init", "--key", str(tmp_path / "w.pem"), "--state", str(state)]
    assert ended(line) == 0
    assert ended(line) == 2
    said = capsys.readouterr()
    assert "\\u001b[31mw.db" in said.out and "\\u001b[31mw.db" in said.err
    assert "\x1b" not in said.out + said.err


def test_init_makes_no_key_beside_an_existing_store(tmp_path: Path) -> None:
    """A refused `init` leaves no new key behind."""
    state = new_state(tmp_path)
    assert ended(["init", "--key", str(tmp_path / "new.pem"), "--state", str(state)]) == 2
    assert not (tmp_path / "new.pem").exists()


@pytest.mark.parametrize("room", [0, 60, 1_000], ids=["key", "half a key", "store"])
def test_init_on_a_full_disk_leaves_nothing_and_may_be_tried_again(
    tmp_path: Path, room: int
) -> None:
    """No room for the key, or for the store after it: exit 3, no file, and the next try is good."""
    kept = tmp_path / "kept"
    kept.mkdir()
    line = ["init", "--key", str(kept / "w.pem"), "--state", str(kept / "w.db")]
    done = subprocess.run(
        [sys.executable, "-m", "witness", *line],
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done
    assert "not written" in done.stderr
    assert "see to the disk" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(kept.iterdir()) == []
    assert ended(line) == 0


def test_a_key_is_made_in_no_place_that_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is missing is wrong use, not a disk that fails."""
    state = str(tmp_path / "w.db")
    assert ended(["init", "--key", str(tmp_path / "no" / "w.pem"), "--state", state]) == 2
    assert "name another file" in capsys.readouterr().err


WRONG_USES = [
    ({"data": None}, 2, "name one log"),
    ({"kafka": "localhost:9092"}, 2, "name one log"),
    ({"key": "none.pem"}, 2, "No such file"),
    ({"state": "none.db"}, 2, "no store"),
    ({"data": "none"}, 2, "no log"),
]


@pytest.mark.parametrize(("changes", "status", "words"), WRONG_USES)
def test_wrong_use_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str | None],
    status: int,
    words: str,
) -> None:
    """What, where, what to do; exit 2; never a traceback."""
    process = Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    assert process.key.exists()
    assert ended(run_line(tmp_path, **changes)) == status
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.count("\n") == 1


def test_a_key_file_that_others_may_read_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key is the witness's alone."""
    process = Process(tmp_path, tmp_path / "log")
    process.key.chmod(0o644)
    new_state(tmp_path)
    assert ended(run_line(tmp_path)) == 2
    assert "others may read this key" in capsys.readouterr().err


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    """`--password-file`: the first line of a file opens a key, or encrypts the new one."""
    key, word = tmp_path / "w.pem", tmp_path / "word"
    key.write_bytes(new_pem(b"secret"))
    key.chmod(0o600)
    word.write_text("secret\n")
    line = ["init", "--key", str(key), "--state", str(tmp_path / "w.db"), "--key-never-used"]
    assert ended(line) == 2
    assert ended([*line, "--password-file", str(word)]) == 0
    new = ["--key", str(tmp_path / "new.pem"), "--state", str(tmp_path / "new.db")]
    assert ended(["init", *new, "--password-file", str(word)]) == 0
    assert b"ENCRYPTED" in (tmp_path / "new.pem").read_bytes()
    (tmp_path / "log").mkdir()
    run = ["run", "--once", "--data", str(tmp_path / "log"), *new]
    assert ended(run) == 2
    (tmp_path / "empty").write_text("\n")
    no = ["--key", str(tmp_path / "no.pem"), "--state", str(tmp_path / "no.db")]
    assert ended(["init", *no, "--password-file", str(tmp_path / "empty")]) == 2
    assert not (tmp_path / "no.pem").exists()


def test_a_trust_file_limits_what_is_followed(
    tmp_path: Path, steward: Steward, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--trust`: its pools and its stewards; a file that makes the witness a steward is refused."""
    for pool in ("alpha", "beta"):
        ledger = Ledger(pool=pool).grow(5)
        steward.write_ledger(ledger)
    Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    trust = tmp_path / "trust.toml"
    for key, status in ((WITNESS, 2), (OTHER_STEWARD, 1), (STEWARD, 0)):
        trust.write_text(f'[pools.alpha]\nstewards = ["{did_key(key.public_key)}"]\n')
        assert ended([*run_line(tmp_path, trust=str(trust)), "--json"]) == status
    out, err = capsys.readouterr()
    refused, signed = (json.loads(line) for line in out.splitlines())
    assert (refused["outcome"], refused["pool"]) == ("not-yet", "alpha")
    assert "is not trusted for this pool" in refused["detail"]
    assert signed == {"outcome": "signed", "pool": "alpha", "length": 5}
    assert "the witness's key is the steward's of alpha" in err
    trust.write_text("[pools.alpha]")
    assert ended(run_line(tmp_path, trust=str(trust))) == 2
    stranger = did_key(OTHER_STEWARD.public_key)
    trust.write_text(f'[pools.alpha]\nstewards = ["{stranger}"]\n')
    assert ended(run_line(tmp_path, trust=str(trust))) == 2
    assert "does not name the steward that began alpha" in capsys.readouterr().err
    trust.write_text(f'[pools.gamma]\nstewards = ["{stranger}"]\n')
    ledger = Ledger(pool="alpha").grow(5)
    steward.write("alpha", ledger.grow(2).receipts[5:], [ledger.head()])
    assert ended([*run_line(tmp_path, trust=str(trust)), "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_status_says_no_when_a_pool_is_forked(
    tmp_path: Path, steward: Steward, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, the pool and the evidence; a run that finds the fork ends with 1, and so does every
    later one, in one line.
    """
    ledger = Ledger().grow(5)
    steward.write_ledger(ledger)
    process = Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    assert ended(run_line(tmp_path)) == 0
    assert ended(["status", "--state", str(process.state)]) == 0
    steward.write("alpha", [], [ledger.head(root=bytes(32))])
    capsys.readouterr()
    assert ended(run_line(tmp_path)) == 1
    words = "heads of 5 and 5 receipts cannot both be true"
    assert capsys.readouterr().out == f"alpha: forked 5 {words}\n"
    for _ in range(2):
        assert ended(run_line(tmp_path)) == 1
        assert capsys.readouterr() == (f"alpha: not signed, halted at 5: {words}\n", "")
    assert ended([*run_line(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "outcome": "halted",
        "pool": "alpha",
        "length": 5,
        "detail": words,
    }
    assert ended(["status", "--state", str(process.state)]) == 1
    capsys.readouterr()
    assert ended(["show", "alpha", "--state", str(process.state), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["fork"]["lengths"] == [5, 5]
    assert bytes.fromhex(shown["fork"]["evidence"]) == published(tmp_path / "log")[-1]


def test_once_says_no_while_a_refused_head_is_the_last(
    tmp_path: Path, steward: Steward, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 and why, in the runs that no longer read that head, too; until a later one is signed.

    A refused head before one that is signed is nothing to stop a timer for.
    """
    ledger = Ledger().grow(5)
    process = Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    steward.write("alpha", ledger.receipts, [ledger.head(steward=OTHER_STEWARD)])
    stranger = did_key(OTHER_STEWARD.public_key)
    for _ in range(3):
        assert ended(run_line(tmp_path)) == 1
        line = f"alpha: not signed, refused (key) at 5: {stranger} was not due\n"
        assert capsys.readouterr().out == line
    assert ended([*run_line(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["reason"] == "key"
    steward.write("alpha", [], [ledger.head()])
    assert ended(run_line(tmp_path)) == 0
    assert ended(run_line(tmp_path)) == 0
    steward.write("alpha", [], [b"no head"])
    assert ended(run_line(tmp_path)) == 1
    assert "refused (statement)" in capsys.readouterr().out
    ledger.grow(5)
    steward.write("alpha", ledger.receipts[5:], [b"no head", ledger.head()])
    assert ended(run_line(tmp_path)) == 0
    with closing(sqlite3.connect(process.state)) as database, database:
        database.execute("DROP TABLE refused")
    assert ended(run_line(tmp_path)) == 0


def test_once_says_no_while_heads_wait(
    tmp_path: Path, steward: Steward, capsys: pytest.CaptureFixture[str]
) -> None:
    """A head whose receipts do not verify or are not there is not signed, each time with why."""
    ledger = Ledger().grow(5)
    Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    steward.write("alpha", ledger.receipts[:3], [ledger.head()])
    for _ in range(2):
        assert ended(run_line(tmp_path)) == 1
        out = capsys.readouterr().out
        assert out.startswith("alpha: not signed, not-yet at 5: the log does not have")
    steward.write("alpha", ledger.receipts[3:])
    assert ended(run_line(tmp_path)) == 0


@pytest.mark.parametrize("once", [True, False])
def test_a_steward_with_the_witnesss_key_ends_the_run(
    tmp_path: Path, steward: Steward, capsys: pytest.CaptureFixture[str], once: bool
) -> None:
    """Outright, without a trust file, as a service and each time: one line, exit 2, no signature.

    Whoever signs heads with the witness's key has its secret: it signs for no other pool either.
    """
    own = Ledger(steward=WITNESS).grow(5)
    steward.write_ledger(own)
    Process(tmp_path, tmp_path / "log")
    new_state(tmp_path)
    line = [part for part in run_line(tmp_path) if once or part != "--once"]
    for _ in range(2):
        assert ended(line) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("pool-witness: the witness's key is the steward's of alpha")
        assert err.count("\n") == 1
        steward.write_ledger(Ledger(pool="beta").grow(5))
    assert published(tmp_path / "log") == []


def test_show_gives_the_key_for_trust_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The did:key, without a key file at hand; of a pool that it does not have the answer is no."""
    state = new_state(tmp_path)
    assert ended(["show", "--state", str(state), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["did"] == did_key(WITNESS.public_key)
    capsys.readouterr()
    assert ended(["show", "gamma", "--state", str(state)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pool-witness: no pool 'gamma'")


def test_kafka_options_are_read_and_misspelt_ones_refused() -> None:
    """`name = value` lines with comments, by librdkafka's names."""
    text = "# how to get in\nsecurity.protocol = SASL_SSL\nsasl.username=w # ours\n\n"
    assert parse_options(text) == {"security.protocol": "SASL_SSL", "sasl.username": "w"}
    for bad in ("securityprotocol = SSL", "no equals", "group.id = x"):
        with pytest.raises(Trouble) as trouble:
            parse_options(bad)
        assert trouble.value.reason is Reason.BAD_INPUT


def test_no_command_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command: the help, and wrong use."""
    assert ended([]) == 2
    assert "run" in capsys.readouterr().err
