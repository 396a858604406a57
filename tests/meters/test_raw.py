"""Raw text as tools leave it: greetings, changed headers, nameless boards, other spellings.

Each row here was printed by a real tool, shortened; a reader that is not careful books it wrongly.
"""

from __future__ import annotations

import pytest

from schemas.records import Grade
from streams.meters import Code, MeterError
from streams.meters.mapfile import parse_mapping
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


def test_the_same_index_on_two_hosts_is_two_boards() -> None:
    """A column that names the host belongs to the name; a UUID needs none."""
    text = "timestamp,hostname,gpu,energy_mJ\n" + "".join(
        f"{S + at},{host},0,{first + 500 * at}\n"
        for at in range(2)
        for host, first in (("a", 1000), ("b", 900_000))
    )
    found = findings(text, "nvml")
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [
        ("a/gpu-0", 500_000),
        ("b/gpu-0", 500_000),
    ]
    assert findings(text.replace(",0,", ",GPU-1,").replace("gpu,", "uuid,"), "nvml").refused


def test_rocm_smis_counts_go_before_its_rounded_microjoules() -> None:
    """Its accumulated uJ are counts times 15.3: 0.27 % too many."""
    text = "timestamp,device,Energy counter,Accumulated Energy (uJ)\n"
    text += f"{S},card0,65536000,1002700800.0\n{S + 1},card0,72089600,1102970880.0\n"
    assert findings(text, "amdsmi").booked == [("card0", START, START + 1000, 100_000_000, HW)]


def test_what_amds_library_returns_is_counts_and_its_devices_clock() -> None:
    """`power` beside a resolution are counts; its `timestamp` in ns is no instant of ours."""
    text = "gpu,power,counter_resolution,timestamp\n"
    text += "0,65536000,15.300000190734863,1712024507665\n"
    text += "0,72089600,15.300000190734863,1713024507665\n"
    assert {code for _, code in findings(text, "amdsmi").refused} == {Code.NO_STAMP}
    found = findings(text, "amdsmi", start_ms=START, every_ms=1000)
    assert found.booked == [("gpu-0", START, START + 1000, 100_000_000, HW)]


def test_a_sysfs_dump_may_begin_with_its_instant() -> None:
    """As `date +%s; grep -r . /sys/class/powercap` prints it; MMIO is the same package again."""
    root = "/sys/class/powercap/intel-rapl"
    dump = f"{root}/intel-rapl:0/name:package-0\n{root}/intel-rapl:0/energy_uj:@\n"
    dump += f"{root}/intel-rapl:0/power/control:auto\n"
    dump += f"{root}-mmio/intel-rapl-mmio:0/name:package-0\n"
    dump += f"{root}-mmio/intel-rapl-mmio:0/energy_uj:@\n"
    text = "".join(f"{S + at}\n{dump.replace('@', str(10**8 + at * 10**7))}" for at in range(2))
    found = findings(text, "rapl")
    assert found.booked == [("socket-0/package-0", START, START + 1000, 10_000_000, HW)]
    assert [code for _, code in found.refused] == [Code.SAME_TOTAL] * 2


def test_a_zones_name_goes_before_its_path_and_perf_has_names_of_its_own() -> None:
    """Two sockets' memories stay two; `energy-psys` contains `energy-pkg`."""
    rows = (("0", "package-0"), ("0:0", "dram"), ("1", "package-1"), ("1:0", "dram"), ("2", "psys"))
    text = "timestamp,zone,name,energy_uj\n" + "".join(
        f"{S + at},intel-rapl:{zone},{name},{10**8 + at * 10**6}\n"
        for at in range(2)
        for zone, name in rows
    )
    found = findings(text, "rapl")
    assert len(found.booked) == 4 and len({device for device, *_ in found.booked}) == 4
    assert [code for _, code in found.refused] == [Code.NESTED] * 2
    perf = "timestamp,domain,energy_j\n" + "".join(
        f"{S + at},power/energy-{name}/,{100 + at}\n"
        for at in range(2)
        for name in ("pkg", "cores", "ram", "psys")
    )
    assert [device for device, *_ in findings(perf, "rapl").booked] == [
        "host/power/energy-pkg/",
        "host/power/energy-ram/",
    ]


@pytest.mark.parametrize(
    "cell",
    ["N/A (Secondary die)", "NVMLError_NotSupported", "Uninitialized", "N/A W", "[N/A] W"],
)
def test_words_that_libraries_print_are_no_answers(cell: str) -> None:
    """With a unit behind them or an error's name around them they are the same words."""
    text = f"timestamp,gpu,power_W\n{S},0,50\n{S + 1},0,{cell}\n{S + 2},0,50\n"
    found = findings(text, "nvml")
    assert found.refused == [(3, Code.NO_ANSWER)]
    assert found.unknown == [("gpu-0", 2000, Code.NO_ANSWER)]


def test_words_of_units_are_the_same_in_any_case() -> None:
    """IPMI prints `120 Watts`; of `mW` and `MW` the case counts."""
    text = f"time,power [W]\n{S},120 Watts\n{S + 1},120 Watts\n"
    assert findings(text, "wall").total_uj == 120_000_000
    mega = f"time,power_MW\n{S},120\n{S + 1},120\n"
    assert {code for _, code in findings(mega, "wall").refused} == {Code.QUARANTINED}


def test_outlets_of_a_power_strip_are_meters_of_their_own() -> None:
    """A column that names the outlet, and the strip it is on."""
    text = "time,pdu,outlet,watts\n" + "".join(
        f"{S + at}.{one},{pdu},{one},{100 * one}\n"
        for at in range(2)
        for pdu in ("p", "q")
        for one in (1, 2)
    )
    found = findings(text, "wall")
    assert sorted((device, uj) for device, _, _, uj, _ in found.booked) == [
        ("p/1", 100_000_000), ("p/2", 200_000_000), ("q/1", 100_000_000), ("q/2", 200_000_000),
    ]  # fmt: skip


def test_a_table_whose_first_column_is_time_is_not_ptdaemons() -> None:
    """A header has no instant behind the word."""
    text = "Time,Power (W),Voltage\n2024-08-06T15:00:00,120,230\n2024-08-06T15:00:01,120,230\n"
    assert findings(text, "wall").booked == [("wall", START, START + 1000, 120_000_000, HW)]


@pytest.mark.parametrize("text", ["08/06/2024 15:00:00", "3824190842400799", "2524608000"])
def test_what_could_be_another_instant_is_none(text: str) -> None:
    """A day or a month; a device's nanoseconds, or microseconds of the year 2091."""
    found = findings(f"time,watts\n{text},120\n", "wall")
    assert found.refused == [(2, Code.NO_STAMP)]


JOBS = "JobID|Start|End|NodeList|AllocTRES|ConsumedEnergy\n"
HOUR = "2024-08-06T15:00:00|2024-08-06T16:00:00"


def test_a_job_without_nodes_is_nobodys() -> None:
    """`None assigned` is no host."""
    found = findings(JOBS + f"1|{HOUR}|None assigned|cpu=1|5\n", "slurm")
    assert found.readings == [] and found.refused == [(2, Code.NO_DEVICE)]


@pytest.mark.parametrize("text", ["4.29G", "4294.97M", "4294967.29K", "18446744.07T"])
def test_what_no_value_is_rounded_to_is_no_value(text: str) -> None:
    """Even where so much would be possible; its neighbours are energies."""
    day = HOUR.replace("06T16", "16T16")
    assert findings(JOBS + f"1|{day}|n[1-9]|cpu=1|{text}\n", "slurm").refused == [
        (2, Code.SENTINEL)
    ]
    assert len(findings(JOBS + f"1|{day}|n[1-9]|cpu=1|4.28G\n", "slurm").booked) == 1


def test_accelerators_may_be_counted_by_type() -> None:
    """Three of two types are three thirds more than one."""
    rows = f"1|{HOUR}|n1|cpu=8,gres/gpu:a100=2,gres/gpu:h100=1,node=1|763840\n"
    rows += f"2|{HOUR}|n1|cpu=8,gres/gpu:a100=1,gres/gpu=1,node=1|763840\n"
    (reading,) = findings(JOBS + rows, "slurm").readings
    assert [(one.claim, one.mdev) for one in reading.occupants] == [("1", 3000), ("2", 1000)]


def test_saccts_default_table_is_read_by_its_dashes() -> None:
    """A cell that was moved from under its column is no cell: 101.63K cut short is 101.63."""
    widths = (12, 19, 19, 8, 14)
    table = [
        ("JobID", "Start", "End", "NodeList", "ConsumedEnergy"),
        tuple("-" * width for width in widths),
        ("1", *HOUR.split("|"), "n1", "101.63K"),
        ("1.batch", *HOUR.split("|"), "n1", "101.63K"),
        ("2", *HOUR.split("|"), "n2", ""),
        ("3", *HOUR.split("|"), "n[1-200+", "5K"),
        ("123456789_1+", *HOUR.split("|"), "n4", "5K"),
    ]
    rows = [" ".join(map(str.rjust, row, widths)) + " \n" for row in table]
    found = findings("".join(rows), "slurm")
    assert found.booked == [("n1", START, START + 3_600_000, 101_630_000_000, MODEL)]
    assert found.unknown == [("n2", 3_600_000, Code.NO_ANSWER)]
    assert found.refused == [
        (4, Code.NESTED), (5, Code.NO_ANSWER), (6, Code.NOT_A_ROW), (7, Code.NOT_A_ROW),
    ]  # fmt: skip
    moved = "".join([*rows[:2], " " + rows[2]])
    assert findings(moved, "slurm").refused == [(3, Code.NOT_A_ROW)]


def test_json_may_be_printed_over_many_lines() -> None:
    """As amd-smi prints it; a document that is not closed is torn, and swallows nothing else."""
    mapping = parse_mapping(
        """
        container = "json"
        device = "gpu"
        identity = "index"
        [[meter]]
        column = "energy.value"
        unit_column = "energy.unit"
        """,
        "amdsmi.toml",
    )
    cell = '    {\n        "gpu": 0,\n        "energy": {"value": @, "unit": "J"}\n    }\n'
    text = "".join(f"[\n{cell.replace('@', value)}]\n" for value in ("20.5", "21.5"))
    found = findings(text, "map", mapping=mapping, start_ms=START, every_ms=1000)
    assert found.booked == [("gpu-0", START, START + 1000, 1_000_000, HW)]
    cut = findings(text[:-2], "map", mapping=mapping, start_ms=START, every_ms=1000)
    assert cut.refused == [(7, Code.TORN)]
    lines = text.splitlines(keepends=True)
    killed = "".join([*lines[:4], *lines])
    found = findings(killed, "map", mapping=mapping, start_ms=START, every_ms=1000)
    assert found.refused == [(1, Code.TORN)] and found.total_uj == 1_000_000


@pytest.mark.parametrize(
    ("form", "header"),
    [
        ("nvml", "timestamp,gpu,energy_delta_mJ"),
        ("amdsmi", "timestamp,gpu,interval energy [J]"),
        ("wall", "time,energy_per_interval_Wh"),
        ("wall", "time,watts,watts"),
    ],
)
def test_what_is_no_running_total_or_stands_there_twice_is_not_guessed(
    form: str, header: str
) -> None:
    """Differences of differences are no energy; of two columns of one name nobody knows which."""
    row = ",".join([str(S), *["5"] * header.count(",")])
    with pytest.raises(MeterError):
        findings(f"{header}\n{row}\n", form)


def test_an_outlet_with_a_number_is_no_graphics_board() -> None:
    """Its name would be the board's that another source reads."""
    text = f"time,device_id,power_W\n{S},3,120\n{S + 1},3,120\n"
    assert [device for device, *_ in findings(text, "wall").booked] == ["3"]
