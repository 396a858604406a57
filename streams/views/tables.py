"""Rows and where they are kept: plain maps as CBOR bytes under a text key, in named tables.

Not here: what a row says (`claimrows`, `power`, `energy`), and Faust's tables (`worker`), which
are mappings too and take the place of the dictionaries.

1. A row has `seq`, that of the last receipt it has taken; a receipt that is not newer changes
   nothing. So rows may be fed a ledger again from anywhere, any number of times.
2. Changes are gathered in a `Batch` and written once a key.

Invariant: a ledger gives the same rows in any batches and with any repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import cbor2

CLAIMS: Final = "claims"
POWER: Final = "power"
ENERGY: Final = "energy"
TABLES: Final = (CLAIMS, POWER, ENERGY)

Row = dict[str, Any]
Tables = Mapping[str, MutableMapping[str, bytes]]


def in_memory() -> Tables:
    """Empty tables in this process."""
    return {name: {} for name in TABLES}


def key(pool: str, *parts: str) -> str:
    """A row's key: the pool's length stands first, and only the last part may hold any text."""
    return ":".join((str(len(pool)), pool, *parts))


def load(data: bytes) -> Row:
    """A stored row."""
    row: Row = cbor2.loads(data)
    return row


class Batch:
    """Changes to rows that were not written yet, by table and key."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: dict[tuple[str, str], Row] = {}
        self._dirty: set[tuple[str, str]] = set()

    def row(self, table: str, row_key: str) -> Row | None:
        """A row as it stands with the batch's changes; None if there is none."""
        place = (table, row_key)
        row = self._rows.get(place)
        if row is None:
            data = self._tables[table].get(row_key)
            if data is None:
                return None
            row = self._rows[place] = load(data)
        return row

    def change(
        self,
        table: str,
        row_key: str,
        seq: int,
        new: Callable[[], Row],
        effect: Callable[[Row], None],
    ) -> None:
        """Let `effect` change the row (or that of `new`), unless it has taken `seq` already."""
        row = self.row(table, row_key)
        if row is None:
            row = self._rows[table, row_key] = new() | {"seq": -1}
        if row["seq"] >= seq:
            return
        effect(row)
        row["seq"] = seq
        self._dirty.add((table, row_key))

    def write(self) -> int:
        """Write every changed row once; how many there were."""
        for table, row_key in self._dirty:
            self._tables[table][row_key] = cbor2.dumps(self._rows[table, row_key])
        count = len(self._dirty)
        self._rows.clear()
        self._dirty.clear()
        return count


def rows_of(tables: Tables, table: str, pool: str) -> Iterator[tuple[str, Row]]:
    """A pool's rows of a table, by the rest of their keys. For tests and rare questions."""
    prefix = key(pool, "")
    for row_key, data in tables[table].items():
        if row_key.startswith(prefix):
            yield row_key[len(prefix) :], load(data)
