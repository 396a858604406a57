"""Makes a sequence of events that shows a difference as small as it gets.

Not handled here: what a difference is.  `where` is asked: it answers the number of the first event
whose answers differ, or None.

Rules: 1. what follows the first difference is cut; 2. chunks of events are deleted, large ones
first; 3. optional parts of the events that stay are deleted; 4. numbers are made smaller; all of
it again until nothing helps, or the time is up.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

Event = dict[str, Any]
Where = Callable[[list[Event]], int | None]
KEPT = ("pool", "type", "at_ms")


class Shrinker:
    """Holds the smallest sequence so far that still differs."""

    def __init__(self, events: list[Event], where: Where, seconds: float) -> None:
        self.where = where
        self.deadline = time.monotonic() + seconds
        self.events = events
        self.tries = 0
        self.accepts(events)

    def out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def accepts(self, candidate: list[Event]) -> bool:
        """Take `candidate` as the new smallest if it still differs, cut after the difference."""
        self.tries += 1
        at = self.where(candidate)
        if at is None:
            return False
        self.events = candidate[: at + 1]
        return True

    def run(self) -> list[Event]:
        before = None
        while before != self.events and not self.out_of_time():
            before = copy.deepcopy(self.events)
            self.delete_events()
            self.delete_parts()
            self.lower_numbers()
        return self.events

    def delete_events(self) -> None:
        size = max(1, len(self.events) // 2)
        while not self.out_of_time():
            shorter = self.delete_chunks(size)
            if size == 1 and not shorter:
                return
            size = max(1, size // 2) if not shorter else min(size, max(1, len(self.events) // 2))

    def delete_chunks(self, size: int) -> bool:
        """Try to delete each chunk of `size` events once, newest first."""
        shorter = False
        end = len(self.events) - 1  # the last event shows the difference
        while end > 0 and not self.out_of_time():
            begin = max(0, end - size)
            shorter |= self.accepts(self.events[:begin] + self.events[end:])
            end = min(begin, len(self.events) - 1)
        return shorter

    def delete_parts(self) -> None:
        for index in range(len(self.events) - 1, -1, -1):
            self.change_event(index, smaller_parts)

    def lower_numbers(self) -> None:
        for index in range(len(self.events) - 1, -1, -1):
            self.change_event(index, smaller_numbers)

    def change_event(self, index: int, changes: Callable[[Event], Iterator[Event]]) -> None:
        """Apply changes to one event for as long as one of them keeps the difference."""
        improved = True
        while improved and index < len(self.events) and not self.out_of_time():
            improved = False
            for changed in changes(self.events[index]):
                candidate = [*self.events[:index], changed, *self.events[index + 1 :]]
                if self.accepts(candidate):
                    improved = True
                    break
                if self.out_of_time():
                    return


def smaller_parts(event: Any) -> Iterator[Any]:
    """The event with one part deleted, whole fields first."""
    for trail in trails(event):
        if len(trail) == 1 and trail[0] in KEPT:
            continue
        changed = copy.deepcopy(event)
        holder = follow(changed, trail[:-1])
        del holder[trail[-1]]
        yield changed


def smaller_numbers(event: Any) -> Iterator[Any]:
    """The event with one number lowered; its time stays."""
    for trail in trails(event):
        value = follow(event, trail)
        if trail == ("at_ms",) or isinstance(value, bool) or not isinstance(value, int):
            continue
        for lower in dict.fromkeys((0, 1, value // 2, value - 1)):
            if 0 <= lower < value:
                changed = copy.deepcopy(event)
                follow(changed, trail[:-1])[trail[-1]] = lower
                yield changed


def trails(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside `value`, outer parts first."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return []
    found = [(*before, key) for key in keys]
    for key in keys:
        found += trails(value[key], (*before, key))
    return sorted(found, key=len)


def follow(value: Any, trail: tuple[Any, ...]) -> Any:
    for key in trail:
        value = value[key]
    return value


def shrink(events: list[Event], where: Where, seconds: float = 60.0) -> list[Event]:
    """The smallest sequence found within `seconds` for which `where` still answers a number."""
    return Shrinker(events, where, seconds).run()
