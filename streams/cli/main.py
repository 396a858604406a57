"""`pool`: the command group, and the one place where an exception becomes a line and a status.

Rules, by what is raised:
1. `Failure`: its line, its status. `Answered`: nothing more, 1.
2. Wrong use, by click: its line, 2. A trace or a key that is none: its line, 2.
3. `LogTrouble`, a steward that stopped and `OSError`: the line that they carry, 3; a log that does
   not exist and a key that is not the ledger's: 2.
4. Anything else is this program's bug: one line that says so, 3.
`-v` prints the traceback before the line.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from streams.cli.decide import decide
from streams.cli.demo import demo
from streams.cli.deployment import doctor, topics
from streams.cli.explain import explain_command
from streams.cli.keys import keys
from streams.cli.meters import meters
from streams.cli.proving import check_proof_command, prove
from streams.cli.replay import replay
from streams.cli.running import run as run_command
from streams.cli.send import send
from streams.cli.serve import serve, token
from streams.cli.session import Answered, Failure, Session, Status
from streams.cli.simulate import simulate
from streams.cli.transfer import export_command, import_command
from streams.cli.usage import claims, usage
from streams.cli.verify import audit, verify
from streams.cli.watch import watch
from streams.logs.errors import LogTrouble, Missing, TooLarge
from streams.steward import StewardStopped, WrongKey
from streams.traces.plan import TraceError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `pool demo`. Every command takes --json.",
)
@click.version_option(package_name="pool", prog_name="pool")
def pool() -> None:
    """Decide who gets contended accelerators, on a budget of energy, in signed receipts."""


_COMMANDS = (
    *(demo, run_command, topics, doctor, send, watch, usage, explain_command, claims),
    *(decide, replay, simulate, meters),
    *(serve, token),
    *(export_command, import_command, verify, audit, prove, check_proof_command, keys),
)
for _command in _COMMANDS:
    pool.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status."""
    sys.exit(int(run(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: Sequence[str]) -> Status:
    """Run the command and say how it ended; nothing but a status leaves here."""
    session = Session()
    try:
        ended = pool.main(
            args=list(arguments), prog_name="pool", standalone_mode=False, obj=session
        )
        return Status(ended) if isinstance(ended, int) else Status.DONE
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone: that is its choice. (Click turns that into SystemExit,
        # and nothing else here does.) What is buffered has nowhere to go any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.DONE
    except Answered:
        return Status.NO
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return Status.USAGE
    except Exception as error:
        line, status = _judged(error)
        if session.verbose:
            traceback.print_exc(file=sys.stderr)
        click.echo(f"pool: {line}", err=True)
        return status
    except KeyboardInterrupt:
        click.echo("pool: stopped", err=True)
        return Status.TROUBLE


def _judged(error: Exception) -> tuple[str, Status]:
    """The line and the status of an exception, by the rules above."""
    match error:
        case Failure():
            return str(error), error.status
        case click.Abort():
            return "stopped", Status.TROUBLE
        case click.ClickException():
            return " ".join(error.format_message().split()), Status.USAGE
        case WrongKey():
            return str(error), Status.USAGE
        case StewardStopped():
            return str(error), Status.TROUBLE
        case TraceError():
            return str(error), Status.USAGE
        case LogTrouble():
            wrong_use = isinstance(error, Missing | TooLarge)
            return str(error), Status.USAGE if wrong_use else Status.TROUBLE
        case OSError():
            return f"{error.strerror or error} ({error.filename or 'no file'})", Status.TROUBLE
    name = type(error).__name__
    return f"a fault of this program ({name}: {error}): please report it with -v", Status.TROUBLE


if __name__ == "__main__":
    main()
