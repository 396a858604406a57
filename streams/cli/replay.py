"""`pool replay`: a public trace as claims and releases through a steward on an embedded log.

1. Trace time is the log's time, so a replay is the same every time, and one that was stopped at any
   moment, however hard, is taken up by the same command and ends at the same head.
2. A new DIR gets a key that is derived from the trace's bytes: what anybody may replay needs no
   secret, and two replays end at one head. The command says so; with `--key` it is another's.
3. `--speed max` is as fast as it goes; a number is how many trace seconds pass in a second.

Not here: what a trace's rows become (`streams.traces`), deciding (`streams.steward`).
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from schemas.keys import SeedSigner, pem_of_seed
from schemas.records import EventType, Kind
from streams.cli import units
from streams.cli.keys import password_option, read_key
from streams.cli.ledgers import read_file
from streams.cli.screen import pairs, say
from streams.cli.session import Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE, Stewards, embedded, steward_key
from streams.cli.where import data_default
from streams.cli.words import REASONS
from streams.traces import Plan, Stamped, Tuning, drive, read_openb, read_philly
from streams.traces.publish import Pace, Published, publish
from streams.traces.twin import KernelTwin

READERS: Mapping[str, Callable[[Path, Tuning], Plan]] = {
    "philly": read_philly,
    "openb": read_openb,
}
_SEED_LABEL = b"pool replay: the key of a public trace\n"


class _Speed(click.ParamType):
    """`max`, or how many times faster than life."""

    name = "max|N"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> int | None:
        """0 for `max`, since None would mean that nothing was given."""
        if value == "max" or value == 0:
            return 0
        if str(value).isascii() and str(value).isdigit() and int(value) > 0:
            return int(value)
        self.fail(f"{value!r} is neither max nor a whole number above 0", param, context)


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--format", "form", type=click.Choice(sorted(READERS)), required=True)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The embedded log's directory [$POOL_DATA, or pool-data].",
)
@click.option("--key", type=click.Path(path_type=Path), help="The steward's [DIR/steward.pem].")
@password_option
@click.option("--speed", type=_Speed(), default="max", help="Trace seconds a second [max].")
@click.option("--gpus", type=click.IntRange(1), help="The pool's capacity [the format's own].")
@click.option(
    "--guarantee-ppm",
    type=click.IntRange(0, 1_000_000),
    default=1_000_000,
    help="How much of the capacity is guaranteed [1000000]: all reclaims, none only shares.",
)
@click.option("--period-hours", type=click.IntRange(1), help="Accounting period [the format's].")
@click.option("--rows", type=click.IntRange(1), help="Only so many jobs, the first.")
@click.option(
    "--grace", type=click.IntRange(0), default=60, help="Seconds that a victim needs to stop [60]."
)
@common
@click.pass_obj
def replay(
    session: Session,
    trace: Path,
    form: str,
    data: Path | None,
    key: Path | None,
    password_file: Path | None,
    speed: int,
    gpus: int | None,
    guarantee_ppm: int,
    period_hours: int | None,
    rows: int | None,
    grace: int,
) -> None:
    """Replay TRACE through a steward. Stopped at any moment, the same command goes on."""
    tuning = Tuning(
        gpus=gpus,
        guarantee_ppm=guarantee_ppm,
        period_hours=period_hours,
        rows=rows,
        grace_ms=grace * 1000,
    )
    plan = READERS[form](trace, tuning)
    for note in plan.notes:
        session.note(f"  {note}")
    where = data or data_default()
    if key is None:
        signer = partial(_trace_key, session, trace, where, password_file)
    else:
        signer = partial(read_key, key, password_file)
    answer = asyncio.run(_replay(session, plan, where, signer, speed))
    session.answer(answer, partial(_show, answer))


async def _replay(
    session: Session, plan: Plan, data: Path, signer: Callable[[], SeedSigner], speed: int
) -> dict[str, Any]:
    twin = _Counted(plan.pool)
    started = time.monotonic()
    async with embedded(data, signer=signer()) as stewards:
        with session.progress() as progress:
            task = progress.add_task("replaying jobs", total=len(plan.jobs))
            done = await publish(
                _counted(drive(plan, twin), partial(progress.advance, task)),
                pool=plan.pool,
                log=stewards.log,
                decide=stewards.decide_all,
                pace=_Pace(plan.opened_ms, speed) if speed else None,
            )
        return _answer(plan, twin, done, stewards, data, time.monotonic() - started)


def _trace_key(session: Session, trace: Path, data: Path, password_file: Path | None) -> SeedSigner:
    """`DIR/steward.pem`, or a new one in its place, derived from the trace's bytes (rule 2)."""
    if not (data / KEY_FILE).exists():
        session.note(
            f"  the steward's key is derived from the trace and no secret: {data / KEY_FILE}"
        )
    seed = sha256(_SEED_LABEL + read_file(trace)).digest()
    return steward_key(data, password_file, lambda password: pem_of_seed(seed, password))


def _counted(events: Iterable[Stamped], advance: Callable[[], object]) -> Iterator[Stamped]:
    for stamped in events:
        if stamped.event["type"] == EventType.CLAIM_SUBMITTED:
            advance()
        yield stamped


class _Counted(KernelTwin):
    """A twin that counts what it decides, for the summary."""

    def __init__(self, pool: str) -> None:
        super().__init__(pool)
        self.events = 0
        self.kinds: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.borrowed = 0
        self.spent_uj = 0

    def decide(self, event: Mapping[str, Any], at_ms: int) -> Any:
        """Decide, and count."""
        made = super().decide(event, at_ms)
        self.events += 1
        for decision in made:
            body: Mapping[str, Any] = decision.body
            self.kinds[decision.kind] += 1
            if decision.kind is Kind.CLAIM_WAITING:
                self.waits[body["reason"]] += 1
            elif decision.kind is Kind.CLAIM_REFUSED:
                self.refusals[body["reason"]] += 1
            elif decision.kind is Kind.CLAIM_ADMITTED:
                self.borrowed += body["mode"] == "borrowed"
            elif decision.kind is Kind.CLAIM_SETTLED:
                self.spent_uj += body["spent"]["uj"]
        return made


class _Pace:
    """So many trace seconds a second, from the first event that is new."""

    def __init__(self, opened_ms: int, speed: int) -> None:
        self._opened_ms = opened_ms
        self._speed = speed
        self._started: float | None = None

    def delay_s(self, at_ms: int) -> float:
        """Seconds until the instant's turn comes."""
        due = (at_ms - self._opened_ms) / 1000 / self._speed
        if self._started is None:
            self._started = time.monotonic() - due
        return self._started + due - time.monotonic()


def _answer(
    plan: Plan,
    twin: _Counted,
    done: Published,
    stewards: Stewards,
    data: Path,
    seconds: float,
) -> dict[str, Any]:
    pool = next(
        held.pools[plan.pool]
        for steward in stewards.each
        if (held := steward.partition) is not None and plan.pool in held.pools
    )
    if pool.chain.length < twin.decisions:
        raise Failure(
            f"the ledger has {pool.chain.length} receipts, the simulation {twin.decisions}",
            where=str(data),
            todo="this is a fault of this program: please report it",
            status=Status.TROUBLE,
        )
    return {
        "pool": plan.pool,
        "data": str(data),
        "jobs": len(plan.jobs),
        "events": twin.events,
        "standing": done.standing,
        "published": done.published,
        "length": pool.chain.length,
        "head": pool.chain.head,
        "root": pool.chain.root(),
        "decisions": dict(sorted(twin.kinds.items())),
        "borrowed": twin.borrowed,
        "waits": dict(sorted(twin.waits.items())),
        "refusals": dict(sorted(twin.refusals.items())),
        "spent_uj": twin.spent_uj,
        "milliseconds": int(seconds * 1000),
        "derivation": list(plan.notes),
    }


def _show(answer: Mapping[str, Any], out: Console) -> None:
    kinds, seconds = answer["decisions"], answer["milliseconds"] / 1000
    admitted = kinds.get(Kind.CLAIM_ADMITTED, 0)
    rows = (
        ("jobs", f"{answer['jobs']:,}"),
        ("events", f"{answer['events']:,} ({answer['standing']:,} stood in the log already)"),
        ("receipts", f"{answer['length']:,} in {seconds:.0f} s"),
        ("admitted", f"{admitted:,}, {answer['borrowed']:,} of them borrowing"),
        ("preempted", f"{kinds.get(Kind.CLAIM_PREEMPTING, 0):,}"),
        ("refused", _reasons(answer["refusals"])),
        ("waited for", _reasons(answer["waits"])),
        ("energy", f"{units.energy(answer['spent_uj'])} settled"),
        ("head", answer["head"].hex()),
    )
    pairs(out, rows)
    out.print()
    say(out, f"Next: pool verify --data {shlex.quote(answer['data'])} --pool {answer['pool']}")


def _reasons(counts: Mapping[str, int]) -> str:
    if not counts:
        return "none"
    return "\n".join(f"{count:,}: {REASONS[reason]}" for reason, count in counts.items())


_: type[Pace] = _Pace
