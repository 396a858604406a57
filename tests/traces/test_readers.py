"""Trace files as plans: what is read, what is derived from it, and what is refused."""

from __future__ import annotations

import csv
import gzip
from decimal import Decimal
from pathlib import Path

import pytest

from schemas.events import parse_event
from schemas.records import MDEV, UJ, Malformed
from streams.traces import Plan, TraceError, Tuning, energy, openb, read_openb, read_philly
from streams.traces.drive import submission
from tests.shared import shared

SHARED = shared("data")
PHILLY = SHARED / "philly_vc" / "philly_2017-10-16_to_29.csv"
OPENB = SHARED / "openb_2023" / "openb_pod_list_default.csv"
HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"


@pytest.fixture(scope="module")
def philly() -> Plan:
    """The whole two weeks."""
    return read_philly(PHILLY, Tuning())


@pytest.fixture(scope="module")
def pods() -> Plan:
    """The whole pod list."""
    return read_openb(OPENB, Tuning())


def test_philly_has_all_jobs_in_submission_order(philly: Plan) -> None:
    """Every row is a job, and none is submitted before its predecessor."""
    assert len(philly.jobs) == 21_933
    instants = [job.submit_ms for job in philly.jobs]
    assert instants == sorted(instants)
    assert philly.opened_ms == instants[0] == 1_508_112_124_000


def test_philly_tenants_share_the_capacity_by_gpu_time(philly: Plan) -> None:
    """Guarantees follow GPU time and never sum to more than the capacity, whatever the rounding."""
    tree = {node["id"]: node["guarantee"] for node in philly.opened["tree"]}
    capacity = philly.opened["capacity"]
    assert len(tree) == 11
    assert max(tree, key=lambda leaf: tree[leaf][MDEV]) == "ee9e8c"
    for resource in (MDEV, UJ):
        total = sum(guarantee[resource] for guarantee in tree.values())
        assert capacity[resource] - len(tree) <= total <= capacity[resource]


def test_guarantee_ppm_leaves_the_rest_to_be_borrowed() -> None:
    """Half of the capacity guaranteed is half of each guarantee."""
    half = read_philly(PHILLY, Tuning(guarantee_ppm=500_000, rows=100, gpus=10))
    total = sum(node["guarantee"][MDEV] for node in half.opened["tree"])
    assert 5_000 - 11 <= total <= 5_000


def test_openb_knows_which_pods_never_ran_and_which_outlast_it(pods: Plan) -> None:
    """897 pods stayed Pending, 34 were still Running at the last second."""
    assert len(pods.jobs) == 8_152
    assert sum(not job.commits for job in pods.jobs) == 897
    assert sum(job.run_ms is None for job in pods.jobs) == 34
    assert {job.leaf for job in pods.jobs} == {"ls", "be", "burstable", "guaranteed"}
    assert sum(0 < job.member[MDEV] < 1000 for job in pods.jobs) == 3_078


@pytest.mark.parametrize("plan", ["philly", "pods"])
def test_every_job_is_a_well_formed_claim(plan: str, request: pytest.FixtureRequest) -> None:
    """What is submitted is an event with all numbers in range."""
    made: Plan = request.getfixturevalue(plan)
    events = [{"pool": made.pool, **submission(job)} for job in made.jobs[::37]]
    events.append({"pool": made.pool, "type": "pool.opened", **made.opened})
    for event in events:
        parsed = parse_event(event, from_json=False)
        assert not isinstance(parsed, Malformed), parsed
        assert parsed.in_range


def test_a_report_never_exceeds_what_was_reserved_unless_it_was_a_guess(philly: Plan) -> None:
    """The highest draw is reserved, one of the deciles is reported."""
    modelled = [job for job in philly.jobs if job.grade == "ModelBased"]
    assert all(job.drawn_uw <= job.reserved_uw * job.count for job in modelled)
    assert 0.08 < 1 - len(modelled) / len(philly.jobs) < 0.12


@pytest.mark.parametrize(
    ("gpu", "deciles"), [("p100", energy.P100_DECILES_UW), ("v100", energy.V100_DECILES_UW)]
)
def test_draws_are_the_measured_ones(gpu: str, deciles: tuple[int, ...]) -> None:
    """The constants are the deciles of the file that they name, to the milliwatt."""
    with (SHARED / "zeus_nsdi23" / f"summary_power_{gpu}.csv").open() as stream:
        watts = sorted(
            Decimal(row["average_power"])
            for row in csv.DictReader(stream)
            if row["power_limit"] == "250"
        )
    assert deciles == tuple(int(watts[(len(watts) - 1) * q // 10] * 1000) * 1000 for q in range(11))


def test_the_cluster_is_the_published_one() -> None:
    """The capacity's ratio is that of the node list."""
    with (SHARED / "openb_2023" / "openb_node_list_all_node.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert sum(int(row["gpu"]) for row in rows) == openb.NODES_GPU
    assert sum(int(row["cpu_milli"]) for row in rows) == openb.NODES_CPU_MILLI
    assert sum(int(row["memory_mib"]) for row in rows) == openb.NODES_MEMORY_MIB


def test_gzip_is_read_as_it_is(tmp_path: Path) -> None:
    """A packed file gives the same plan."""
    text = HEADER + "2017-10-16 00:02:04,62.0,1,62.0,11cb48\n"
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    plain, packed = (read_philly(tmp_path / name, Tuning()) for name in ("t.csv", "t.csv.gz"))
    assert plain == packed


@pytest.mark.parametrize(
    ("text", "place", "detail"),
    [
        ("", "t.csv", "no column 'timestamp'"),
        ("a,b\n1,2\n", "t.csv", "no column 'timestamp'"),
        (HEADER, "t.csv", "has no jobs"),
        (HEADER + "yesterday,62.0,1,62.0,a\n", "t.csv:2", "timestamp: 'yesterday' is no time"),
        (HEADER + "2017-10-16 00:02:04,NaN,1,1,a\n", "t.csv:2", "duration: 'NaN'"),
        (HEADER + "2017-10-16 00:02:04,-1,1,1,a\n", "t.csv:2", "duration: '-1'"),
        (HEADER + "2017-10-16 00:02:04,x,1,1,a\n", "t.csv:2", "duration: 'x'"),
        (HEADER + "2017-10-16 00:02:04,1e999999,1,1,a\n", "t.csv:2", "duration"),
        (HEADER + "2017-10-16 00:02:04,1,1.5,1,a\n", "t.csv:2", "num_gpus: '1.5'"),
        (HEADER + "2017-10-16 00:02:04,1,0,1,a\n", "t.csv:2", "1 to 1024 GPUs"),
        (HEADER + "2017-10-16 00:02:04\n", "t.csv:2", "num_gpus: ''"),
    ],
)
def test_a_bad_file_is_refused_where_it_is_bad(
    tmp_path: Path, text: str, place: str, detail: str
) -> None:
    """The error names the line and the column; no other error escapes."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError) as caught:
        read_philly(tmp_path / "t.csv", Tuning())
    assert caught.value.place == place
    assert detail in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Neither text nor gzip: an error of the trace, not of the decoder."""
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00" * 100)
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip")
    for name in ("t.csv", "t.csv.gz", "absent.csv"):
        with pytest.raises(TraceError, match="cannot be read"):
            read_philly(tmp_path / name, Tuning())


@pytest.mark.parametrize(
    ("field", "value"),
    [("guarantee_ppm", -1), ("guarantee_ppm", 1_000_001), ("gpus", 0), ("rows", 0)],
)
def test_what_cannot_be_meant_is_no_tuning(field: str, value: int) -> None:
    """Bounds are checked before a file is opened."""
    with pytest.raises(ValueError, match=r"ppm|at least 1"):
        Tuning(**{field: value})
