"""The bare kernel over event maps: no log, no keys (`pool decide`).

Not here: reading files and printing (`streams.cli`).

1. Each event brings its own time, `at_ms`; it is taken out before the event is judged.
2. Several pools may be mixed; a state stands for each that was opened.

Profile: §3, §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from schemas.events import check_json, parse_event
from schemas.records import INSTANT_LIMIT_MS, Body, Event, Malformed
from streams.kernel import PoolState, decide

NO_POOL = ""
"""Stands for the pool of an event whose pool cannot be told; it is never open."""
_DIGITS_MAX = 20
"""More digits than any instant has."""


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
    at_ms = None
    if isinstance(value, Mapping) and "at_ms" in value:
        at_ms = _time_of(value["at_ms"])
        if at_ms is None:
            detail = "a time in milliseconds is needed"
            return Malformed(pool=_pool_told(value), field="at_ms", detail=detail), None
        value = {key: member for key, member in value.items() if key != "at_ms"}
    try:
        check_json(value)
    except ValueError as error:
        return Malformed(pool=_pool_told(value), field=None, detail=str(error)), at_ms
    return parse_event(value, from_json=True), at_ms


def _time_of(given: object) -> int | None:
    """An instant in milliseconds, written as an integer or a decimal string; None: it is none."""
    if isinstance(given, str) and given.isascii() and given.isdecimal():
        leading_zero = given[0] == "0" and given != "0"
        given = None if leading_zero else int(given[:_DIGITS_MAX])
    if type(given) is not int or not 0 <= given < INSTANT_LIMIT_MS:
        return None
    return given


def _pool_told(value: object) -> str | None:
    """The pool that an event names which is none, as its record's key would."""
    pool = value.get("pool") if isinstance(value, Mapping) else None
    return pool if isinstance(pool, str) and pool else None
