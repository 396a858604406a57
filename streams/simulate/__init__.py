"""What-if: the same trace under several policies, decided by the kernel itself, side by side.

Not here: reading traces and driving jobs (`streams.traces`), deciding (`streams.kernel`).
"""

from streams.simulate.measures import Measures, Tenant
from streams.simulate.policyfile import PolicyFile, parse_policy
from streams.simulate.running import Outcome, simulate

__all__ = ["Measures", "Outcome", "PolicyFile", "Tenant", "parse_policy", "simulate"]
