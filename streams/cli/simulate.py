"""`pool simulate`: the same trace under several policies, side by side.

1. Each policy is run by a kernel of its own; nothing is written to a log. The same trace, policies
   and seed give the same figures, on any machine.
2. With `--json` one object a policy, its buckets included with `--series`.
3. `--picture FILE.svg` writes an SVG of usage over time. That it can be written is tried before the
   work begins; where it fails at the end all the same, the figures have been answered.

Not here: what is measured (`streams.simulate`), what a trace's rows become (`streams.traces`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from schemas.records import MDEV, UJ
from streams.cli import units
from streams.cli.ledgers import read_file
from streams.cli.replay import READERS
from streams.cli.screen import say, table
from streams.cli.session import Failure, Session, Status, common
from streams.cli.trouble import named, replacing
from streams.simulate.figures import figures, series
from streams.simulate.picture import picture
from streams.simulate.planning import planned, tuning_of
from streams.simulate.policyfile import PolicyError, PolicyFile, parse_policy
from streams.simulate.running import Outcome
from streams.simulate.running import simulate as run_policy

Shown = dict[str, Any]


class _Picture(click.Path):
    """A picture's file; SVG is what is drawn."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """The path, if its name says what it will be."""
        if not str(value).lower().endswith(".svg"):
            self.fail(f"{str(value)!r}: what is drawn is SVG, so name it FILE.svg", param, context)
        if not Path(value).parent.is_dir():
            self.fail(f"{str(value)!r}: there is no such directory", param, context)
        return super().convert(value, param, context)


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "policies",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="A policy file (TOML or JSON); may be given several times.",
)
@click.option("--format", "form", type=click.Choice(sorted(READERS)), help="[by the file's name]")
@click.option("--rows", type=click.IntRange(1), help="Only so many jobs, the first.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Deals energies out anew among jobs of one shape [0: the trace's own].",
)
@click.option(
    "--picture",
    "drawing",
    type=_Picture(dir_okay=False, path_type=Path),
    help="Draw usage over time: FILE.svg.",
)
@click.option("--series", "with_series", is_flag=True, help="With --json: the buckets too.")
@click.option("--tenants", is_flag=True, help="Show every tenant's waits.")
@common
@click.pass_obj
def simulate(
    session: Session,
    trace: Path,
    policies: Sequence[Path],
    form: str | None,
    rows: int | None,
    seed: int,
    drawing: Path | None,
    with_series: bool,
    tenants: bool,
) -> None:
    """Decide TRACE under several policies and compare what comes of it."""
    form = form or _form_of(trace)
    files = [_policy(path) for path in policies]
    with nullcontext() if drawing is None else replacing(drawing) as stream:
        outcomes = [_run(session, trace, form, file, rows, seed) for file in files]
        _answer(session, outcomes, with_series=with_series, tenants=tenants)
        if stream is not None:
            with named(drawing or ""):
                stream.write(_drawn(trace, outcomes).encode())
    if drawing is not None:
        session.note(f"  drawn: {drawing}")


def _answer(
    session: Session, outcomes: Sequence[Outcome], *, with_series: bool, tenants: bool
) -> None:
    shown = [figures(outcome) for outcome in outcomes]
    for outcome, one in zip(outcomes, shown, strict=True):
        one["derivation"] = list(outcome.plan.notes)
        if session.json:
            session.line({**one, **({"series": series(outcome)} if with_series else {})})
    if not session.json:
        _show(shown, tenants, session.out())


def _form_of(trace: Path) -> str:
    """The format that a file's name begins with. Raises Failure."""
    for form in READERS:
        if trace.name.startswith(form):
            return form
    raise Failure(
        "unknown trace", where=trace.name, todo="--format says which", status=Status.USAGE
    )


def _policy(path: Path) -> PolicyFile:
    try:
        return parse_policy(read_file(path).decode("utf-8", "replace"), path.name)
    except PolicyError as error:
        raise Failure(error.detail, where=error.place, status=Status.USAGE) from None


def _run(
    session: Session, trace: Path, form: str, file: PolicyFile, rows: int | None, seed: int
) -> Outcome:
    started = time.monotonic()
    try:
        plan = planned(READERS[form](trace, tuning_of(file, rows)), file, seed)
    except PolicyError as error:
        raise Failure(error.detail, where=error.place, status=Status.USAGE) from None
    with session.progress() as progress:
        task = progress.add_task(f"policy {file.name}", total=len(plan.jobs))
        outcome = run_policy(file.name, plan, partial(progress.advance, task))
    seconds = time.monotonic() - started
    session.note(f"  {file.name}: {outcome.decisions:,} decisions in {seconds:.0f} s")
    return outcome


def _drawn(trace: Path, outcomes: Sequence[Outcome]) -> str:
    capacity = max(outcome.capacity_mdev for outcome in outcomes)
    bucket = units.duration(outcomes[0].measures.bucket_ms)
    title = f"{trace.name}: accelerators held by tenant, means of {bucket}"
    panels = [(outcome.name, series(outcome)) for outcome in outcomes]
    return picture(panels, capacity, title)


_ROWS: Sequence[tuple[str, Callable[[Mapping[str, Any]], str]]] = (
    ("jobs", lambda one: f"{one['jobs']:,}"),
    ("admissions", lambda one: f"{one['admitted']:,}"),
    ("  of them borrowing", lambda one: f"{one['borrowing']:,}"),
    ("gave up or refused", lambda one: f"{one['gave_up']:,}"),
    ("wait, median", lambda one: units.duration(one["wait_ms"]["median"])),
    ("wait, p95", lambda one: units.duration(one["wait_ms"]["p95"])),
    ("wait, longest", lambda one: units.duration(one["wait_ms"]["max"])),
    ("came to wait for devices", lambda one: f"{_waits(one, MDEV):,}"),
    ("came to wait for joules", lambda one: f"{_waits(one, UJ):,}"),
    ("capacity in use", lambda one: _percent(one["used_ppm"])),
    ("device time borrowed", lambda one: _percent(one["borrowed_ppm"])),
    ("preempted", lambda one: f"{one['preempted']:,}"),
    ("energy of evicted runs", lambda one: units.energy(one["evicted_uj"])),
    ("energy, HwShunt", lambda one: units.energy(one["energy_uj"]["HwShunt"])),
    ("energy, ModelBased", lambda one: units.energy(one["energy_uj"]["ModelBased"])),
    ("energy, Estimator", lambda one: units.energy(one["energy_uj"]["Estimator"])),
    ("fairness, mean", lambda one: _percent(one["fairness_ppm"]["mean"])),
    ("fairness, 5th percentile", lambda one: _percent(one["fairness_ppm"]["p5"])),
    ("guaranteed, wanted, not had", lambda one: _device_hours(one["unmet_mdev_ms"])),
    ("starved claims", lambda one: f"{one['starved']:,}"),
)


def _show(shown: Sequence[Mapping[str, Any]], tenants: bool, out: Console) -> None:
    names = [str(one["policy"]) for one in shown]
    made = table("", "", *names, right=frozenset(names))
    for label, cell in _ROWS:
        made.add_row(label, *(cell(one) for one in shown))
    out.print(made)
    if tenants:
        for one in shown:
            _show_tenants(one, out)
    for note in shown[0]["derivation"]:
        say(out, f"  {note}")


def _show_tenants(one: Mapping[str, Any], out: Console) -> None:
    columns = ("tenant", "guarantee", "jobs", "median wait", "p95", "longest", "evicted")
    made = table(f"\n{one['policy']}", *columns, right=frozenset(columns[1:]))
    for name, tenant in one["tenants"].items():
        made.add_row(
            name,
            units.devices(tenant["guarantee_mdev"]),
            f"{tenant['jobs']:,}",
            *(units.duration(tenant["wait_ms"][key]) for key in ("median", "p95", "max")),
            f"{tenant['evicted']:,}",
        )
    out.print(made)


def _waits(one: Mapping[str, Any], resource: str) -> int:
    return sum(
        count for why, count in one["waited_for"].items() if why.rpartition(" ")[2] == resource
    )


def _percent(ppm: int) -> str:
    return f"{ppm // 10_000}.{ppm // 1000 % 10} %"


def _device_hours(mdev_ms: int) -> str:
    return f"{mdev_ms // (1000 * 3_600_000):,} device hours"
