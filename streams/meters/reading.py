"""From a source to findings: the formats, one instant at a time, each device by its own rules.

1. `FORMATS` are the formats by name. An adapter yields samples in the source's order.
2. Samples of one instant go through `once` together, then each to its device's `rules`.
3. Where a recording ends or parts, every device's open window is unknown.

Invariant: what comes out depends on what went in and on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from streams.meters import counters, dcgm, kepler, mapped, nvidia_smi, slurm, wall
from streams.meters.events import Joined, occupied
from streams.meters.occupants import Occupancy
from streams.meters.once import Occupied, count_once
from streams.meters.options import Options
from streams.meters.records import Break, Finding, Item, Reading, Sample
from streams.meters.rules import DeviceRules
from streams.meters.text import Source, lines
from streams.meters.tuning import Tuning

Adapter = Callable[[Source, Options], Iterator[Item]]
FORMATS: Mapping[str, Adapter] = {
    "nvidia-smi": nvidia_smi.read,
    "nvidia-smi-dmon": nvidia_smi.read_dmon,
    "dcgm": dcgm.read,
    "nvml": counters.read_nvml,
    "rapl": counters.read_rapl,
    "amdsmi": counters.read_amdsmi,
    "slurm": slurm.read,
    "kepler": kepler.read,
    "wall": wall.read,
    "pyjoules": mapped.read_pyjoules,
    "mllog": mapped.read_mllog,
    "map": mapped.read,
}
INSTANT_SAMPLES_MAX = 100_000
ALIKE_SAMPLES_MIN = 10
"""So many samples are not the same by chance."""


class Meters:
    """All devices of a source, live or recorded."""

    def __init__(
        self, tuning: Tuning, occupancy: Occupancy | None = None, *, window_ms: int = 0
    ) -> None:
        self.occupancy = occupancy or Occupancy()
        self._tuning = tuning
        self._devices: dict[str, DeviceRules] = {}
        self._occupied = Occupied()
        self._joined = Joined(window_ms)
        self._seen: dict[str, tuple[int, Any]] = {}

    def take(self, items: Iterable[Item]) -> Iterator[Finding]:
        """What a source's items come to."""
        together: list[Sample] = []
        for item in items:
            if isinstance(item, Sample):
                if together and not _same_instant(together[0], item):
                    yield from self._instant(together)
                    together = []
                together.append(item)
                if len(together) >= INSTANT_SAMPLES_MAX:
                    yield from self._instant(together)
                    together = []
                continue
            if isinstance(item, Break):
                yield from self._instant(together)
                together = []
                yield from self.rest()
            else:
                yield item
        yield from self._instant(together)

    def alike(self) -> list[tuple[str, ...]]:
        """Devices that showed the very same samples: one meter under several names, perhaps.

        Nothing follows from it here: whether they are one, only who knows the machines can say.
        """
        groups: dict[tuple[int, str], list[str]] = {}
        for device, seen in self._seen.items():
            if seen[0] >= ALIKE_SAMPLES_MIN:
                groups.setdefault((seen[0], seen[1].hexdigest()), []).append(device)
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def rest(self) -> Iterator[Finding]:
        """The recording ends: what is open is unknown."""
        for rules in self._devices.values():
            yield from self._told(rules.rest())
        yield from self._joined.rest()

    def _instant(self, samples: list[Sample]) -> Iterator[Finding]:
        kept, refused = count_once(samples)
        yield from refused
        for sample in kept:
            count, digest = self._seen.get(sample.device) or (0, hashlib.sha256())
            digest.update(f"{sample.stamp_ms} {sample.raw};".encode())
            self._seen[sample.device] = (count + 1, digest)
            taken = self._occupied.refusal(sample)
            if taken is not None:
                yield taken
            else:
                yield from self._told(self._rules(sample.device).push(sample))

    def _rules(self, device: str) -> DeviceRules:
        rules = self._devices.get(device)
        if rules is None:
            rules = DeviceRules(device, self._tuning, lambda *window: self.occupancy.cuts(*window))
            self._devices[device] = rules
        return rules

    def _told(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        for finding in findings:
            if isinstance(finding, Reading):
                yield from self._joined.push(occupied(finding, self.occupancy))
            else:
                yield finding


def read(
    stream: BinaryIO,
    name: str,
    *,
    form: str,
    options: Options | None = None,
    tuning: Tuning | None = None,
    occupancy: Occupancy | None = None,
    window_ms: int = 0,
    meters: Meters | None = None,
) -> Iterator[Finding]:
    """All findings of one recording. Raises MeterError where it cannot be read at all.

    `meters` that read other recordings before go on from where they are.
    """
    meters = meters or Meters(tuning or Tuning(), occupancy, window_ms=window_ms)
    yield from meters.take(FORMATS[form](lines(stream, name), options or Options()))
    yield from meters.rest()


def _same_instant(one: Sample, other: Sample) -> bool:
    """Whether two samples are of one instant, or else at least of one scrape."""
    if one.scrape != other.scrape or (one.stamp_ms is None and not one.scrape):
        return False
    return (one.stamp_ms, one.from_ms) == (other.stamp_ms, other.from_ms)
