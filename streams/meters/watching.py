"""A live endpoint, scraped again and again into the same rules that read recordings.

Not here: where findings go (a `Sink`), and what is believed (`streams.meters.rules`).

1. A scrape that fails (refused, timed out, 500, cut off, too large) is one refusal; nothing follows
   from it: a counter goes on by itself, an integrated power has a gap.
2. A sample that brings an instant of its own must be of now: older than `max_age_ms` it is refused,
   and so is one from the future. One that brings none is of the moment before the request.
3. An occupants file is looked at before every scrape: an executor may rewrite it at any time.
4. Nothing of an earlier run is known at the start: the first scrape is where counting begins.
"""

from __future__ import annotations

import asyncio
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from streams.meters.codes import Code
from streams.meters.options import Options
from streams.meters.reading import Adapter, Meters
from streams.meters.records import Finding, Item, MeterError, Refusal, Sample
from streams.meters.text import lines_of

BODY_BYTES_MAX = 16 * 1024 * 1024
FETCH_SECONDS_MAX = 10.0
AHEAD_MS_MAX = 10_000
"""How far an exporter's clock may be ahead of ours: the profile's own default slack."""

Sink = Callable[[Sequence[Finding]], Awaitable[None]]
Fetch = Callable[[str], Awaitable[str]]


class FetchFailed(Exception):
    """The endpoint gave no text; `str()` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What to scrape, how often and for how long (`scrapes` None: until it is stopped)."""

    url: str
    adapter: Adapter
    options: Options
    every_ms: int
    max_age_ms: int
    scrapes: int | None = None


def clock_ms() -> int:
    """The machine's clock."""
    return time.time_ns() // 1_000_000


async def watch(
    what: Watch,
    meters: Meters,
    sink: Sink,
    *,
    fetch: Fetch | None = None,
    clock: Callable[[], int] = clock_ms,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    before_each: Callable[[Meters], None] = lambda meters: None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Scrape until `stopped`; what is open then is told as unknown. Raises what `sink` does."""
    done = 0
    while what.scrapes is None or done < what.scrapes:
        if done:
            await sleep(what.every_ms / 1000)
        if stopped():
            break
        before_each(meters)
        await sink(list(await _scrape(what, meters, fetch or fetch_text, clock())))
        done += 1
    await sink(list(meters.rest()))


async def _scrape(what: Watch, meters: Meters, fetch: Fetch, now_ms: int) -> list[Finding]:
    try:
        text = await fetch(what.url)
    except FetchFailed as failed:
        return [Refusal(code=Code.NO_ANSWER, place=what.url, detail=str(failed))]
    options = replace(what.options, at_ms=now_ms)
    try:
        items = what.adapter(lines_of(text, what.url), options)
        return list(meters.take(_of_now(items, now_ms, what.max_age_ms)))
    except MeterError as error:
        return [Refusal(code=Code.NOT_A_ROW, place=what.url, detail=str(error)[:200])]


def _of_now(items: Iterator[Item], now_ms: int, max_age_ms: int) -> Iterator[Item]:
    """Rule 2."""
    for item in items:
        if isinstance(item, Sample) and item.stamp_ms is not None:
            age_ms = now_ms - item.stamp_ms
            if age_ms > max_age_ms:
                yield _refused(item, Code.TOO_OLD, f"{age_ms} ms old")
                continue
            if -age_ms > AHEAD_MS_MAX:
                yield _refused(item, Code.CLOCKS_DISAGREE, f"{-age_ms} ms ahead of this machine")
                continue
        yield item


def _refused(sample: Sample, code: Code, detail: str) -> Refusal:
    return Refusal(
        code=code, place=sample.place, device=sample.device, raw=sample.raw, detail=detail
    )


async def fetch_text(url: str) -> str:
    """The endpoint's text. Raises FetchFailed."""
    return await asyncio.to_thread(_fetch, url)


def _fetch(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise FetchFailed("neither http:// nor https://")
    request = urllib.request.Request(url, headers={"Accept": "text/plain"})
    try:
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS_MAX) as answer:
            body: bytes = answer.read(BODY_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise FetchFailed(f"HTTP {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchFailed(f"{type(error).__name__}: {error}") from None
    if len(body) > BODY_BYTES_MAX:
        raise FetchFailed(f"more than {BODY_BYTES_MAX} bytes")
    return body.decode("utf-8", "replace")
