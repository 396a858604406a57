"""What a ledger comes to, summed up for a person: the demo's last word.

Rules of the figures:
1. *Reserved* is what admitted claims reserved, *spent* what settled ones were charged, *returned*
   what their reservations held above that. *Guessed* is the part of spent that is nobody's
   measurement: graded Estimator, or settled at the reservation for want of a figure.
2. A claim counts once where it was admitted, refused, preempted; the waits are those of now.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from schemas.receipts import Receipt
from schemas.records import UJ, Grade, Kind
from streams.cli import units
from streams.cli.checking import Verdict
from streams.cli.screen import pairs, say
from streams.cli.usage import RESERVED
from streams.cli.words import REASONS
from streams.kernel import PoolState
from streams.kernel.explain import explain


class Summary:
    """Hears a ledger's receipts in order."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.refusals: list[dict[str, Any]] = []
        self.borrowed = 0
        self.preempted: dict[str, str] = {}
        self.reserved_uj = 0
        self.spent_uj = 0
        self.guessed_uj = 0
        self.returned_uj = 0
        self.pin: int | None = None
        self._reserved: dict[str, int] = {}
        self.state: PoolState | None = None

    def hear(self, receipt: Receipt, state: PoolState) -> None:
        """Count a receipt."""
        self.state = state
        body: Mapping[str, Any] = receipt.body
        self.kinds[receipt.kind] += 1
        match receipt.kind:
            case Kind.CLAIM_ADMITTED:
                self.borrowed += body["mode"] == "borrowed"
                self._reserved[body["claim"]] = body["demand"][UJ]
                self.reserved_uj += body["demand"][UJ]
            case Kind.CLAIM_REFUSED | Kind.REFUSED:
                self._refused(body)
            case Kind.CLAIM_PREEMPTING:
                self.preempted[body["claim"]] = body["for"]
                self.pin = receipt.seq if self.pin is None else self.pin
            case Kind.CLAIM_SETTLED:
                self._settled(body["claim"], body["spent"])

    def _refused(self, body: Mapping[str, Any]) -> None:
        event = body.get("event", {})
        self.refusals.append(
            {
                "claim": body.get("claim"),
                "reason": body["reason"],
                "grade": event.get("grade") if isinstance(event, dict) else None,
            }
        )

    def _settled(self, claim: str, spent: Mapping[str, Any]) -> None:
        self.spent_uj += spent["uj"]
        self.returned_uj += max(0, self._reserved.pop(claim, 0) - spent["uj"])
        if spent["grade"] == Grade.ESTIMATOR or spent["basis"] == RESERVED:
            self.guessed_uj += spent["uj"]

    def answer(self, verdict: Verdict, data: Path) -> dict[str, Any]:
        """The figures, as the JSON answer has them."""
        state = self.state
        assert state is not None and verdict.grading is not None, "a demo has receipts and a trust"
        waiting = {claim: explain(state, claim) for claim in state.waiting}
        return {
            "pool": verdict.pool,
            "data": str(data),
            "length": verdict.length,
            "head": verdict.head,
            "root": verdict.root,
            "grade": verdict.grading.grade.value,
            "witnessed": verdict.grading.witnessed_length,
            "witnessed_by": list(verdict.grading.witnessed_by),
            "decisions": dict(sorted(self.kinds.items())),
            "borrowed": self.borrowed,
            "live": state.live_count,
            "waiting": {
                claim: why.reason.value if why is not None and why.reason is not None else None
                for claim, why in waiting.items()
            },
            "refused": self.refusals,
            "preempted": self.preempted,
            "reserved_uj": self.reserved_uj,
            "spent_uj": self.spent_uj,
            "guessed_uj": self.guessed_uj,
            "returned_uj": self.returned_uj,
            "overhead_uj": state.overhead_uj,
        }


def show_summary(out: Console, answer: Mapping[str, Any]) -> None:
    """The figures in a table, then what to try next."""
    kinds: Mapping[str, int] = answer["decisions"]
    rows = (
        ("admitted", f"{kinds[Kind.CLAIM_ADMITTED]}, {answer['borrowed']} of them borrowing"),
        ("waiting at midnight", _waiting(answer["waiting"])),
        ("refused", _refused(answer["refused"])),
        ("told to stop", f"{len(answer['preempted'])}, for others' guarantees"),
        ("never started", f"{kinds.get(Kind.CLAIM_EXPIRED, 0)}: their hold expired"),
        ("fell silent", f"{kinds.get(Kind.CLAIM_UNCERTAIN, 0)}: the lease lapsed, then released"),
        ("energy reserved", units.energy(answer["reserved_uj"])),
        ("energy spent", units.energy(answer["spent_uj"])),
        ("  of it guessed", units.energy(answer["guessed_uj"])),
        ("energy returned", f"{units.energy(answer['returned_uj'])}, reserved and not spent"),
        ("overhead", f"{units.energy(answer['overhead_uj'])} on devices that nobody held"),
        ("ledger", f"{answer['length']:,} receipts, verified"),
        ("head", answer["head"].hex()),
        ("grade", f"{answer['grade']} to {answer['witnessed']:,} by {_names(answer)}"),
    )
    in_data = escape(f", in {answer['data']}")
    out.print(f"[bold]A day of pool {answer['pool']}[/]{in_data}", soft_wrap=True)
    pairs(out, rows)
    out.print("\nTry next:")
    for words, command in answer["next"].items():
        out.print(f"  [dim]# {words}[/]", soft_wrap=True)
        say(out, f"  {command}")


def _names(answer: Mapping[str, Any]) -> str:
    return ", ".join(answer["witnessed_by"]) or "nobody"


def _refused(refused: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{one['claim']}{', a guess' if one['grade'] == Grade.ESTIMATOR else ''}: "
        f"{REASONS[one['reason']]}"
        for one in refused
    )


def _waiting(waiting: Mapping[str, str | None]) -> str:
    return _reasons(Counter(reason or "" for reason in waiting.values()))


def _reasons(counts: Mapping[str, int]) -> str:
    lines = (f"{count}: {REASONS.get(reason, 'it fits')}" for reason, count in counts.items())
    return "\n".join(lines) or "none"


def next_commands(data: Path, summary: Summary, verdict: Verdict) -> dict[str, str]:
    """Words to command: what to try next, each as it works when pasted here."""
    pool, where = command_name(), f"--data {shlex.quote(str(data))}"
    trust = shlex.quote(str(data / "trust.toml"))
    exported = shlex.quote(str(data / "ledger.cbor"))
    heads = shlex.quote(str(data / "heads.cbor"))
    proof = shlex.quote(str(data / "receipt.proof"))
    state = summary.state
    assert state is not None
    waits = list(state.awaiting) or list(state.waiting)
    claim = (
        '{"pool": "demo", "type": "claim.submitted", "claim": "mine", "leaf": "cygnus", '
        '"gang": [{"mdev": 500, "uj": 7200000000}], "grade": "ModelBased"}'
    )
    commands = {
        "who has, holds and spent what": f"{pool} usage {where}",
        "what waits": f"{pool} claims --state waiting {where}",
    }
    if waits:
        commands["why that waits, and for whom"] = f"{pool} explain {waits[-1]} {where}"
    if summary.preempted:
        victim = next(iter(summary.preempted))
        commands["why that was told to stop"] = f"{pool} explain {victim} {where}"
    return commands | {
        "the last decisions": f"{pool} watch --no-follow --from {verdict.length - 10} {where}",
        "is the ledger whole, and who says so": f"{pool} verify {where} --trust {trust}",
        "does every decision follow": f"{pool} audit {where}",
        "take the ledger away, and verify the copy": (
            f"{pool} export demo {exported} --heads {heads} {where} && "
            f"{pool} verify {exported} --heads {heads} --trust {trust}"
        ),
        "prove one receipt to somebody with two keys": (
            f"{pool} prove {summary.pin or 0} {where} --out {proof} && "
            f"{pool} check-proof {proof} --trust {trust}"
        ),
        "ask for something yourself": f"echo '{claim}' | {pool} send - {where}",
    }


def command_name() -> str:
    """How this program was called: `pool`, a path, or the interpreter with a module."""
    called = sys.argv[0]
    if called.endswith(".py"):
        return f"{shlex.quote(sys.executable)} -m streams.cli.main"
    found = shutil.which("pool")
    if found is not None and Path(found).resolve() == Path(called).resolve():
        return "pool"
    return shlex.quote(called)
