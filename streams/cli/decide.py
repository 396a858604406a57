"""`pool decide`: the bare kernel on a file of events. No log, no keys, no receipts.

1. One JSON decision a line: `event` (counted from 0), `kind`, and the body's fields.
2. Every event is decided, malformed ones too: the status is 0 unless the file cannot be read.
"""

from __future__ import annotations

from typing import BinaryIO

import click

from streams.cli.eventfile import read_events
from streams.cli.session import Session, common
from streams.decide import decide_lines


@click.command()
@click.argument("file", type=click.File("rb"))
@common
@click.pass_obj
def decide(session: Session, file: BinaryIO) -> None:
    """Decide the events of FILE (`-`: stdin) and print every decision.

    FILE holds JSON lines, a CBOR sequence or a case. Each event's `at_ms` is its time.
    """
    values = (given.value for given in read_events(file, keep_unreadable=True))
    for number, decision in decide_lines(values):
        session.line({"event": number, **decision})
