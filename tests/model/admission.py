"""Whether a claim can ever fit (§4.1) and whether it fits now (§4.2).

Not handled here: the order of the waiting (§4.3) and what may be reclaimed (§5).
Every function answers from the pool as it stands; none changes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .books import (
    ROOT,
    Claim,
    Pool,
    Usage,
    asked,
    borrows,
    counted_awaiting,
    holding_guard,
    is_below,
    over,
    parent,
    path,
    usage,
)

CONTENDING = ("share", "capacity", "earmarked", "starved-ahead")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a claim does not fit."""

    reason: str
    node: str
    resource: str | None = None
    short: int | None = None

    def details(self) -> dict[str, Any]:
        found: dict[str, Any] = {"node": self.node}
        if self.resource is not None:
            found["resource"] = self.resource
        if self.short is not None:
            found["short"] = self.short
        return found


def most(pool: Pool, node: str, resource: str) -> int:
    """What a claim below `node` could have if nobody else used anything (§4.1)."""
    if node == ROOT:
        return pool.capacity[resource]
    own = pool.tree[node].guarantee[resource]
    if not pool.tree[node].borrow:
        return own
    kept = sum(
        pool.tree[kid].guarantee[resource]
        for kid in pool.children(parent(node))
        if kid == node or not pool.tree[kid].lends(resource)
    )
    return own + max(0, most(pool, parent(node), resource) - kept)


def never_fits(pool: Pool, claim: Claim) -> dict[str, Any] | None:
    """§4.1's `never-fits` with its details, or None."""
    for node in path(claim.leaf):
        for resource in pool.resources:
            bounds = [most(pool, node, resource)]
            if resource in pool.tree[node].limit:
                bounds.append(pool.tree[node].limit[resource])
            if node == claim.leaf and (claim.grade == "Estimator" or not claim.preemptible):
                bounds.append(pool.tree[node].guarantee[resource])
            excess = claim.demand[resource] - min(bounds)
            if excess > 0:
                return {"node": node, "resource": resource, "excess": excess}
    return None


def ceiling(pool: Pool, used: Usage, node: str, resource: str) -> int:
    """§4.2, weighted surplus."""
    if node == ROOT:
        return pool.capacity[resource]
    own = pool.tree[node].guarantee[resource]
    idle = ceiling(pool, used, parent(node), resource) - own
    for kid in pool.siblings(node):
        promised = pool.tree[kid].guarantee[resource]
        lends = pool.tree[kid].lends(resource)
        idle -= min(used[kid][resource], promised) if lends else promised
    surplus = max(0, idle)
    left = max(0, idle - sum(borrowed(pool, used, kid, resource) for kid in pool.siblings(node)))
    if resource == "uj" or used[node][resource] <= own:
        return own + left
    contending = [kid for kid in pool.siblings(node) if contends(pool, kid, resource)]
    others = [kid for kid in pool.siblings(node) if kid not in contending]
    pot = max(0, surplus - sum(borrowed(pool, used, kid, resource) for kid in others))
    weight = pool.tree[node].weight
    weights = weight + sum(pool.tree[kid].weight for kid in contending)
    return own + min(left, pot * weight // weights)


def borrowed(pool: Pool, used: Usage, node: str, resource: str) -> int:
    return max(0, used[node][resource] - pool.tree[node].guarantee[resource])


def contends(pool: Pool, node: str, resource: str) -> bool:
    for claim in pool.waiting():
        if claim.reason is None or not is_below(claim.leaf, node):
            continue
        reason, resource_written = claim.reason
        if reason in CONTENDING and resource_written != "uj" and resource in asked(pool, claim):
            return True
    return False


def top(pool: Pool, actual: Usage, node: str, resource: str) -> int:
    if node == ROOT or pool.tree[node].borrow:
        return ceiling(pool, actual, node, resource)
    return pool.tree[node].guarantee[resource]


def room(pool: Pool, actual: Usage, used: Usage, p: str, n: str, resource: str) -> int:
    """What is left at `p` for its child `n` (§4.2, 4): `top` of `actual`, the rest `used`."""
    left = top(pool, actual, p, resource) - used[n][resource]
    for kid in pool.children(p):
        if kid == n:
            continue
        amount = used[kid][resource]
        if not pool.tree[kid].lends(resource):
            amount = max(amount, pool.tree[kid].guarantee[resource])
        left -= amount
    return left


def check_concurrency(pool: Pool, claim: Claim) -> Iterator[Failure]:
    for node in path(claim.leaf):
        most_live = pool.tree[node].max_live
        running = [other for other in pool.live() if is_below(other.leaf, node)]
        if most_live is not None and len(running) >= most_live:
            yield Failure(reason="concurrency", node=node)


def check_limit(pool: Pool, used: Usage, claim: Claim, nodes: Sequence[str]) -> Iterator[Failure]:
    for node in nodes:
        for r in asked(pool, claim):
            limit = pool.tree[node].limit.get(r)
            if limit is not None and used[node][r] + claim.demand[r] > limit:
                short = used[node][r] + claim.demand[r] - limit
                yield Failure(reason="limit", node=node, resource=r, short=short)


def check_borrowing(pool: Pool, used: Usage, claim: Claim) -> Iterator[Failure]:
    """§4.2, 3."""
    if not borrows(pool, used, claim):
        return
    first = next(r for r in asked(pool, claim) if over(pool, used, claim, claim.leaf, r) > 0)
    short = over(pool, used, claim, claim.leaf, first)
    if claim.grade == "Estimator":
        yield Failure(reason="guess-cannot-borrow", node=claim.leaf, resource=first, short=short)
    if not claim.preemptible:
        yield Failure(
            reason="unpreemptible-cannot-borrow", node=claim.leaf, resource=first, short=short
        )
    yield from check_share(pool, used, claim)


def check_share(pool: Pool, used: Usage, claim: Claim) -> Iterator[Failure]:
    for node in path(claim.leaf)[:-1]:
        for r in asked(pool, claim):
            excess = over(pool, used, claim, node, r)
            if excess == 0:
                continue
            if not pool.tree[node].borrow:
                yield Failure(reason="borrowing-off", node=node, resource=r, short=excess)
                continue
            short = used[node][r] + claim.demand[r] - ceiling(pool, used, node, r)
            if short > 0:
                yield Failure(reason="share", node=node, resource=r, short=short)


def check_capacity(pool: Pool, actual: Usage, used: Usage, claim: Claim) -> Iterator[Failure]:
    nodes = path(claim.leaf)
    for n, p in pairwise(nodes):
        for r in asked(pool, claim):
            short = claim.demand[r] - room(pool, actual, used, p, n, r)
            if short > 0:
                yield Failure(reason="capacity", node=p, resource=r, short=short)


def check_earmarked(pool: Pool, actual: Usage, claim: Claim) -> Iterator[Failure]:
    """§4.2, 5."""
    others = counted_awaiting(pool, actual, claim)
    leaf = claim.leaf
    if not claim.awaiting:
        for r in asked(pool, claim):
            if over(pool, actual, claim, leaf, r) > 0:
                continue
            wanted = sum(other.demand[r] for other in others if other.leaf == leaf)
            total = actual[leaf][r] + claim.demand[r] + wanted
            short = total - pool.tree[leaf].guarantee[r]
            if short > 0:
                yield Failure(reason="earmarked", node=leaf, resource=r, short=short)
    if borrows(pool, actual, claim):
        projected = usage(pool, without=pool.reclaimed(), adding=others)
        failures = [
            *check_limit(pool, projected, claim, path(leaf)[1:]),
            *check_capacity(pool, actual, projected, claim),
        ]
        for one in failures:
            yield Failure(reason="earmarked", node=one.node, resource=one.resource, short=one.short)


def first_failure(pool: Pool, claim: Claim, *, arriving: bool = False) -> Failure | None:
    """The first check of §4.2 to fail, or None: the claim fits now."""
    actual = usage(pool)

    def failures() -> Iterator[Failure]:
        yield from check_concurrency(pool, claim)
        yield from check_limit(pool, actual, claim, path(claim.leaf))
        yield from check_borrowing(pool, actual, claim)
        yield from check_capacity(pool, actual, actual, claim)
        yield from check_earmarked(pool, actual, claim)
        scope = holding_guard(pool, actual, claim) if arriving else None
        if scope is not None:
            yield Failure(reason="starved-ahead", node=scope)

    return next(failures(), None)


def full_queue(pool: Pool, claim: Claim) -> str | None:
    """The first node, leaf to root, that has `max_waiting` claims waiting already (§4.1)."""
    for node in path(claim.leaf):
        bound = pool.tree[node].max_waiting
        queue = [other for other in pool.waiting() if is_below(other.leaf, node)]
        if bound is not None and len(queue) >= bound:
            return node
    return None


def guard_can_help(pool: Pool, claim: Claim) -> bool:
    """§4.3, guards, step 2: whether waiting for the borrowers' capacity can help `claim`."""
    actual = usage(pool)
    if any(f.resource == "uj" for f in surplus_failures(pool, actual, claim)):
        return False
    inside = {
        node: {
            r: amount if node == ROOT else min(amount, pool.tree[node].guarantee[r])
            for r, amount in amounts.items()
        }
        for node, amounts in actual.items()
    }
    return all(f.resource == "uj" for f in surplus_failures(pool, inside, claim))


def surplus_failures(pool: Pool, used: Usage, claim: Claim) -> list[Failure]:
    """All of the checks `share` and `capacity` that fail."""
    found = [*check_borrowing(pool, used, claim), *check_capacity(pool, used, used, claim)]
    return [failure for failure in found if failure.reason in ("share", "capacity")]
