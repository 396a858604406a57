"""The options that say how a meter's source is to be read; every `pool meters` command has them.

1. A time span is a number with its unit: `500ms`, `15s`, `5min`, `1h`. A power is in watts.
2. `--map` and `--occupants` files are read before anything else; what is wrong with one is wrong
   use. `watch` looks at the occupants file again before every scrape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from streams.cli.session import Failure, Status
from streams.meters.answers import exactly
from streams.meters.kepler import LEVELS
from streams.meters.mapfile import parse_mapping
from streams.meters.occupants import Occupancy, parse_occupants
from streams.meters.options import Options
from streams.meters.reading import FORMATS, Meters
from streams.meters.records import WATT_UW, MeterError, Scope
from streams.meters.stamps import instant_ms
from streams.meters.tuning import Tuning
from streams.meters.units import time_unit

Command = TypeVar("Command", bound=Callable[..., Any])
FILE_BYTES_MAX = 64 * 1024 * 1024
_SPAN = re.compile(r"(\d{1,12})(ms|s|min|h)")
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})")


class Span(click.ParamType):
    """A length of time, to ms."""

    name = "span"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        """`15s` as 15000."""
        if isinstance(value, int):
            return value
        matched = _SPAN.fullmatch(str(value))
        if matched is None:
            self.fail(f"{value!r} is no span like 500ms, 15s, 5min, 1h", param, context)
        unit_ms = time_unit(matched[2])
        assert unit_ms is not None
        return int(int(matched[1]) * unit_ms)


class Watts(click.ParamType):
    """A power in watts, exactly, to microwatts."""

    name = "watts"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Fraction:
        """`700` as 700000000."""
        exact = exactly(str(value))
        if exact is None or exact <= 0:
            self.fail(f"{value!r} is no number of watts above 0", param, context)
        return exact * WATT_UW


class Instant(click.ParamType):
    """An instant, to ms since the Unix epoch."""

    name = "instant"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        """RFC 3339, or a number of s or ms."""
        moment = instant_ms(str(value))
        if moment is None:
            self.fail(f"{value!r} is no instant like 2024-05-16T16:30:12Z", param, context)
        return moment


class Zone(click.ParamType):
    """A zone's offset from UTC, to minutes."""

    name = "zone"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> int:
        """`+01:00` as 60."""
        matched = _ZONE.fullmatch(str(value))
        if matched is None:
            self.fail(f"{value!r} is no offset like +01:00", param, context)
        minutes = int(matched[2]) * 60 + int(matched[3])
        return -minutes if matched[1] == "-" else minutes


@dataclass(slots=True, kw_only=True)
class Given:
    """What the options said."""

    form: str
    options: Options
    tuning: Tuning
    occupancy: Occupancy
    occupants: Path | None
    window_ms: int

    def meters(self) -> Meters:
        """Meters with nothing read yet."""
        return Meters(self.tuning, self.occupancy, window_ms=self.window_ms)

    def refresh(self, meters: Meters) -> None:
        """Read the occupants file again. Raises Failure."""
        if self.occupants is not None:
            meters.occupancy = _occupancy(self.occupants)


def as_ms(text: str) -> int:
    """A span as the options read it."""
    return Span().convert(text, None, None)


_OPTIONS = (
    click.option("--format", "form", type=click.Choice(sorted(FORMATS)), required=True),
    click.option("--map", "map_file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                 help="What the columns are (TOML), for the format `map`."),
    click.option("--occupants", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                 help="Who held which device when (TOML or JSON)."),
    click.option("--host", default="", help="Stands before devices that have no UUID."),
    click.option("--device", default="", help="The device, where the source names none."),
    click.option("--zone", type=Zone(), default="+00:00", help="Of local times [+00:00]."),
    click.option("--start", type=Instant(), help="Of samples without instants: the first's."),
    click.option("--every", type=Span(), help="Of samples without instants: their distance."),
    click.option("--limit", type=Watts(), help="A device's power limit, W [the data's]."),
    click.option("--floor", type=Watts(), help="Less than a device ever draws, W [none]."),
    click.option("--gap", type=Span(), default="5s", help="Power further apart is unknown [5s]."),
    click.option("--fill", type=Span(), default="0ms", help="Guess holes up to this long [0ms]."),
    click.option("--stale", type=Span(), default="5min", help="A counter may stand still [5min]."),
    click.option("--window", type=Span(), default="0ms", help="Join readings up to this long."),
    click.option("--scope", type=click.Choice([Scope.BOARD.value, Scope.MODULE.value]),
                 default=Scope.BOARD.value,
                 help="nvidia-smi: which of the two is booked [board]."),
    click.option("--domain", multiple=True, help="Book this power domain alone: psys, platform."),
    click.option("--level", type=click.Choice(LEVELS), default="node", help="Kepler's [node]."),
)  # fmt: skip


def source_options(command: Command) -> Command:
    """Give a command the options; it gets them as `given`."""

    @wraps(command)
    def with_given(*arguments: Any, **options: Any) -> Any:
        names = (
            "form", "map_file", "occupants", "host", "device", "zone", "start", "every", "limit",
            "floor", "gap", "fill", "stale", "window", "scope", "domain", "level",
        )  # fmt: skip
        given = _given({name: options.pop(name) for name in names})
        return command(*arguments, given=given, **options)

    for option in reversed(_OPTIONS):
        with_given = option(with_given)
    return with_given  # type: ignore[return-value]


def _given(said: dict[str, Any]) -> Given:
    mapping = None
    if said["map_file"] is not None:
        mapping = _parsed(said["map_file"], parse_mapping)
    elif said["form"] == "map":
        raise click.UsageError("the format map needs --map FILE")
    occupants = said["occupants"]
    return Given(
        form="map" if mapping is not None else said["form"],
        options=Options(
            host=said["host"],
            device=said["device"],
            zone_min=said["zone"],
            start_ms=said["start"],
            every_ms=said["every"],
            scope=said["scope"],
            domains=tuple(said["domain"]),
            level=said["level"],
            mapping=mapping,
        ),
        tuning=Tuning(
            gap_ms=said["gap"],
            fill_ms=said["fill"],
            stale_ms=said["stale"],
            limit_uw=said["limit"],
            floor_uw=said["floor"],
        ),
        occupancy=Occupancy() if occupants is None else _occupancy(occupants),
        occupants=occupants,
        window_ms=said["window"],
    )


def _occupancy(path: Path) -> Occupancy:
    return _parsed(path, parse_occupants)


Parsed = TypeVar("Parsed")


def _parsed(path: Path, parse: Callable[[str, str], Parsed]) -> Parsed:
    """A file of ours, parsed. Raises Failure."""
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise MeterError(path.name, f"longer than {FILE_BYTES_MAX} bytes")
        return parse(data.decode(), path.name)
    except MeterError as error:
        raise Failure(error.detail, where=error.place, status=Status.USAGE) from None
    except UnicodeDecodeError:
        raise Failure("is not UTF-8 text", where=path.name, status=Status.USAGE) from None
