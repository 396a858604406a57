"""`pool verify` and `pool audit`: is this ledger what its steward signed, and does it decide right?

Rules of the answer:
1. `ok` is false if the ledger is broken or forked, or ends before what a trusted key signed; then
   the status is 1. A ledger that nobody witnessed is one all the same: `grade` says so.
2. A ledger that ends early was cut short or is an older copy, and nobody can tell which from the
   ledger. Only who asks can know: with `--older-copy` it is said all the same, and is no "no".
3. `length` counts receipts; of a broken ledger, those before the first that is broken.
4. The audit verifies, too: what is not the steward's need not be decided anew.

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
from rich.markup import escape

from schemas.chain import Broken
from schemas.grading import LedgerGrade
from schemas.keys import did_key
from schemas.records import Decision
from streams.cli.checking import Checker, Verdict
from streams.cli.ledgers import check, ledger, read_trust
from streams.cli.screen import say
from streams.cli.session import Answered, Session, common
from streams.cli.where import Where, on_a_log

_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
_file = click.argument("file", required=False, type=_PATH)
_pool = click.option("--pool", help="Which pool [the only one].")
_trust = click.option("--trust", type=_PATH, help="Whose keys count (TOML).")
_heads = click.option(
    "--heads", type=_PATH, help="What was signed about it: see pool export --heads."
)
_older = click.option(
    "--older-copy", is_flag=True, help="That more was signed than it has is no objection."
)


@click.command()
@_file
@on_a_log
@_pool
@_trust
@_heads
@_older
@common
@click.pass_obj
def verify(session: Session, /, **options: Any) -> None:
    """Verify a ledger: FILE (see `pool export`), or a pool's on a log."""
    older = options.pop("older_copy")
    verdict = asyncio.run(_checked(session, audit=False, **options))
    answer = _verified(verdict, older=older)
    session.answer(answer, lambda out: _show(out, verdict, answer))
    if not answer["ok"]:
        raise Answered


@click.command()
@_file
@on_a_log
@_pool
@_trust
@_heads
@_older
@common
@click.pass_obj
def audit(session: Session, /, **options: Any) -> None:
    """Decide every event of a ledger anew and report the first decision that differs."""
    older = options.pop("older_copy")
    verdict = asyncio.run(_checked(session, audit=True, **options))
    answer = _verified(verdict, older=older) | {"differs": _difference(verdict)}
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
    if heads is not None and trust is None:
        session.warn("--heads says nothing without --trust FILE: nobody's word counts")
    async with ledger(where, file, pool, heads) as one:
        trusted = None if trust is None else read_trust(trust, one.pool)
        for warning in () if trusted is None else trusted.warnings:
            session.warn(warning)
        checker = Checker(pool=one.pool or None, trust=trusted, audit=audit, in_log=one.is_log)
        verdict = await check(session, one, checker, title="auditing" if audit else "verifying")
    if verdict.skipped:
        session.warn(f"{verdict.skipped} records of the log do not count: another stood before")
    if heads is not None and verdict.grading is not None and verdict.grading.ignored:
        session.warn(
            f"{verdict.grading.ignored} statements do not count: bent, or by keys that {trust} "
            "does not name"
        )
    return verdict


def _verified(verdict: Verdict, *, older: bool) -> dict[str, Any]:
    grading = verdict.grading
    grade = LedgerGrade.SELF_ATTESTED if grading is None else grading.grade
    # Of a broken ledger not all was read: that it is shorter than what was signed says nothing.
    short_of = () if grading is None or verdict.broken is not None else grading.short_of
    whole = verdict.broken is None and (older or not short_of)
    return {
        "ok": whole and grade is not LedgerGrade.FORKED,
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
            for one in (*(() if grading is None else grading.objections), *short_of)
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
        say(out, f"  {broken.detail}")
        out.print(f"  the {verdict.length} before it are in order")
        return
    forked = answer["grade"] == LedgerGrade.FORKED
    colour = "green" if answer["ok"] else "red"
    word = "ok" if answer["ok"] else "forked" if forked else "ends early"
    out.print(f"[{colour}]{word}[/]  pool {escape(verdict.pool or '')}")
    assert verdict.head is not None and verdict.root is not None
    for name, value in (
        ("length", f"{verdict.length:,} receipts"),
        ("head", verdict.head.hex()),
        ("root", verdict.root.hex()),
        ("steward", answer["steward"]),
        ("grade", _grade(answer, trusted=verdict.grading is not None)),
    ):
        say(out, f"  {name:<9}{value}")
    for objection in answer["objections"]:
        place = "{ground} by {by} at {length}: ".format(**objection)
        say(out, f"  {place if objection['ground'] != 'length' else ''}{objection['detail']}")


def _grade(answer: Mapping[str, Any], *, trusted: bool) -> str:
    if answer["grade"] == LedgerGrade.WITNESSED:
        upto = f"witnessed to {answer['witnessed']:,} by {', '.join(answer['witnessed_by'])}"
        rest = answer["witnessed"] < answer["length"]
        return upto + ("; self-attested from there on" if rest else "")
    return str(answer["grade"]) + ("" if trusted else ": no trust file says whose word counts")


def _show_audit(out: Console, verdict: Verdict, answer: Mapping[str, Any]) -> None:
    _show(out, verdict, answer)
    if verdict.difference is not None:
        differs = answer["differs"]
        out.print(f"[red]differs[/] at receipt {differs['seq']}:", escape(differs["detail"]))
        say(out, f"  found    {differs['found']}")
        say(out, f"  decided  {differs['decided']}")
    elif verdict.broken is None:
        out.print("  every decision follows from its event")
