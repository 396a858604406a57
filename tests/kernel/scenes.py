"""Terse events and rule tables: what the kernel's tests are written in.

Not here: any expected value. Rows state them, computed from the profile's text by hand.

1. An event is its JSON form; without a time it comes 10 ms after the one before it.
2. A row is a pool's past, one event, and every decision that answers it, each with the fields
   that the row pins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.decide import timed_event
from streams.kernel import PoolState, apply, decide

Json = dict[str, Any]

POOL = "p"
START_MS = 1_000
STEP_MS = 10
STEWARD = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
BIG = 10**9
"""Joules enough never to matter."""


# --- events -----------------------------------------------------------------------------------


def event(kind: str, /, **fields: Any) -> Json:
    """An event for the pool; `at` is its time, `class_` the field `class`."""
    made = {"pool": POOL, "type": kind}
    for name, value in fields.items():
        made[{"at": "at_ms", "class_": "class"}.get(name, name)] = value
    return made


def node(node_id: str, mdev: int = 0, uj: int = 0, /, **options: Any) -> Json:
    """A node of a tree; other guarantees stand in `also`."""
    also = options.pop("also", {})
    return {"id": node_id, "guarantee": {"mdev": mdev, "uj": uj, **also}, **options}


def opened(
    *nodes: Json, mdev: int = 10, uj: int = BIG, also: Json | None = None, **rest: Any
) -> Json:
    """The pool's opening. `also` declares more resources between `mdev` and `uj`."""
    capacity = {"mdev": mdev, **(also or {}), "uj": uj}
    fields: Json = {"capacity": capacity, "tree": list(nodes)}
    if also:
        fields["resources"] = list(capacity)
    return event("pool.opened", **{**fields, **rest})


def asks(claim: str, leaf: str, mdev: int = 1, uj: int = 1, /, **options: Any) -> Json:
    """A submission of one member; without `grade` or `estimate` it is a model's."""
    gang = options.pop("gang", [{"mdev": mdev, "uj": uj, **options.pop("also", {})}])
    grade = {} if "estimate" in options else {"grade": options.pop("grade", "ModelBased")}
    return event("claim.submitted", claim=claim, leaf=leaf, gang=gang, **grade, **options)


def commit(claim: str, **rest: Any) -> Json:
    return event("claim.committed", claim=claim, **rest)


def renew(claim: str, **rest: Any) -> Json:
    return event("claim.renewed", claim=claim, **rest)


def progress(claim: str, completed: int, **rest: Any) -> Json:
    return event("claim.progressed", claim=claim, completed=completed, **rest)


def cancel(claim: str, **rest: Any) -> Json:
    return event("claim.cancelled", claim=claim, **rest)


def release(claim: str, uj: int | None = None, grade: str = "HwShunt", **rest: Any) -> Json:
    """A release; with `uj` it reports an actual figure."""
    rest.setdefault("outcome", "completed")
    if uj is not None:
        rest["actual"] = {"uj": uj, "grade": grade}
    return event("claim.released", claim=claim, **rest)


def reads(
    device: str, from_ms: int, to_ms: int, uj: int | None, /, grade: str = "HwShunt", **rest: Any
) -> Json:
    """A reading; `on` maps the occupants' claims to their `mdev`."""
    occupants = [{"claim": claim, "mdev": mdev} for claim, mdev in rest.pop("on", {}).items()]
    graded = {} if uj is None else {"grade": grade}
    return event(
        "meter.read",
        device=device,
        from_ms=from_ms,
        to_ms=to_ms,
        uj=uj,
        **graded,
        **{"occupants": occupants, **rest},
    )


def tree(*nodes: Json, **rest: Any) -> Json:
    return event("tree.set", tree=list(nodes), **rest)


def policy(**keys: Any) -> Json:
    return event("policy.set", policy=keys)


def period(label: str = "next", **rest: Any) -> Json:
    return event("period.opened", period=label, **rest)


def archive(**rest: Any) -> Json:
    return event("pool.archived", **rest)


def review(**rest: Any) -> Json:
    return event("idle.review", **rest)


def tick(at: int) -> Json:
    return event("tick", at=at)


# --- decisions --------------------------------------------------------------------------------


def refused(reason: str, /, **details: Any) -> Json:
    return {"kind": "refused", "reason": reason, **details}


def no_claim(claim: str, reason: str, /, **details: Any) -> Json:
    return {"kind": "claim.refused", "claim": claim, "reason": reason, **details}


def admitted(claim: str, mode: str = "guaranteed", /, **fields: Any) -> Json:
    return {"kind": "claim.admitted", "claim": claim, "mode": mode, **fields}


def waits(
    claim: str,
    reason: str,
    node_id: str,
    resource: str | None = None,
    short: int | None = None,
    /,
    **fields: Any,
) -> Json:
    """A claim waits; without a resource the body has neither one nor `short`."""
    told = {"resource": resource, "short": short}
    return {
        "kind": "claim.waiting", "claim": claim, "reason": reason, "node": node_id, **told, **fields
    }  # fmt: skip


def says(kind: str, /, **fields: Any) -> Json:
    return {"kind": kind, **fields}


def preempts(claim: str, claimant: str, /, **fields: Any) -> Json:
    return {"kind": "claim.preempting", "claim": claim, "for": claimant, **fields}


def spares(claim: str, claimant: str, /) -> Json:
    return {"kind": "claim.spared", "claim": claim, "for": claimant}


def guard_on(scope: str, claim: str, /) -> Json:
    return {"kind": "guard.on", "scope": scope, "for": claim}


def guard_off(scope: str, /) -> Json:
    return {"kind": "guard.off", "scope": scope}


# --- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a rule's table: after `given`, `when` is answered by exactly `then`."""

    name: str
    given: Sequence[Json] = ()
    when: Json
    then: Sequence[Json] = field(default_factory=tuple)

    def __str__(self) -> str:
        return self.name


def named(rows: Sequence[Row]) -> dict[str, Any]:
    """The arguments of `parametrize` for a table."""
    assert len({row.name for row in rows}) == len(rows), "two rows have one name"
    return {"argnames": "row", "argvalues": rows, "ids": [row.name for row in rows]}


def timed(events: Iterable[Json]) -> Iterator[Json]:
    """The events, each with a time."""
    now_ms = START_MS - STEP_MS
    for one in events:
        now_ms = one.get("at_ms", now_ms + STEP_MS)
        yield {**one, "at_ms": now_ms}


class Bench:
    """One pool under test: `send` answers an event with its decisions as bodies with their kind."""

    def __init__(self, *given: Json) -> None:
        self.state = PoolState(POOL)
        self.now_ms = START_MS - STEP_MS
        for one in given:
            self.send(one)

    def send(self, one: Json) -> list[Json]:
        self.now_ms = one.get("at_ms", self.now_ms + STEP_MS)
        judged, _ = timed_event({**one, "at_ms": self.now_ms})
        return [
            {"kind": str(decision.kind), **decision.body}
            for decision in decide(self.state, judged, self.now_ms)
        ]

    def usage(self, node_id: str) -> dict[str, int]:
        """What a node uses, by resource."""
        tree_now = self.state.tree
        found = tree_now.root if node_id == "/" else tree_now.nodes[node_id]
        return dict(zip(self.state.resources, found.usage, strict=True))


def pins(pinned: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a decision has the pinned fields; a field pinned to None is absent or null."""
    return all(found.get(name) == value for name, value in pinned.items())


def check(row: Row) -> list[Json]:
    """Play a row: its answer has exactly the kinds, and in each the fields, that it pins."""
    bench = Bench(*row.given)
    assert bench.state.is_open or not row.given, "the row's own pool was refused"
    found = bench.send(row.when)
    assert [one["kind"] for one in found] == [one["kind"] for one in row.then], found
    for pinned, decision in zip(row.then, found, strict=True):
        assert pins(pinned, decision), {"pinned": pinned, "found": decision}
    return found


def replayed(events: Iterable[Json]) -> tuple[PoolState, PoolState]:
    """The state after deciding the events, and that of replaying their decisions."""
    live, second = PoolState(POOL), PoolState(POOL)
    for one in timed(events):
        judged, at_ms = timed_event(one)
        assert at_ms is not None
        for index, decision in enumerate(decide(live, judged, at_ms)):
            if live.is_open:
                apply(second, decision, judged if index == 0 else None, live.now_ms)
    return live, second


def reasons_of(rows: Iterable[Row]) -> set[str]:
    """The reason codes that a table's answers state."""
    return {one["reason"] for row in rows for one in row.then if "reason" in one}
