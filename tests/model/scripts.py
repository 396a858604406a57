"""All scripts, and one of them for a sequence of the profile `corners`.

Not handled here: what they say (`corners.py`, `corners_reclaim.py`).
"""

from __future__ import annotations

import copy
from random import Random

from .corners import CORNERS, Event, Script
from .corners_reclaim import RECLAIMS

SCRIPTS = (*CORNERS, *RECLAIMS)


def script(rng: Random) -> Script:
    """One of the scripts; now and then an event left out or two exchanged."""
    events = [copy.deepcopy(event) for event in rng.choice(SCRIPTS)(rng)]
    if rng.random() < 0.3:
        del events[rng.randrange(1, len(events))]
    if rng.random() < 0.3:
        at = rng.randrange(1, len(events) - 1)
        events[at], events[at + 1] = events[at + 1], events[at]
    return events


def played(events: Script) -> list[Event]:
    """A script by itself: the events for pool `p`, 5 ms after each other where nothing is said."""
    now_ms, found = 1000, []
    for event in events:
        rest = {name: value for name, value in event.items() if name != "after"}
        now_ms += event.get("after", 5)
        found.append({"pool": "p", **rest, "at_ms": now_ms})
    return found
