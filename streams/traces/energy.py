"""What an accelerator and a vCPU draw, where a trace does not say: constants with their sources.

Not here: which job drew what (`streams.traces.philly`, `streams.traces.openb`).

1. A draw is taken from measurements that others published, named beside each constant.
2. A reservation is made for the highest of them, a report states one of them, picked by the hash
   of the row: so a release returns energy, as a real one does.
3. Everything is an integer; microwatts times milliseconds are nanojoules.

Invariant: the draw that a row reports is never above the draw that it reserved.
"""

from __future__ import annotations

import hashlib

P100_DECILES_UW = (
    33_453_000,
    34_169_000,
    34_807_000,
    39_696_000,
    101_427_000,
    120_286_000,
    133_386_000,
    136_584_000,
    163_483_000,
    168_360_000,
    178_650_000,
)
"""Deciles of the average power of one P100, uW, over the 45 training configurations measured at its
250 W limit: `zeus_nsdi23/summary_power_p100.csv` (You et al., NSDI'23), rows of power_limit 250."""

V100_DECILES_UW = (
    36_218_000,
    37_890_000,
    39_434_000,
    92_766_000,
    162_364_000,
    175_466_000,
    187_689_000,
    197_609_000,
    220_666_000,
    225_917_000,
    228_352_000,
)
"""The same of one V100, uW, over 68 configurations: `zeus_nsdi23/summary_power_v100.csv`, 250."""

GPU_LIMIT_UW = 250_000_000
"""The power limit of both, uW: no plausible report is above it."""

VCPU_RESERVED_UW = 678_000_000 // 128
"""One vCPU, uW: the 90th percentile of a CPU server (678 W, `acme_gpu_power/power_cdf.csv`, series
server_power_cpu_nodes; Hu et al., NSDI'24) over 128 vCPUs, which is an assumption."""
VCPU_DRAWN_UW = 546_000_000 // 128
"""The same at the median, 546 W."""

GUESS_PERCENT = (50, 75, 100, 150, 200, 300)
"""What a guess is, of the modelled reservation: users rarely ask for too little."""


def pick(row: int, what: str, choices: int) -> int:
    """A number below `choices` that depends on the row and on what is asked, and on nothing else.

    SHA-256 of both; the modulo's bias is below 2**-60 and of no matter here.
    """
    digest = hashlib.sha256(f"{what}:{row}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % choices


def energy_uj(power_uw: int, duration_ms: int) -> int:
    """Microjoules of a constant draw: uW times ms is nJ, rounded up to the next uJ."""
    return -(-power_uw * duration_ms // 1000)
