"""`pool check-proof`: what a proof file shows to somebody who has the keys and nothing else.

1. Both kinds are taken: a receipt's place in a ledger, and one head's in a longer one.
2. With `--heads`, the proof must be about a head in that file, one that somebody kept or that a
   witness gave: a proof of other lengths says nothing about it, and one that differs is a fork.
3. The status is 1 if nothing is proved, or what is proved is forked.

Not here: what is checked (`schemas.proofs`, `schemas.consistency`), making one
(`streams.cli.proving`).
Profile: §6.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from schemas.consistency import CONSISTENCY_KIND, ConsistencyReport, check_consistency_file
from schemas.grading import Grader, LedgerGrade, Objection
from schemas.heads import End
from schemas.merkle import ProofError, ProofFault
from schemas.proofs import ProofReport, check_proof, kind_of_proof
from schemas.trust import PoolTrust
from streams import topics
from streams.cli.ledgers import read_file, read_trust
from streams.cli.lines import decision_line, show_decision
from streams.cli.session import Answered, Session, common
from streams.cli.statements import read_statements

PROOF_BYTES_MAX = 16 * 1024**2
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("check-proof")
@click.argument("file", type=_PATH)
@click.option("--trust", type=_PATH, required=True, help="Whose keys count (TOML).")
@click.option("--heads", type=_PATH, help="Heads that you hold: it must be about one of them.")
@common
@click.pass_obj
def check_proof_command(session: Session, file: Path, trust: Path, heads: Path | None) -> None:
    """Check a proof with nothing but the keys that the trust file names."""
    data = read_file(file, PROOF_BYTES_MAX)
    report: ProofReport | ConsistencyReport
    try:
        kind, pool = kind_of_proof(data)
        trusted = read_trust(trust, pool)
        if kind == CONSISTENCY_KIND:
            report = check_consistency_file(data, trusted)
            ends = [report.old, report.new]
        else:
            report = check_proof(data, trusted)
            ends = [report.end]
        objections = () if heads is None else _compared(heads, trusted, ends)
    except ProofError as error:
        reason, detail = str(error.reason), error.detail
        session.answer(
            {"ok": False, "broken": {"check": reason, "detail": detail}},
            lambda out: out.print(
                f"[red]not proved[/]: {reason}: {escape(detail)}", soft_wrap=True
            ),
        )
        raise Answered from None
    for warning in report.warnings:
        session.warn(warning)
    answer = _answer(report, objections)
    session.answer(answer, lambda out: _show(out, answer))
    if not answer["ok"]:
        raise Answered


def _compared(file: Path, trusted: PoolTrust, ends: Sequence[End]) -> tuple[Objection, ...]:
    """What the statements in `file` have against the proof's ends (rule 2). Raises ProofError."""
    grader = Grader(trusted)
    for topic, data in read_statements(read_file(file), trusted.pool, str(file)):
        if topic == topics.HEADS:
            grader.add_head(data)
        else:
            grader.add_statement(data)
    if not grader.lengths & {end.length for end in ends}:
        held = ", ".join(map(str, sorted(grader.lengths)[-5:])) or "none by a trusted key"
        about = " and ".join(str(end.length) for end in ends)
        raise ProofError(
            ProofFault.HEAD, f"it is about a head of {about}, those in {file} are of: {held}"
        )
    for end in ends:
        grader.observe(end)
    return grader.grading(ends[-1].length).objections


def _answer(
    report: ProofReport | ConsistencyReport, objections: Sequence[Objection]
) -> dict[str, Any]:
    grade = LedgerGrade.FORKED if objections else report.grade
    answer = {
        "ok": grade is not LedgerGrade.FORKED,
        **_about(report),
        "grade": grade.value,
        "witnessed": report.witnessed_length,
        "witnessed_by": list(report.witnessed_by),
        "quorum": report.quorum,
        "objections": [
            {"ground": one.ground, "length": one.length, "by": one.by, "detail": one.detail}
            for one in objections
        ],
    }
    if isinstance(report, ProofReport):
        answer["receipt"] = decision_line(report.receipt)
    return answer


def _about(report: ProofReport | ConsistencyReport) -> dict[str, Any]:
    if isinstance(report, ProofReport):
        return {"pool": report.receipt.pool, **_plain(report.end)}
    return {"pool": report.new.pool, "from": _plain(report.old), "to": _plain(report.new)}


def _plain(end: End) -> dict[str, Any]:
    return {"length": end.length, "head": end.head, "root": end.root}


def _show(out: Console, answer: Mapping[str, Any]) -> None:
    word = "[green]proved[/]" if answer["ok"] else "[red]forked[/]"
    if "receipt" in answer:
        what = f"in the ledger of pool {answer['pool']}"
        lines = [
            f"head of {answer['length']:,} receipts; {_grade(answer)}",
            show_decision(answer["receipt"]),
        ]
    else:
        old, new = answer["from"], answer["to"]
        what = f"the ledger of pool {answer['pool']} only grew, from one head to the other"
        lines = [f"head of {end['length']:,} receipts: {end['head'].hex()}" for end in (old, new)]
        lines.append(_grade(answer))
    out.print(f"{word}: {escape(what)}", soft_wrap=True)
    for line in (*lines, *(objection["detail"] for objection in answer["objections"])):
        out.print(f"  {line}", markup=False, soft_wrap=True)


def _grade(answer: Mapping[str, Any]) -> str:
    names = ", ".join(answer["witnessed_by"])
    match answer["grade"]:
        case LedgerGrade.WITNESSED:
            return f"witnessed to {answer['witnessed']:,} by {names}"
        case LedgerGrade.FORKED:
            return "a trusted key signed another history of that length"
    wanted = f": of {answer['quorum']} witnesses wanted only {names}" if names else ""
    return f"{answer['grade']}{wanted}"
