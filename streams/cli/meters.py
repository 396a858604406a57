"""`pool meters`: what meters print, as `meter.read` events, or why not.

1. `read` prints the events that a recording (or a few scrapes of an endpoint) yields; `--events`
   prints nothing else, for `pool send`. Its status is 1 if there is no energy in any of them.
2. `check` is a dry run: it explains every line that is not believed, and every window that is
   unknown. Its status is 1 if there is one.
3. `watch` scrapes an endpoint until it is stopped (SIGINT or SIGTERM, which is how it ends well),
   and publishes what it reads.

An event never carries where its figure came from, since the profile closes its fields; `source`
stands beside it.

Not here: what is believed (`streams.meters`), deciding (`streams.steward`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import click

from streams.cli import units
from streams.cli.keys import password_option
from streams.cli.meterfeed import Feed
from streams.cli.meteroptions import Given, Span, as_ms, source_options
from streams.cli.session import TEXT, Answered, Failure, Session, Status, common
from streams.cli.where import Where, on_a_log
from streams.meters.events import event_of, refusal_of, source_of, why
from streams.meters.reading import FORMATS, Meters, read
from streams.meters.records import Finding, MeterError, Reading
from streams.meters.watching import Watch, watch

STDIN = "-"
SCHEMES = ("http", "https")


class _Url(click.ParamType):
    """An endpoint's address."""

    name = "url"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        """The address as it is, if it is one that can be scraped."""
        try:
            parts = urlsplit(str(value))
            if parts.scheme in SCHEMES and parts.hostname and parts.port != 0:
                return str(value)
        except ValueError:
            pass
        self.fail(f"{value!r} is no http://HOST or https://HOST to scrape", param, context)


@click.group()
def meters() -> None:
    """Read meters: recordings and live endpoints, believed line by line."""


@meters.command("read")
@click.argument("sources", nargs=-1, required=True, metavar="FILE|URL...")
@source_options
@click.option("--pool", type=TEXT, default="", help="The pool that the events are for.")
@click.option("--events", is_flag=True, help="Print the bare events, for `pool send`.")
@click.option("--timed", is_flag=True, help="Give each event `at_ms`: its window's end.")
@common
@click.pass_obj
def read_command(
    session: Session, sources: Sequence[str], given: Given, pool: str, events: bool, timed: bool
) -> None:
    """Print the meter.read events of FILE (`-`: stdin) or of a few scrapes of URL."""
    told = _Told(session, pool, bare=events, timed=timed, explains=session.json and not events)
    for finding in _findings(sources, given, given.meters()):
        told.hear(finding)
    told.sum_up()
    if not told.booked:
        raise Answered


@meters.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE|URL...")
@source_options
@common
@click.pass_obj
def check(session: Session, sources: Sequence[str], given: Given) -> None:
    """Explain what of FILE or URL would not be believed. Nothing is published."""
    told = _Told(session, "", explains=True)
    together = given.meters()
    for finding in _findings(sources, given, together):
        told.hear(finding)
    told.sum_up()
    for devices in together.alike():
        session.warn(f"the same samples under several names: {', '.join(devices)}")
    if told.refused or told.unknown:
        raise Answered


@meters.command("watch")
@click.argument("url", type=_Url())
@source_options
@on_a_log
@click.option("--pool", type=TEXT, required=True, help="The pool that the events are for.")
@click.option("--key", type=click.Path(path_type=Path), help="The steward's [DIR/steward.pem].")
@password_option
@click.option("--interval", type=Span(), default="15s", help="Between scrapes [15s].")
@click.option("--max-age", type=Span(), default="60s", help="Of an exporter's own stamps [60s].")
@click.option("--scrapes", type=click.IntRange(1), help="Only so many [until stopped].")
@common
@click.pass_obj
def watch_command(
    session: Session,
    url: str,
    given: Given,
    where: Where,
    pool: str,
    key: Path | None,
    password_file: Path | None,
    interval: int,
    max_age: int,
    scrapes: int | None,
) -> None:
    """Scrape URL again and again, and publish its readings."""
    what = Watch(
        url=url,
        adapter=FORMATS[given.form],
        options=given.options,
        every_ms=interval,
        max_age_ms=max_age,
        scrapes=scrapes,
    )
    told = _Told(session, pool, explains=True)
    feed = Feed.opened(where, pool, key, session.warn, password_file=password_file)
    asyncio.run(_watch(what, given, feed, told.hear))
    told.sum_up()


async def _watch(
    what: Watch,
    given: Given,
    opened: contextlib.AbstractAsyncContextManager[Feed],
    hear: Callable[[Finding], None],
) -> None:
    async with opened as feed:

        async def sink(findings: Sequence[Finding]) -> None:
            await feed.publish([one for one in findings if isinstance(one, Reading)])
            for finding in findings:
                hear(finding)

        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)

        async def pause(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), seconds)

        await watch(
            what,
            given.meters(),
            sink,
            sleep=pause,
            before_each=given.refresh,
            stopped=stopping.is_set,
        )


def _findings(sources: Sequence[str], given: Given, together: Meters) -> Iterator[Finding]:
    """All findings of the sources, in order. Raises Failure."""
    try:
        for source in sources:
            if "://" in source:
                yield from _scraped(_Url().convert(source, None, None), given, together)
            else:
                yield from _recorded(source, given, together)
    except MeterError as error:
        raise Failure(
            error.detail, where=error.place, todo="see pool meters --help", status=Status.USAGE
        ) from None


def _recorded(source: str, given: Given, together: Meters) -> Iterator[Finding]:
    try:
        opened = click.open_file(source, "rb")
    except OSError as error:
        raise Failure(
            f"cannot be read: {error.strerror}", where=source, todo="name a file, a URL or -",
            status=Status.USAGE,
        ) from error  # fmt: skip
    with opened:
        yield from read(
            cast(BinaryIO, opened),
            "stdin" if source == STDIN else Path(source).name,
            form=given.form,
            options=given.options,
            meters=together,
        )


def _scraped(url: str, given: Given, together: Meters) -> Iterable[Finding]:
    """Two scrapes, an `--every` apart: what lies between them."""
    found: list[Finding] = []

    async def sink(findings: Sequence[Finding]) -> None:
        found.extend(findings)

    every_ms = given.options.every_ms or as_ms("15s")
    what = Watch(
        url=url, adapter=FORMATS[given.form], options=given.options, every_ms=every_ms,
        max_age_ms=as_ms("60s"), scrapes=2,
    )  # fmt: skip
    asyncio.run(watch(what, together, sink))
    return found


class _Told:
    """Findings as they are printed, and what they sum to."""

    def __init__(
        self,
        session: Session,
        pool: str,
        *,
        bare: bool = False,
        timed: bool = False,
        explains: bool = False,
    ) -> None:
        self._session = session
        self._pool = pool
        self._bare = bare
        self._timed = timed
        self._explains = explains
        self._energy: dict[tuple[str, str], int] = {}
        self.booked = 0
        self.unknown = 0
        self.refused: Counter[str] = Counter()

    def hear(self, finding: Finding) -> None:
        """Print one finding, if this command prints its kind."""
        if isinstance(finding, Reading):
            self._count(finding)
            self._reading(finding)
            return
        self.refused[finding.code] += 1
        if not self._explains:
            return
        if self._session.json:
            self._session.line({"refused": refusal_of(finding)})
        else:
            words = f"{finding.place}  {finding.code}: {why(finding)}  {finding.raw}"
            self._session.say(words.rstrip())

    def _count(self, reading: Reading) -> None:
        if reading.uj is None or reading.grade is None:
            self.unknown += 1
            return
        self.booked += 1
        key = (reading.device, reading.grade.value)
        self._energy[key] = self._energy.get(key, 0) + reading.uj

    def _reading(self, reading: Reading) -> None:
        event: dict[str, Any] = dict(event_of(reading, self._pool))
        if self._timed:
            event["at_ms"] = reading.to_ms
        if self._bare:
            click.echo(json.dumps(event, separators=(",", ":")))
        elif self._session.json:
            self._session.line({"event": event, "source": source_of(reading)})
        else:
            self._session.say(_in_words(reading))

    def sum_up(self) -> None:
        """What was booked by device and grade, and why the rest was not: beside the answer."""
        note = self._session.note
        for (device, grade), uj in sorted(self._energy.items()):
            note(f"  {device}: {units.energy(uj)} {grade}")
        note(f"  {self.booked} windows booked, {self.unknown} unknown")
        for code, count in sorted(self.refused.items()):
            note(f"  {count} not believed: {code}")


def _in_words(reading: Reading) -> str:
    window = f"{units.instant(reading.from_ms)} {units.duration(reading.to_ms - reading.from_ms)}"
    origin = reading.origin
    if reading.uj is None or origin is None:
        return f"{reading.device}  {window}  unknown: {why(reading)}"
    source = (f"{origin.field} [{origin.unit}]", origin.scope, origin.obtained, *reading.notes)
    energy = f"{units.energy(reading.uj)} {reading.grade}"
    return f"{reading.device}  {window}  {energy} ({', '.join(source)})"
