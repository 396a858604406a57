"""`pool-witness`: where the process begins and ends, whatever is asked of it.

Not here: the commands, and what becomes of an error (`witness.cli`).

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
    from witness.cli import main as run_command

    try:
        run_command(sys.argv[1:] if arguments is None else arguments, hears=hears)
    except KeyboardInterrupt:
        _leave()
    finally:
        if hears:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(*_: object) -> None:
    """End at once: nothing is open yet, or nothing any more."""
    os.write(2, b"\rpool-witness: stopped\n" if os.isatty(2) else b"pool-witness: stopped\n")
    os._exit(_STOPPED)


if __name__ == "__main__":
    main()
