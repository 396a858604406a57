"""`pool demo`: a day of three tenants through a steward and a witness, with nothing to prepare.

1. Everything is made in one directory: keys, log, trust file, the witness's store. Only a directory
   that this command made (it holds `demo.json`) or an empty one is taken; what an earlier demo left
   in it is removed first.
2. The witness is a program of its own, as it would be elsewhere: `pool-witness init` and `run`.
3. What is summed up is read back from the ledger, verified and graded by the trust file.
4. The commands to try next are printed as this one was called, so that each works when pasted.

Not here: the day's jobs and machines (`streams.demo`).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import click

from schemas.keys import did_key
from schemas.records import EventType
from streams.cli.checking import Checker, Verdict
from streams.cli.keys import read_key
from streams.cli.ledgers import check, ledger, read_trust
from streams.cli.session import Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE, embedded
from streams.cli.summary import Summary, next_commands, show_summary
from streams.cli.trouble import named
from streams.cli.where import Where
from streams.demo import END_MS, POOL, Machines, plan_of_the_day
from streams.demo.day import DEVICES
from streams.logs.embedded import SNAPSHOT_DIRECTORY, EmbeddedLog
from streams.logs.stored import LOG_DIRECTORY
from streams.traces import Stamped, drive
from streams.traces.publish import publish
from streams.traces.twin import KernelTwin

DATA_DEFAULT = Path("demo-data")
MARKER = "demo.json"
WITNESS_KEY = "witness.pem"
WITNESS_STORE = "witness.db"
TRUST_FILE = "trust.toml"
WITNESS_SECONDS_MAX = 120


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DEFAULT,
    show_default=True,
    help="Where to make it all; an earlier demo there is replaced.",
)
@common
@click.pass_obj
def demo(session: Session, data: Path) -> None:
    """Run a day of three tenants through a steward and a witness, and sum it up."""
    with named(data):
        _clear(data)
        asyncio.run(_decide(session, data))
        witness = _witness(session, data)
        _write_trust(data, witness)
    summary = Summary()
    verdict = asyncio.run(_checked(session, data, summary))
    answer = summary.answer(verdict, data)
    answer["next"] = next_commands(data, summary, verdict)
    session.answer(answer, lambda out: show_summary(out, answer))


def _clear(data: Path) -> None:
    """Make the directory, or empty it of an earlier demo. Raises: Failure, LogTrouble."""
    if data.exists() and any(data.iterdir()):
        if not (data / MARKER).is_file():
            raise Failure(
                "not a demo's directory, and not empty",
                where=str(data),
                todo="name another one: --data DIR",
                status=Status.USAGE,
            )
        if (data / LOG_DIRECTORY).exists():
            # Whoever holds the log would lose it: this raises Held then.
            asyncio.run(EmbeddedLog(data).close())
        for name in (LOG_DIRECTORY, SNAPSHOT_DIRECTORY, "witness"):
            shutil.rmtree(data / name, ignore_errors=True)
        for name in (KEY_FILE, WITNESS_KEY, WITNESS_STORE, TRUST_FILE):
            (data / name).unlink(missing_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    (data / MARKER).write_text(json.dumps({"made_by": "pool demo"}) + "\n")


async def _decide(session: Session, data: Path) -> None:
    """The whole day through a steward."""
    plan, lost = plan_of_the_day()
    machines = Machines(DEVICES, opened_ms=plan.opened_ms, lost=lost)
    events = takewhile(
        lambda stamped: stamped.at_ms < END_MS, drive(plan, KernelTwin(POOL), machines)
    )
    async with embedded(data) as stewards:
        with session.progress() as progress:
            task = progress.add_task("deciding a day's claims", total=len(plan.jobs))

            def told(stamped: Stamped) -> Stamped:
                if stamped.event["type"] == EventType.CLAIM_SUBMITTED:
                    progress.advance(task)
                return stamped

            await publish(
                map(told, events), pool=POOL, log=stewards.log, decide=stewards.decide_all
            )


def _witness(session: Session, data: Path) -> str:
    """Have a witness follow the ledger to its end; its `did:key`. Raises Failure."""
    key = ["--key", str(data / WITNESS_KEY), "--state", str(data / WITNESS_STORE)]
    with session.progress() as progress:
        progress.add_task("a witness follows and signs", total=None)
        made = _run_witness(["init", *key, "--json"])
        _run_witness(["run", "--data", str(data), *key, "--once", "--json"])
    return str(json.loads(made)["did"])


def _run_witness(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "witness", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WITNESS_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failure(
            "the witness does not end", where=" ".join(arguments), status=Status.TROUBLE
        ) from None
    if done.returncode != 0:
        raise Failure(
            f"the witness failed: {done.stderr.strip()}",
            where=f"pool-witness {' '.join(arguments)}",
            status=Status.TROUBLE,
        )
    return done.stdout


def _write_trust(data: Path, witness: str) -> None:
    steward = did_key(read_key(data / KEY_FILE).public_key)
    (data / TRUST_FILE).write_text(
        "# Whose keys count. A real one is kept by whoever verifies, not beside the ledger.\n"
        f"[pools.{POOL}]\n"
        f'stewards = ["{steward}"]\n'
        f'witnesses = {{ demo = "{witness}" }}\n'
        "quorum = 1\n"
    )


async def _checked(session: Session, data: Path, summary: Summary) -> Verdict:
    async with ledger(Where(data=data, kafka=None), None, POOL) as one:
        trust = read_trust(data / TRUST_FILE, POOL)
        checker = Checker(pool=POOL, trust=trust, in_log=True, hear=summary.hear)
        verdict = await check(session, one, checker, title="verifying")
    if verdict.broken is not None:
        raise Failure(
            f"the ledger is broken: {verdict.broken}", where=str(data), status=Status.TROUBLE
        )
    return verdict
