"""Every reason code has words and a line that earns it; of two faults the first rule names it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from streams.meters import Code, Tuning
from streams.meters.codes import WORDS
from tests.meters.support import findings, told

NVML = "timestamp,uuid,total_energy_mJ\n"
BOOT = "timestamp,uuid,total_energy_mJ,boot_id\n"
AMD = "wall_utc,dev,count,t_ns\n"
RAPL = "timestamp,zone,energy_uj,max_energy_range_uj\n"
WALL = "time,watts\n"
SACCT = "JobID|Start|End|NodeList|ConsumedEnergyRaw\n"
BOARD = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-1",GPU_I_ID="%s"} %s\n'
FACT = "field,value,meaning\n"

# code, format, text, options; a later rule's fault is in some rows too.
ROWS: list[tuple[Code, str, str | bytes, dict[str, Any]]] = [
    (Code.NO_ANSWER, "nvml", NVML + "1722956400,GPU-1,[N/A]\n", {}),
    (Code.SENTINEL, "nvml", NVML + "1722956400,GPU-1,18446744073709551615\n", {}),
    (Code.ZERO, "nvml", NVML + "1722956400,GPU-1,0\n", {}),
    (Code.NEGATIVE, "nvml", NVML + "1722956400,GPU-1,-1\n", {}),
    (Code.NOT_A_NUMBER, "nvml", NVML + "1722956400,GPU-1,1 000\n", {}),
    (Code.NOT_A_NUMBER, "nvml", NVML + "1722956400,GPU-1,0x7f\n", {}),
    (Code.NOT_TEXT, "nvml", NVML.encode() + b"1722956400,GPU-1,\xff\n", {}),
    (Code.NOT_TEXT, "nvml", NVML.encode() + b"1722956400,GPU-1,\0\n", {}),
    (Code.NOT_TEXT, "nvml", NVML + "1" * 70_000 + "\n", {}),
    (Code.NOT_A_ROW, "nvml", NVML + "1722956400,GPU-1,5,6\n", {}),
    (Code.NOT_A_ROW, "dcgm", 'DCGM_FI_DEV_POWER_USAGE{gpu="0" 5\n', {}),
    (Code.TORN, "nvml", NVML + "1722956400,GPU-1\n", {}),
    (Code.TORN, "nvml", NVML + "1722956400,GPU-1,5", {}),
    (Code.TORN, "dcgm", BOARD % (0, 5) + 'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1"} 5', {"at_ms": 5}),
    (Code.NO_UNIT, "nvml", "timestamp,uuid,energy\n1722956400,GPU-1,5\n", {}),
    (Code.NO_UNIT, "wall", "time,power\n1722956400,5\n", {}),
    (Code.UNIT_UNKNOWN, "amdsmi", "timestamp,gpu,count,resolution\n1722956400,0,5,61.0\n", {}),
    (Code.NO_STAMP, "nvml", NVML + "yesterday,GPU-1,5\n", {}),
    (Code.NO_STAMP, "nvml", NVML + "12345,GPU-1,5\n", {}),
    (Code.NO_DEVICE, "nvml", NVML + "1722956400,,5\n", {}),
    (Code.NOT_PHYSICAL, "nvml", NVML + "1722956400,MIG-1,5\n", {}),
    (Code.NOT_ENERGY, "map", FACT + "TRESUsageOutAve energy,794,?\n", {"map_name": "20"}),
    (Code.NESTED, "rapl", RAPL + "1722956400,core,5,9\n", {}),
    (Code.SAME_TOTAL, "dcgm", BOARD % (1, 5) + BOARD % (2, 5), {"at_ms": 5}),
    (Code.INSTANCES_DISAGREE, "dcgm", BOARD % (1, 5) + BOARD % (2, 9_999_999), {"at_ms": 5}),
    (Code.DUPLICATE_STAMP, "nvml", NVML + "1722956400,GPU-1,5\n1722956400,GPU-1,6\n", {}),
    (Code.DUPLICATE_STAMP, "wall", WALL + "1722956400,5\n1722956400,6\n", {}),
    (Code.CLOCK_BACK, "nvml", NVML + "1722956400,GPU-1,5\n1722956399,GPU-1,6\n", {}),
    (Code.CLOCKS_DISAGREE, "amdsmi",
     AMD + "1722956400,0,50000,0\n1722960000,0,90000,1000000000\n", {}),
    (Code.STALE, "amdsmi", AMD + "1722956400,0,50000,7\n1722956401,0,50000,7\n", {}),
    (Code.UNMOVED, "amdsmi", AMD + "1722956400,0,50000,7\n1722956401,0,50000,1000000007\n", {}),
    (Code.FELL, "nvml", NVML + "1722956400,GPU-1,50000\n1722956401,GPU-1,40000\n", {}),
    (Code.RESET, "nvml", BOOT + "1722956400,GPU-1,5,a\n1722956401,GPU-1,6,b\n", {}),
    (Code.RESET, "amdsmi", AMD + "1722956400,0,50000,9000000000\n1722956401,0,60000,8\n", {}),
    (Code.GLITCH, "nvml",
     NVML + "1722956400,GPU-1,50000\n1722956401,GPU-1,4\n1722956402,GPU-1,90000\n", {}),
    (Code.WRAP_UNKNOWN, "rapl",
     RAPL + "1722956400,package-0,500,262143\n1722956401,package-0,900,262143\n", {}),
    (Code.QUARANTINED, "nvml", NVML + "1722956400,GPU-1,5\n1722956401,GPU-1,9999999\n", {}),
    (Code.QUARANTINED, "wall", WALL + "1722956400,31501000\n", {}),
    (Code.BELOW_FLOOR, "wall", WALL + "1722956400,24\n",
     {"tuning": Tuning(floor_uw=Fraction(10**9))}),
    (Code.GAP, "wall", WALL + "1722956400,24\n1722956410,24\n", {}),
    (Code.WINDOW_EMPTY, "slurm", SACCT + "1|2024-08-06T15:00:00|2024-08-06T15:00:00|n|5\n", {}),
    (Code.OVERLAPS, "slurm", SACCT + "1|2024-08-06T15:00:00|2024-08-06T16:00:00|n|5\n"
     "2|2024-08-06T15:30:00|2024-08-06T16:30:00|n|5\n", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "form", "text", "options"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS]
)
def test_a_line_earns_its_code(
    code: Code, form: str, text: str | bytes, options: dict[str, Any]
) -> None:
    """The row's text is refused, or leaves a window unknown, for exactly this reason."""
    found = findings(text, form, **options)
    assert told(found) == {code}


def test_every_code_has_a_row_and_words() -> None:
    """`too-old` is a live scrape's: its row is in test_watching."""
    assert {row[0] for row in ROWS} | {Code.TOO_OLD} == set(Code)
    assert set(WORDS) == set(Code)


def test_what_is_no_number_goes_before_what_has_no_instant() -> None:
    """A line with both faults is refused for the number."""
    assert told(findings(NVML + "yesterday,GPU-1,[N/A]\n", "nvml")) == {Code.NO_ANSWER}


def test_a_missing_device_goes_before_everything_else() -> None:
    """A line that nobody can be charged for says only that."""
    assert told(findings(NVML + "yesterday,,[N/A]\n", "nvml")) == {Code.NO_DEVICE}


def test_a_new_boot_goes_before_what_the_counter_says() -> None:
    """A counter that fell across a boot was reset, and a plausible step is one too."""
    rows = "1722956400,GPU-1,50000,a\n1722956401,GPU-1,40000,b\n1722956402,GPU-1,40500,c\n"
    assert told(findings(BOOT + rows, "nvml")) == {Code.RESET}
