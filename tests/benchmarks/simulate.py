"""What a what-if costs: `python -m tests.benchmarks.simulate [--rows N] [POLICY ...]`.

The whole Philly file under the example policies, one after the other, on one core: reading the
trace, deciding, measuring. Times are this process's, so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import process_time

from streams.simulate import parse_policy, simulate
from streams.simulate.figures import figures
from streams.simulate.planning import planned, tuning_of
from streams.traces import read_philly
from tests.shared import shared

EXAMPLES = Path(__file__).parents[2] / "streams" / "simulate" / "examples"
POLICIES = ("quota", "borrow", "half")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line a policy, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument(
        "policies", nargs="*", default=[str(EXAMPLES / f"{one}.toml") for one in POLICIES]
    )
    given = parser.parse_args(arguments)
    trace = shared("data", "philly_vc", "philly_full.csv.gz")
    total_s = 0.0
    for name in given.policies:
        begin_s = process_time()
        file = parse_policy(Path(name).read_text(), Path(name).name)
        plan = planned(read_philly(trace, tuning_of(file, given.rows)), file, 0)
        read_s = process_time() - begin_s
        outcome = simulate(file.name, plan)
        shown = figures(outcome)
        spent_s = process_time() - begin_s
        total_s += spent_s
        print(
            f"{file.name}: {shown['jobs']} jobs, {outcome.decisions} decisions in {spent_s:.0f} s "
            f"({read_s:.0f} s of it reading), {outcome.decisions / (spent_s - read_s):,.0f} a "
            f"second; {shown['preempted']} preempted",
            flush=True,
        )
    print(f"together {total_s:.0f} s")


if __name__ == "__main__":
    main()
