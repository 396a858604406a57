"""`pool explain CLAIM`: why it waits now, or what became of it, and which receipts say so.

1. Why a claim waits *now* is computed by the kernel from the state that the ledger makes; the
   receipts say why it began to wait.
2. Its receipts are those whose body names it: as the claim, as whom a victim or a guard is for, as
   a share or an occupant of a reading.
3. With `--trust` each receipt says how it is attested; that takes the verification of the ledger.

Not here: why (`streams.kernel.explain`).
Profile: §4.3, §5.2, §6.8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from schemas.grading import Grading
from schemas.receipts import Receipt
from schemas.records import ClaimState, Kind, Reason
from streams.cli import picture, units
from streams.cli.checking import Checker
from streams.cli.ledgers import check, ledger, read_trust
from streams.cli.lines import decision_line, preempted_by, show_decision
from streams.cli.screen import say
from streams.cli.session import TEXT, Failure, Session, Status, common
from streams.cli.standing import receipts_with, state_of
from streams.cli.where import Where, on_a_log
from streams.cli.words import REASONS
from streams.kernel import PoolState
from streams.kernel.explain import Why, explain
from streams.logs.contract import LogReader

READINGS_SHOWN = 5


@click.command("explain")
@click.argument("claim", type=TEXT)
@on_a_log
@click.option("--pool", type=TEXT, help="Which pool [the only one].")
@click.option(
    "--trust",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Grade each receipt by this trust file (TOML).",
)
@common
@click.pass_obj
def explain_command(
    session: Session, claim: str, where: Where, pool: str | None, trust: Path | None
) -> None:
    """Why CLAIM waits now, or what became of it, and which receipts say so."""
    answer = asyncio.run(_explained(session, claim, where, pool, trust))
    session.answer(answer, lambda out: _show(out, answer))


async def _explained(
    session: Session, claim: str, where: Where, pool: str | None, trust: Path | None
) -> dict[str, Any]:
    async with where.reader() as log:
        state = await state_of(log, where, pool)
        receipts = [one async for one in receipts_with(log, state.pool, [claim]) if _of(one, claim)]
        if not receipts:
            raise Failure(
                f"no receipt of pool {state.pool!r} names claim {claim!r}",
                where=log.where,
                status=Status.NO,
            )
        grading = None if trust is None else await _graded(session, log, where, state.pool, trust)
    known = state.claims.get(claim)
    why = explain(state, claim)
    lines = [decision_line(receipt) for receipt in receipts]
    if grading is not None:
        for line in lines:
            line["attested"] = grading.of_receipt(line["seq"]).value
    return {
        "claim": claim,
        "pool": state.pool,
        "state": None if why is None else why.state.value,
        "words": _words(state, claim, why, lines),
        "why": None if why is None or why.state is not ClaimState.WAITING else _plain(why),
        "now": None if known is None else picture.claim(known),
        "receipts": lines,
    }


async def _graded(
    session: Session, log: LogReader, where: Where, pool: str, trust: Path
) -> Grading | None:
    async with ledger(where, None, pool) as one:
        checker = Checker(pool=pool, trust=read_trust(trust, pool), replay=False, in_log=True)
        verdict = await check(session, one, checker, title="verifying")
    if verdict.broken is not None:
        raise Failure(f"the ledger is broken: {verdict.broken}", where=log.where, status=Status.NO)
    return verdict.grading


def _of(receipt: Receipt, claim: str) -> bool:
    """Rule 2, for a receipt that has the claim's text somewhere."""
    body: Mapping[str, Any] = receipt.body
    if claim in (body.get("claim"), body.get("for")):
        return True
    event = body.get("event")
    occupants = event.get("occupants") if isinstance(event, dict) else None
    named = (*body.get("shares", ()), *body.get("verdicts", ()), *(occupants or ()))
    return any(isinstance(one, dict) and one.get("claim") == claim for one in named)


def _plain(why: Why) -> dict[str, Any]:
    return {
        "reason": None if why.reason is None else why.reason.value,
        "node": why.node,
        "resource": why.resource,
        "short": why.short,
        "ahead": why.ahead,
        "starved": why.starved,
        "victims": list(why.victims),
        "guarded_by": why.guarded_by,
    }


def _words(state: PoolState, claim: str, why: Why | None, lines: list[dict[str, Any]]) -> list[str]:
    """The answer in sentences."""
    if why is None or why.state is ClaimState.ENDED:
        return [_became(claim, lines)]
    if why.state is ClaimState.WAITING:
        return _waits(state, why)
    one = state.claims[claim]
    held = f"{claim} is {why.state.value} with {units.amounts(picture.demand(one))}"
    said = [f"{held}, for {units.duration(state.now_ms - one.admitted_ms)} so far."]
    orders = [line for line in lines if line["kind"] == Kind.CLAIM_PREEMPTING]
    if why.reclaimed_for is not None and orders:
        said.append(f"It is to stop for {why.reclaimed_for}: chosen {preempted_by(orders[-1])}.")
    return said


def _waits(state: PoolState, why: Why) -> list[str]:
    one = state.claims[why.claim]
    waits = units.duration(state.now_ms - one.submitted_ms)
    said = [f"{why.claim} waits for {units.amounts(picture.demand(one))}, since {waits}."]
    if why.reason is None:
        return [*said, "It fits: the next pass starts it."]
    reason = f"Now: {REASONS[why.reason]}"
    if why.resource is not None and why.short is not None:
        reason += f"; {units.amount(why.resource, why.short)} short at {why.node}"
    elif why.node is not None:
        reason += f", at {why.node}"
    said.append(reason + ".")
    if why.reason is Reason.AWAITING_RECLAIM or why.victims:
        said.append(f"Told to stop for it: {', '.join(why.victims) or 'nobody yet'}.")
    if why.guarded_by is not None:
        said.append(f"{why.guarded_by} has waited too long and goes first.")
    said.append(f"{why.ahead} claims of its leaf came before it." if why.ahead else "")
    if why.starved:
        said.append("It has waited too long itself: it goes before later ones.")
    return [sentence for sentence in said if sentence]


def _became(claim: str, lines: list[dict[str, Any]]) -> str:
    """What became of a claim that has ended, by its last own receipt but readings."""
    own = [line for line in lines if line.get("claim") == claim and line["kind"] != Kind.DUPLICATE]
    if not own:
        return f"{claim} is named in readings only."
    return f"{show_decision({key: own[-1][key] for key in own[-1] if key not in ('seq', 'at')})}."


def _show(out: Console, answer: Mapping[str, Any]) -> None:
    for sentence in answer["words"]:
        say(out, sentence)
    out.print()
    readings = [line for line in answer["receipts"] if line["kind"] == Kind.METER_SPLIT]
    hidden = {line["seq"] for line in readings[:-READINGS_SHOWN]}
    for line in answer["receipts"]:
        if line["seq"] not in hidden:
            attested = f"  [{line['attested']}]" if "attested" in line else ""
            say(out, show_decision(line) + attested)
    if hidden:
        out.print(f"({len(hidden)} earlier readings are not shown)")
