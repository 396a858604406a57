"""Whatever a witness is shown, in any order: it signs one history, and accuses only forkers."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.forks import open_fork
from schemas.heads import End, open_countersignature
from tests.witness.ledger import STEWARD, WITNESS, Ledger
from tests.witness.support import Clock, new_state, opened
from witness.outcome import Kind, Outcome
from witness.witness import Witness

TRUNK = Ledger().grow(40)
BRANCHES = [
    TRUNK,
    TRUNK.branch(7, mark="b").grow(33),
    TRUNK.branch(25, mark="c").grow(15),
    Ledger(mark="d").grow(40),
]

branch, length = st.sampled_from([0, 0, 0, 1, 2, 3]), st.integers(1, 40)
shown = st.tuples(st.just("shown"), branch, length, st.just(0))
receipts = st.tuples(st.just("receipts"), branch, st.integers(0, 39), st.integers(1, 25))
heads = st.tuples(st.just("head"), branch, length, st.just(0))
others = st.tuples(st.sampled_from(["restart", "inquest"]), st.just(0), st.just(0), st.just(0))
actions = st.lists(st.one_of(shown, shown, shown, receipts, heads, others), max_size=20)
Action = tuple[str, int, int, int]


def act(witness: Witness, action: Action, branches: list[Ledger]) -> list[Outcome]:
    """Show the witness something of a history, or let it look for one."""
    kind, number, at, count = action
    ledger = branches[number % len(branches)]
    outcome: Outcome | None = None
    match kind:
        case "shown":
            witness.take_receipts("alpha", enumerate(ledger.receipts[:at]))
            outcome = witness.take_head("alpha", ledger.head(at))
        case "receipts":
            witness.take_receipts("alpha", enumerate(ledger.receipts[at : at + count]))
        case "head":
            outcome = witness.take_head("alpha", ledger.head(at))
        case "inquest" if "alpha" in witness.pools:
            inquest = witness.inquest("alpha")
            for branch in branches:
                for receipt in branch.receipts:
                    inquest.add(receipt)
            outcome = witness.conclude(inquest)
    return [*([outcome] if outcome else []), *witness.judge("alpha")]


def played(script: list[Action], branches: list[Ledger]) -> list[Outcome]:
    """Everything that came of a script, through restarts."""
    told: list[Outcome] = []
    with tempfile.TemporaryDirectory() as name:
        state, clock = new_state(Path(name)), Clock()
        witness = opened(state, clock=clock)
        for action in script:
            clock.now_ms += 1
            if action[0] == "restart":
                witness.close()
                witness = opened(state, clock=clock)
            told += act(witness, action, branches)
        with closing(witness):
            for _, statement in witness.statements():
                witness.check_published(statement)
    return told


def ends(told: list[Outcome]) -> list[End]:
    signed = [one.statement for one in told if one.kind is Kind.SIGNED]
    return [open_countersignature(data).statement.end for data in signed if data is not None]


def is_of(end: End, ledger: Ledger) -> bool:
    return end.length <= ledger.length and ledger.leaves.root(end.length) == end.root


@settings(max_examples=60, deadline=None)
@given(actions)
def test_what_is_signed_is_one_growing_history(script: list[Action]) -> None:
    """Of a forking steward, a witness signs heads of one branch only, and never a shorter one."""
    signed = ends(played(script, BRANCHES))
    lengths = [end.length for end in signed]
    assert lengths == sorted(lengths)
    assert not signed or any(all(is_of(end, branch) for end in signed) for branch in BRANCHES)


@settings(max_examples=60, deadline=None)
@given(actions)
def test_whoever_is_accused_signed_both_heads(script: list[Action]) -> None:
    """Evidence opens under the steward's key alone, and nothing is signed after it."""
    told = played(script, BRANCHES)
    forks = [one for one in told if one.kind is Kind.FORKED]
    assert len(forks) <= 1
    for fork in forks:
        assert fork.statement is not None
        open_fork(fork.statement, {STEWARD.public_key}, {WITNESS.public_key})
        after = told[told.index(fork) + 1 :]
        assert Kind.SIGNED not in {one.kind for one in after}


@settings(max_examples=60, deadline=None)
@given(actions)
def test_an_honest_steward_is_never_accused(script: list[Action]) -> None:
    """One history in any order, with gaps and repeats: no fork, and what can be is signed."""
    told = played(script, [TRUNK])
    assert not {Kind.FORKED, Kind.HALTED, Kind.REFUSED} & {one.kind for one in told}
    whole = [*script, ("receipts", 0, 0, 40), ("head", 0, 40, 0)]
    assert ends(played(whole, [TRUNK]))[-1].length == 40
