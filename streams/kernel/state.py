"""The state of one pool: everything that a decision depends on.

Not here: how it changes (`apply`), its form in a snapshot (`freeze`).

1. It is advanced only by `apply`, one decision at a time, and by the clock (`now_ms`).
2. Every figure that a decision needs is kept along a node's path.

Invariant: two states that applied the same receipts decide alike (replay equals live).
Profile: §2, §3, §4, §5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas import records
from schemas.records import Event, Malformed, Value
from streams.kernel.claims import Claim
from streams.kernel.policy import Policy
from streams.kernel.tree import Node, Tree

EXPIRY, LAPSE, WAIT, STARVATION = range(4)
"""The deadlines in the order of the profile's table."""
Deadline = tuple[int, str, int]
"""(when, claim id, which of the four)."""


@dataclass(slots=True)
class History:
    """A class's observations (§2.6): the kept (uj, grade), newest last, and how many guesses."""

    kept: list[tuple[int, str]] = field(default_factory=list)
    guesses: int = 0


@dataclass(slots=True)
class Seen:
    """An event id that was seen: its content, the first answer's seq, and in which period."""

    content: bytes
    seq: int
    period: int


class PoolState:
    """One pool, open or not yet. See the module's rules; fields are the profile's terms."""

    __slots__ = (
        "active",
        "admissions",
        "answer_seq",
        "archived",
        "arrivals",
        "awaiting",
        "capacity",
        "claimants",
        "claims",
        "classes",
        "deadlines",
        "devices",
        "event",
        "guards",
        "is_open",
        "live_count",
        "now_ms",
        "overhead_uj",
        "period_index",
        "policy",
        "pool",
        "reclaiming",
        "reclaiming_mdev",
        "resources",
        "rounds",
        "seen",
        "seq_next",
        "stale_awaiting",
        "stale_tiers",
        "starved_leaves",
        "starving",
        "tier0_leaves",
        "tier0_starved",
        "tree",
        "tree_spec",
        "version",
        "waiting",
    )

    def __init__(self, pool: str) -> None:
        self.pool = pool
        self.is_open = False
        self.archived = False
        self.seq_next = 0
        self.now_ms = 0
        self.resources: tuple[str, ...] = ()
        self.capacity: tuple[int, ...] = ()
        self.tree: Tree = Tree(Node("/", None, []), {})
        self.tree_spec: tuple[records.Node, ...] = ()
        self.policy = Policy()
        self.period_index = 0
        self.overhead_uj = 0
        self.claims: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}
        self.starved_leaves: dict[Node, None] = {}
        self.live_count = 0
        self.arrivals = 0
        self.admissions = 0
        self.classes: dict[str, History] = {}
        self.devices: dict[str, int] = {}
        self.seen: dict[str, Seen] = {}
        self.deadlines: list[Deadline] = []
        self.starving: list[tuple[int, str]] = []
        self.guards: dict[str, str] = {}
        self.active: dict[str, str] = {}
        self.awaiting: dict[str, Claim] = {}
        self.claimants: dict[str, dict[str, Claim]] = {}
        self.reclaiming = 0
        self.reclaiming_mdev = 0
        # Working marks of the running pass and of lazily kept figures; never in a snapshot.
        self.rounds = 0
        self.version = 0
        self.stale_awaiting: dict[Node, None] | None = {}
        self.stale_tiers: dict[Node, None] = {}
        self.tier0_leaves: dict[Node, None] = {}
        self.tier0_starved: dict[Node, None] = {}
        self.event: Event | Malformed | None = None
        self.answer_seq: int | None = None

    def to_plain(self) -> dict[str, Value]:
        """The state as text-keyed maps, lists, integers, text, bytes: for a snapshot."""
        from streams.kernel.freeze import to_plain

        return to_plain(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Value]) -> PoolState:
        """The state that `to_plain` gave; ValueError if it is not one."""
        from streams.kernel.freeze import from_plain

        return from_plain(plain)

    @property
    def uj(self) -> int:
        """The position of joules among the resources: the last."""
        return len(self.resources) - 1
