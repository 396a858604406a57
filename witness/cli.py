"""`pool-witness init | run | status | show`: the witness as a person and a service manager use it.

What a run does is `witness.runner`; what is printed about a store is `witness.showing`.

1. `init` makes key and store, once and together. Nothing else ever makes a store, and nobody can
   tell by a key what it has signed: one that is there is taken only from who says that it has not.
2. `run` follows a log until it is told to stop (SIGTERM, SIGINT), or with `--once` to its end.
   It prints what it signs; with `--json` one object a line.
3. `status` and `show` only read the store, beside a run.
4. Exit codes: 0 done; 1 the answer is no (`status`: a pool is forked; `run --once`: one is forked,
   or its heads are refused or wait: `witness.objections`); 2 wrong use or bad input; 3 trouble. An
   error is one line; `-v` adds the traceback.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from schemas.jsonform import dumps_line
from schemas.keys import did_key
from schemas.trust import TrustError, parse_trust
from schemas.visible import visible_lines
from witness import health, keyfile, showing, store
from witness.embedded import EmbeddedReader
from witness.health import Health
from witness.kafka import Cluster, KafkaPublisher, KafkaReader, parse_options
from witness.objections import objections
from witness.outbox import Outbox
from witness.outcome import Kind, Outcome
from witness.runner import Runner
from witness.sources import Publisher, Reader
from witness.trouble import Reason, Trouble
from witness.web import serve
from witness.witness import Witness

REFRESH_MS = 60_000
THREADS_MAX = 4

Command = TypeVar("Command", bound=Callable[..., object])

_key = click.option(
    "--key",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The witness's key file (PEM, mode 0600). A steward must not have it.",
)
_state = click.option(
    "--state",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The witness's store (SQLite). Keep it, and never restore an older copy.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
_verbose = click.option("-v", "--verbose", is_flag=True, help="Tracebacks of errors.")
_password = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file whose first line opens an encrypted key.",
)


class _Group(click.Group):
    """The commands; click would print a blank line about an interrupt that it sees.

    `hears`: outside a command an interrupt ends the process (`witness.main`).
    """

    hears = False

    def invoke(self, context: click.Context) -> object:
        """See `Group`."""
        outside = signal.getsignal(signal.SIGINT)
        try:
            if self.hears:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return super().invoke(context)
        except KeyboardInterrupt:
            raise click.Abort from None
        finally:
            if self.hears:
                signal.signal(signal.SIGINT, outside)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pool", prog_name="pool-witness")
def cli() -> None:
    """Countersign pools' ledgers that only grow; keep proof when one does not."""


@cli.command()
@_key
@_state
@_password
@click.option(
    "--key-never-used",
    is_flag=True,
    help="Take a key that cannot be written to, or that says that a store was made for it.",
)
@_json
@_verbose
def init(
    key: Path,
    state: Path,
    password_file: Path | None,
    key_never_used: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Make a witness's store, once, and its key unless a new one is there.

    A lost store means a new key: an old one must not start from nothing again.
    """
    store.refuse_existing(state)
    made = not os.path.lexists(key) and not key_never_used
    if made:
        keyfile.make(key, password_file)
    before = None
    try:
        public_key = keyfile.read(key, password_file).public_key
        if not key_never_used:
            before = keyfile.claim(key)
        store.create(state, public_key)
    except BaseException:
        # Nobody has the public half of what was made, and the next try is to begin as this one.
        if made:
            key.unlink(missing_ok=True)
        elif before is not None:
            keyfile.give_back(key, before)
        raise
    answer = showing.key(public_key) | {"state": str(state), "key": str(key), "key_made": made}
    _print(answer, as_json, f"{did_key(public_key)}\nstore: {state}\nkey: {key}")


@cli.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="An embedded log.")
@click.option("--kafka", metavar="HOST:PORT", help="A Kafka cluster instead.")
@click.option(
    "--kafka-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="`name = value` lines: security.protocol, sasl.*, ssl.*.",
)
@click.option("--prefix", default="", help="What the deployment's Kafka topics begin with.")
@_key
@_state
@_password
@click.option(
    "--trust",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Follow only this file's pools, and only ledgers that its stewards began.",
)
@click.option("--once", is_flag=True, help="Sign what is there, then end.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Answer /health, /live and /metrics.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to answer.")
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=health.PATIENCE_S,
    show_default=True,
    help="Seconds until what should have happened makes the health answer bad.",
)
@click.option(
    "--silence",
    type=click.FloatRange(min=0),
    default=health.SILENCE_S,
    show_default=True,
    help="Seconds without any head that make it bad; 0: any number is fine.",
)
@_json
@_verbose
def run(
    data: Path | None,
    kafka: str | None,
    kafka_config: Path | None,
    prefix: str,
    key: Path,
    state: Path,
    password_file: Path | None,
    trust: Path | None,
    once: bool,
    port: int | None,
    host: str,
    patience: float,
    silence: float,
    as_json: bool,
    verbose: bool,
) -> None:
    """Follow a log, countersign what extends what was signed before, publish it."""
    if (data is None) == (kafka is None):
        raise click.UsageError("name one log: --data DIR or --kafka HOST:PORT")
    signer = keyfile.read(key, password_file)
    witness = Witness.open(
        state,
        signer,
        clock=lambda: time.time_ns() // 1_000_000,
        stewards=_stewards(trust),
        threads=min(THREADS_MAX, os.cpu_count() or 1),
        refresh_ms=REFRESH_MS,
    )
    told = Health(patience_s=patience, silence_s=silence)
    forked: set[str] = set()

    def hear(outcome: Outcome) -> None:
        if outcome.kind is Kind.FORKED:
            forked.add(outcome.pool)
        _tell(outcome, as_json)

    server = serve(told, port=port, host=host) if port is not None else None
    if server is not None:
        _echo(f"health: http://{host}:{server.server_port}/health", err=True)
    try:
        options = parse_options(kafka_config.read_text()) if kafka_config else {}
        cluster = Cluster(bootstrap=kafka or "", prefix=prefix, options=options)
        asyncio.run(_follow(witness, data, cluster, told, hear, once=once))
    finally:
        witness.close()
        if server is not None:
            server.shutdown()
    if once:
        _conclude(list(objections(witness.pools.values())), forked, as_json)


@cli.command()
@_state
@_json
@_verbose
def status(state: Path, as_json: bool, verbose: bool) -> None:
    """What was signed, and when, pool by pool."""
    lines = showing.pools(state)
    for line in lines:
        words = "FORKED, halted" if line["forked"] else f"signed {line['closed_at']}"
        _print(line, as_json, f"{line['pool']}: {line['length']} receipts, {words}")
    if not lines:
        _echo("nothing signed yet", err=True)
    if any(line["forked"] for line in lines):
        raise _Answered


@cli.command()
@_state
@click.argument("pool", required=False)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the pool's statements to FILE as a CBOR sequence.",
)
@_json
@_verbose
def show(state: Path, pool: str | None, out: Path | None, as_json: bool, verbose: bool) -> None:
    """The witness's key for trust files; or all that is kept of POOL, evidence included."""
    if pool is None:
        answer = showing.store_key(state)
        text = "\n".join(f"{name:<12}{value}" for name, value in answer.items())
    else:
        answer, statements = showing.pool(state, pool)
        text = dumps_line(answer)
        if out is not None:
            out.write_bytes(b"".join(statements))
    _print(answer, as_json, text)


class _Answered(Exception):
    """The answer was printed, and it is no."""


async def _follow(
    witness: Witness,
    data: Path | None,
    cluster: Cluster,
    told: Health,
    hear: Callable[[Outcome], None],
    *,
    once: bool,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if once:
        # There is no round to wait for: both end it as Python has Ctrl-C end a task.
        loop.add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    else:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    reader: Reader = KafkaReader(cluster) if data is None else EmbeddedReader(data)
    try:
        publisher: Publisher = (
            KafkaPublisher(cluster) if data is None else Outbox(data, witness.public_key)
        )
        try:
            runner = Runner(witness, reader, publisher, health=told, hear=hear, complain=_complain)
            await (runner.once() if once else runner.run(stop))
        finally:
            await publisher.close()
    finally:
        await reader.close()


def _stewards(trust: Path | None) -> Mapping[str, frozenset[bytes]] | None:
    if trust is None:
        return None
    try:
        pools = parse_trust(trust.read_text()).pools
    except (TrustError, UnicodeDecodeError) as error:
        todo = "correct the trust file"
        raise Trouble(Reason.BAD_INPUT, str(error), where=str(trust), todo=todo) from error
    return {name: entry.stewards for name, entry in pools.items()}


def _tell(outcome: Outcome, as_json: bool) -> None:
    """What came of a head: answers to stdout, the others' words to stderr."""
    line = showing.outcome(outcome)
    if outcome.statement is not None:
        _print(line, as_json, f"{outcome.pool}: {outcome.kind} {outcome.length} {outcome.detail}")
    elif outcome.kind in (Kind.REFUSED, Kind.NOT_YET):
        reason = f" ({outcome.reason})" if outcome.reason else ""
        words = f"{outcome.kind}{reason}: {outcome.detail}"
        _echo(f"{outcome.pool}: head of {outcome.length}: {words}", err=True)


def _conclude(found: Sequence[Outcome], forked: Collection[str], as_json: bool) -> None:
    """One line for each objection, but for forks that were told just now; they make it a no."""
    for outcome in found:
        if outcome.pool in forked:
            continue
        reason = f" ({outcome.reason})" if outcome.reason else ""
        words = f"not signed, {outcome.kind}{reason} at {outcome.length}: {outcome.detail}"
        _print(showing.outcome(outcome), as_json, f"{outcome.pool}: {words}")
    if found:
        raise _Answered


def _print(value: Mapping[str, object], as_json: bool, text: str) -> None:
    if as_json:
        click.echo(dumps_line(value))
    else:
        _echo(text.rstrip())


def _complain(trouble: Trouble | OSError) -> None:
    _echo(f"pool-witness: {' '.join(str(trouble).split())}", err=True)


def _echo(text: str, *, err: bool = False) -> None:
    """What a pool's producers wrote may be in it, and steers no terminal."""
    click.echo(visible_lines(text), err=err)


def main(arguments: Sequence[str] | None = None, *, hears: bool = False) -> None:
    """Run the command and exit with its status."""
    _Group.hears = hears
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: Sequence[str]) -> int:
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        ended = cli.main(list(arguments), prog_name="pool-witness", standalone_mode=False)
        return ended if isinstance(ended, int) else 0
    except _Answered:
        return 1
    except click.exceptions.NoArgsIsHelpError as error:
        _echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        _echo(f"pool-witness: {' '.join(error.format_message().split())}", err=True)
        return 2
    except (Trouble, OSError) as error:
        if verbose:
            traceback.print_exc()
        _complain(error)
        return error.exit_code if isinstance(error, Trouble) else 3
    except (click.Abort, KeyboardInterrupt):
        # Over the ^C that a terminal shows.
        click.echo("\r" * sys.stderr.isatty() + "pool-witness: stopped", err=True)
        return 3
