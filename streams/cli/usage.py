"""`pool usage` and `pool claims`: what each node has, holds and spent, and who holds it.

Rules of `usage`:
1. One answer a node, the root first; with `--json` one object each, and a last one (`node` null)
   with what belongs to no node: overhead, and energy by how its figure was come by.
2. Energy by how: settled figures by basis and grade since the pool was opened; a reservation that
   settled for want of a figure is `reserved`, whatever its grade.
3. `claims` lists what the pool remembers: all that wait or live, and what ended in this accounting
   period or the last one. Older ones are in the ledger: `pool explain`.

Not here: the figures (`streams.cli.picture`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console

from schemas.records import MDEV, UJ, ClaimState, Grade, Kind
from streams.cli import picture, units
from streams.cli.screen import listing, say, table
from streams.cli.session import TEXT, Session, common
from streams.cli.standing import receipts_with, state_of
from streams.cli.where import Where, on_a_log
from streams.cli.words import REASONS
from streams.kernel import PoolState
from streams.logs.contract import LogReader

_pool = click.option("--pool", type=TEXT, help="Which pool [the only one].")
GRADE_WORDS = {
    Grade.HW_SHUNT.value: "measured",
    Grade.MODEL_BASED.value: "modelled",
    Grade.ESTIMATOR.value: "guessed",
}
RESERVED = "reserved"
"""Settled at the reservation, for want of a figure."""


@click.command()
@on_a_log
@_pool
@common
@click.pass_obj
def usage(session: Session, where: Where, pool: str | None) -> None:
    """What each node of the tree has, holds, spent, borrows and lends."""
    state, energy = asyncio.run(_usage(where, pool))
    nodes = list(picture.nodes(state))
    rest: dict[str, Any] = {
        "node": None,
        "pool": state.pool,
        "at_ms": state.now_ms,
        "overhead_uj": picture.overhead_uj(state),
        "settled_uj": energy,
    }
    if session.json:
        for node in nodes:
            session.line(node)
        session.line(rest)
    else:
        _show_usage(session.out(), state, nodes, rest)


@click.command()
@on_a_log
@_pool
@click.option("--state", "state_name", type=click.Choice([one.value for one in ClaimState]))
@click.option("--leaf", type=TEXT, help="Only of this leaf, or below this node.")
@common
@click.pass_obj
def claims(
    session: Session, where: Where, pool: str | None, state_name: str | None, leaf: str | None
) -> None:
    """The claims that the pool remembers, and where they are."""
    state = asyncio.run(_state(where, pool))
    shown = [
        picture.claim(one)
        for one in state.claims.values()
        if state_name in (None, one.state.value)
        and (leaf is None or f"{one.leaf_id}/".startswith(f"{leaf}/"))
    ]
    if session.json:
        for line in shown:
            session.line(line)
    else:
        _show_claims(session.out(), state, shown)


async def _usage(where: Where, pool: str | None) -> tuple[PoolState, dict[str, int]]:
    async with where.reader() as log:
        state = await state_of(log, where, pool)
        return state, await _settled_uj(log, state.pool)


async def _state(where: Where, pool: str | None) -> PoolState:
    async with where.reader() as log:
        return await state_of(log, where, pool)


async def _settled_uj(log: LogReader, pool: str) -> dict[str, int]:
    """Settled energy by how its figure was come by (rule 2), uJ."""
    found: Counter[str] = Counter()
    async for receipt in receipts_with(log, pool, [Kind.CLAIM_SETTLED.value]):
        if receipt.kind is Kind.CLAIM_SETTLED:
            body: Mapping[str, Any] = receipt.body
            spent = body["spent"]
            how = RESERVED if spent["basis"] == RESERVED else GRADE_WORDS[spent["grade"]]
            found[how] += spent["uj"]
    return {how: found[how] for how in (*GRADE_WORDS.values(), RESERVED)}


def _show_usage(
    out: Console, state: PoolState, nodes: Sequence[Mapping[str, Any]], rest: Mapping[str, Any]
) -> None:
    for resource in state.resources:
        out.print(_resource_table(resource, nodes))
        out.print()
    reclaiming = nodes[0]["reclaiming"]
    for one in reclaiming:
        say(out, f"being reclaimed: {one['claim']} for {one['for']}")
    how = ", ".join(f"{units.energy(uj)} {name}" for name, uj in rest["settled_uj"].items() if uj)
    out.print(f"settled since the opening: {how or 'nothing'}")
    out.print(f"overhead, on devices that nobody held: {units.energy(rest['overhead_uj'])}")
    out.print(
        f"{nodes[0]['live']} claims live, {nodes[0]['waiting']} wait; as of "
        f"{units.instant(rest['at_ms'])}"
    )


def _resource_table(resource: str, nodes: Sequence[Mapping[str, Any]]) -> Any:
    spent = ("spent",) if resource == UJ else ()
    columns = ("guarantee", "held", *spent, "borrowed", "lent", "limit")
    title = {UJ: "energy, this period", MDEV: "devices"}.get(resource, resource)
    shown = table(title, "node", *columns, right=frozenset(columns))
    for node in nodes:
        figures = node["resources"][resource]
        depth = 0 if node["node"] == "/" else node["node"].count("/") + 1
        cells = (_cell(resource, figures[column]) for column in columns)
        shown.add_row("  " * depth + node["node"], *cells)
    return shown


def _cell(resource: str, value: int | None) -> str:
    if value is None or value == 0:
        return "-"
    if resource == MDEV:
        return units.devices(value)
    return units.energy(value) if resource == UJ else f"{value:,}"


def _show_claims(out: Console, state: PoolState, shown: Sequence[Mapping[str, Any]]) -> None:
    columns = ("claim", "leaf", "state", "asks for", "grade", "since", "remark")
    rows = (
        (
            one["claim"],
            one["leaf"],
            one["state"],
            units.amounts(one["demand"]),
            one["grade"],
            units.duration(state.now_ms - one.get("admitted_ms", one["submitted_ms"])),
            _remark(one),
        )
        for one in shown
    )
    listing(out, f"{len(shown)} claims of pool {state.pool}", columns, rows)


def _remark(one: Mapping[str, Any]) -> str:
    if one["state"] == ClaimState.WAITING:
        return REASONS[one["reason"]] + ("; starved" if one["starved"] else "")
    if "reclaimed_for" in one:
        return f"told to stop, for {one['reclaimed_for']}"
    return f"{units.energy(one['metered_uj'])} metered" if one["metered_uj"] else ""
