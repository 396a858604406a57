"""Public traces as a pool's input events: readers, the plan they make, and its simulation."""

from streams.traces.drive import Twin, drive
from streams.traces.openb import read_openb
from streams.traces.philly import read_philly
from streams.traces.plan import Job, Plan, Stamped, TraceError, Tuning

__all__ = [
    "Job",
    "Plan",
    "Stamped",
    "TraceError",
    "Tuning",
    "Twin",
    "drive",
    "read_openb",
    "read_philly",
]
