"""What a store and an outcome look like to a person or a program: plain maps, and nothing else.

Printing them is `witness.cli`. The store is read beside whoever holds it, and not changed.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from schemas.keys import did_key, kid
from schemas.receipts import rfc3339_ms
from witness import record, store
from witness.outcome import Outcome
from witness.record import Record, RecordDamaged
from witness.trouble import Reason, Trouble


def key(public_key: bytes) -> dict[str, object]:
    """A key in its public forms."""
    return {
        "did": did_key(public_key),
        "kid": kid(public_key).hex(),
        "public_key": public_key.hex(),
    }


def store_key(state: Path) -> dict[str, object]:
    """The key that a store belongs to. Raises Trouble."""
    with closing(store.inspect(state)) as opened:
        return key(opened.public_key)


def pools(state: Path) -> list[dict[str, object]]:
    """One line for each pool of a store. Raises Trouble."""
    with closing(store.inspect(state)) as opened:
        records = [_decode(state, opened, name) for name in sorted(opened.records())]
    return [_line(known) for known in records]


def pool(state: Path, name: str) -> tuple[dict[str, object], list[bytes]]:
    """All that a store has of a pool, and its statements' exact bytes. Raises Trouble."""
    with closing(store.inspect(state)) as opened:
        known = _decode(state, opened, name)
    statements: list[bytes] = []
    answer = _line(known)
    if known.standing is not None:
        end = known.standing.end
        statements += [known.standing.head.data, known.standing.countersignature.data]
        answer |= {
            "head": end.head.hex(),
            "root": end.root.hex(),
            "steward": known.standing.head.statement.steward,
            "signed_head": known.standing.head.data.hex(),
            "countersignature": known.standing.countersignature.data.hex(),
        }
    if known.fork is not None:
        fork = known.fork.statement
        statements.append(known.fork.data)
        answer["fork"] = {
            "found_at": rfc3339_ms(fork.closed_at_ms),
            "lengths": [fork.first.statement.end.length, fork.second.statement.end.length],
            "heads": [fork.first.data.hex(), fork.second.data.hex()],
            "evidence": known.fork.data.hex(),
        }
    return answer, statements


def outcome(said: Outcome) -> dict[str, object]:
    """What became of a head."""
    line: dict[str, object] = {"outcome": said.kind, "pool": said.pool, "length": said.length}
    if said.reason is not None:
        line["reason"] = said.reason
    if said.detail:
        line["detail"] = said.detail
    return line


def _line(known: Record) -> dict[str, object]:
    return {
        "pool": known.pool,
        "length": known.length,
        "closed_at": rfc3339_ms(known.closed_at_ms) if known.length else None,
        "forked": known.fork is not None,
    }


def _decode(state: Path, opened: store.Store, name: str) -> Record:
    body = opened.record(name)
    if body is None:
        todo = "`pool-witness status` lists the pools"
        raise Trouble(Reason.UNKNOWN_POOL, f"no pool {name!r}", where=str(state), todo=todo)
    try:
        return record.decode(body, opened.public_key)
    except RecordDamaged as error:
        raise Trouble(
            Reason.STORE_DAMAGED,
            f"the record of {name} is damaged: {error}",
            where=str(state),
            todo="retire its key and run `pool-witness init` with a new one",
        ) from error
