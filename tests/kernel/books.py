"""Another set of books on one pool: who is where, what each leaf was charged, what was read.

Not here: what is wrong with a decision (`auditor`), and anything that the kernel keeps. Every
figure is a plain sum over claims and children, computed when it is asked for.

1. A claim's life in the books: it waits, lives, has ended; its meter and its figure are its own.
2. A charge is posted to a leaf's period once: at settlement or expiry, at the end of a period for
   what runs on, and for the growth that a late share brings.

Profile: §2.2, §2.3, §2.5, §2.8, §4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas import records
from schemas.records import MDEV, ROOT, UJ

CONTENDING = ("share", "capacity", "earmarked", "starved-ahead")
Usage = dict[str, dict[str, int]]


@dataclass(slots=True)
class Place:
    """A node of the tree, the root included."""

    id: str
    guarantee: Mapping[str, int]
    limit: Mapping[str, int] = field(default_factory=dict)
    weight: int = 1
    borrow: bool = True
    lend: bool | tuple[str, ...] = True
    max_live: int | None = None
    max_waiting: int | None = None
    children: list[str] = field(default_factory=list)

    def lends(self, resource: str) -> bool:
        return self.lend if isinstance(self.lend, bool) else resource in self.lend


@dataclass(slots=True, eq=False)
class Entry:
    """A claim in the books."""

    id: str
    leaf: str
    demand: Mapping[str, int]
    grade: str
    preemptible: bool
    priority: int
    submitted_ms: int
    commit_within_ms: int
    lease_ms: int
    wait_until_ms: int | None
    class_: str = ""
    state: str = "waiting"
    reason: str = ""
    contends: bool = False
    starved: bool = False
    admitted_ms: int = 0
    lease_from_ms: int = 0
    completed: int = 0
    victim_of: str | None = None
    was_admitted: bool = False
    metered_uj: int = 0
    metered_grade: str | None = None
    gap: bool = False
    charged_uj: int = 0
    figure_uj: int = 0

    @property
    def is_live(self) -> bool:
        return self.state in ("held", "running", "uncertain")

    @property
    def reserved_uj(self) -> int:
        return self.demand[UJ]

    @property
    def hold_uj(self) -> int:
        return max(self.reserved_uj, self.metered_uj) - self.charged_uj

    def frees(self, resource: str) -> int:
        """What it returns of a resource when it is reclaimed."""
        if resource == UJ:
            return max(self.reserved_uj, self.metered_uj) - self.metered_uj
        return self.demand[resource]


class Books:
    """The books of one pool. `entries` are all claims ever; `claims` the newest of each id."""

    def __init__(self) -> None:
        self.resources: tuple[str, ...] = ()
        self.places: dict[str, Place] = {}
        self.entries: list[Entry] = []
        self.claims: dict[str, Entry] = {}
        self.spent_uj: dict[str, int] = {}
        self.posted_uj = 0
        self.overhead_uj = 0
        self.unattended_uj = 0
        self.read_uj = 0

    # --- the tree ---

    def plant(self, capacity: Mapping[str, int], nodes: Sequence[records.Node]) -> None:
        """Take a tree over. The root's guarantee is the capacity."""
        self.places = {ROOT: Place(ROOT, capacity)}
        for one in nodes:
            self.places[one.id] = Place(
                one.id, one.guarantee, one.limit, one.weight, one.borrow, one.lend,
                one.max_live, one.max_waiting,
            )  # fmt: skip
        for one in nodes:
            self.places[self.parent(one.id)].children.append(one.id)

    @staticmethod
    def parent(node: str) -> str:
        return node.rpartition("/")[0] or ROOT

    def path(self, leaf: str) -> list[str]:
        """From the leaf up to below the root."""
        found = [leaf]
        while (above := self.parent(found[-1])) != ROOT:
            found.append(above)
        return found

    def is_leaf(self, node: str) -> bool:
        return node != ROOT and node in self.places and not self.places[node].children

    def guaranteed(self, node: str, resource: str) -> int:
        return self.places[node].guarantee.get(resource, 0)

    def enter(self, entry: Entry) -> None:
        """A claim arrives; one of its id that ended may have been forgotten since."""
        self.entries.append(entry)
        self.claims.pop(entry.id, None)
        self.claims[entry.id] = entry

    # --- usage ---

    @property
    def live(self) -> list[Entry]:
        return [entry for entry in self.claims.values() if entry.is_live]

    @property
    def waiting(self) -> list[Entry]:
        return [entry for entry in self.claims.values() if entry.state == "waiting"]

    def usage(self, *, without: Iterable[Entry] = ()) -> Usage:
        """Each node's usage; of `without` only what they have already spent stays (§5.1)."""
        gone = set(without)
        used = {node: dict.fromkeys(self.resources, 0) for node in self.places}
        for leaf, spent_uj in self.spent_uj.items():
            self._add(used, leaf, UJ, spent_uj)
        for entry in self.live:
            for resource in self.resources:
                amount = entry.hold_uj if resource == UJ else entry.demand[resource]
                left = amount - entry.frees(resource) if entry in gone else amount
                self._add(used, entry.leaf, resource, left)
        return used

    def _add(self, used: Usage, leaf: str, resource: str, amount: int) -> None:
        for node in (*self.path(leaf), ROOT):
            used[node][resource] += amount

    def asks(self, demand: Mapping[str, int]) -> list[str]:
        """The resources that a demand is looked at in, in order."""
        return [
            resource
            for resource in self.resources
            if demand[resource] > 0 or (resource == UJ and demand[MDEV] > 0)
        ]

    def over(self, used: Usage, node: str, demand: Mapping[str, int], resource: str) -> int:
        wanted = used[node][resource] + demand[resource]
        return max(0, wanted - self.guaranteed(node, resource))

    def borrows(self, used: Usage, leaf: str, demand: Mapping[str, int]) -> bool:
        return any(self.over(used, leaf, demand, one) > 0 for one in self.asks(demand))

    def room(self, used: Usage, node: str, resource: str) -> int:
        """What is there for a child below its parent now."""
        parent = self.parent(node)
        borrows = parent == ROOT or self.places[parent].borrow
        top = self.ceiling(used, parent, resource) if borrows else self.guaranteed(parent, resource)
        for sibling in self.places[parent].children:
            amount = used[sibling][resource]
            if sibling != node and not self.places[sibling].lends(resource):
                amount = max(amount, self.guaranteed(sibling, resource))
            top -= amount
        return top

    def ceiling(self, used: Usage, node: str, resource: str) -> int:
        """The weighted surplus of §4.2, term by term."""
        own = self.guaranteed(node, resource)
        if node == ROOT:
            return own
        parent = self.parent(node)
        siblings = [one for one in self.places[parent].children if one != node]
        surplus = self.ceiling(used, parent, resource) - own
        for one in siblings:
            promised = self.guaranteed(one, resource)
            lends = self.places[one].lends(resource)
            surplus -= min(used[one][resource], promised) if lends else promised
        borrowed = {
            one: max(0, used[one][resource] - self.guaranteed(one, resource)) for one in siblings
        }
        left = max(0, surplus - sum(borrowed.values()))
        if resource == UJ or used[node][resource] <= own:
            return own + left
        contending = [one for one in siblings if self.contends(one, resource)]
        others = sum(amount for one, amount in borrowed.items() if one not in contending)
        pot = max(0, max(0, surplus) - others)
        weight = self.places[node].weight
        weights = weight + sum(self.places[one].weight for one in contending)
        return own + min(left, pot * weight // weights)

    def contends(self, node: str, resource: str) -> bool:
        return any(
            entry.contends and node in self.path(entry.leaf) and resource in self.asks(entry.demand)
            for entry in self.waiting
        )

    # --- charges ---

    def charge(self, leaf: str, amount: int) -> None:
        """Post a charge to a leaf's running period."""
        self.spent_uj[leaf] = self.spent_uj.get(leaf, 0) + amount
        self.posted_uj += amount

    def end(self, entry: Entry, figure_uj: int) -> None:
        """A live claim ends at a figure: the period is charged what earlier ones were not."""
        self.charge(entry.leaf, max(0, figure_uj - entry.charged_uj))
        entry.figure_uj = figure_uj
        entry.state = "ended"
        entry.victim_of = None

    def close_period(self) -> None:
        """Each live claim is charged to the closing period what its meter showed there."""
        for entry in self.live:
            self.posted_uj += entry.metered_uj - entry.charged_uj
            entry.charged_uj = entry.metered_uj
        self.spent_uj.clear()

    def late(self, entry: Entry, share_uj: int) -> None:
        """A share for an ended claim: its growth over what it was charged is posted."""
        before = max(entry.figure_uj, entry.metered_uj)
        entry.metered_uj += share_uj
        growth = max(entry.figure_uj, entry.metered_uj) - before
        if self.is_leaf(entry.leaf):
            self.charge(entry.leaf, growth)
        else:
            self.overhead_uj += growth

    def check_conservation(self) -> None:
        """Every microjoule read lies with a claim or with nobody, every charge has its cause."""
        metered_uj = sum(entry.metered_uj for entry in self.entries)
        assert self.read_uj == metered_uj + self.unattended_uj
        owed_uj = sum(
            max(entry.figure_uj, entry.metered_uj) if entry.state == "ended" else entry.charged_uj
            for entry in self.entries
            if entry.was_admitted
        )
        assert self.posted_uj + self.overhead_uj == owed_uj + self.unattended_uj
