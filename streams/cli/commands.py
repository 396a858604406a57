"""The commands of `pool`, and the one place where an exception becomes a line and a status.

Not here: the process (`streams.cli.main`).

Rules, by what is raised:
1. `Failure`: its line, its status. `Answered`: nothing more, 1.
2. Wrong use, by click: its line, 2. A trace or a key that is none: its line, 2.
3. `LogTrouble` and a steward that stopped: the line that they carry, 3; a log that does not exist,
   options of a connection that make no sense and a key that is not the ledger's: 2. `OSError`: its
   line by `streams.cli.trouble`, 3.
4. Anything else is this program's bug: one line that says so, 3.
`-v` prints the traceback before the line. What stdout or stderr cannot encode is spelled out.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click

from schemas.visible import visible, visible_lines
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
from streams.cli.trouble import named, of_system
from streams.cli.usage import claims, usage
from streams.cli.verify import audit, verify
from streams.cli.watch import watch
from streams.logs.errors import LogTrouble, Missing, TooLarge
from streams.logs.kafka_options import BadConnection
from streams.steward import StewardStopped, WrongKey
from streams.traces.plan import TraceError

STOPPED = "pool: stopped"
STOPPED_ON_TERMINAL = f"\r{STOPPED}"
"""Over the ^C that the terminal shows, where it does."""


class _Interrupted(Exception):
    """Ctrl-C, so that click, which would print a blank line about it, does not see it."""


class _Pool(click.Group):
    """The group; what interrupts a command leaves it as an exception of ours.

    `hears`: outside a command an interrupt ends the process (`streams.cli.main`).
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
            raise _Interrupted from None
        finally:
            if self.hears:
                signal.signal(signal.SIGINT, outside)


@click.group(
    cls=_Pool,
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


def run(arguments: Sequence[str], *, hears: bool = False) -> Status:
    """Run the command and say how it ended; nothing but a status leaves here."""
    session = Session()
    _Pool.hears = hears
    try:
        _take_any_text()
        ended = pool.main(
            args=list(arguments), prog_name="pool", standalone_mode=False, obj=session
        )
        with named("stdout"):
            sys.stdout.flush()
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
    except (KeyboardInterrupt, _Interrupted):
        click.echo(STOPPED_ON_TERMINAL if sys.stderr.isatty() else STOPPED, err=True)
        return Status.TROUBLE
    except Exception as error:
        line, status = _judged(error)
        if session.verbose:
            click.echo(visible_lines(traceback.format_exc()), err=True, nl=False)
        click.echo(f"pool: {visible(line)}", err=True)
        return status


def _take_any_text() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
            wrong_use = isinstance(error, Missing | TooLarge | BadConnection)
            return str(error), Status.USAGE if wrong_use else Status.TROUBLE
        case OSError():
            what, where, todo = of_system(error)
            return str(Failure(what, where=where, todo=todo, status=Status.TROUBLE)), Status.TROUBLE
    name = type(error).__name__
    return f"a fault of this program ({name}: {error}): please report it with -v", Status.TROUBLE
