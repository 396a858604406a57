"""What must be true before a witness signs: a key of its own, a store that is not behind.

1. The key is a point of the prime-order subgroup (`schemas.keys`) and none of the stewards',
   compared by its 32 bytes.
2. Every statement under our key that is found published is one that the store knows of: its length
   was reached, its root is the one that our leaves have there, its time is not after ours, and a
   fork is kept. Anything else says that an older store was restored, that the store was lost and
   made anew, or that another process signs with this key. Each of them could make us sign two
   histories, so each is a reason to stop for good.

Profile: §6.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from schemas.forks import open_fork
from schemas.heads import (
    FORK_KIND,
    Countersignature,
    StatementError,
    kind_of,
    open_countersignature,
)
from schemas.keys import KeyRefused, check_public_key, did_key
from witness.follow import Follow
from witness.record import Record
from witness.trouble import Reason, Trouble


def check_keys(own_key: bytes, stewards: Mapping[str, frozenset[bytes]] | None) -> None:
    """Rule 1, for the stewards that are named. Raises Trouble: `key-refused`, `key-is-stewards`."""
    try:
        check_public_key(own_key)
    except KeyRefused as refused:
        todo = "make another with `pool-witness init`"
        raise Trouble(Reason.KEY_REFUSED, str(refused), where="the key", todo=todo) from refused
    for pool, keys in (stewards or {}).items():
        if own_key in keys:
            raise key_is_stewards(own_key, pool)


def key_is_stewards(own_key: bytes, pool: str) -> Trouble:
    """Rule 1, broken: named by a trust file, or found on a head."""
    return Trouble(
        Reason.KEY_IS_STEWARDS,
        f"the witness's key is the steward's of {pool}",
        where=did_key(own_key),
        todo="retire it here: a witness has a key that no steward has",
    )


def check_beginning(known: Record, stewards: frozenset[bytes] | None) -> None:
    """A ledger that was followed before was begun by one of `stewards`, if they are named.

    Raises Trouble(`bad-input`).
    """
    if stewards is None or not known.keys or known.keys[0][1] in stewards:
        return
    raise Trouble(
        Reason.BAD_INPUT,
        f"the trust file does not name the steward that began {known.pool}",
        where=did_key(known.keys[0][1]),
        todo="name it there, or find out whose ledger was followed",
    )


def check_published(
    data: bytes, own_key: bytes, follows: Mapping[str, Follow], where: Path
) -> None:
    """Rule 2, for a value of the witnesses' topic; one that is not ours says nothing.

    Raises Trouble(`store-behind`).
    """
    try:
        if kind_of(data) == FORK_KIND:
            fork = open_fork(data, signers={own_key}).statement
            pool, length = fork.pool, fork.length
            follow = follows.get(pool)
            known = follow is not None and follow.record.fork is not None
        else:
            statement = open_countersignature(data, {own_key}).statement
            pool, length = statement.end.pool, statement.end.length
            follow = follows.get(pool)
            known = follow is not None and _is_known(follow, statement)
    except StatementError:
        return
    if not known:
        raise Trouble(
            Reason.STORE_BEHIND,
            f"the store does not know what was published under its key: {pool} to {length}",
            where=str(where),
            todo="retire this key: never restore a store, never run one key twice",
        )


def _is_known(follow: Follow, statement: Countersignature) -> bool:
    record, end = follow.record, statement.end
    if end.length > record.length:
        return False
    if end.length == record.length and statement.closed_at_ms > record.closed_at_ms:
        return False
    return follow.feed.leaves.root_at(end.length) == end.root
