"""`pool prove`: a file that shows something about a ledger to somebody who has two keys.

1. `prove SEQ` writes a proof that receipt SEQ is in the ledger; `prove --from LENGTH` that the
   ledger of a longer head begins with that of LENGTH. Both stand under signed heads that the ledger
   bears out, with the countersignatures that stand. It verifies the ledger that it proves from.
2. The RFC 9942 receipt in it is signed with the steward's key, where that is at hand (`--key`, or
   `DIR/steward.pem`); without it the file holds the bare path under the signed head. A key that is
   named and did not sign the head is an error; one that merely lies there is a warning.
3. The file is there as a whole or not at all; where it is stdout, the answer goes to stderr.
4. What convicts the ledger's own stewards is told beside the proof, which proves no less for it.

Not here: what a proof is (`schemas.proofs`, `schemas.consistency`), checking one
(`streams.cli.proofcheck`).
Profile: §6.9.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from schemas.consistency import make_consistency_file
from schemas.grading import Grader, Objection
from schemas.hashstore import HashStore
from schemas.heads import End, open_head
from schemas.keys import SeedSigner, from_did_key
from schemas.merkle import ProofError, ProofFault, leaf_hash
from schemas.prooffile import members_of
from schemas.proofs import make_proof
from schemas.receipts import Receipt
from schemas.trust import PoolTrust
from streams import topics
from streams.cli.checking import Checker
from streams.cli.keys import password_option, read_key
from streams.cli.ledgers import check, ledger
from streams.cli.outfile import is_stdout, written
from streams.cli.proofcheck import check_proof_command
from streams.cli.screen import say
from streams.cli.session import Failure, Session, Status, common
from streams.cli.stewarding import KEY_FILE
from streams.cli.where import Where, on_a_log

__all__ = ["check_proof_command", "prove"]

_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
_TODO = {
    ProofFault.HEAD: "take a length that was signed; a steward signs as it runs, and when it stops",
    ProofFault.SIGNATURE: "give the steward's key, or none: the proof then has the bare path",
    ProofFault.SIZE: "take lengths that the ledger has",
}


@dataclass(slots=True, kw_only=True)
class Found:
    """A verified ledger, as far as a proof needs it; receipt `wanted` of it whole."""

    pool: str
    wanted: int | None
    receipt: bytes | None = None
    leaves: HashStore = field(default_factory=HashStore)
    digests: list[bytes] = field(default_factory=list)
    stewards: set[str] = field(default_factory=set)
    heads: list[bytes] = field(default_factory=list)
    statements: list[bytes] = field(default_factory=list)

    def accept(self, data: bytes) -> None:
        """Take the next receipt."""
        if self.leaves.size == self.wanted:
            self.receipt = data
        self.leaves.append(leaf_hash(data))
        self.digests.append(sha256(data).digest())

    def hear(self, receipt: Receipt, _: object) -> None:
        """Note whose it is."""
        self.stewards.add(receipt.steward)

    def objections(self) -> tuple[Objection, ...]:
        """What the stewards of this very ledger signed against it (rule 4)."""
        stewards = frozenset(map(from_did_key, self.stewards))
        trust = PoolTrust(pool=self.pool, stewards=stewards, witnesses={}, quorum=0)
        grader = Grader(trust)
        for data in self.heads:
            grader.add_head(data)
        for data in self.statements:
            grader.add_statement(data)
        for length in grader.lengths:
            if length <= self.leaves.size:
                head, root = self.digests[length - 1], self.leaves.root(length)
                grader.observe(End(pool=self.pool, length=length, head=head, root=root))
        grading = grader.grading(self.leaves.size)
        return (*grading.objections, *grading.short_of)


@click.command()
@click.argument("seq", type=click.IntRange(0), required=False)
@click.option(
    "--from", "old", type=click.IntRange(1), metavar="LENGTH",
    help="Instead of SEQ: that nothing before LENGTH was changed, under its signed head.",
)  # fmt: skip
@click.option(
    "--to", "new", type=click.IntRange(1), metavar="LENGTH",
    help="With --from: up to which signed head [a witnessed one, else the longest].",
)  # fmt: skip
@on_a_log
@click.option("--pool", help="Which pool [the only one].")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path),
    help="[POOL-SEQ.proof, POOL-FROM-TO.proof]",
)  # fmt: skip
@click.option("--key", type=_PATH, help="The steward's [DIR/steward.pem, if it is there].")
@password_option
@common
@click.pass_obj
def prove(
    session: Session,
    seq: int | None,
    old: int | None,
    new: int | None,
    where: Where,
    pool: str | None,
    out: Path | None,
    key: Path | None,
    password_file: Path | None,
) -> None:
    """Write a proof that receipt SEQ is in the ledger, or that it only grew (--from)."""
    if (seq is None) == (old is None) or (new is not None and old is None):
        raise click.UsageError("say what to prove: SEQ, or --from LENGTH [--to LENGTH]")
    opened = partial(read_key, password_file=password_file)
    found = asyncio.run(_read(session, where, pool, seq))
    objections = found.objections()
    for objection in objections:
        session.warn(f"{objection.ground}, at {objection.length}: {objection.detail}")
    if old is None:
        assert seq is not None
        proof = _made(session, where, key, opened, lambda signer: _of_receipt(found, seq, signer))
        about: dict[str, Any] = {"seq": seq}
    else:
        proof = _made(
            session, where, key, opened, lambda signer: _of_growth(found, old, new, signer)
        )
        about = {"from": old, "to": new or _length_of(members_of(proof)["new"])}
    rfc9942 = "path" not in members_of(proof)
    if key is not None and not rfc9942:
        session.warn("RFC 9942 has no receipt for a ledger of one: the signed head is the proof")
    file = out or Path("-".join([_in_a_name(found.pool), *map(str, about.values())]) + ".proof")
    with written(file) as stream:
        stream.write(proof)
    answer = {
        "pool": found.pool,
        **about,
        "file": str(file),
        "bytes": len(proof),
        "rfc9942": rfc9942,
        "objections": [
            {"ground": one.ground, "length": one.length, "by": one.by, "detail": one.detail}
            for one in objections
        ],
    }
    line = f"{file}: {len(proof):,} bytes"
    if is_stdout(file):
        session.note(line)
    else:
        session.answer(answer, lambda shown: say(shown, line))


async def _read(session: Session, where: Where, pool: str | None, wanted: int | None) -> Found:
    """The ledger, verified. What was signed is read first: the ledger may go on meanwhile."""
    async with ledger(where, None, pool) as one:
        found = Found(pool=one.pool, wanted=wanted)
        async for topic, data in one.statements():
            (found.heads if topic == topics.HEADS else found.statements).append(data)
        checker = Checker(pool=one.pool, replay=False, in_log=True, hear=found.hear)
        verdict = await check(session, one, checker, title="reading", accepted=found.accept)
    if verdict.broken is not None:
        raise Failure(f"the ledger is broken: {verdict.broken}", status=Status.NO)
    if wanted is not None and found.receipt is None:
        raise Failure(
            f"no receipt {wanted}: pool {one.pool!r} has {verdict.length}", status=Status.NO
        )
    return found


def _of_receipt(found: Found, seq: int, signer: SeedSigner | None) -> bytes:
    assert found.receipt is not None
    return make_proof(
        receipt=found.receipt,
        seq=seq,
        leaves=found.leaves,
        heads=found.heads,
        countersignatures=found.statements,
        signer=signer,
    )


def _of_growth(found: Found, old: int, new: int | None, signer: SeedSigner | None) -> bytes:
    return make_consistency_file(
        old_length=old,
        new_length=new,
        leaves=found.leaves,
        heads=found.heads,
        countersignatures=found.statements,
        signer=signer,
    )


def _made(
    session: Session,
    where: Where,
    key: Path | None,
    opened: Callable[[Path], SeedSigner],
    make: Callable[[SeedSigner | None], bytes],
) -> bytes:
    """The proof, with the steward's key where that is at hand (rule 2). Raises Failure."""
    lying = None if where.data is None else where.data / KEY_FILE
    file = key or (lying if lying is not None and lying.exists() else None)
    try:
        try:
            return make(None if file is None else opened(file))
        except ProofError as error:
            if key is not None or error.reason is not ProofFault.SIGNATURE:
                raise
            session.warn(f"the proof has a bare path, no RFC 9942 receipt ({file}): {error.detail}")
            return make(None)
    except ProofError as error:
        wrong_key = error.reason is ProofFault.SIGNATURE
        raise Failure(
            error.detail,
            where=str(file) if wrong_key else "",
            todo=_TODO.get(error.reason, ""),
            status=Status.USAGE if wrong_key else Status.NO,
        ) from error


def _in_a_name(pool: str) -> str:
    """A pool's name as part of a file's: it may have any character in it."""
    return re.sub(r"[^\w.+-]", "_", pool)


def _length_of(head: object) -> int:
    assert isinstance(head, bytes)
    return open_head(head).statement.end.length
