"""Where a worker of a group is: what it must be told before it is started.

Not here: the worker (`worker`), which takes a moment to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

GROUP_DEFAULT: Final = "pool-views"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a worker keeps its tables, the URL at which others reach it, and its group.

    `replicas`: of the tables' changelog topics, when they are made.
    """

    datadir: Path
    url: str
    group: str = GROUP_DEFAULT
    replicas: int = 1
