"""Exit statuses, and errors in one line: what, where, what to do."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from pathlib import Path

import pytest

from schemas.records import Kind, Reason
from streams.cli import deployment, units, words
from streams.logs.embedded import EmbeddedLog
from streams.logs.errors import Misconfigured
from tests.cli.calling import ROOT, Pool, command

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-16 00:02:04,62.0,1,62.0,a\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("frobnicate",), 2, "No such command 'frobnicate'"),
        (("usage", "--frobnicate"), 2, "No such option"),
        (("usage", "--data", "nowhere"), 2, "no log (nowhere): name a directory"),
        (("usage", "--data", "d", "--kafka", "h:1"), 2, "not both"),
        (("claims", "--data", "nowhere", "--state", "asleep"), 2, "'asleep' is not one of"),
        (("explain", "--data", "nowhere"), 2, "Missing argument 'CLAIM'"),
        (("decide", "nowhere"), 2, "No such file"),
        (("decide", "torn.json"), 2, "torn.json"),
        (("send", "torn.json", "--data", "new"), 2, "torn.json"),
        (("send", "nopool.json", "--data", "new"), 2, "nopool.json:1): `pool` must say"),
        (("send", "timed.json", "--kafka", "127.0.0.1:1"), 3, "127.0.0.1:1"),
        (("verify", "nowhere"), 2, "does not exist"),
        (("verify", "empty"), 1, None),
        (("verify", "trace.csv", "--trust", "torn.json"), 2, "not a trust file"),
        (("import", "trace.csv", "--kafka", "h:1"), 2, "into an embedded log"),
        (("import", "trace.csv", "--data", "new"), 1, "the ledger is broken: receipt 0: decode"),
        (("export", "demo", "out", "--data", "nowhere"), 2, "no log"),
        (("replay", "trace.csv"), 2, "Missing option '--format'"),
        (("replay", "torn.json", "--format", "philly"), 2, "no column 'timestamp'"),
        (("replay", "trace.csv", "--format", "philly", "--speed", "fast"), 2, "neither max nor"),
        (("replay", "trace.csv", "--format", "openb"), 2, "no column 'name'"),
        (("replay", "trace.csv", "--format", "philly", "--gpus", "0"), 2, "0 is not in the range"),
        (("keys", "show", "nowhere.pem"), 2, "no key file (nowhere.pem): make one"),
        (("keys", "show", "trace.csv"), 2, "trace.csv"),
        (("keys", "new", "trace.csv"), 1, "there is a file already"),
        (("run", "--kafka", "127.0.0.1:1"), 2, "a steward needs a key"),
        (("run", "--data", "new", "--partitions", "a"), 2, "no list of partition numbers"),
        (("usage", "--kafka", "bogus"), 2, "'bogus' is no HOST:PORT"),
        (("usage", "--kafka", "h:1,[::1]:0"), 2, "'[::1]:0' is no HOST:PORT"),
        (("usage", "--kafka", "h:1", "--kafka-config", "trace.csv"), 2, "(trace.csv): write one"),
        (("usage", "--kafka", "h:1", "--kafka-config", "latin"), 2, "UTF-8 text (latin)"),
        (("explain", "\udcff", "--data", "new"), 2, "is not UTF-8 text"),
        (("topics", "create"), 2, "an embedded log has its topics"),
        (("doctor", "--data", "nowhere"), 2, "no log"),
        (("prove", "0", "--data", "nowhere"), 2, "no log"),
        (("check-proof", "trace.csv", "--trust", "torn.json"), 1, None),
        (("keys",), 2, "Make and show the keys"),
        (("keys", "new", "k.pem", "--password-file", "empty"), 2, "no password (empty): its first"),
        (("usage", "--data", "file"), 2, "is a file"),
    ],
)
def test_wrong_use_bad_input_and_trouble_have_their_status(
    pool: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    said: str | None,
) -> None:
    """Nothing but JSON ever comes to stdout, no traceback to anybody, and the line says what."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POOL_DATA", raising=False)
    (tmp_path / "torn.json").write_text('{"pool": "p", "type": ')
    (tmp_path / "nopool.json").write_text('{"type": "tick"}\n')
    (tmp_path / "timed.json").write_text('{"pool": "p", "type": "tick"}\n')
    (tmp_path / "trace.csv").write_text(PHILLY)
    (tmp_path / "trace.csv").chmod(0o600)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "latin").write_bytes(b"sasl.password = \xe9\n")
    (tmp_path / "file").write_text("")
    json = [] if arguments == ("keys",) else ["--json"]
    outcome = pool(*arguments, *json)
    assert outcome.status == status, outcome
    assert "Traceback" not in outcome.err
    if said is None:
        assert outcome.answer["ok"] is False
        return
    assert said in outcome.err
    assert outcome.out == ""
    if arguments != ("keys",):
        (line,) = (line for line in outcome.err.splitlines() if line.startswith("pool: "))
        assert len(line) < 400


def test_another_number_of_partitions_is_wrong_use(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topics are as they are: what was asked for is wrong."""

    async def refuse(*_: object, **__: object) -> None:
        raise Misconfigured("it has 6 partitions, not 3", where="kafka h:1", todo="--partitions 6")

    monkeypatch.setattr(deployment, "create_topics", refuse)
    outcome = pool("topics", "create", "--kafka", "h:1", "--partitions", "3")
    assert outcome.status == 2
    assert outcome.err == "pool: it has 6 partitions, not 3 (kafka h:1): --partitions 6\n"


def test_verbose_adds_the_traceback(pool: Pool, tmp_path: Path) -> None:
    """-v: where in the program it arose, then the same line."""
    outcome = pool("usage", "--data", tmp_path / "nowhere", "-v")
    assert outcome.status == 2
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("pool: no log")


def test_a_log_that_another_process_holds_is_trouble(pool: Pool, tmp_path: Path) -> None:
    """One process at a time holds DIR; the second is told so."""
    log = EmbeddedLog(tmp_path)
    try:
        (tmp_path / "event.json").write_text('{"pool": "p", "type": "tick"}\n')
        outcome = pool("send", tmp_path / "event.json", "--data", tmp_path, "--no-wait")
    finally:
        asyncio.run(log.close())
    assert outcome.status == 3
    assert str(tmp_path) in outcome.err


def test_a_reader_that_leaves_early_is_no_trouble(data: Path) -> None:
    """`pool watch | head`: status 0, and not a word."""
    watching = " ".join(command("watch", "--no-follow", "--data", data))
    script = f"{{ {watching}; echo $? >&2; }} | head -n 1"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == "0\n"


def test_keys_are_made_once_and_shown_in_their_public_forms(pool: Pool, tmp_path: Path) -> None:
    """Mode 0600, no secret in any answer, the same key every time it is shown."""
    (tmp_path / "secret").write_text("opens it\n")
    for extra in ((), ("--password-file", tmp_path / "secret")):
        file = tmp_path / f"{len(extra)}.pem"
        made = pool("keys", "new", file, *extra, "--json").answer
        shown = pool("keys", "show", file, *extra, "--json").answer
        assert made == shown
        assert made["did"].startswith("did:key:z6Mk")
        assert len(bytes.fromhex(made["public_key"])) == len(bytes.fromhex(made["kid"])) == 32
        assert file.stat().st_mode & 0o777 == 0o600
        assert made["did"] in pool("keys", "show", file, *extra).out
    locked = pool("keys", "show", tmp_path / "2.pem")
    assert (locked.status, locked.out) == (2, "")


def test_a_key_that_the_disk_does_not_take_is_no_file(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk ends it with 3 and leaves nothing: the next try is not told of half a key."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        outcome = pool("keys", "new", tmp_path / "k.pem")
    assert (outcome.status, outcome.out) == (3, "")
    assert str(tmp_path / "k.pem") in outcome.err
    assert list(tmp_path.iterdir()) == []
    assert pool("keys", "new", tmp_path / "k.pem").status == 0
    assert [file.name for file in tmp_path.iterdir()] == ["k.pem"]


def test_an_encrypted_key_in_dir_is_used_where_it_is(pool: Pool, tmp_path: Path) -> None:
    """Every command that signs opens `DIR/steward.pem` with the password, and asks for it."""
    (tmp_path / "secret").write_text("opens it\n")
    (tmp_path / "trace.csv").write_text(PHILLY)
    data, opens = tmp_path / "enc", ("--password-file", tmp_path / "secret")
    data.mkdir()
    made = pool("keys", "new", data / "steward.pem", *opens, "--json").answer
    tick = '{"pool": "p", "type": "tick"}'
    trace = ("replay", tmp_path / "trace.csv", "--format", "philly")
    scrape = ("meters", "watch", "http://127.0.0.1:1/metrics", "--format", "dcgm", "--pool", "p")
    for asked in (("send", "-"), ("run",), ("serve",), trace, (*scrape, "--scrapes", "1")):
        locked = pool(*asked, "--data", data, given=tick)
        assert (locked.status, locked.out) == (2, ""), asked
        assert locked.err.splitlines()[-1] == (
            f"pool: this key is encrypted ({data / 'steward.pem'}): "
            "name the file of its password: --password-file FILE"
        )
    assert pool(*trace, "--data", data, *opens).status == 0
    assert pool("verify", "--data", data, "--json").answer["steward"] == made["did"]
    assert "no such pool" in pool("send", "-", "--data", data, *opens, given=tick).out
    assert pool(*scrape, "--scrapes", "1", "--data", data, *opens).status == 0


def test_a_new_key_in_dir_is_encrypted_where_a_password_is_given(
    pool: Pool, tmp_path: Path
) -> None:
    """A password that is named is never left unused."""
    (tmp_path / "secret").write_text("opens it\n")
    opens = ("--password-file", tmp_path / "secret")
    asked = ("send", "-", "--data", tmp_path / "new")
    assert "no such pool" in pool(*asked, *opens, given='{"pool": "p", "type": "tick"}').out
    assert b"ENCRYPTED" in (tmp_path / "new" / "steward.pem").read_bytes()
    assert pool(*asked, given='{"pool": "p", "type": "tick"}').status == 2
    pool("keys", "new", tmp_path / "plain.pem")
    given = pool("keys", "show", tmp_path / "plain.pem", *opens)
    assert given.status == 2 and "not encrypted" in given.err


def test_a_key_that_others_may_read_is_refused(pool: Pool, tmp_path: Path) -> None:
    """A steward's secret is its owner's alone."""
    pool("keys", "new", tmp_path / "k.pem")
    (tmp_path / "k.pem").chmod(0o640)
    outcome = pool("keys", "show", tmp_path / "k.pem")
    assert outcome.status == 2
    assert "chmod 600" in outcome.err


def test_every_code_has_words() -> None:
    """Every reason and every kind of decision can be said to a person."""
    assert set(words.REASONS) == set(Reason)
    assert set(words.KINDS) == set(Kind)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 J"),
        (999, "999 uJ"),
        (1_500, "1.5 mJ"),
        (2_000_000, "2.0 J"),
        (7_200_000_000, "7.2 kJ"),
        (123_456_000_000_000, "34.3 kWh"),
        (2**63 - 1, "2,562 MWh"),
    ],
)
def test_energy_is_scaled_for_people(value: int, shown: str) -> None:
    """Three digits or so, and the unit that keeps the number small."""
    assert units.energy(value) == shown


@pytest.mark.parametrize(
    ("mdev", "shown"), [(0, "0"), (250, "0.25"), (1000, "1"), (2500, "2.5"), (12_000_000, "12,000")]
)
def test_devices_are_whole_or_decimal(mdev: int, shown: str) -> None:
    """Milli-devices as devices, exactly."""
    assert units.devices(mdev) == shown
