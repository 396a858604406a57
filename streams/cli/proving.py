"""`pool prove` and `pool check-proof`: one receipt, shown to somebody who has two keys and a file.

1. `prove` writes a proof file for the receipt SEQ, against the longest signed head that has it,
   with the countersignatures that stand. It verifies the ledger that it proves from.
2. The RFC 9942 receipt in it is signed with the steward's key, where that is at hand (`--key`, or
   `DIR/steward.pem`); without it the file holds the bare inclusion path under the signed head.
3. `check-proof` needs the file and a trust file, and nothing else.

Not here: what a proof is (`schemas.proofs`).
Profile: §6.9.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from schemas.grading import LedgerGrade
from schemas.hashstore import HashStore
from schemas.keys import SeedSigner
from schemas.merkle import ProofError, leaf_hash
from schemas.proofs import ProofReport, check_proof, make_proof, pool_of_proof
from streams import topics
from streams.cli.checking import Checker
from streams.cli.keys import read_key
from streams.cli.ledgers import Ledger, check, ledger, read_file, read_trust
from streams.cli.lines import decision_line, show_decision
from streams.cli.session import Answered, Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE
from streams.cli.where import Where, on_a_log

PROOF_BYTES_MAX = 16 * 1024**2
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("seq", type=click.IntRange(0))
@on_a_log
@click.option("--pool", help="Which pool [the only one].")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="[POOL-SEQ.proof]")
@click.option("--key", type=_PATH, help="The steward's [DIR/steward.pem, if it is there].")
@common
@click.pass_obj
def prove(
    session: Session, seq: int, where: Where, pool: str | None, out: Path | None, key: Path | None
) -> None:
    """Write a proof that receipt SEQ is in the ledger."""
    name, proof = asyncio.run(_prove(session, seq, where, pool, _signer(where, key)))
    file = out or Path(f"{name}-{seq}.proof")
    file.write_bytes(proof)
    session.answer(
        {"pool": name, "seq": seq, "file": str(file), "bytes": len(proof)},
        lambda shown: shown.print(f"{file}: {len(proof):,} bytes", soft_wrap=True),
    )


@click.command("check-proof")
@click.argument("file", type=_PATH)
@click.option("--trust", type=_PATH, required=True, help="Whose keys count (TOML).")
@common
@click.pass_obj
def check_proof_command(session: Session, file: Path, trust: Path) -> None:
    """Check a proof with nothing but the keys that the trust file names."""
    data = read_file(file, PROOF_BYTES_MAX)
    try:
        report = check_proof(data, read_trust(trust, pool_of_proof(data)))
    except ProofError as error:
        reason, detail = str(error.reason), error.detail
        session.answer(
            {"ok": False, "broken": {"check": reason, "detail": detail}},
            lambda out: out.print(f"[red]not proved[/]: {reason}: {detail}"),
        )
        raise Answered from None
    for warning in report.warnings:
        session.warn(warning)
    session.answer(_answer(report), lambda out: _show(out, report))
    if report.grade is LedgerGrade.FORKED:
        raise Answered


async def _prove(
    session: Session, seq: int, where: Where, pool: str | None, signer: SeedSigner | None
) -> tuple[str, bytes]:
    leaves = HashStore()
    wanted: list[bytes] = []

    def accepted(data: bytes) -> None:
        if leaves.size == seq:
            wanted.append(data)
        leaves.append(leaf_hash(data))

    async with ledger(where, None, pool) as one:
        checker = Checker(pool=one.pool, replay=False, in_log=True)
        verdict = await check(session, one, checker, title="reading", accepted=accepted)
        if verdict.broken is not None:
            raise Failure(f"the ledger is broken: {verdict.broken}", status=Status.NO)
        if not wanted:
            raise Failure(
                f"no receipt {seq}: pool {one.pool!r} has {verdict.length}", status=Status.NO
            )
        heads, statements = await _signed(one)
    try:
        proof = make_proof(
            receipt=wanted[0],
            seq=seq,
            leaves=leaves,
            heads=heads,
            countersignatures=statements,
            signer=signer,
        )
    except ProofError as error:
        raise Failure(
            f"no signed head covers receipt {seq}: {error.detail}",
            todo="let the steward stop in order, or run on: it signs heads then",
            status=Status.NO,
        ) from error
    return one.pool, proof


async def _signed(one: Ledger) -> tuple[list[bytes], list[bytes]]:
    """The heads and the witnesses' statements that stand, as they are."""
    heads: list[bytes] = []
    statements: list[bytes] = []
    async for topic, data in one.statements():
        (heads if topic == topics.HEADS else statements).append(data)
    return heads, statements


def _signer(where: Where, key: Path | None) -> SeedSigner | None:
    if key is not None:
        return read_key(key)
    if where.data is not None and (where.data / KEY_FILE).exists():
        return read_key(where.data / KEY_FILE)
    return None


def _answer(report: ProofReport) -> dict[str, Any]:
    return {
        "ok": report.grade is not LedgerGrade.FORKED,
        "pool": report.receipt.pool,
        "length": report.length,
        "grade": report.grade.value,
        "witnessed_by": list(report.witnessed_by),
        "quorum": report.quorum,
        "receipt": decision_line(report.receipt),
    }


def _show(out: Console, report: ProofReport) -> None:
    by = f" by {', '.join(report.witnessed_by)}" if report.witnessed_by else ""
    out.print(f"[green]proved[/]: in the ledger of pool {report.receipt.pool}", soft_wrap=True)
    out.print(f"  head of {report.length:,} receipts, {report.grade.value}{by}", soft_wrap=True)
    out.print(f"  {show_decision(decision_line(report.receipt))}", markup=False, soft_wrap=True)
