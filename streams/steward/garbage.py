"""Keep the cyclic garbage collector out of a steward's way.

A pool's state is many long-lived objects that refer to each other; a full collection walks all of
them, and on a large pool that is the longest pause by far (`tests/benchmarks/README.md`). What is
there after a replay is not garbage, so it is taken out of the collector's sight; what comes later
is collected, in larger steps.

Not here: reference counting, which frees nearly everything that an event leaves behind.
"""

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 10_000
"""New objects before the youngest generation is looked at (CPython's default: 700)."""


def settle() -> None:
    """Treat everything that exists now as long-lived. Harmless if called again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 50)
