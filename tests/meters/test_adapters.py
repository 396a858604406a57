"""What each adapter knows of its source: names, units, levels, identities."""

from __future__ import annotations

import pytest

from schemas.records import Grade
from streams.meters import Code, MeterError, Options
from streams.meters.headers import column_of
from streams.meters.mapfile import parse_mapping
from streams.meters.prometheus import Scrape, scrapes
from streams.meters.slurm import hosts
from streams.meters.stamps import instant_ms
from streams.meters.text import lines_of
from streams.meters.units import energy_unit, power_unit, time_unit
from tests.meters.support import findings

START = 1_722_956_400_000


def test_dmon_reads_its_two_header_lines() -> None:
    """Columns by the first, units by the second; dates where `-o DT` gave them."""
    text = """\
#Date       Time        gpu   pwr gtemp mtemp
#YYYYMMDD   HH:MM:SS    Idx     W     C     C
 20240806   15:00:00      0    43    35     -
 20240806   15:00:00      1     -    35     -
 20240806   15:00:01      0    45    35     -
 20240806   15:00:01      1    40    35
"""
    found = findings(text, "nvidia-smi-dmon")
    assert found.booked == [("gpu-0", START, START + 1000, 44_000_000, Grade.MODEL_BASED)]
    assert found.refused == [(4, Code.NO_ANSWER), (6, Code.TORN)]


def test_dmon_without_dates_takes_turns() -> None:
    """Each row of a board is a turn of it, if the operator says when turns are."""
    text = "# gpu   pwr\n# Idx     W\n    0    40\n    1    50\n    0    40\n    1    50\n"
    found = findings(text, "nvidia-smi-dmon", start_ms=START, every_ms=1000, host="n7")
    assert [(device, uj) for device, _, _, uj, _ in found.booked] == [
        ("n7/gpu-0", 40_000_000),
        ("n7/gpu-1", 50_000_000),
    ]
    assert {code for _, code in findings(text, "nvidia-smi-dmon").refused} == {Code.NO_STAMP}


def test_dmon_without_its_units_line_is_refused() -> None:
    """Watts are not assumed."""
    assert findings("# gpu pwr\n 0 40\n", "nvidia-smi-dmon").refused == [(2, Code.NOT_A_ROW)]


def test_a_uuid_stands_for_itself_and_an_index_belongs_to_a_host() -> None:
    """The same index on two hosts is two devices; a UUID is one wherever it is read."""
    rows = "".join(f"{1722956400 + at},GPU-9,3,{1000 * at + 1}\n" for at in range(2))
    text = "timestamp,uuid,index,total_energy_mJ\n" + rows
    assert findings(text, "nvml", host="n7").booked[0][0] == "GPU-9"
    text = text.replace("GPU-9", "[N/A]")
    found = findings(text, "nvml", host="n7")
    assert found.booked[0][0] == "n7/gpu-3"
    origin = found.readings[0].origin
    assert origin is not None and origin.identity == "index"


def test_a_sysfs_dump_of_rapl_books_packages_and_memory() -> None:
    """Zones by their names; two sockets' memories are two devices; cores lie inside packages."""
    dump = """\
/sys/class/powercap/intel-rapl:0/name:package-0
/sys/class/powercap/intel-rapl:0/energy_uj:{0}
/sys/class/powercap/intel-rapl:0/max_energy_range_uj:262143328850
/sys/class/powercap/intel-rapl:0:0/name:core
/sys/class/powercap/intel-rapl:0:0/energy_uj:{0}
/sys/class/powercap/intel-rapl:0:1/name:dram
/sys/class/powercap/intel-rapl:0:1/energy_uj:{0}
/sys/class/powercap/intel-rapl:1/name:psys
/sys/class/powercap/intel-rapl:1/energy_uj:{0}
"""
    text = dump.format(262_143_000_000) + dump.format(30_000_000)
    found = findings(text, "rapl", start_ms=START, every_ms=1000)
    assert found.booked == [("socket-0/package-0", START, START + 1000, 30_328_850, Grade.HW_SHUNT)]
    assert [code for _, code in found.refused].count(Code.NESTED) == 4
    assert ("socket-0/dram", 1000, Code.FELL) in found.unknown
    alone = findings(text, "rapl", start_ms=START, every_ms=1000, domains=("psys",))
    assert {code for _, code in alone.refused} == {Code.NESTED, Code.FELL}


def test_kepler_books_one_level_and_its_disjoint_zones() -> None:
    """A node's package and memory; its pods and its `active` joules lie inside."""
    text = """\
kepler_node_cpu_joules_total{{zone="package",path="/x/intel-rapl:0"}} {0}
kepler_node_cpu_joules_total{{zone="dram"}} {0}
kepler_node_cpu_joules_total{{zone="psys"}} {0}
kepler_node_cpu_active_joules_total{{zone="package"}} {0}
kepler_pod_cpu_joules_total{{pod_id="p",zone="package"}} {0}
kepler_build_info{{version="1"}} 1
"""
    saved = f"# scrape {START}\n{text.format('1.5e6')}# scrape {START + 15_000}\n"
    saved += text.format("1.5003e6")
    found = findings(saved, "kepler", host="n7")
    assert [(device, uj, grade) for device, _, _, uj, grade in found.booked] == [
        ("n7/package-0", 300_000_000, Grade.MODEL_BASED),
        ("n7/dram", 300_000_000, Grade.MODEL_BASED),
    ]
    assert [code for _, code in found.refused] == [Code.NESTED] * 6
    pods = findings(saved, "kepler", level="pod", host="n7")
    assert [device for device, *_ in pods.booked] == ["n7/p/package"]


def test_old_keplers_idle_and_dynamic_joules_are_two_meters() -> None:
    """They are disjoint, and together the zone."""
    text = "".join(
        f'kepler_node_package_joules_total{{{{instance="n7",mode="{mode}"}}}} {{0}}\n'
        for mode in ("idle", "dynamic")
    )
    saved = f"# scrape {START}\n{text.format(100)}# scrape {START + 15_000}\n{text.format(400)}"
    assert [device for device, *_ in findings(saved, "kepler").booked] == [
        "n7/package/idle",
        "n7/package/dynamic",
    ]


def test_node_exporters_rapl_is_read_as_a_nodes_zones() -> None:
    """`node_rapl_package_joules_total` by its index."""
    text = 'node_rapl_package_joules_total{{index="1",path="/p"}} {0}\n'
    saved = f"# scrape {START}\n{text.format(100)}# scrape {START + 15_000}\n{text.format(400)}"
    assert findings(saved, "kepler", host="n7").booked[0][0] == "n7/package-1"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[001-003,7],m", ("n001", "n002", "n003", "n7", "m")),
        ("r[1-2]n,x[9-10]", ("r1n", "r2n", "x9", "x10")),
    ],
)
def test_host_lists_are_taken_apart(text: str, names: tuple[str, ...]) -> None:
    """Ranges keep their zeros."""
    assert hosts(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[a-b]", "n[1-99999999]", "]["])
def test_what_is_no_host_list_is_a_meter_error(text: str) -> None:
    """Nor may one be so long that it fills memory."""
    with pytest.raises(MeterError):
        hosts(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1722956400", START),
        ("1722956400.123456", START + 123),
        ("1722956400123", START + 123),
        ("1722956400123456", START + 123),
        ("1722956400123456789", START + 123),
        ("2024-08-06T15:00:00Z", START),
        ("2024-08-06 17:00:00.5+02:00", START + 500),
        ("2024/08/06 15:00:00.123", START + 123),
        ("08-06-2024 15:00:00.123", START + 123),
        ("20240806 15:00:00", START),
        ("2024-02-30 00:00:00", None),
        ("15:00:00", None),
        ("99999", None),
        ("-1722956400", None),
        ("", None),
    ],
)
def test_instants(text: str, ms: int | None) -> None:
    """What meters print for an instant, and what is none."""
    assert instant_ms(text) == ms


def test_local_times_are_read_in_the_zone_that_is_given() -> None:
    """Two hours ahead of UTC is two hours earlier in it."""
    assert instant_ms("2024-08-06 15:00:00", zone_min=120) == START - 7_200_000


def test_units_are_a_closed_list() -> None:
    """Case counts between milli and mega; what is not listed is no unit, nor of another kind."""
    assert energy_unit("MJ") == 10**12 and energy_unit("mJ") == energy_unit("mj") == 1000
    assert energy_unit("µJ") == energy_unit("μJ") == 1
    assert [energy_unit(one) for one in ("W", "erg", "", "0/1 J", "1/0 J", "-1 J")] == [None] * 6
    assert power_unit("kW") == 10**9 and power_unit("J") is None
    assert time_unit("ns") is not None and time_unit("fortnight") is None


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("power.draw [W]", "power_draw", "W"),
        ("power_draw", "power_draw", ""),
        ("energy_uj", "energy", "uJ"),
        ("Total Energy (kWh)", "total_energy", "kWh"),
        ("memory [MiB]", "memory_mib", ""),
    ],
)
def test_headers_are_compared_by_what_they_say(header: str, name: str, unit: str) -> None:
    """The unit is taken off the name, if it is one."""
    column = column_of(header)
    assert (column.name, column.unit) == (name, unit)


def test_prometheus_text_is_read_strictly() -> None:
    """Labels with escapes, values that are words, stamps; what is not well-formed is refused."""
    text = 'a{x="1\\"2,}",y="\\\\"} ERROR - FAILED TO CONVERT TO STRING\n'
    text += 'b 5 1722956400123\nc{x="1"} \nd{x=1} 5\ne{x="1",x="2"} 5\n'
    found = list(scrapes(lines_of(text, "t"), Options()))
    refused = [one for one in found if not isinstance(one, Scrape)]
    assert [getattr(one, "code", None) for one in refused] == [Code.NOT_A_ROW] * 2
    (scrape,) = [one for one in found if isinstance(one, Scrape)]
    a, b, c = scrape.series
    assert a.labels == {"x": '1"2,}', "y": "\\"} and a.value.startswith("ERROR")
    assert (b.value, b.own_ms, c.value) == ("5", START + 123, "")


def test_a_series_that_comes_again_begins_another_scrape() -> None:
    """A file of scrapes one after the other needs no marks between them."""
    series = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-1"} '
    text = f"{series}1000\n{series}2000\n{series}3000\n"
    found = findings(text, "dcgm", start_ms=START, every_ms=15_000)
    assert [uj for _, _, _, uj, _ in found.booked] == [1_000_000] * 2


def test_mlperfs_own_log_needs_no_mapping() -> None:
    """Node readings in watts; the interconnect's estimate has no unit that anybody states."""
    line = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}}}\n'
    text = "".join(
        line.format(START + at * 2000, "power_reading", 3418 + 10 * at) for at in range(3)
    )
    text += line.format(1652749794206, "interconnect_power_est", 16100)
    text += line.format(START, "conversion_eff", 0.96)
    found = findings(text, "mllog", device="node_0")
    assert [uj for *_, uj, _ in found.booked] == [6_846_000_000, 6_866_000_000]
    assert {(device, grade) for device, *_, grade in found.booked} == {("node_0", Grade.HW_SHUNT)}
    assert found.refused == [(4, Code.NO_UNIT)]


def test_the_only_column_of_a_unit_is_taken_whatever_it_is_called() -> None:
    """One number of joules, one of watts, limits apart; of two nobody knows which."""
    header = "Timestamp, DeviceId, GPU Power (W), GPU Energy Consumed (J), power.limit [W]\n"
    rows = "".join(f"{1722956400 + at}, 0, 52.03, {22543283 + 52 * at}, 200\n" for at in range(2))
    text = header.replace("DeviceId", "device_id") + rows
    assert findings(text, "nvml").booked == [
        ("gpu-0", START, START + 1000, 52_000_000, Grade.HW_SHUNT)
    ]
    two = text.replace("DeviceId", "device_id").replace("GPU Power (W)", "CPU Energy (J)")
    with pytest.raises(MeterError):
        findings(two, "nvml")


def test_json_lines_are_rows_by_a_mapping() -> None:
    """A mark before the object, nested members, null and exact numbers."""
    mapping = parse_mapping(
        """
        container = "json"
        device = "metadata.node"
        stamp = "time_ms"
        where = { key = "power_reading" }
        [[meter]]
        kind = "power"
        obtained = "instrument"
        scope = "host"
        column = "value"
        unit = "W"
        """,
        "mllog.toml",
    )
    line = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}, "metadata": {{"node": "n1"}}}}\n'
    text = line.format(START, "power_reading", 3418) + line.format(START, "run_start", "null")
    text += line.format(START + 1000, "power_reading", "3418.5")
    text += line.format(START + 2000, "power_reading", "null") + '{"time_ms": 5\n'
    found = findings(text, "map", mapping=mapping)
    assert found.booked == [("n1", START, START + 1000, 3_418_250_000, Grade.HW_SHUNT)]
    assert found.refused == [(4, Code.NO_ANSWER), (5, Code.NOT_A_ROW)]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("nvidia-smi", "timestamp, uuid, temperature.gpu\n"),
        ("nvidia-smi", "2024/08/06 15:00:00.000, 70 W, 80 W\n"),
        ("nvidia-smi-dmon", "# gpu sm\n# Idx %\n"),
        ("nvml", "timestamp,uuid,temperature\n"),
        ("amdsmi", "timestamp,gpu\n"),
        ("rapl", "timestamp,zone\n"),
        ("slurm", "JobID|Start|End\n"),
        ("wall", "time,volts\n"),
    ],
)
def test_a_header_without_energy_is_a_meter_error(form: str, text: str) -> None:
    """It says what is missing; nothing is guessed from what is there."""
    with pytest.raises(MeterError, match=r".+"):
        findings(text, form)
