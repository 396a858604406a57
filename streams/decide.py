"""The bare kernel over event maps: no log, no keys (`pool decide`).

Not here: reading files and printing (`streams.cli`).

1. Each event brings its own time, `at_ms`; it is taken out before the event is judged.
2. Several pools may be mixed; a state stands for each that was opened.

Profile: §3, §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schemas.events import parse_event
from schemas.records import INSTANT_LIMIT_MS, Body, Event, Malformed
from streams.kernel import PoolState, decide

NO_POOL = ""
"""Stands for the pool of an event whose pool cannot be told; it is never open."""


def decide_lines(events: Iterable[object]) -> Iterator[tuple[int, Body]]:
    """Yield (event number from 0, decision) for events in their JSON form, each with `at_ms`.

    A decision is its body with its `kind` first. An event without a usable `at_ms` is judged at
    the time of the one before it; `at_ms` that is no time at all makes it malformed.
    """
    pools: dict[str, PoolState] = {}
    now_ms = 0
    for number, value in enumerate(events):
        event, at_ms = timed_event(value)
        if at_ms is not None:
            now_ms = max(now_ms, at_ms)
        pool = event.pool or NO_POOL
        state = pools.get(pool) or PoolState(pool)
        for decision in decide(state, event, now_ms if at_ms is None else at_ms):
            yield number, {"kind": decision.kind.value, **decision.body}
        if state.is_open:
            pools[pool] = state


def timed_event(value: object) -> tuple[Event | Malformed, int | None]:
    """An event in its JSON form, and its time if it brings one."""
    if not isinstance(value, Mapping) or "at_ms" not in value:
        return parse_event(value, from_json=True), None
    fields = {key: member for key, member in value.items() if key != "at_ms"}
    at_ms = value["at_ms"]
    if isinstance(at_ms, str) and at_ms.isascii() and at_ms.isdecimal():
        at_ms = int(at_ms)
    if type(at_ms) is not int or not 0 <= at_ms < INSTANT_LIMIT_MS:
        pool = value.get("pool")
        told = pool if isinstance(pool, str) and pool else None
        return Malformed(pool=told, field="at_ms", detail="a time in milliseconds is needed"), None
    return parse_event(fields, from_json=True), at_ms
