"""Raw text as tools leave it: greetings, changed headers, nameless boards, other spellings.

Each row here was printed by a real tool, shortened; a reader that is not careful books it wrongly.
"""

from __future__ import annotations

import pytest

from schemas.records import Grade
from streams.meters import Code
from streams.meters.nameless import take_turns
from tests.meters.support import findings

START = 1_722_956_400_000
S = 1_722_956_400
HW, MODEL = Grade.HW_SHUNT, Grade.MODEL_BASED


def smi(*rows: str) -> str:
    """Rows of a query log, each with its instant's end, as it is printed."""
    return "".join(f"2024/08/06 15:00:{row}\n" for row in rows)


NAMELESS = smi(
    "00.638, 51.25 W, 0 %", "00.644, 149.93 W, 0 %", "00.750, 51.58 W, 0 %",
    "00.758, 149.93 W, 0 %", "00.865, 51.58 W, 0 %", "00.869, 149.93 W, 0 %",
)  # fmt: skip


def test_two_boards_that_take_turns_in_a_nameless_log_are_not_one_board() -> None:
    """Their rows come in pairs: what lies between 51 W and 150 W is neither board's energy."""
    for header, options in (
        ("", {}),
        ("timestamp, power.draw [W], utilization.gpu [%]\n", {"device": "gpu"}),
        ("timestamp, power.draw [W], utilization.gpu [%]\n", {}),
    ):
        found = findings(header + NAMELESS, "nvidia-smi", **options)
        assert found.booked == [] and found.unknown == []
        assert [code for _, code in found.refused] == [Code.NO_DEVICE] * 6
    named = NAMELESS.replace(", 51", ", NVIDIA A100, 51").replace(", 149", ", NVIDIA A100, 149")
    named = "timestamp, name, power.draw [W], utilization.gpu [%]\n" + named
    assert {code for _, code in findings(named, "nvidia-smi").refused} == {Code.NO_DEVICE}


def test_one_board_without_a_name_is_one_board() -> None:
    """Even steps, and a gap among them, are no turns; nor are two recordings."""
    rows = smi("00.000, 50 W", "01.000, 50 W", "02.010, 50 W", "09.000, 50 W", "10.000, 50 W")
    found = findings(rows, "nvidia-smi")
    assert found.total_uj == 151 * 10**6 - 500_000
    assert found.unknown == [("gpu", 6990, Code.GAP)]
    parted = "--\n".join([smi("00.000, 50 W", "00.100, 50 W")] * 3)
    assert {code for _, code in findings(parted, "nvidia-smi").refused} <= {Code.CLOCK_BACK}


@pytest.mark.parametrize(
    ("stamps", "turns"),
    [
        ([0, 5, 100, 106], True),
        ([0, 5, 9, 100, 106, 110], True),
        ([0, 0, 1000, 1000, 2000, 2000], True),
        ([0, 30, 100, 131, 200, 230, 300, 331], True),
        ([0, 1000, 2000, 3000], False),
        ([0, 1000, 2000, 9000, 10_000, 11_000, 12_000], False),
        ([0, 1000, 1500, 9000, 9500], False),
        ([5, 0, 5, 0], False),
        ([0, 5, 100], False),
    ],
)
def test_turns_are_bursts_of_one_length(stamps: list[int], turns: bool) -> None:
    """Short steps between long ones, always as many."""
    assert take_turns(stamps) is turns


@pytest.mark.parametrize(
    ("names", "devices"),
    [
        (("0", "1"), ["n7/gpu-0", "n7/gpu-1"]),
        (("00000000:3B:00.0", "00000000:5E:00.0"), ["n7/00000000:3B:00.0", "n7/00000000:5E:00.0"]),
        (("GPU-a", "GPU-b"), ["GPU-a", "GPU-b"]),
    ],
)
def test_a_log_without_a_header_may_still_name_its_boards(
    names: tuple[str, str], devices: list[str]
) -> None:
    """By an index, a bus address or a UUID; 35 degrees are no index."""
    rows = (f"0{at}.00{one}, {names[one]}, {50 + one}.00 W, 35" for at in (0, 1) for one in (0, 1))
    found = findings(smi(*rows), "nvidia-smi", host="n7")
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [
        (devices[0], 50_000_000),
        (devices[1], 51_000_000),
    ]


def test_a_log_that_was_appended_to_with_other_columns_is_read_by_them() -> None:
    """The index is not 4 W because another run put its columns in another order."""
    text = "timestamp, index, power.draw [W]\n" + smi("00.000, 4, 50.00", "01.000, 4, 50.00")
    text += "timestamp, power.draw [W], index\n" + smi("02.000, 50.00, 4", "03.000, 50.00, 4")
    found = findings(text, "nvidia-smi")
    assert found.booked == [
        ("gpu-4", START + at * 1000, START + at * 1000 + 1000, 50_000_000, MODEL) for at in range(3)
    ]
    assert found.refused == []
    text += "timestamp, index, temperature.gpu\n" + smi("04.000, 4, 35")
    assert findings(text, "nvidia-smi").refused == [(7, Code.NOT_A_ROW), (8, Code.NOT_A_ROW)]


def test_turns_go_on_under_a_header_that_comes_again() -> None:
    """`dmon` repeats its two lines every few rows: its third row is the third turn all the same."""
    header = "# gpu    pwr  gtemp\n# Idx      W      C\n"
    text = (header + "    0     40     35\n    0     40     35\n") * 2
    found = findings(text, "nvidia-smi-dmon", start_ms=START, every_ms=1000)
    assert found.total_uj == 120_000_000 and found.refused == []


def test_dmon_may_be_parted_by_commas() -> None:
    """As `--format csv` prints it."""
    text = "#gpu, pwr, gtemp, mtemp\n#Idx, W, C, C\n0, 43, 35, -\n1, -, 35, -\n0, 45, 35, -\n"
    found = findings(text, "nvidia-smi-dmon", start_ms=START, every_ms=1000)
    assert found.booked == [("gpu-0", START, START + 1000, 44_000_000, MODEL)]
    assert found.refused == [(4, Code.NO_ANSWER)]


def test_what_a_tool_says_before_its_header_is_refused_and_passed() -> None:
    """amd-smi's greeting is no header; a file of greetings alone is no source at all."""
    text = "'CTRL' + 'C' to stop watching output:\ntimestamp,gpu,total_energy_consumption\n"
    text += (
        f"{S},0,20909145.914\n\ntimestamp,gpu,total_energy_consumption\n{S + 1},0,20909188.578\n"
    )
    found = findings(text, "amdsmi")
    assert found.booked == [("gpu-0", START, START + 1000, 42_664_000, HW)]
    assert found.refused == [(1, Code.NOT_A_ROW)]
