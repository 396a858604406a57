"""`pool meters read` and `check` as they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.cli.main import run
from tests.shared import shared

RAW = shared("data", "meters")
Call = Any


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`pool meters ...`: status, stdout as JSON objects, stderr."""

    def made(*arguments: object) -> tuple[int, list[dict[str, Any]], str]:
        status = int(run(["meters", *map(str, arguments)]))
        said = capsys.readouterr()
        return status, [json.loads(line) for line in said.out.splitlines()], said.err

    return made


def test_read_prints_events_with_their_source(call: Call) -> None:
    """The event has the profile's fields and no other; where it came from stands beside it."""
    status, lines, err = call(
        "read", "--format", "amdsmi", RAW / "04_amdsmi_watch.csv", "--json", "--pool", "p"
    )
    assert status == 0 and len(lines) == 6
    assert lines[0] == {
        "event": {
            "pool": "p", "type": "meter.read", "device": "gpu-0", "from_ms": 1722959154000,
            "to_ms": 1722959155000, "uj": 42664000, "occupants": [], "grade": "HwShunt",
        },
        "source": {
            "format": "amdsmi", "field": "total_energy_consumption", "unit": "J",
            "scope": "board", "identity": "index", "obtained": "counter",
            "raw": ["20909145.914", "20909188.578"],
            "places": ["04_amdsmi_watch.csv:3", "04_amdsmi_watch.csv:5"], "notes": [],
        },
    }  # fmt: skip
    assert "6 windows booked, 0 unknown" in err


def test_bare_events_are_what_send_takes(call: Call, tmp_path: Path) -> None:
    """`--events --timed` decides as it is: readings of nobody are overhead."""
    status, lines, _ = call(
        "read", "--format", "wall", RAW / "28_ptdaemon_lines.txt", "--events", "--timed",
        "--pool", "p",
    )  # fmt: skip
    assert status == 0
    tree = [{"id": "lab", "guarantee": {"mdev": 1000, "uj": 10}}]
    opened = {"type": "pool.opened", "pool": "p", "capacity": {"mdev": 1000, "uj": 10},
              "tree": tree, "at_ms": 0}  # fmt: skip
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [opened, *lines]))
    assert int(run(["decide", str(file)])) == 0
    assert {line["type"] for line in lines} == {"meter.read"}


def test_check_explains_each_line_that_is_not_believed(call: Call) -> None:
    """Status 1, each refusal with its place and its reason, each unknown window with its."""
    status, lines, err = call(
        "check", "--format", "amdsmi", RAW / "01_amdsmi115_backward.csv", "--json"
    )
    assert status == 1
    (refused,) = [line["refused"] for line in lines if "refused" in line]
    assert (refused["code"], refused["place"]) == ("fell", "01_amdsmi115_backward.csv:7")
    assert refused["raw"] == "4736943791" and refused["why"].startswith("the counter fell")
    (unknown,) = [line for line in lines if "event" in line]
    assert unknown["event"]["uj"] is None and "grade" not in unknown["event"]
    assert unknown["source"]["unknown"] == "fell"
    assert "1 not believed: fell" in err


def test_check_of_what_is_all_believed_is_yes(call: Call) -> None:
    """Status 0."""
    assert call("check", "--format", "amdsmi", RAW / "04_amdsmi_watch.csv", "--json")[0] == 0


def test_check_tells_devices_that_show_the_same_samples(call: Call, tmp_path: Path) -> None:
    """Two names, one series: nothing is refused, but somebody should look."""
    rows = "".join(
        f"{1722956400 + at},{node},{100 + at}\n" for node in ("n1", "n2") for at in range(12)
    )
    file = tmp_path / "wall.csv"
    file.write_text("time,node,watts\n" + rows)
    status, _, err = call("check", "--format", "wall", file, "--json")
    assert status == 0 and "the same samples under several names: n1, n2" in err


def test_nothing_to_book_is_no(call: Call) -> None:
    """One scrape has no window: status 1."""
    status, lines, _ = call("read", "--format", "dcgm", RAW / "07_dcgm_mig_total_energy.prom",
                            "--json")  # fmt: skip
    assert status == 1 and all("refused" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("read", "--format", "map", RAW / "04_amdsmi_watch.csv"), "--map"),
        (("read", "--format", "wall", RAW / "04_amdsmi_watch.csv"), "is the format right?"),
        (("read", "--format", "wall", "nowhere.csv"), "(nowhere.csv): name a file, a URL or -"),
        (("read", "--format", "wall", RAW), "cannot be read: Is a directory"),
        (("read", "--format", "wall", "ftp://h/metrics"), "'ftp://h/metrics' is no http://HOST"),
        (("read", "--format", "wall", "http://"), "'http://' is no http://HOST"),
        (("watch", RAW / "README.md", "--format", "wall", "--pool", "p"), "is no http://HOST"),
        (("watch", "http://h:x/", "--format", "wall", "--pool", "p"), "is no http://HOST"),
        (("read", "--format", "wall", "--gap", "soon", RAW / "README.md"), "span"),
        (("read", "--format", "wall", "--limit", "0", RAW / "README.md"), "watts"),
        (("read", "--format", "wall", "--zone", "CET", RAW / "README.md"), "offset"),
        (("read", "--format", "wall", "--start", "noon", RAW / "README.md"), "instant"),
        (("read", "--format", "wall", "--occupants", RAW / "README.md", RAW / "README.md"), "TOML"),
        (("read", "--format", "wall", "--map", RAW / "README.md", RAW / "README.md"), "TOML"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    arguments: tuple[object, ...], says: str, call: Call
) -> None:
    """What is wrong, where, and what to do; no traceback."""
    status, lines, err = call(*arguments)
    assert (status, lines) == (2, [])
    assert says in err and err.count("\n") == 1
