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


ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
POWER = "DCGM_FI_DEV_POWER_USAGE"


def scraped(text: str, *values: object, every_s: int = 10) -> str:
    """Scrapes of a text, `@` standing for each one's value."""
    return "".join(
        f"# scrape {S + at * every_s}\n{text.replace('@', str(value))}"
        for at, value in enumerate(values)
    )


def test_openmetrics_has_seconds_exemplars_and_an_end() -> None:
    """Its instants are seconds with a fraction; thousands parted by a blank are no instant."""
    series = f'{ENERGY}{{UUID="GPU-1"}} '
    text = f"# TYPE {ENERGY} counter\n{series}1000000 {S}.123\n# EOF\n"
    text += f'{series}1100000 {S + 1}.123 # {{trace_id="a"}} 5 {S}.5\n# EOF\n'
    found = findings(text, "dcgm")
    assert found.booked == [("GPU-1", START + 123, START + 1123, 100_000_000, HW)]
    thousands = findings(scraped(f"{series}1 000\n", ""), "dcgm")
    assert thousands.refused == [(2, Code.NOT_A_NUMBER)]


def test_a_series_that_is_printed_twice_does_not_end_a_marked_scrape() -> None:
    """What stands below it is of the same instant."""
    energy, power = f'{ENERGY}{{UUID="GPU-1"}} @\n', f'{POWER}{{UUID="GPU-1"}} 100\n'
    found = findings(scraped(energy * 2 + power, 1_000_000, 2_000_000), "dcgm")
    assert found.booked == [("GPU-1", START, START + 10_000, 1_000_000_000, HW)]
    assert [code for _, code in found.refused] == [Code.DUPLICATE_STAMP] * 2


def test_two_recordings_of_scrapes_are_not_measured_across() -> None:
    """The scrape before `--` belongs to what stands before it."""
    one = scraped(f'{ENERGY}{{UUID="GPU-1"}} @\n', 1_000_000, 1_010_000)
    found = findings(one + "--\n" + one.replace(str(S)[:7], str(S + 1000)[:7]), "dcgm")
    assert len(found.booked) == 2 and found.unknown == []


def test_a_partition_that_is_named_by_its_own_uuid_is_its_boards() -> None:
    """The board's total under a partition's UUID is no second board."""
    text = f'{ENERGY}{{gpu="0",UUID="MIG-a",Hostname="h"}} @\n'
    text += f'{ENERGY}{{gpu="0",UUID="GPU-1",Hostname="h"}} @\n'
    found = findings(scraped(text, 1_000_000, 2_000_000), "dcgm")
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [("GPU-1", 1_000_000_000)]
    assert [code for _, code in found.refused] == [Code.SAME_TOTAL] * 2


def test_boards_with_the_same_index_belong_to_the_hosts_that_were_scraped() -> None:
    """Two targets' first boards are two, also where only the scraper says which."""
    text = "".join(f'{ENERGY}{{gpu="0",instance="{one}:9400"}} @\n' for one in "ab")
    found = findings(scraped(text, 1_000_000, 2_000_000), "dcgm")
    assert [device for device, *_ in found.booked] == ["a:9400/gpu-0", "b:9400/gpu-0"]


def test_each_sockets_zones_are_meters_of_their_own() -> None:
    """Two memories, two GPUs of a node, a package by its die: none hides the other."""
    text = "".join(
        f'kepler_node_cpu_joules_total{{zone="dram",path="/sys/intel-rapl:{one}:1"}} @\n'
        f'kepler_node_gpu_joules_total{{mode="dynamic",index="{one}"}} @\n'
        for one in range(2)
    )
    text += 'node_rapl_package_0_die_joules_total{index="1"} @\n'
    found = findings(scraped(text, 100, 400), "kepler", host="n")
    assert [device for device, *_ in found.booked] == [
        "n/dram-0", "n/gpu-0/dynamic", "n/dram-1", "n/gpu-1/dynamic", "n/package_0_die-1",
    ]  # fmt: skip
    assert found.refused == []


def test_sums_of_zones_and_unknown_modes_are_named_and_not_booked() -> None:
    """Energy that is not booked is refused by name, not passed over."""
    text = 'kepler_node_joules_total{instance="n7"} @\n'
    text += 'kepler_node_package_joules_total{instance="n7",mode="absolute"} @\n'
    found = findings(scraped(text, 100, 400), "kepler")
    assert found.booked == []
    assert [code for _, code in found.refused] == [Code.NESTED] * 4
