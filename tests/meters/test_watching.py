"""A live endpoint: DCGM text over HTTP, with what goes wrong there, into a steward's books."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from schemas import cbor
from schemas.chain import open_receipt, verify_chain
from schemas.records import Grade, Kind
from streams import topics
from streams.cli.main import run
from streams.cli.meterfeed import Feed
from streams.cli.stewarding import embedded
from streams.cli.where import Where, values
from streams.logs.contract import Outgoing, Position
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.logs.errors import OutcomeUnknown, Unavailable
from streams.meters import FORMATS, Code, Meters, Options, Reading, Refusal, Tuning
from streams.meters.occupants import Entry, Occupancy
from streams.meters.records import Finding
from streams.meters.watching import FetchFailed, Watch, clock_ms, watch
from tests.meters.support import Findings, raw
from tests.steward.steward_support import published

ROOT = Path(__file__).parents[2]
START = 1_722_956_400_000
EVERY = 15_000
POOL = "live"
BODY = raw("07")
"""Two A30 boards, one seen through four partitions, one through one."""
BOARDS = ("126272101025", "126272106318", "134473486744")


def scrape(mj: int, base: tuple[int, int] = (126_272_101_025, 134_473_486_744)) -> str:
    """The recorded text with both boards `mj` further; every partition shows its board's total."""
    text = BODY.replace(BOARDS[1], BOARDS[0])
    return text.replace(BOARDS[0], str(base[0] + mj)).replace(BOARDS[2], str(base[1] + mj))


@contextmanager
def serving(answers: Sequence[tuple[int, str]]) -> Iterator[str]:
    """An endpoint that gives these answers in turn, the last for ever; its URL."""
    given = iter(answers)
    last = answers[-1]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = next(given, last)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_ms = START

    def __call__(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


HOUR = 3_600_000 // EVERY
ANSWERS = [
    (200, scrape(0)),
    (200, scrape(1_000_000)),
    (500, "no\n"),
    (200, scrape(3_000_000)),
    (200, ""),  # the exporter restarts, and has nothing to say yet
    (200, "# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\n"),
    (200, scrape(6_000_000)),
    (200, scrape(1_000, (0, 134_479_486_744))),  # board 0's driver is loaded anew
    (200, scrape(1_001_000, (0, 134_479_486_744))),
    *[(200, scrape(1_001_000, (0, 134_479_486_744)))] * HOUR,  # a stale hour
    (200, scrape(90_000_000, (0, 134_479_486_744))),
    (200, scrape(91_000_000, (0, 134_479_486_744))),
]
"""A day's troubles, fifteen seconds apart."""


def events() -> list[Any]:
    """A pool, and claims on the boards before anything is read."""
    capacity = {"mdev": 2000, "uj": 10**12}
    tree = [{"id": "lab", "guarantee": capacity}]
    opening = {"type": "pool.opened", "pool": POOL, "capacity": capacity, "tree": tree}
    made = [published(opening, START - 2)]
    for claim, mdev in (("a", 250), ("b", 750), ("c", 1000)):
        fields = {"type": "claim.submitted", "pool": POOL, "claim": claim, "leaf": "lab",
                  "gang": [{"mdev": mdev, "uj": 10**9}], "grade": "ModelBased"}  # fmt: skip
        made.append(published(fields, START - 1))
        made.append(published({"type": "claim.committed", "pool": POOL, "claim": claim}, START - 1))
    return made


OCCUPANCY = Occupancy(
    [
        Entry(device="gpu-0", claim="a", mdev=250),
        Entry(device="gpu-0", claim="b", mdev=750),
        Entry(device="gpu-1", claim="c", mdev=1000),
    ]
)


async def fed(data: Path, url: str) -> tuple[Findings, list[str]]:
    """Watch the endpoint into the pool on an embedded log; the findings, and warnings."""
    time, found, warned = Time(), list[Finding](), list[str]()
    where = Where(data=data, kafka=None)
    async with Feed.opened(where, POOL, None, warned.append, time) as feed:

        async def sink(findings: Sequence[Finding]) -> None:
            await feed.publish([one for one in findings if isinstance(one, Reading)])
            found.extend(findings)

        what = Watch(
            url=url, adapter=FORMATS["dcgm"], options=Options(), every_ms=EVERY,
            max_age_ms=60_000, scrapes=len(ANSWERS),
        )  # fmt: skip
        meters = Meters(Tuning(), OCCUPANCY)
        await watch(what, meters, sink, clock=time, sleep=time.sleep)
    return Findings(found), warned


async def test_the_books_close_over_everything_that_goes_wrong(tmp_path: Path) -> None:
    """A 500, a restart, a reset and a stale hour: what was read is in the ledger, to the uJ."""
    async with embedded(tmp_path) as stewards:
        await stewards.log.publish(events())
        await stewards.decide_all()
    with serving(ANSWERS) as url:
        found, warned = await fed(tmp_path, url)
    assert warned == []
    async with embedded(tmp_path) as stewards:
        end_ms = START + len(ANSWERS) * EVERY
        for claim in ("a", "b", "c"):
            fields = {"type": "claim.released", "pool": POOL, "claim": claim}
            await stewards.log.publish([published({**fields, "outcome": "completed"}, end_ms)])
        await stewards.decide_all()
    await _check_ledger(tmp_path, found)


async def _check_ledger(data: Path, found: Findings) -> None:
    reader = EmbeddedReader(data)
    try:
        receipts = [value async for value in values(reader, topics.LEDGER, POOL)]
    finally:
        await reader.close()
    chain = verify_chain(receipts, POOL)
    assert chain.length == len(receipts)
    shares, gaps, spent = _sums(receipts)
    assert sum(shares.values()) == found.total_uj
    assert gaps == len(found.unknown)
    # What the meters gave nobody is beside the reservations: no claim is covered.
    assert {basis for basis, _ in spent.values()} == {"reserved"}
    assert all(spent[claim][1] >= shares[claim] for claim in spent)


def _sums(receipts: Sequence[bytes]) -> tuple[dict[str, int], int, dict[str, tuple[str, int]]]:
    """Shares by claim, the number of gaps, and each claim's settlement."""
    shares: dict[str, int] = {}
    spent: dict[str, tuple[str, int]] = {}
    gaps = 0
    for data in receipts:
        receipt = open_receipt(data)[1]
        body: Any = receipt.body
        if receipt.kind is Kind.METER_SPLIT:
            assert sum(one["uj"] for one in body["shares"]) == body["event"]["uj"]
            for one in body["shares"]:
                shares[one["claim"]] = shares.get(one["claim"], 0) + one["uj"]
        elif receipt.kind is Kind.METER_GAP:
            gaps += 1
        elif receipt.kind is Kind.CLAIM_SETTLED:
            spent[body["claim"]] = (body["spent"]["basis"], body["spent"]["uj"])
        assert receipt.kind is not Kind.REFUSED
    return shares, gaps, spent


async def test_what_is_booked_and_what_is_not(tmp_path: Path) -> None:
    """The 500 and the restart cost nothing, the reset one window, the stale hour itself."""
    async with embedded(tmp_path) as stewards:
        await stewards.log.publish(events())
    with serving(ANSWERS) as url:
        found, _ = await fed(tmp_path, url)
    windows = {
        device: [(to - begin, uj) for one, begin, to, uj, _ in found.booked if one == device]
        for device in ("gpu-0", "gpu-1")
    }
    assert windows["gpu-1"] == [
        (15_000, 1_000_000_000),
        (30_000, 2_000_000_000),
        (45_000, 3_000_000_000),
        (15_000, 1_000_000),
        (15_000, 1_000_000_000),
        (15_000, 1_000_000_000),
    ]
    assert windows["gpu-0"] == [*windows["gpu-1"][:3], *windows["gpu-1"][4:]]
    unknown = {code for device, _, code in found.unknown if device == "gpu-0"}
    assert unknown == {Code.FELL, Code.STALE}
    stale_ms = sum(length for device, length, code in found.unknown if code is Code.STALE) // 2
    assert stale_ms == (HOUR + 1) * EVERY
    failed = [one for one in found.refusals if one.code is Code.NO_ANSWER]
    assert [one.detail for one in failed] == ["HTTP 500"]


class Moody(EmbeddedLog):
    """A log that is away once, and once takes a batch and does not say so."""

    calls = 0

    async def publish(self, records: Sequence[Outgoing]) -> list[Position]:
        self.calls += 1
        if self.calls == 1:
            raise Unavailable("away", where="here", todo="wait")
        positions = await super().publish(records)
        if self.calls == 2:
            raise OutcomeUnknown("who knows", where="here", todo="look")
        return positions


async def test_readings_that_a_log_did_not_take_are_owed(tmp_path: Path) -> None:
    """They are published with the next ones; what was taken after all is refused by its window."""
    warned: list[str] = []
    readings = [
        Reading(device="d", from_ms=at, to_ms=at + 1, uj=5, grade=Grade.HW_SHUNT)
        for at in (1, 2, 3)
    ]
    log = Moody(tmp_path)
    try:
        feed = Feed(log, POOL, warned.append, None, None, None)
        for reading in readings:
            await feed.publish([reading])
    finally:
        await log.close()
    assert [warning.split(":")[0] for warning in warned] == [
        "1 readings are owed",
        "2 readings are owed",
    ]
    reader = EmbeddedReader(tmp_path)
    try:
        events = [cbor.decode(one) async for one in values(reader, topics.METERS, POOL)]
    finally:
        await reader.close()
    windows = [event["from_ms"] for event in events]  # type: ignore[call-overload,index]
    assert windows == [1, 2, 1, 2, 3]


def test_the_command_stops_when_it_is_told_to(tmp_path: Path) -> None:
    """SIGTERM between two scrapes: status 0, and what was read is in the pool."""
    data = tmp_path / "data"
    with serving([(200, scrape(at)) for at in range(3)]) as url:
        command = [sys.executable, "-m", "streams.cli.main", "meters", "watch", url, "--format",
                   "dcgm", "--data", str(data), "--pool", POOL, "--interval", "100ms"]  # fmt: skip
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        while "gpu-1" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "windows booked" in err


async def watched(
    texts: Sequence[str | None], *, max_age_ms: int = 60_000, form: str = "dcgm"
) -> Findings:
    """The findings of scrapes that give these texts; None fails."""
    time, found = Time(), list[Finding]()
    given = iter(texts)

    async def fetch(url: str) -> str:
        text = next(given)
        if text is None:
            raise FetchFailed("gone")
        return text

    async def sink(findings: Sequence[Finding]) -> None:
        found.extend(findings)

    what = Watch(url="u", adapter=FORMATS[form], options=Options(), every_ms=EVERY,
                 max_age_ms=max_age_ms, scrapes=len(texts))  # fmt: skip
    await watch(what, Meters(Tuning()), sink, fetch=fetch, clock=time, sleep=time.sleep)
    return Findings(found)


def stamped(value: int, at_ms: int) -> str:
    """A series with its own instant."""
    return f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{UUID="GPU-1"}} {value} {at_ms}\n'


async def test_a_reading_that_is_too_old_is_unknown() -> None:
    """An exporter that stamps its samples and serves last minute's is not believed."""
    texts = [stamped(1000 + at, START - 61_000 + at) for at in range(3)]
    found = await watched(texts)
    assert {one.code for one in found.refusals} == {Code.TOO_OLD}
    assert found.booked == []


async def test_a_reading_from_the_future_is_refused() -> None:
    """A clock that is ahead would leave no room for what comes."""
    found = await watched([stamped(1000, START + 11_000)])
    assert [one.code for one in found.refusals] == [Code.CLOCKS_DISAGREE]


async def test_an_exporters_own_stamps_are_the_windows() -> None:
    """Stamped samples are placed at their instants, not at the scrape's."""
    texts = [stamped(1000, START - 5000), stamped(1_001_000, START + EVERY - 5000)]
    found = await watched(texts)
    assert [(begin, to) for _, begin, to, _, _ in found.booked] == [(START - 5000, START + 10_000)]


async def test_an_endpoint_that_is_something_else_is_refused_and_asked_again() -> None:
    """Text that no adapter can read is a refusal a scrape, not the end."""
    found = await watched(["<html>\n", None, "timestamp\n"], form="nvml")
    assert [one.code for one in found.refusals] == [Code.NOT_A_ROW, Code.NO_ANSWER, Code.NOT_A_ROW]


async def test_nobody_listening_is_a_refusal() -> None:
    """A closed port and a scheme that is no web address both fail as scrapes."""
    found: list[Finding] = []

    async def sink(findings: Sequence[Finding]) -> None:
        found.extend(findings)

    async def no_sleep(seconds: float) -> None:
        """At once."""

    for url in ("http://127.0.0.1:9/metrics", "file:///etc/hostname"):
        what = Watch(url=url, adapter=FORMATS["dcgm"], options=Options(), every_ms=1,
                     max_age_ms=1, scrapes=1)  # fmt: skip
        await watch(what, Meters(Tuning()), sink, sleep=no_sleep)
    assert [type(one) for one in found] == [Refusal, Refusal]


def test_the_command_feeds_a_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pool meters watch` on a directory: each reading is published and decided at once."""
    data, occupants = tmp_path / "data", tmp_path / "occupants.toml"
    entry = '[[occupant]]\ndevice = "gpu-1"\nclaim = "c"\n'
    occupants.write_text(entry)

    async def open_pool() -> None:
        async with embedded(data) as stewards:
            fields = [
                {"type": "pool.opened", "pool": POOL, "capacity": {"mdev": 1000, "uj": 10**9},
                 "tree": [{"id": "lab", "guarantee": {"mdev": 1000, "uj": 10**9}}]},
                {"type": "claim.submitted", "pool": POOL, "claim": "c", "leaf": "lab",
                 "gang": [{"mdev": 1000, "uj": 10**6}], "grade": "ModelBased"},
            ]  # fmt: skip
            await stewards.log.publish([published(one, clock_ms()) for one in fields])
            await stewards.decide_all()

    asyncio.run(open_pool())
    with serving([(200, scrape(at)) for at in range(3)]) as url:
        status = run(
            ["meters", "watch", url, "--format", "dcgm", "--data", str(data), "--pool", POOL,
             "--interval", "100ms", "--scrapes", "3", "--occupants", str(occupants), "--json"]
        )  # fmt: skip
    said = capsys.readouterr()
    assert status == 0, said.err
    lines = [json.loads(line) for line in said.out.splitlines()]
    booked = [line["event"] for line in lines if "event" in line]
    assert [(one["device"], one["uj"]) for one in booked] == [
        ("gpu-0", 1000), ("gpu-1", 1000), ("gpu-0", 1000), ("gpu-1", 1000),
    ]  # fmt: skip
    assert "warning" not in said.err
