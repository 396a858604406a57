"""The trust file: whose keys a verifier counts, and how many witnesses it wants.

Reading files is the callers' business; grading a ledger by it is `schemas.grading`.

TOML: `[pools.NAME]` with `stewards = ["did:key:..."]`, `witnesses = {NAME = "did:key:..."}` and
`quorum = k`. Without witnesses every ledger is self-attested, and `quorum` is 0. With witnesses but
no `quorum`, it is the smallest safe one.

Refused, with a reason and the place in the file: `toml` (no TOML), `shape` (a member unknown,
missing or of another type), `key` (what is no key: see `schemas.keys`), `duplicate-key` (one key
under two names counts once, so the file would say something else than it seems to),
`steward-is-witness` (a steward does not witness itself), `quorum` (more than there are witnesses,
or less than one). The first fault in the order of the file is told.

A warning, not a refusal: with k below 1 + floor(2n/3), some witnesses that are dishonest or cut off
could let two histories reach the quorum, each by its own k of n.

Profile: §6.7, §6.8; interfaces.md "Files".
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from schemas.grading import Grader, Grading, LedgerGrade, Objection
from schemas.keys import KeyRefused, from_did_key

__all__ = [
    "Grader",
    "Grading",
    "LedgerGrade",
    "Objection",
    "PoolTrust",
    "Trust",
    "TrustError",
    "TrustFault",
    "parse_trust",
    "quorum_safe",
]

KEYS_MAX: Final = 64
"""The most stewards, and the most witnesses, that one pool's entry may name."""


class TrustFault(StrEnum):
    """Why a trust file is refused. Append-only."""

    TOML = "toml"
    SHAPE = "shape"
    KEY = "key"
    DUPLICATE_KEY = "duplicate-key"
    STEWARD_IS_WITNESS = "steward-is-witness"
    QUORUM = "quorum"


class TrustError(Exception):
    """A trust file that is refused: the reason, where in the file, and what is wrong there."""

    def __init__(self, reason: TrustFault, where: str, detail: str) -> None:
        super().__init__(f"{reason}: {where}: {detail}")
        self.reason = reason
        self.where = where
        self.detail = detail


def quorum_safe(witnesses: int) -> int:
    """The smallest k of n that no two histories can both reach: 1 + floor(2n/3); 0 for no n."""
    return 1 + 2 * witnesses // 3 if witnesses else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTrust:
    """What one pool's entry says. Keys are raw bytes (32), witnesses by the names given there."""

    pool: str
    stewards: frozenset[bytes]
    witnesses: Mapping[str, bytes]
    quorum: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the entry allows and should perhaps not, one sentence each."""
        safe = quorum_safe(len(self.witnesses))
        if self.quorum >= safe:
            return ()
        return (
            f"quorum {self.quorum} of {len(self.witnesses)} witnesses of {self.pool}: below {safe},"
            " two histories could both reach it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """A whole trust file."""

    pools: Mapping[str, PoolTrust]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all pools."""
        return tuple(warning for trust in self.pools.values() for warning in trust.warnings)

    def pool(self, name: str) -> PoolTrust:
        """The entry of a pool. Raises TrustError(`shape`) where there is none."""
        trust = self.pools.get(name)
        if trust is None:
            raise TrustError(TrustFault.SHAPE, f"pools.{name}", "the file does not name this pool")
        return trust


def parse_trust(text: str) -> Trust:
    """The trust file that this TOML text is. Raises TrustError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TrustError(TrustFault.TOML, "the file", str(error)) from error
    entries = _table(document, "the file", required={"pools"}, optional=set())["pools"]
    if not isinstance(entries, dict) or not entries:
        raise TrustError(TrustFault.SHAPE, "pools", "no [pools.NAME] in the file")
    return Trust(
        pools=MappingProxyType({name: _pool(name, entry) for name, entry in entries.items()})
    )


def _pool(name: str, entry: object) -> PoolTrust:
    where = f"pools.{name}"
    table = _table(entry, where, required={"stewards"}, optional={"witnesses", "quorum"})
    stewards = _stewards(table["stewards"], where)
    witnesses = _witnesses(table.get("witnesses", {}), where)
    _check_distinct(stewards, witnesses, where)
    quorum = _quorum(table.get("quorum"), len(witnesses), where)
    return PoolTrust(
        pool=name,
        stewards=frozenset(stewards),
        witnesses=MappingProxyType(witnesses),
        quorum=quorum,
    )


def _table(
    value: object, where: str, *, required: set[str], optional: set[str]
) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TrustError(TrustFault.SHAPE, where, "not a table")
    for name in sorted(value.keys() - required - optional):
        raise TrustError(TrustFault.SHAPE, f"{where}.{name}", "unknown")
    for name in sorted(required - value.keys()):
        raise TrustError(TrustFault.SHAPE, f"{where}.{name}", "missing")
    return value


def _stewards(value: object, where: str) -> list[bytes]:
    if not isinstance(value, list) or not 1 <= len(value) <= KEYS_MAX:
        raise TrustError(TrustFault.SHAPE, f"{where}.stewards", f"not a list of 1 to {KEYS_MAX}")
    return [_key(text, f"{where}.stewards[{index}]") for index, text in enumerate(value)]


def _witnesses(value: object, where: str) -> dict[str, bytes]:
    if not isinstance(value, dict) or len(value) > KEYS_MAX:
        raise TrustError(
            TrustFault.SHAPE, f"{where}.witnesses", f"not a table of at most {KEYS_MAX}"
        )
    return {name: _key(text, f"{where}.witnesses.{name}") for name, text in value.items()}


def _key(value: object, where: str) -> bytes:
    if not isinstance(value, str):
        raise TrustError(TrustFault.SHAPE, where, "not a text")
    try:
        return from_did_key(value)
    except KeyRefused as refused:
        raise TrustError(TrustFault.KEY, where, str(refused)) from refused


def _check_distinct(stewards: list[bytes], witnesses: dict[str, bytes], where: str) -> None:
    """Every key stands once: compared by its 32 bytes, which `check_public_key` makes unique."""
    for index, key in enumerate(stewards):
        first = stewards.index(key)
        if first != index:
            label = f"{where}.stewards[{index}]"
            raise TrustError(TrustFault.DUPLICATE_KEY, label, f"the key of stewards[{first}]")
    named: dict[bytes, str] = {}
    for name, key in witnesses.items():
        label = f"{where}.witnesses.{name}"
        if key in stewards:
            raise TrustError(TrustFault.STEWARD_IS_WITNESS, label, "the key of a steward")
        if key in named:
            raise TrustError(TrustFault.DUPLICATE_KEY, label, f"the key of {named[key]}")
        named[key] = name


def _quorum(value: object, witnesses: int, where: str) -> int:
    if value is None:
        return quorum_safe(witnesses)
    if type(value) is not int:
        raise TrustError(TrustFault.SHAPE, f"{where}.quorum", "not an integer")
    least = 1 if witnesses else 0
    if not least <= value <= witnesses:
        raise TrustError(TrustFault.QUORUM, f"{where}.quorum", f"{value} of {witnesses} witnesses")
    return value
