"""Several boards that take turns in a log without their names: nobody's rows, not one board's.

Not here: which logs name their boards (`streams.meters.nvidia_smi`).

1. A loop over boards prints a burst of rows and waits: short steps, then a long one, again and
   again, almost always as many. One board is printed at even steps.
2. What takes turns so cannot be integrated as one draw, nor shared out: each row is refused.
3. It is decided by a device's first `AHEAD` rows, and holds for the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from streams.meters.codes import Code
from streams.meters.records import Break, Item, Refusal, Sample

AHEAD = 64
WAITS_MIN = 3
LONG_FACTOR = 4
"""Of fewer waits each is at least so many times as long as the steps of a burst."""


def without_turns(items: Iterable[Item], named: Iterable[str]) -> Iterator[Item]:
    """The items, with the rows of boards that take turns refused; `named` identities are sure."""
    source, sure = iter(items), frozenset(named)
    ahead: list[Item] = []
    for item in source:
        ahead.append(item)
        if len(ahead) >= AHEAD:
            break
    several = {device for device, stamps in _recordings(ahead) if take_turns(stamps)}
    for item in chain(ahead, source):
        if isinstance(item, Sample) and item.device in several and _unsure(item, sure):
            yield Refusal(
                code=Code.NO_DEVICE,
                place=item.place,
                raw=item.raw,
                detail="several boards take turns in it: query their uuid",
            )
        else:
            yield item


def _unsure(sample: Sample, sure: frozenset[str]) -> bool:
    return sample.origin.identity not in sure


def _recordings(items: Iterable[Item]) -> Iterator[tuple[str, list[int]]]:
    """Each device's instants, by recording."""
    found: dict[str, list[int]] = {}
    for item in items:
        if isinstance(item, Break):
            yield from found.items()
            found = {}
        elif isinstance(item, Sample) and item.stamp_ms is not None:
            found.setdefault(item.device, []).append(item.stamp_ms)
    yield from found.items()


def take_turns(stamps_ms: Sequence[int]) -> bool:
    """Whether instants come in bursts of one length, by rule 1."""
    steps = [after - before for before, after in pairwise(stamps_ms)]
    if len(steps) < 3 or min(steps) < 0:
        return False
    long_ms = max(steps) / 2
    waits = [at for at, step in enumerate(steps) if step >= long_ms]
    shorts = [step for step in steps if step < long_ms]
    if not shorts:
        return False
    if len(waits) < WAITS_MIN:
        shortest_ms = min(steps[at] for at in waits)
        clear = max(shorts) * LONG_FACTOR <= shortest_ms
        lengths = [after - before for before, after in pairwise((-1, *waits, len(steps)))]
        return clear and len(set(lengths)) == 1
    lengths = [after - before for before, after in pairwise(waits)]
    usual = max(set(lengths), key=lengths.count)
    return usual > 1 and lengths.count(usual) * 4 >= len(lengths) * 3
