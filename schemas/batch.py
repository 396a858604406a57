"""Many signatures at once: libsodium gives up the interpreter's lock while it checks one.

What is signed by whom is made in `schemas.cose`; what a bad one means is for `schemas.chain`.

1. The first bad signature, by position, is the one reported, however many threads looked.
2. The caller says what waits: it comes with `BATCH_TASKS` or so at a time, and stands still
   meanwhile. Parsing beside the checks gains nothing: who parses holds the interpreter's lock.

Profile: §6.6.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from schemas.cose import SignatureTask, is_signed

BATCH_TASKS = 2048
"""A good number of signatures to come with: some 100 ms of one core's work."""


def verify_signatures(tasks: Sequence[SignatureTask], *, threads: int = 1) -> int | None:
    """The index of the first signature that is not right, or None if all are."""
    if threads <= 1 or len(tasks) < 2:
        return _first_bad(tasks, 0)
    share = -(-len(tasks) // threads)
    starts = range(0, len(tasks), share)
    with ThreadPoolExecutor(max_workers=threads) as workers:
        found = workers.map(lambda start: _first_bad(tasks[start : start + share], start), starts)
        return next((index for index in found if index is not None), None)


def _first_bad(tasks: Sequence[SignatureTask], start: int) -> int | None:
    """The position of the first bad one of a share that begins at position `start`."""
    return next((start + at for at, task in enumerate(tasks) if not is_signed(task)), None)
