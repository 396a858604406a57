"""`pool verify` and `pool audit`: is this ledger what its steward signed, and does it decide right?

Rules of the answer:
1. `ok` is false if the ledger is broken or forked; then the status is 1. A ledger that nobody
   witnessed is one all the same: `grade` says so.
2. `length` counts receipts; of a broken ledger, those before the first that is broken.
3. The audit verifies, too: what is not the steward's need not be decided anew.

Invariant: neither command writes anything but its answer.
Profile: §6.1, §6.6, §6.8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from schemas.chain import Broken
from schemas.grading import LedgerGrade
from schemas.keys import did_key
from schemas.records import Decision
from streams.cli.checking import Checker, Verdict
from streams.cli.ledgers import check, ledger, read_trust
from streams.cli.session import Answered, Failure, Session, Status, common
from streams.cli.where import Where, on_a_log

_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
_file = click.argument("file", required=False, type=_PATH)
_pool = click.option("--pool", help="Which pool [the only one].")
_trust = click.option("--trust", type=_PATH, help="Whose keys count (TOML).")
_heads = click.option("--heads", type=_PATH, help="Heads and countersignatures for FILE.")


@click.command()
@_file
@on_a_log
@_pool
@_trust
@_heads
@common
@click.pass_obj
def verify(session: Session, /, **options: Any) -> None:
    """Verify a ledger: FILE (see `pool export`), or a pool's on a log."""
    verdict = asyncio.run(_checked(session, audit=False, **options))
    answer = _verified(verdict)
    session.answer(answer, lambda out: _show(out, verdict, answer))
    if not answer["ok"]:
        raise Answered


@click.command()
@_file
@on_a_log
@_pool
@_trust
@_heads
@common
@click.pass_obj
def audit(session: Session, /, **options: Any) -> None:
    """Decide every event of a ledger anew and report the first decision that differs."""
    verdict = asyncio.run(_checked(session, audit=True, **options))
    answer = _verified(verdict) | {"differs": _difference(verdict)}
    answer["ok"] = answer["ok"] and verdict.difference is None
    session.answer(answer, lambda out: _show_audit(out, verdict, answer))
    if not answer["ok"]:
        raise Answered


async def _checked(
    session: Session,
    *,
    audit: bool,
    file: Path | None,
    where: Where,
    pool: str | None,
    trust: Path | None,
    heads: Path | None,
) -> Verdict:
    async with ledger(where, file, pool, heads) as one:
        trusted = None if trust is None else read_trust(trust, one.pool)
        for warning in () if trusted is None else trusted.warnings:
            session.warn(warning)
        checker = Checker(pool=one.pool or None, trust=trusted, audit=audit, in_log=one.is_log)
        verdict = await check(session, one, checker, title="auditing" if audit else "verifying")
    if verdict.length == 0 and verdict.broken is None:
        raise Failure("the ledger is empty", where=str(file or ""), status=Status.NO)
    if verdict.skipped:
        session.warn(f"{verdict.skipped} records of the log do not count: another stood before")
    return verdict


def _verified(verdict: Verdict) -> dict[str, Any]:
    grading = verdict.grading
    grade = LedgerGrade.SELF_ATTESTED if grading is None else grading.grade
    return {
        "ok": verdict.broken is None and grade is not LedgerGrade.FORKED,
        "pool": verdict.pool,
        "length": verdict.length,
        "head": verdict.head,
        "root": verdict.root,
        "steward": None if verdict.steward is None else did_key(verdict.steward),
        "grade": grade.value,
        "witnessed": 0 if grading is None else grading.witnessed_length,
        "witnessed_by": [] if grading is None else list(grading.witnessed_by),
        "objections": [
            {"ground": one.ground, "length": one.length, "by": one.by, "detail": one.detail}
            for one in (() if grading is None else grading.objections)
        ],
        "broken": _broken(verdict.broken),
    }


def _broken(broken: Broken | None) -> dict[str, Any] | None:
    if broken is None:
        return None
    return {"index": broken.index, "check": broken.check, "detail": broken.detail}


def _difference(verdict: Verdict) -> dict[str, Any] | None:
    difference = verdict.difference
    if difference is None:
        return None
    return {
        "seq": difference.seq,
        "detail": difference.detail,
        "found": _plain(difference.found),
        "decided": _plain(difference.decided),
    }


def _plain(decision: Decision | None) -> dict[str, Any] | None:
    return None if decision is None else {"kind": decision.kind.value, **decision.body}


def _show(out: Console, verdict: Verdict, answer: Mapping[str, Any]) -> None:
    if verdict.broken is not None:
        broken = verdict.broken
        out.print(f"[red]broken[/] at receipt {broken.index}: {broken.check}", soft_wrap=True)
        out.print(f"  {broken.detail}", markup=False, soft_wrap=True)
        out.print(f"  the {verdict.length} before it are in order")
        return
    colour = "red" if answer["grade"] == LedgerGrade.FORKED else "green"
    out.print(f"[{colour}]{'ok' if answer['ok'] else 'forked'}[/]  pool {verdict.pool}")
    assert verdict.head is not None and verdict.root is not None
    for name, value in (
        ("length", f"{verdict.length:,} receipts"),
        ("head", verdict.head.hex()),
        ("root", verdict.root.hex()),
        ("steward", answer["steward"]),
        ("grade", _grade(answer)),
    ):
        out.print(f"  {name:<9}{value}", markup=False, soft_wrap=True)
    for objection in answer["objections"]:
        out.print(
            f"  {objection['ground']} by {objection['by']} at {objection['length']}: "
            f"{objection['detail']}",
            markup=False,
            soft_wrap=True,
        )


def _grade(answer: Mapping[str, Any]) -> str:
    if answer["grade"] == LedgerGrade.WITNESSED:
        by = ", ".join(answer["witnessed_by"])
        return f"witnessed to {answer['witnessed']:,} by {by}; self-attested from there on"
    return str(answer["grade"])


def _show_audit(out: Console, verdict: Verdict, answer: Mapping[str, Any]) -> None:
    _show(out, verdict, answer)
    if verdict.difference is not None:
        differs = answer["differs"]
        out.print(f"[red]differs[/] at receipt {differs['seq']}: {differs['detail']}")
        out.print(f"  found    {differs['found']}", markup=False, soft_wrap=True)
        out.print(f"  decided  {differs['decided']}", markup=False, soft_wrap=True)
    elif verdict.broken is None:
        out.print("  every decision follows from its event")
