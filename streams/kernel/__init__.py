"""The `pool/1` kernel: a pure function from a pool's state and an event to decisions.

One module a section of the profile: `tree` §2.2, `usage` and `claims` §2.3, `sharing` §2.5,
`estimates` §2.6, `idle` §2.7, `settlement` §2.8, `deadlines` and `repeats` §3, `submit` §4.1,
`fit` and `surplus` §4.2, `passes`, `starved`, `trials`, `bounds`, `queue` and `guards` §4.3,
`preemption` and `projection` §5.
"""

from streams.kernel.apply import ReplayError, apply
from streams.kernel.decide import decide
from streams.kernel.explain import Why, explain
from streams.kernel.state import PoolState

__all__ = ["PoolState", "ReplayError", "Why", "apply", "decide", "explain"]
