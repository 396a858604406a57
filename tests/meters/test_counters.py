"""Counters and powers step by step: what is held, what a gap costs, what is joined and cut."""

from __future__ import annotations

from fractions import Fraction

from schemas.records import Grade
from streams.meters import Code, Tuning, parse_occupants
from tests.meters.support import findings

START_S = 1722956400
START = START_S * 1000
HEADER = "timestamp,uuid,total_energy_J\n"


def counter(*values: int | str, every_s: int = 1) -> str:
    """An NVML dump of one board, a value a second."""
    rows = (f"{START_S + at * every_s},GPU-1,{value}\n" for at, value in enumerate(values))
    return HEADER + "".join(rows)


def watts(*values: int | str, every_ms: int = 1000) -> str:
    """A wall meter's CSV, a value a second."""
    rows = (f"{START + at * every_ms},{value}\n" for at, value in enumerate(values))
    return "time,watts\n" + "".join(rows)


def test_a_reset_is_confirmed_by_the_next_reading() -> None:
    """100 000 J, then near zero and growing: one window unknown, then a new epoch."""
    found = findings(counter(100_000, 100_300, 12, 290, 600), "nvml")
    assert [uj // 10**6 for _, _, _, uj, _ in found.booked] == [300, 278, 310]
    assert found.unknown == [("GPU-1", 1000, Code.FELL)]
    assert [one.at_least_uj for one in found.refusals] == [12_000_000]


def test_a_spike_is_a_glitch_as_a_dip_is() -> None:
    """A value far above that is gone in the next reading costs nothing but its line."""
    found = findings(counter(1000, 10**9, 1400, 1600), "nvml")
    assert [(to - begin, uj // 10**6) for _, begin, to, uj, _ in found.booked] == [
        (2000, 400),
        (1000, 200),
    ]
    assert found.refused == [(3, Code.GLITCH)]


def test_a_jump_that_stays_is_a_new_epoch() -> None:
    """A counter that jumps and goes on from there was another counter: the jump is unknown."""
    found = findings(counter(1000, 10**9, 10**9 + 300), "nvml")
    assert [uj // 10**6 for _, _, _, uj, _ in found.booked] == [300]
    assert found.unknown == [("GPU-1", 1000, Code.QUARANTINED)]


def test_what_is_held_at_the_end_stays_unknown() -> None:
    """Nothing came that could confirm it."""
    found = findings(counter(1000, 1300, 5), "nvml")
    assert found.unknown == [("GPU-1", 1000, Code.FELL)]


def test_silence_costs_a_counter_nothing() -> None:
    """It went on counting: the next reading closes the window."""
    found = findings(counter(1000, "[N/A]", "N/A", 1900), "nvml")
    assert [(to - begin, uj) for _, begin, to, uj, _ in found.booked] == [(3000, 900_000_000)]
    assert found.unknown == []


def test_a_still_counter_keeps_its_window_open() -> None:
    """A meter that publishes every other second is no zero and no double."""
    found = findings(counter(1000, 1000, 1600, 1600, 2200), "nvml")
    assert [(to - begin, uj // 10**6) for _, begin, to, uj, _ in found.booked] == [
        (2000, 600),
        (2000, 600),
    ]
    assert [code for _, code in found.refused] == [Code.STALE] * 2


def test_a_clock_that_steps_back_is_ordered_by_sequence_and_its_window_unknown() -> None:
    """What the clock repeats cannot be placed; from where it is ahead again it is measured."""
    rows = [(0, 1000), (1, 1200), (2, 1400), (0, 1600), (1, 1800), (2, 2000), (3, 2200), (4, 2500)]
    text = HEADER + "".join(f"{START_S + at},GPU-1,{value}\n" for at, value in rows)
    found = findings(text, "nvml")
    assert [(begin - START, uj // 10**6) for _, begin, _, uj, _ in found.booked] == [
        (0, 200),
        (1000, 200),
        (3000, 300),
    ]
    assert found.unknown == [("GPU-1", 1000, Code.CLOCK_BACK)]
    assert [code for _, code in found.refused] == [Code.CLOCK_BACK] * 3


def test_without_instants_a_fall_is_still_a_fall() -> None:
    """Nothing can be booked; but the line that fell is told from those that only have no time."""
    found = findings("5000000\n6000000\n400\n900\n", "rapl")
    assert [code for _, code in found.refused] == [
        Code.NO_STAMP, Code.NO_STAMP, Code.FELL, Code.NO_STAMP,
    ]  # fmt: skip


def test_a_draw_that_never_moves_is_an_old_one() -> None:
    """71.36 W for ten minutes: after five nobody believes it; 71 W might be."""
    served = findings(watts(*["71.36"] * 130, every_ms=5000), "wall")
    assert served.total_uj == 60 * 5 * 71_360_000
    assert {code for _, code in served.refused} == {Code.STALE}
    assert served.unknown == [("wall", 69 * 5000, Code.STALE)]
    assert findings(watts(*["71"] * 130, every_ms=5000), "wall").unknown == []


def test_a_power_is_a_line_between_its_samples() -> None:
    """100 W, then 200 W a second later: 150 J."""
    found = findings(watts(100, 200), "wall")
    assert found.booked == [("wall", START, START + 1000, 150_000_000, Grade.HW_SHUNT)]


def test_a_failed_reading_opens_a_hole_whatever_its_length() -> None:
    """One -1 between two good seconds: two seconds nobody measured."""
    found = findings(watts(100, -1, 100, 100), "wall")
    assert found.unknown == [("wall", 2000, Code.NEGATIVE)]
    assert found.total_uj == 100_000_000
    filled = findings(watts(100, -1, 100, 100), "wall", tuning=Tuning(fill_ms=2000))
    assert [grade for *_, grade in filled.booked] == [Grade.ESTIMATOR, Grade.HW_SHUNT]
    assert filled.total_uj == 300_000_000


def test_windows_sum_to_the_rounding_of_their_exact_sum() -> None:
    """A thousand windows of a third of a microjoule more lose less than one in all."""
    text = watts(*(["0.0001003"] * 1001), every_ms=10)
    assert findings(text, "wall").total_uj == int(Fraction("100.3") * 10)
    counts = "timestamp,gpu,count\n" + "".join(
        f"{START_S + at},0,{1000 + at}\n" for at in range(101)
    )
    total = findings(counts, "amdsmi").total_uj
    assert total == 1100 * 15625 // 1024 - 1000 * 15625 // 1024


def test_integrated_power_is_cut_where_the_occupants_change() -> None:
    """A claim that comes in the middle of a line has the part of it that is its own."""
    occupants = f"""
        [[occupant]]
        device = "wall"
        claim = "a"
        to = {START + 250}
        [[occupant]]
        device = "wall"
        claim = "b"
        from = {START + 250}
    """
    occupancy = parse_occupants(occupants, "o.toml")
    found = findings(watts(100, 200), "wall", occupancy=occupancy)
    held = [([one.claim for one in reading.occupants], reading.uj) for reading in found.readings]
    assert held == [(["a"], 28_125_000), (["b"], 121_875_000)]


def test_a_counters_window_cannot_be_cut_and_is_a_model_then() -> None:
    """Between two counter readings nobody knows who took what."""
    occupants = f'[[occupant]]\ndevice = "GPU-1"\nclaim = "a"\nto = {START + 250}\n'
    found = findings(counter(1000, 1300), "nvml", occupancy=parse_occupants(occupants, "o.toml"))
    assert [grade for *_, grade in found.booked] == [Grade.MODEL_BASED]
    assert found.readings[0].notes == ("its occupants changed in it",)


def test_readings_are_joined_up_to_a_length() -> None:
    """Sixty seconds in windows of twenty: the same energy in three readings."""
    text = watts(*range(100, 161))
    found = findings(text, "wall", window_ms=20_000)
    assert [to - begin for _, begin, to, _, _ in found.booked] == [20_000] * 3
    assert found.total_uj == findings(text, "wall").total_uj


def test_a_device_without_a_counter_is_booked_by_its_power() -> None:
    """DCGM's energy is a sentinel, its power answers: ModelBased."""
    label = '{UUID="GPU-1"}'
    scrape = f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{label} 9223372036854775794\n"
    scrape += f"DCGM_FI_DEV_POWER_USAGE{label} 100\n"
    found = findings(f"# scrape {START_S}\n{scrape}# scrape {START_S + 1}\n{scrape}", "dcgm")
    assert found.booked == [("GPU-1", START, START + 1000, 100_000_000, Grade.MODEL_BASED)]


def test_the_datas_own_limit_goes_before_the_scopes() -> None:
    """A board with a limit of 300 W cannot take 320 J in a second; with none it can."""
    header = "timestamp,uuid,total_energy_J,power_limit_W\n"
    rows = f"{START_S},GPU-1,1000,300\n{START_S + 1},GPU-1,1320,300\n"
    assert findings(header + rows, "nvml").booked == []
    assert len(findings(header + rows.replace(",300\n", ",[N/A]\n"), "nvml").booked) == 1
    assert len(findings(header + rows.replace("1320", "1315"), "nvml").booked) == 1


def test_two_recordings_of_a_file_are_not_measured_across() -> None:
    """What lies between them was read by nobody: no window, not even an unknown one."""
    text = (
        watts(100, 100) + "--\n" + watts(100, 100).split("\n", 1)[1].replace("17229564", "17229565")
    )
    found = findings(text, "wall")
    assert [to - begin for _, begin, to, _, _ in found.booked] == [1000, 1000]
    assert found.unknown == []
