"""Meters: what exporters, tools and loggers print, to graded readings, or to why there is none.

Not here: deciding anything about a pool (the profile has meters' figures arrive graded).
"""

from streams.meters.codes import Code
from streams.meters.events import event_of, refusal_of, source_of
from streams.meters.occupants import Occupancy, parse_occupants
from streams.meters.options import Options
from streams.meters.reading import FORMATS, Meters, read
from streams.meters.records import MeterError, Reading, Refusal
from streams.meters.tuning import Tuning

__all__ = [
    "FORMATS",
    "Code",
    "MeterError",
    "Meters",
    "Occupancy",
    "Options",
    "Reading",
    "Refusal",
    "Tuning",
    "event_of",
    "parse_occupants",
    "read",
    "refusal_of",
    "source_of",
]
