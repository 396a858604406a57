"""Every row of `cases.csv`: what is booked of it, what is refused, and why.

A row is `test_case_NN`. Most read their raw file as it is; where the file has one reading, or no
instants, a few more lines in its own format are added, and the test says so.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest

from schemas.records import Grade
from streams.kernel.sharing import split
from streams.meters import Code, Tuning, parse_occupants
from streams.meters.answers import Silence, number
from streams.meters.units import AMD_COUNT_UJ, energy_unit, whole_uj
from tests.meters.support import findings, raw
from tests.shared import shared

START = 1_722_956_400_000
"""2024-08-06T15:00:00Z, what the mapping files begin at."""
HW, MODEL, GUESS = Grade.HW_SHUNT, Grade.MODEL_BASED, Grade.ESTIMATOR


def test_every_row_has_its_test() -> None:
    """The rows of cases.csv and the tests here are the same."""
    rows = csv.DictReader(shared("data", "meters", "cases.csv").read_text().splitlines())
    tests = {int(name[10:12]) for name in globals() if name.startswith("test_case_")}
    assert {int(row["no"]) for row in rows} == tests


def test_case_01_a_counter_that_steps_back_is_never_negative_energy() -> None:
    """The step back is unknown, a new epoch begins there, and counts convert exactly once."""
    more = (
        "2025-08-29T10:24:32Z,cf110,4736957045,15.3,1714024458751,0\n"
        "2025-08-29T10:24:33Z,cf110,4736970299,15.259,1715024458751,0\n"
    )
    found = findings(raw("01") + more, "amdsmi")
    assert found.refused == [(7, Code.FELL)]
    assert found.unknown == [("cf110", 1000, Code.FELL)]
    assert [uj for _, _, _, uj, _ in found.booked] == [
        whole_uj(after * AMD_COUNT_UJ) - whole_uj(before * AMD_COUNT_UJ)
        for before, after in ((4736943791, 4736957045), (4736957045, 4736970299))
    ]
    assert {grade for *_, grade in found.booked} == {HW}
    reading = found.readings[-1]
    assert reading.raw == ("4736957045", "4736970299")
    assert reading.origin is not None and reading.origin.unit == "count(2^-16J)"


def test_case_02_the_same_value_with_the_same_device_stamp_is_stale() -> None:
    """A frozen counter is no zero; values without any stamp are no readings at all."""
    found = findings(raw("02"), "map", map_name="02")
    assert found.booked == []
    assert (4, Code.STALE) in found.refused
    assert [code for line, code in found.refused if line != 4] == [Code.NO_STAMP] * 3


def test_case_03_the_unit_is_part_of_the_reading() -> None:
    """Three scales of one total come to one figure by their units, and count once."""
    found = findings(raw("03"), "map", map_name="03")
    exact = (690439604676 - 690097322004) * AMD_COUNT_UJ
    assert found.booked[0][1:4] == (START, START + 120_008, whole_uj(exact))
    assert found.refused == [(4, Code.SAME_TOTAL), (5, Code.SAME_TOTAL)]


def test_case_03_without_its_unit_nothing_is_booked() -> None:
    """A figure whose unit nobody named is refused; one in a wrong unit is too much to be true."""
    nameless = raw("03").replace("counts of 15.259 uJ (raw; must be multiplied)", "")
    nameless = nameless.replace("uJ (already multiplied by 15.3)", "ergs").replace(",J\n", ",\n")
    found = findings(nameless, "map", map_name="03")
    assert found.booked == []
    assert {code for _, code in found.refused} == {Code.NO_UNIT, Code.UNIT_UNKNOWN}
    wrong = "\n".join(raw("03").splitlines()[:3]) + "\n"
    wrong = wrong.replace("counts of 15.259 uJ (raw; must be multiplied)", "J")
    assert findings(wrong, "map", map_name="03").refused == [(3, Code.QUARANTINED)]


def test_case_04_the_resolution_is_an_exact_rational() -> None:
    """A count is 2**-16 J, not 15.3 or 15.259 uJ, whatever is printed; another one is unknown."""
    assert energy_unit("count(2^-16J)") == Fraction(15625, 1024) == Fraction(10**6, 2**16)
    assert energy_unit("15.3 uJ") == Fraction(153, 10)
    odd = raw("01").replace(",15.3,", ",61.0,")
    assert {code for _, code in findings(odd, "amdsmi").refused} == {Code.UNIT_UNKNOWN}


def test_case_05_a_small_value_after_a_reboot_is_a_lower_bound() -> None:
    """A new boot ends the epoch; what the counter shows since is said, and not booked."""
    header = "timestamp,gpu,raw_count,boot_id\n"
    rows = "1722959154,0,4736943791,a\n1722959155,0,65628,b\n1722959156,0,2622240,b\n"
    found = findings(header + rows, "amdsmi")
    (refusal,) = found.refusals
    assert (refusal.code, refusal.at_least_uj) == (Code.RESET, 1_001_403)
    assert found.unknown == [("gpu-0", 1000, Code.RESET)]
    assert len(found.booked) == 1 and found.booked[0][1] == 1722959155000
    assert findings(raw("05"), "amdsmi").refused == [(3, Code.NO_STAMP), (4, Code.NO_STAMP)]


def test_case_06_two_dies_share_a_meter_and_the_zero_die_is_not_free() -> None:
    """The card is the meter; half a second at 89 W is the 44.5 J that are expected, once."""
    body = raw("06").split("\n", 2)[2]
    found = findings(raw("06") + body, "map", map_name="06")
    expected = {"card-0": 44_500_000, "card-1": 46_500_000, "card-2": 44_000_000}
    expected["card-3"] = 44_000_000
    assert {device: uj for device, _, _, uj, _ in found.booked} == expected
    assert {code for _, code in found.refused} == {Code.ZERO}
    assert len(found.refused) == 8


def test_case_07_partitions_repeat_the_board_and_count_once() -> None:
    """Four instances show one board's total: booked once, split over its claims to the uJ."""
    text = raw("07")
    grown = text.replace("1262721", "1262722").replace("134473486744", "134473487744")
    saved = f"# scrape 1722956400\n{text}# scrape 1722956410\n{grown}"
    occupants = '[[occupant]]\ndevice = "gpu-0"\nclaim = "a"\nmdev = 250\n'
    occupants += occupants.replace('"a"', '"b"').replace("250", "500")
    found = findings(saved, "dcgm", occupancy=parse_occupants(occupants, "o.toml"))
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [
        ("gpu-0", 100_000_000),
        ("gpu-1", 1_000_000),
    ]
    assert [code for _, code in found.refused] == [Code.SAME_TOTAL] * 6
    shares = split(100_000_000, found.readings[0].occupants)
    assert shares == {"a": 33_333_333, "b": 66_666_667}


def test_case_08_time_sliced_pods_repeat_the_board() -> None:
    """Three pods on one board show its draw three times: one total, and its split is a model."""
    pods = "".join(
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-1",pod="p{at}"}} 71.4\n' for at in range(3)
    )
    found = findings(f"# scrape 1722956400\n{pods}# scrape 1722956401\n{pods}", "dcgm")
    assert found.booked == [("GPU-1", START, START + 1000, 71_400_000, MODEL)]
    assert [code for _, code in found.refused] == [Code.SAME_TOTAL] * 4


def test_case_09_sentinels_that_are_printed_as_numbers_are_no_numbers() -> None:
    """Each of the constants is unknown, and so is every i64 from 0x7ffffffffffffff0 on."""
    found = findings(raw("08"), "map", map_name="08")
    assert found.booked == []
    assert [code for _, code in found.refused] == [Code.SENTINEL] * 8
    for value in (2**63 - 16, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1):
        assert number(str(value)) == Silence(code=Code.SENTINEL, detail=str(value))
    for value in (2**47 - 1, 2**31 - 17, 126272101025):
        assert number(str(value)) == value


def test_case_11_a_counter_that_its_power_contradicts_is_graded_lower() -> None:
    """The counter is booked, the other figure stands in the source, nothing is averaged."""
    found = findings(raw("10"), "map", map_name="10")
    assert found.booked == [("gpu", START, START + 5004, 187_442_999, MODEL)]
    assert found.readings[0].notes == ("another figure says 326882568 uJ: grade lowered",)


def test_case_11_live_the_power_is_the_counters_witness() -> None:
    """Over the same window a power that is a tenth away lowers the grade; one that agrees not."""
    header = "timestamp,uuid,total_energy_mJ,power_mW\n"
    rows = "1722956400,GPU-1,1000000,65000\n1722956401,GPU-1,1037000,65000\n"
    assert [one[3:] for one in findings(header + rows, "nvml").booked] == [(37_000_000, MODEL)]
    agreed = rows.replace("1037000", "1065000")
    assert [one[3:] for one in findings(header + agreed, "nvml").booked] == [(65_000_000, HW)]


def test_case_12_a_dip_that_returns_is_a_glitch() -> None:
    """22.5 MJ, 200 J, 22.5 MJ: the dip is refused, the energy between the two others booked."""
    rows = ["22543283", "200", "22543543", "22543803"]
    lines = [f"{1722956400 + 5 * at},GPU-b70,{row}\n" for at, row in enumerate(rows)]
    found = findings("timestamp,uuid,total_energy_J\n" + "".join(lines), "nvml")
    assert found.refused == [(3, Code.GLITCH)]
    assert [one[1:4] for one in found.booked] == [
        (START, START + 10_000, 260_000_000),
        (START + 10_000, START + 15_000, 260_000_000),
    ]
    assert found.unknown == []


def test_case_12_an_underflow_is_never_booked() -> None:
    """The file ends in the dip: nobody knows; the power of 2**64 uJ in 5 s is quarantined."""
    found = findings(raw("11"), "map", map_name="11")
    assert found.booked == []
    assert {code for _, code in found.refused} == {Code.FELL, Code.QUARANTINED, Code.NOT_ENERGY}
    assert ("arc", 5000, Code.FELL) in found.unknown


def test_case_14_petajoules_are_not_billed_to_anybody() -> None:
    """The digits of 2**63 at any scale are no reading; nor is any step above the ceiling."""
    found = findings(raw("13"), "kepler", level="container", at_ms=START)
    assert found.booked == []
    assert [code for _, code in found.refused] == [Code.SENTINEL] * 3
    series = 'kepler_container_package_joules_total{{container_id="c",mode="dynamic"}} {}\n'
    scrapes = [
        f"# scrape {1722956400 + 15 * at}\n" + series.format(joules)
        for at, joules in enumerate(("4.1e5", "7.5e14", "7.6e14"))
    ]
    found = findings("".join(scrapes), "kepler", level="container")
    assert found.booked == []
    assert {code for _, code in found.refused} == {Code.QUARANTINED}


def test_case_15_a_wrap_adds_the_range_once_and_the_rate_is_checked() -> None:
    """5 kW on a laptop is nothing, wrap or not; at a believable scale the wrap is booked."""
    found = findings(raw("14"), "rapl", start_ms=START, every_ms=1000)
    assert found.booked == []
    assert {code for _, code in found.refused} == {Code.QUARANTINED, Code.FELL}
    header = "timestamp,zone,energy_uj,max_energy_range_uj\n"
    rows = "1722956400,package-0,134258672512,137438953472\n"
    rows += "1722956460,package-0,582493184,137438953472\n"
    found = findings(header + rows, "rapl")
    assert [uj for _, _, _, uj, _ in found.booked] == [582493184 + 2**37 - 134258672512]
    assert found.readings[0].notes == ("the counter's range was added once",)


def test_case_15_an_interval_that_could_hold_two_wraps_is_unknown() -> None:
    """Where limit x time reaches the range, no difference means anything, grown or fallen."""
    header = "timestamp,zone,energy_uj,max_energy_range_uj\n"
    for last in (582493184, 134258672513, 136258672512):
        rows = "1722956400,package-0,134258672512,137438953472\n"
        rows += f"1722956600,package-0,{last},137438953472\n"
        assert findings(header + rows, "rapl").unknown == [
            ("host/package-0", 200_000, Code.WRAP_UNKNOWN)
        ]


def test_case_17_without_a_range_a_wrap_cannot_be_corrected() -> None:
    """The drop is unknown, never its absolute value; a range that reads 0 is none."""
    found = findings(raw("16"), "map", map_name="16")
    assert found.booked == []
    assert [code for _, code in found.refused] == [Code.FELL] * 3
    header = "timestamp,zone,energy_uj,max_energy_range_uj\n"
    rows = "1722956400,package-0,261439000000,0\n1722956415,package-0,708000000,0\n"
    assert findings(header + rows, "rapl").unknown == [("host/package-0", 15_000, Code.FELL)]


def test_case_20_across_a_restart_the_energy_since_boot_is_a_floor() -> None:
    """2**63 J beside 392 kJ is no energy; across a boot the counter's value is a lower bound."""
    found = findings(raw("19"), "map", map_name="19")
    assert found.booked == [("other", START, START + 3_600_000, 392_982_000_000, MODEL)]
    assert sorted(found.refused) == [(3, Code.SENTINEL), (4, Code.NESTED)]
    assert found.unknown == [("restarted", 3_600_000, Code.SENTINEL)]
    header = "timestamp,uuid,total_energy_J,boot_id\n"
    rows = "1722956400,GPU-1,4000000,b1\n1722960000,GPU-1,250000,b2\n"
    (refusal,) = findings(header + rows, "nvml").refusals
    assert (refusal.code, refusal.at_least_uj) == (Code.RESET, 250_000_000_000)


def test_case_21_an_absent_meter_is_no_meter_at_zero() -> None:
    """A column of zeros is unknown from its first line to its last."""
    rows = "".join(f"{1722956400 + at},GPU-1,0\n" for at in range(5))
    found = findings("timestamp,uuid,total_energy_mJ\n" + rows, "nvml")
    assert found.booked == []
    assert found.unknown == [("GPU-1", 4000, Code.ZERO)]


def test_case_22_two_fields_called_energy() -> None:
    """The field in joules is booked and named in the source, once; the other one is no energy."""
    found = findings(raw("20"), "map", map_name="20")
    assert found.booked == [("node", START, START + 122_000, 101_630_000_000, MODEL)]
    assert found.refused == [(4, Code.SAME_TOTAL), (5, Code.NOT_ENERGY)]
    origin = found.readings[0].origin
    assert origin is not None and (origin.field, origin.unit) == ("value", "J")
    sacct = "JobID|Start|End|NodeList|ConsumedEnergyRaw\n7|2024-08-06T15:00:00|"
    sacct += "2024-08-06T15:02:02|n1|101630\n"
    origin = findings(sacct, "slurm").readings[0].origin
    assert origin is not None and (origin.field, origin.unit) == ("ConsumedEnergyRaw", "J")


@pytest.mark.parametrize(
    "value", ["4294967294", "18446744073709551614", "4294967295", "0", ""], ids=str
)
def test_case_23_slurms_no_value_and_its_zero_are_unknown(value: str) -> None:
    """NO_VAL, NO_VAL64 and a zeroed accumulator leave the job's window unknown."""
    sacct = "JobID|Start|End|NodeList|ConsumedEnergyRaw\n7|2024-08-06T15:00:00|"
    found = findings(sacct + f"2024-08-06T16:00:00|n1|{value}\n", "slurm")
    assert found.booked == []
    ((device, length, code),) = found.unknown
    assert (device, length) == ("n1", 3_600_000)
    assert code in (Code.SENTINEL, Code.ZERO, Code.NO_ANSWER)


def test_case_24_words_are_a_closed_list() -> None:
    """Each cell that was seen is unknown with a reason; any other word is no line of this."""
    cells = [line.split(",")[0] for line in raw("21").splitlines()[2:]]
    for cell in (*cells, "", "-", "N/A", "[GPU requires reset]", "nan"):
        rows = f"2024/08/06 15:00:00.000, GPU-1, 71.00 W\n2024/08/06 15:00:01.000, GPU-1, {cell}\n"
        rows += "2024/08/06 15:00:02.000, GPU-1, 71.00 W\n"
        found = findings("timestamp, uuid, power.draw [W]\n" + rows, "nvidia-smi")
        assert found.refused == [(3, Code.NO_ANSWER)], cell
        assert found.unknown == [("GPU-1", 2000, Code.NO_ANSWER)]
        assert found.booked == []
    rows = "2024/08/06 15:00:00.000, GPU-1, about 70 W\n"
    found = findings("timestamp, uuid, power.draw [W]\n" + rows, "nvidia-smi")
    assert found.refused == [(2, Code.NOT_A_NUMBER)]


def test_case_25_a_torn_tail_is_dropped() -> None:
    """A line without all its fields, or without its newline, is refused even if it parses."""
    found = findings(raw("22"), "nvidia-smi")
    assert found.booked == []
    assert [line for line, code in found.refused if code is Code.TORN] == [3, 6, 9, 12]
    whole = "2024/04/04 06:40:21.380, 388.42 W, 98 %, 41 %\n"
    whole += "2024/04/04 06:40:22.380, 388.42 W, 98 %, 41 %\n2024/04/04 06:40:23.380, 3"
    found = findings(whole, "nvidia-smi")
    assert found.total_uj == 388_420_000
    assert found.refused == [(3, Code.TORN)]
    cut = "timestamp, uuid, power.draw [W]\n2024/04/04 06:40:22.486, GPU-1, 36"
    assert findings(cut, "nvidia-smi").refused == [(2, Code.TORN)]
    bare = "timestamp, uuid, power.draw\n2024/04/04 06:40:22.486, GPU-1, 36\n"
    assert findings(bare, "nvidia-smi").refused == [(2, Code.NO_UNIT)]


def test_case_27_microjoules_and_millijoules_in_one_record() -> None:
    """Each field has its own unit; what lies inside the package is not added to it."""
    found = findings(raw("24"), "pyjoules")
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [
        ("host/package_0", 153_976_351),
        ("host/nvidia_gpu_0", 192_276_000),
    ]
    assert found.refused == [(2, Code.NESTED)]
    assert {to - begin for _, begin, to, _, _ in found.booked} == {3764}


def test_case_29_only_disjoint_domains_are_booked() -> None:
    """Packages and memory are disjoint; 200 W of sleeping memory is quarantined; cores nest."""
    found = findings(raw("26"), "map", map_name="26")
    assert {device: uj for device, _, _, uj, _ in found.booked} == {
        "host/package0": 190_462_097,
        "host/package1": 243_075_195,
        "host/dram_package1": 5_977_905,
    }
    assert found.refused == [(5, Code.QUARANTINED)]
    rows = "".join(
        f"1722956400,{zone},1000000\n1722956401,{zone},2000000\n"
        for zone in ("package-0", "core", "uncore", "psys", "intel-rapl:1", "dram")
    )
    found = findings("timestamp,zone,energy_uj\n" + rows, "rapl")
    assert {device for device, *_ in found.booked} == {"host/package-0", "host/dram"}
    assert [code for _, code in found.refused] == [Code.NESTED] * 8


def test_case_30_the_meters_own_stamp_and_a_unit_for_each_channel() -> None:
    """A meter that publishes every two seconds is not 0 W and then the double."""
    facts = findings(raw("27").replace("fact,value", "channel,value"), "map", map_name="27ioreport")
    assert facts.booked == [] and facts.refused
    rows = ""
    for at, (gpu, cpu, stamp) in enumerate(
        ((5, 5, 10), (5, 5, 10), (9, 7, 12), (9, 7, 12), (13, 9, 14))
    ):
        rows += f"{START + at * 1000},GPU Energy,{gpu}000000000,nJ,{stamp}000000000\n"
        rows += f"{START + at * 1000},CPU Energy,{cpu}000,mJ,{stamp}000000000\n"
    found = findings("time_ms,channel,value,unit,stamp_ns\n" + rows, "map", map_name="27")
    assert [one[1:4] for one in found.booked if one[0] == "GPU Energy"] == [
        (START, START + 2000, 4_000_000),
        (START + 2000, START + 4000, 4_000_000),
    ]
    assert [uj for device, _, _, uj, _ in found.booked if device == "CPU Energy"] == [2_000_000] * 2
    assert {code for _, code in found.refused} == {Code.STALE}


def test_case_31_a_wall_meters_negative_numbers_and_gaps() -> None:
    """-1 and -2 are no readings, of one instant the first valid stands, 7 s are a gap."""
    found = findings(raw("28"), "wall")
    negative = [line for line, code in found.refused if code is Code.NEGATIVE]
    assert negative == [5, 12, 13]
    assert [one[1:] for one in found.unknown] == [(3000, Code.NEGATIVE), (7000, Code.GAP)]
    assert {grade for *_, grade in found.booked} == {HW}
    windows = [(begin, to) for _, begin, to, _, _ in found.booked]
    assert windows[1:3] == [(1615939239458, 1615939241317), (1615939241317, 1615939242466)]
    filled = findings(raw("28"), "wall", tuning=Tuning(fill_ms=7000))
    assert [grade for *_, grade in filled.booked].count(GUESS) == 2
    assert filled.unknown == []


def test_case_32_the_average_where_it_is_offered_and_the_field_is_named() -> None:
    """Turing and A100 have no average: the next name is taken, and the source says so."""
    found = findings(raw("29"), "nvidia-smi", tuning=Tuning(gap_ms=20_000))
    origins = {one.device: one.origin for one in found.readings if one.uj is not None}
    turing, hopper = origins["nvidia-geforce-rtx-2080-super"], origins["nvidia-h100-mig"]
    assert turing is not None and turing.field == "power_draw"
    assert turing.notes == ("power_avg gave no answer",)
    assert hopper is not None and (hopper.field, hopper.notes) == ("power_avg", ())
    energy = {one.device: one.uj for one in found.readings if one.uj is not None}
    assert energy["nvidia-h100-mig"] == (71_150 + 433_780) * 16_787 // 2
    assert {grade for *_, grade in found.booked} == {MODEL}
    assert {code for _, code in found.refused} == {Code.CLOCK_BACK}


def test_case_33_the_scope_is_part_of_the_reading() -> None:
    """A module contains its GPU: one of them is booked, by choice; GH200 counts its module."""
    found = findings(raw("30"), "nvidia-smi", start_ms=START, every_ms=1000)
    assert [line for line, code in found.refused if code is Code.NESTED] == [8, 9]
    body = raw("30").split("\n", 2)[2]
    twice = raw("30") + body
    for scope, watts in (("board", "165.93"), ("module", "467.17")):
        found = findings(twice, "nvidia-smi", start_ms=START, every_ms=1000, scope=scope)
        booked = {device: uj for device, _, _, uj, _ in found.booked}
        assert booked["NVIDIA GB200"] == Fraction(watts) * 10**6
    labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA GH200 480GB"'
    scrape = f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} "
    saved = f"# scrape 1722956400\n{scrape}1000000\n# scrape 1722956401\n{scrape}1600000\n"
    (reading,) = findings(saved, "dcgm").readings
    assert reading.origin is not None and reading.origin.scope == "module"


def test_case_36_an_exporter_that_serves_old_values_is_unknown() -> None:
    """An hour of one value: unknown after five minutes, and until it moves again."""
    label = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-1"} '
    values = [1_000_000, 1_030_000, *[1_030_000] * 240, 1_900_000, 1_930_000]
    saved = "".join(
        f"# scrape {1722956400 + 15 * at}\n{label}{value}\n" for at, value in enumerate(values)
    )
    found = findings(saved, "dcgm")
    assert [to - begin for _, begin, to, _, _ in found.booked] == [15_000, 15_000]
    assert {code for *_, code in found.unknown} == {Code.STALE}
    assert sum(length for _, length, _ in found.unknown) == 241 * 15_000
    assert [code for _, code in found.refused] == [Code.STALE] * 240


def test_case_37_a_job_and_its_steps_are_settled_on_one_level() -> None:
    """4.19 GJ of a job with steps below it is 4.19 GJ; the rounded figure says that it is one."""
    sacct = "JobID|Start|End|NodeList|ConsumedEnergy\n"
    window = "2024-08-06T15:00:00|2024-08-07T15:00:00|nid[001-004]"
    sacct += f"9|{window}|4.19G\n9.batch|{window}|418.52M\n9.extern|{window}|4.19G\n"
    found = findings(sacct + f"9.0|{window}|3.77G\n", "slurm")
    assert found.booked == [
        ("nid[001-004]", START, START + 86_400_000, 4_190_000_000 * 10**6, MODEL)
    ]
    assert [code for _, code in found.refused] == [Code.NESTED] * 3
    assert found.readings[0].notes == ("4.19G: a rounded figure",)


def test_case_38_a_shared_host_is_charged_once_and_split() -> None:
    """763,840 J shown to each of three jobs on one host is 763,840 J over the three."""
    sacct = "JobID|Start|End|NodeList|AllocTRES|ConsumedEnergyRaw\n"
    for job, gpus in ((1, 1), (2, 1), (3, 2)):
        sacct += f"{job}|2024-08-06T15:00:00|2024-08-06T15:30:00|n1|cpu=8,gres/gpu={gpus}|763840\n"
    sacct += "4|2024-08-06T15:10:00|2024-08-06T15:20:00|n[0-1]|cpu=1|763840\n"
    found = findings(sacct, "slurm")
    assert found.booked == [("n1", START, START + 1_800_000, 763_840_000_000, MODEL)]
    assert [code for _, code in found.refused] == [Code.SAME_TOTAL] * 2 + [Code.OVERLAPS]
    shares = split(763_840_000_000, found.readings[0].occupants)
    assert shares == {"1": 190_960_000_000, "2": 190_960_000_000, "3": 381_920_000_000}
    assert sum(shares.values()) == found.total_uj


def test_every_raw_file_is_read_by_a_test() -> None:
    """No raw file is left out of this module."""
    numbers = {path.name[:2] for path in shared("data", "meters").glob("[0-9]*")}
    source = Path(__file__).read_text()
    assert {one for one in numbers if f'raw("{one}")' not in source} == set()


def test_amd_smi_watch_books_joules_with_three_decimals() -> None:
    """File 04, of no case: four readings of two boards a second apart."""
    found = findings(raw("04"), "amdsmi")
    assert found.refused == [] and found.unknown == []
    assert [uj for device, _, _, uj, _ in found.booked if device == "gpu-0"] == [
        42_664_000,
        42_708_000,
        42_703_000,
    ]
