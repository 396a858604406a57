"""What a source does not say of itself and its reader must: where, when, how much of it.

Not here: what is believed (`streams.meters.tuning`).
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.meters.mapping import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every source may be read with these; the formats say which they need.

    `host` stands before a device that is known by less than its UUID; `device` names the only one.
    `zone_min`: minutes that the source's local times are ahead of UTC. `start_ms`, `every_ms`: when
    the first of samples without instants was taken, and how far apart they are. `at_ms`: when a
    live scrape was taken. `scope` picks a figure where a format has several, `domains` names what
    is booked alone, `level` is Kepler's.
    """

    host: str = ""
    device: str = ""
    zone_min: int = 0
    start_ms: int | None = None
    every_ms: int | None = None
    at_ms: int | None = None
    scope: str = ""
    domains: tuple[str, ...] = ()
    level: str = "node"
    mapping: Mapping | None = None

    def turn_ms(self, number: int) -> int | None:
        """When the sample that counts as `number` from 0 was taken, if that is known."""
        if self.start_ms is None or (self.every_ms is None and number > 0):
            return None
        return self.start_ms + number * (self.every_ms or 0)

    def named(self, device: str, identity: str) -> str:
        """A device's id: a UUID stands for itself, anything less belongs to a host."""
        if identity == "uuid" or not self.host:
            return device
        return f"{self.host}/{device}"
