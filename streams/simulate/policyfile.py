"""A policy file (TOML or JSON): what a what-if changes. `README.md` shows one.

1. `[policy]` holds the profile's keys (§3) and replaces the trace's policy but for its power limit.
2. `[pool]` and `[tree]` say how capacity is cut: how much is guaranteed, who may borrow and lend,
   weights and limits. Tenants that the file does not name have what the trace gives them.
3. `[jobs]` changes what all jobs say of themselves.
4. A key that is not named here is an error, and so is a tenant that the trace does not have: a
   policy that is misspelt must not be simulated as another.

Profile: §2.2, §3.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from schemas.records import QUANTITY_LIMIT, Value
from streams.kernel.policy import policy_fault

PPM = 1_000_000


class PolicyError(Exception):
    """A policy file that is none; `place` is the file and the key."""

    def __init__(self, place: str, detail: str) -> None:
        super().__init__(f"{place}: {detail}")
        self.place = place
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """What a file says; None: what the trace gives.

    `guarantee_ppm` is how much of the capacity is guaranteed at all, `limits_ppm` a tenant's limit
    as a share of the capacity (never below its guarantee), `weights` count for surplus.
    """

    name: str
    policy: Mapping[str, Value] = field(default_factory=dict)
    gpus: int | None = None
    period_hours: int | None = None
    grace_s: int | None = None
    guarantee_ppm: int = PPM
    borrow: bool = True
    lend: bool | tuple[str, ...] = True
    max_live: int | None = None
    max_waiting: int | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    limits_ppm: Mapping[str, int] = field(default_factory=dict)
    preemptible: bool | None = None
    max_wait_ms: int | None = None


_TABLES: Mapping[str, frozenset[str]] = {
    "policy": frozenset(),
    "pool": frozenset({"gpus", "period_hours", "grace_s"}),
    "tree": frozenset(
        {"guarantee_ppm", "borrow", "lend", "max_live", "max_waiting", "weights", "limits_ppm"}
    ),
    "jobs": frozenset({"preemptible", "max_wait_ms"}),
}


def parse_policy(text: str, name: str) -> PolicyFile:
    """A policy file's text; its name without the ending is the policy's, unless it says another.

    Raises PolicyError with the key.
    """
    whole = _decoded(text, name)
    tables = {key: _table(whole, key, name) for key in _TABLES}
    policy = cast("dict[str, Value]", tables["policy"])
    fault = policy_fault(policy)
    if fault is not None:
        raise PolicyError(f"{name}: [policy] {fault}", "no key or no value of the profile's §3")
    pool, tree, jobs = _Reader(name, tables["pool"]), _Reader(name, tables["tree"]), tables["jobs"]
    return PolicyFile(
        name=str(whole.get("name") or name.rsplit(".", 1)[0]),
        policy=policy,
        gpus=pool.integer("gpus", 1),
        period_hours=pool.integer("period_hours", 1),
        grace_s=pool.integer("grace_s", 0),
        guarantee_ppm=_or(tree.integer("guarantee_ppm", 0, PPM), PPM),
        borrow=_or(tree.flag("borrow"), True),
        lend=tree.lend(),
        max_live=tree.integer("max_live", 0),
        max_waiting=tree.integer("max_waiting", 0),
        weights=tree.by_tenant("weights", 1, QUANTITY_LIMIT - 1),
        limits_ppm=tree.by_tenant("limits_ppm", 0, PPM),
        preemptible=_Reader(name, jobs).flag("preemptible"),
        max_wait_ms=_Reader(name, jobs).integer("max_wait_ms", 0),
    )


def _decoded(text: str, name: str) -> dict[str, Any]:
    try:
        whole = json.loads(text) if name.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(name, f"neither TOML nor, by its name, JSON: {error}") from None
    if not isinstance(whole, dict):
        raise PolicyError(name, "is no table")
    unknown = sorted(whole.keys() - _TABLES.keys() - {"name", "about"})
    if unknown:
        raise PolicyError(f"{name}: {unknown[0]}", f"no such key; there are {', '.join(_TABLES)}")
    return whole


def _table(whole: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    table = whole.get(key, {})
    if not isinstance(table, dict):
        raise PolicyError(f"{name}: {key}", "is no table")
    unknown = sorted(table.keys() - _TABLES[key])
    if unknown and key != "policy":
        raise PolicyError(f"{name}: [{key}] {unknown[0]}", "no such key")
    return table


@dataclass(frozen=True, slots=True)
class _Reader:
    """Values of a table, each with its type and range."""

    name: str
    table: dict[str, Any]

    def integer(self, key: str, low: int, high: int = QUANTITY_LIMIT - 1) -> int | None:
        value = self.table.get(key)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise PolicyError(f"{self.name}: {key}", f"{value!r} is no integer from {low} on")
        return value

    def flag(self, key: str) -> bool | None:
        value = self.table.get(key)
        if value is not None and not isinstance(value, bool):
            raise PolicyError(f"{self.name}: {key}", f"{value!r} is neither true nor false")
        return value

    def lend(self) -> bool | tuple[str, ...]:
        value = self.table.get("lend", True)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return tuple(value)
        if not isinstance(value, bool):
            raise PolicyError(f"{self.name}: lend", "is true, false or a list of resources")
        return value

    def by_tenant(self, key: str, low: int, high: int) -> dict[str, int]:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise PolicyError(f"{self.name}: {key}", "is a table of tenants")
        for tenant, one in value.items():
            if type(one) is not int or not low <= one <= high:
                raise PolicyError(f"{self.name}: {key}.{tenant}", f"{one!r} is out of range")
        return value


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
