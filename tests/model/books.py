"""What a pool knows (§2.2, §2.3), and the sums over it: everything is added up anew when asked.

Not handled here: any decision.  No figure is kept along the way: usage is the sum over all claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .integers import in_bytes

ROOT = "/"
LIVE = ("held", "running", "uncertain")
Usage = dict[str, dict[str, int]]


@dataclass(kw_only=True)
class Node:
    """One node of the entitlement tree (§2.2), defaults filled in."""

    id: str
    guarantee: dict[str, int]
    weight: int = 1
    limit: dict[str, int] = field(default_factory=dict)
    borrow: bool = True
    lend: bool | list[str] = True
    max_live: int | None = None
    max_waiting: int | None = None

    def lends(self, resource: str) -> bool:
        return resource in self.lend if isinstance(self.lend, list) else self.lend


@dataclass(kw_only=True)
class Reading:
    """What one reading said about one claim."""

    device: str
    from_ms: int
    to_ms: int
    uj: int
    mdev: int
    grade: str


@dataclass(kw_only=True, eq=False)
class Claim:
    """One claim, from its arrival until it is forgotten."""

    id: str
    leaf: str
    demand: dict[str, int]
    grade: str
    work_class: str
    priority: int
    preemptible: bool
    commit_within_ms: int
    lease_ms: int
    max_wait_ms: int
    content: str
    arrival: int
    submitted_ms: int
    first_seq: int
    state: str = "waiting"
    reason: tuple[str, str | None] | None = None  # last written, with its resource
    starved: bool = False
    awaiting: bool = False
    admitted_ms: int = 0
    admission: int = 0
    committed_ms: int | None = None
    leased_ms: int = 0
    metered_uj: int = 0
    metered_grade: str | None = None
    charged_uj: int = 0
    completed: int = 0
    readings: list[Reading] = field(default_factory=list)
    gap: bool = False
    reclaimed_for: Claim | None = None
    figure_uj: int = 0
    was_admitted: bool = False
    ended_period: int = 0

    @property
    def reserved_uj(self) -> int:
        return self.demand["uj"]

    @property
    def hold_uj(self) -> int:
        return max(self.reserved_uj, self.metered_uj) - self.charged_uj

    @property
    def start_ms(self) -> int:
        return self.admitted_ms if self.committed_ms is None else self.committed_ms

    @property
    def is_live(self) -> bool:
        return self.state in LIVE


@dataclass(kw_only=True)
class Seen:
    """An event id that was seen (§3)."""

    content: str
    first_seq: int
    period: int


@dataclass(kw_only=True)
class Pool:
    """One open pool; `out` collects the decisions of the event at hand."""

    id: str
    capacity: dict[str, int]
    resources: list[str]
    tree: dict[str, Node]
    policy: dict[str, Any]
    now_ms: int
    seq: int = 0
    period: int = 0
    archived: bool = False
    arrivals: int = 0
    admissions: int = 0
    overhead_uj: int = 0
    claims: dict[str, Claim] = field(default_factory=dict)
    spent_uj: dict[str, int] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)  # the last to_ms
    kept: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    guesses: dict[str, int] = field(default_factory=dict)
    guards: dict[str, Claim] = field(default_factory=dict)
    guard_said: dict[str, str | None] = field(default_factory=dict)
    out: list[dict[str, Any]] = field(default_factory=list)

    def emit(self, kind: str, **body: Any) -> None:
        """Write one decision; `for_` stands for the field `for`."""
        body = {name.rstrip("_"): value for name, value in body.items()}
        self.out.append({"kind": kind, **body})
        self.seq += 1

    def live(self) -> list[Claim]:
        return [claim for claim in self.claims.values() if claim.state in LIVE]

    def waiting(self) -> list[Claim]:
        """In the order they arrived."""
        found = [claim for claim in self.claims.values() if claim.state == "waiting"]
        return sorted(found, key=lambda claim: claim.arrival)

    def reclaimed(self) -> list[Claim]:
        return [claim for claim in self.live() if claim.reclaimed_for is not None]

    def children(self, node: str) -> list[str]:
        return [other for other in self.tree if other != ROOT and parent(other) == node]

    def siblings(self, node: str) -> list[str]:
        return [other for other in self.children(parent(node)) if other != node]

    def is_leaf(self, node: str) -> bool:
        return node != ROOT and node in self.tree and not self.children(node)

    def setting(self, key: str, default: Any) -> Any:
        value = self.policy.get(key)
        return default if value is None else value


@cache
def parent(node: str) -> str:
    return node.rpartition("/")[0] or ROOT


@cache
def path(node: str) -> tuple[str, ...]:
    """From a node up to the root, both included."""
    return (ROOT,) if node == ROOT else (node, *path(parent(node)))


def is_below(leaf: str, node: str) -> bool:
    return node in path(leaf)


def by_id(claims: Iterable[Claim]) -> list[Claim]:
    return sorted(claims, key=lambda claim: in_bytes(claim.id))


def usage(pool: Pool, without: Iterable[Claim] = (), adding: Iterable[Claim] = ()) -> Usage:
    """§2.3 for every node; §5.1 where claims are left out (what was metered stays) or added."""
    gone, added, live = list(without), list(adding), pool.live()
    used: Usage = {}
    for node in sorted(pool.tree, key=lambda name: len(path(name)), reverse=True):
        kids = pool.children(node)
        if kids or node == ROOT:
            used[node] = {r: sum(used[kid][r] for kid in kids) for r in pool.resources}
        else:
            mine = [claim for claim in live if claim.leaf == node]
            waiting = [claim for claim in added if claim.leaf == node]
            used[node] = leaf_usage(pool, node, mine, gone, waiting)
    return used


def leaf_usage(
    pool: Pool, leaf: str, mine: list[Claim], gone: list[Claim], waiting: list[Claim]
) -> dict[str, int]:
    used = {}
    staying = [claim for claim in mine if claim not in gone]
    leaving = [claim for claim in mine if claim in gone]
    for resource in pool.resources:
        amount = sum(claim.demand[resource] for claim in waiting)
        if resource == "uj":
            amount += pool.spent_uj.get(leaf, 0)
            amount += sum(claim.hold_uj for claim in staying)
            amount += sum(claim.metered_uj - claim.charged_uj for claim in leaving)
        else:
            amount += sum(claim.demand[resource] for claim in staying)
        used[resource] = amount
    return used


def asked(pool: Pool, claim: Claim) -> Iterator[str]:
    """The resources that a claim asks for, in order (§4.2)."""
    for resource in pool.resources:
        holds_devices = resource == "uj" and claim.demand["mdev"] > 0
        if claim.demand[resource] > 0 or holds_devices:
            yield resource


def over(pool: Pool, used: Usage, claim: Claim, node: str, resource: str) -> int:
    if resource not in asked(pool, claim):
        return 0
    total = used[node][resource] + claim.demand[resource]
    return max(0, total - pool.tree[node].guarantee[resource])


def borrows(pool: Pool, used: Usage, claim: Claim) -> bool:
    """Tier 1; otherwise the claim is inside its guarantee, tier 0 (§4.2)."""
    return any(over(pool, used, claim, claim.leaf, r) > 0 for r in pool.resources)


def holding_guard(pool: Pool, used: Usage, claim: Claim) -> str | None:
    """The scope of the first guard from the leaf upward that holds `claim` (§4.3)."""
    for scope in path(claim.leaf):
        if scope in pool.guards and guard_holds(pool, used, scope, claim):
            return scope
    return None


def guard_holds(pool: Pool, used: Usage, scope: str, claim: Claim) -> bool:
    owner = pool.guards[scope]
    if claim is owner:
        return False
    if borrows(pool, used, claim):
        return True
    if scope == ROOT:
        return False
    return scope == owner.leaf or not borrows(pool, used, owner)


def counted_awaiting(pool: Pool, used: Usage, claim: Claim) -> list[Claim]:
    """The claims other than `claim` that count as awaiting a reclaim (§5.1)."""
    return [
        other
        for other in pool.waiting()
        if other is not claim
        and other.awaiting
        and not borrows(pool, used, other)
        and holding_guard(pool, used, other) is None
    ]
