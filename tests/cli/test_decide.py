"""`pool decide` and event files: the golden cases, the three forms, and any bytes at all."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from schemas import cbor
from schemas.records import EVENT_BYTES_MAX
from streams.cli.eventfile import read_events
from streams.cli.session import Failure
from tests.cli.calling import Pool

CASES = sorted((Path(__file__).parents[2] / "schemas" / "cases").glob("*.json"))


def _pinned(found: dict[str, Any], pinned: dict[str, Any]) -> bool:
    return all(_same(found.get(key), value) for key, value in pinned.items())


def _same(found: Any, pinned: Any) -> bool:
    if isinstance(pinned, dict):
        return isinstance(found, dict) and _pinned(found, pinned)
    return str(found) == str(pinned) if isinstance(pinned, int) else bool(found == pinned)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden_cases_pass_through_the_command(pool: Pool, path: Path) -> None:
    """Every decision of every event, as many and in order, with what the case pins."""
    case = json.loads(path.read_text())
    outcome = pool("decide", path)
    assert outcome.status == 0
    expected = [(n, one) for n, decisions in enumerate(case["decisions"]) for one in decisions]
    found = outcome.lines
    assert [line["event"] for line in found] == [number for number, _ in expected]
    for line, (_, pinned) in zip(found, expected, strict=True):
        assert _pinned(line, pinned), (line, pinned)


def test_the_three_forms_of_a_file_are_decided_alike(pool: Pool, tmp_path: Path) -> None:
    """A case, JSON lines and a CBOR sequence of the same events, from a file or from stdin."""
    case = next(path for path in CASES if path.stem == "reclaim-worst-per-unit-first")
    events = json.loads(case.read_text())["events"]
    lines = "".join(json.dumps(event) + "\n\n" for event in events)
    (tmp_path / "events.cbor").write_bytes(b"".join(map(cbor.encode, events)))
    whole = pool("decide", case)
    assert whole.lines
    assert pool("decide", "-", given=lines).out == whole.out
    assert pool("decide", tmp_path / "events.cbor").out == whole.out
    assert pool("decide", "-", given=json.dumps(events)).out == whole.out


def test_a_line_that_is_no_json_is_malformed_in_its_place(pool: Pool) -> None:
    """Where a file is sent it is refused whole; where it is decided the others are decided too."""
    tick = '{"pool": "p", "type": "tick", "at_ms": 1}'
    outcome = pool("decide", "-", given=f'{tick}\nnonsense\n{{"a": 1, "a": 2}}\n{tick}\n')
    assert outcome.status == 0
    assert [(line["event"], line["reason"]) for line in outcome.lines] == [
        (0, "unknown-pool"),
        (1, "malformed"),
        (2, "malformed"),
        (3, "unknown-pool"),
    ]


def test_what_is_no_event_is_decided_too(pool: Pool) -> None:
    """Malformed events are answered in their place; the status stays 0."""
    opened = {"pool": "p", "type": "pool.opened", "capacity": {"mdev": 1}, "tree": [], "at_ms": 1}
    given = [json.dumps(one) for one in (opened, {"pool": "p", "type": "nap", "at_ms": 2}, {})]
    outcome = pool("decide", "-", given="\n".join(given))
    assert outcome.status == 0
    kinds = [(line["event"], line["kind"], line.get("reason")) for line in outcome.lines]
    assert kinds[:2] == [(0, "pool.opened", None), (1, "refused", "malformed")]


@pytest.mark.parametrize(
    "claim",
    ["\\ud800", "[" * 20 + "]" * 20],
    ids=["half a surrogate pair", "nested too deep"],
)
def test_what_no_steward_could_decode_still_has_its_time(pool: Pool, claim: str) -> None:
    """Its pool's deadlines are settled first, and it is malformed as a steward would find it."""
    tree = [{"id": "a", "guarantee": {"mdev": 1, "uj": 1}}]
    asks = {"claim": "c", "leaf": "a", "gang": [{"mdev": 1}], "grade": "ModelBased"}
    opened = {"type": "pool.opened", "capacity": {"mdev": 1, "uj": 1}, "tree": tree, "at_ms": 1}
    submitted = {"type": "claim.submitted", "commit_within_ms": 5, "at_ms": 2, **asks}
    given = [json.dumps({"pool": "p", **one}) for one in (opened, submitted)]
    value = claim if claim.startswith("[") else f'"{claim}"'
    given.append(f'{{"pool": "p", "type": "claim.committed", "claim": {value}, "at_ms": 20}}')
    outcome = pool("decide", "-", given="\n".join(given))
    assert [(line["event"], line["kind"]) for line in outcome.lines[2:]] == [
        (2, "claim.expired"),
        (2, "refused"),
    ]
    assert outcome.lines[3] == {"event": 2, "kind": "refused", "reason": "malformed"}


def _long(more: int) -> bytes:
    return b'{"pool": "' + b"x" * (EVENT_BYTES_MAX + more) + b'"}'


def test_an_event_may_be_as_long_as_it_may() -> None:
    """The longest one is read, wherever it stands and however its line ends."""
    longest = _long(-len(_long(-EVENT_BYTES_MAX)))
    assert len(longest) == EVENT_BYTES_MAX
    for data in (longest, longest + b"\r\n" + longest + b"\n{}"):
        given = list(read_events(io.BytesIO(data)))
        assert [type(one.value) for one in given] == [dict] * data.count(b"{")


def test_a_line_that_is_too_long_is_one_malformed_event(pool: Pool) -> None:
    """Where it is decided, its rest is not taken for others."""
    lines = b'{"pool": "p", "type": "tick", "at_ms": 1}\n' + _long(EVENT_BYTES_MAX) + b"\n{}\n"
    outcome = pool("decide", "-", given=lines)
    assert [line["event"] for line in outcome.lines] == [0, 1, 2]
    assert outcome.lines[1]["reason"] == "malformed"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"pool": "p"}\nnot json\n', "stdin:2"),
        (b'{"a": 1, "a": 2}\n', "a key appears twice"),
        (b"[" * 100_000, "nested too deep"),
        (b'"text"', "a list of events"),
        (b"\xa1\x61a\x01\xff", "after item 0"),
        (b"\xff\xfe", "(stdin)"),
        (_long(0), "(stdin): an event has at most 983040 bytes"),
        (_long(0) + b"\n{}\n", "(stdin:1): an event has at most 983040 bytes"),
        (b"{}\n" + _long(0) + b"\n{}\n", "(stdin:2): an event has at most 983040 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(data: bytes, said: str) -> None:
    """The line or the item, and what is wrong with it."""
    with pytest.raises(Failure) as caught:
        list(read_events(io.BytesIO(data)))
    assert said in str(caught.value)


@settings(max_examples=150)
@given(some.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing but `Failure` comes of bytes that are no event file."""
    with suppress(Failure):
        list(read_events(io.BytesIO(data)))
