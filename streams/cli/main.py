"""`pool`: where the process begins and ends, whatever is asked of it.

Not here: the commands, and what becomes of an error (`streams.cli.commands`).

1. The commands take a moment to load, and click another one to find which is meant. Who is
   interrupted then is told so in one line, like anybody else: an exception could come up anywhere
   in a library, or meet click, which prints a blank line. The command itself hears exceptions.
2. So this module imports nothing but what the interpreter has loaded already.
3. Once the status stands, an interrupt ends the process without a word.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

_STOPPED = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its status."""
    # A shell starts what runs in its background deaf to Ctrl-C, and so it stays.
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if hears:
        signal.signal(signal.SIGINT, _leave)
    from streams.cli.commands import run as run_command

    try:
        given = sys.argv[1:] if arguments is None else arguments
        status = int(run_command(given, hears=hears))
    except KeyboardInterrupt:
        _leave()
    if hears:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command in this process and say how it ended."""
    from streams.cli.commands import run as run_command

    return int(run_command(arguments))


def _leave(*_: object) -> None:
    """End at once: nothing is open yet, or nothing any more."""
    os.write(2, b"\rpool: stopped\n" if os.isatty(2) else b"pool: stopped\n")
    os._exit(_STOPPED)


if __name__ == "__main__":
    main()
