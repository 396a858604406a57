"""The grammar of receipts: each kind's exact body, each reason's details, and the event it carries.

Not here: events by themselves (`test_cddl_events`), the envelope and statements (`test_cddl`).

Invariant: every kind and every reason has a row that is taken, except those that never reach a
ledger.
Profile: §2.5-§2.8, §3, §4.1-§4.3, §5, §6.5.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from schemas.records import EventType, Kind, Reason
from tests.schemas.cddl_support import CDDL, core_findings, encoded, findings
from tests.schemas.test_cddl_events import DID, event, opened, reading, submitted

HASH = bytes(range(32))
TICK = event("tick")
RAW = {"bytes": b"\xff", "content_type": "text/plain"}
DEMAND = {"mdev": 1000, "uj": 0}
STARTS = {"demand": DEMAND, "grade": "ModelBased"}
SHORT = {"node": "acme", "resource": "mdev", "short": 1}


def core(kind: str, body: dict[str, Any], index: int = 1, **changes: Any) -> dict[str, Any]:
    """A receipt's core; `index` is the receipt's place among its event's."""
    cause = {
        "topic": "pool.claims",
        "partition": 0,
        "offset": 7,
        "digest": HASH,
        "index": index,
        "count": index + 1,
    }
    return {
        "jc_receipt": "pool/1",
        "id": "p:4",
        "pool": "p",
        "seq": 4,
        "prev": HASH,
        "closed_at": "2026-11-29T18:44:00.120Z",
        "steward": DID,
        "cause": cause,
        "kind": kind,
        "body": body,
    } | changes


def admitted(**fields: Any) -> dict[str, Any]:
    """The body of an admission inside the guarantee."""
    base = {"claim": "a", "leaf": "acme", "demand": DEMAND, "grade": "HwShunt"}
    return base | {"mode": "guaranteed"} | fields


def spent(**fields: Any) -> dict[str, Any]:
    """The body of a settlement."""
    figure = {"uj": 5, "grade": "HwShunt", "basis": "metered"} | fields
    return {"claim": "a", "outcome": "completed", "spent": figure}


def waiting(reason: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A row for a claim that waits."""
    return "claim.waiting", {"claim": "a", "reason": reason, **fields}


def unfit(reason: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A row for a claim that is refused."""
    return "claim.refused", {"claim": "a", "reason": reason, **fields}


def refused(reason: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A row for an event that is refused."""
    return "refused", {"reason": reason, **fields}


CLAIM = {"claim": "a"}
GOOD = [
    ("pool.opened", {}),
    ("tree.set", {}),
    ("policy.set", {}),
    ("period.opened", {"period": "2"}),
    ("pool.archived", {}),
    ("steward.rotated", {"steward": DID}),
    ("claim.admitted", admitted()),
    ("claim.admitted", admitted(demand=DEMAND | {"vcpu": 0})),
    (
        "claim.admitted",
        admitted(mode="borrowed", borrowed={"a": {"mdev": 1}, "a/b": {"uj": 9}}),
    ),
    ("claim.admitted", admitted(mode="borrowed", borrowed={})),
    waiting("concurrency", node="/"),
    waiting("concurrency", node="acme", **STARTS),
    waiting("starved-ahead", node="acme", **STARTS),
    waiting("limit", **SHORT, **STARTS),
    waiting("guess-cannot-borrow", **SHORT, **STARTS),
    waiting("unpreemptible-cannot-borrow", **SHORT, **STARTS),
    waiting("borrowing-off", **SHORT, **STARTS),
    waiting("share", **SHORT, **STARTS),
    waiting("capacity", **SHORT, **STARTS),
    waiting("earmarked", **SHORT, **STARTS),
    waiting("awaiting-reclaim", **SHORT),
    unfit("archived"),
    unfit("unknown-leaf"),
    unfit("gang-empty"),
    unfit("class-empty"),
    unfit("claim-id-reused"),
    unfit("wait-expired"),
    unfit("history-insufficient", measured=0, guesses=3, required=5),
    unfit("never-fits", node="/", resource="vcpu", excess=1),
    unfit("queue-full", node="acme"),
    ("claim.committed", CLAIM),
    ("claim.renewed", CLAIM),
    ("claim.cancelled", CLAIM),
    ("claim.expired", CLAIM),
    ("claim.uncertain", CLAIM),
    ("claim.starved", CLAIM),
    ("claim.progressed", CLAIM | {"completed": 0}),
    ("claim.overrun", CLAIM | {"reserved_uj": 0, "metered_uj": 1}),
    ("claim.settled", spent()),
    ("claim.settled", spent(prior_uj=3, basis="reserved") | {"disputed": True}),
    ("claim.settled", spent(basis="reported")),
    ("claim.preempting", {**CLAIM, "for": "b", "basis": "declared", "priority": -5}),
    (
        "claim.preempting",
        {**CLAIM, "for": "b", "basis": "measured", "cost": {"uj": 0, "completed": 1}},
    ),
    ("claim.spared", {**CLAIM, "for": "b"}),
    ("guard.on", {"for": "b", "scope": "/"}),
    ("guard.off", {"scope": "acme/train"}),
    ("meter.split", {"device": "g", "grade": "HwShunt", "shares": [{"claim": "a", "uj": 0}]}),
    (
        "meter.split",
        {"device": "g", "grade": "Estimator", "shares": [{"claim": "a", "uj": 1, "late": True}]},
    ),
    ("meter.split", {"device": "g", "shares": [], "overhead_uj": 0}),
    ("meter.gap", {"device": "g"}),
    ("idle.reviewed", {"verdicts": [], "order": []}),
    (
        "idle.reviewed",
        {
            "verdicts": [
                {"claim": "a", "verdict": "idle", "mean_uw": 0},
                {"claim": "b", "verdict": "not-held"},
                {"claim": "c", "verdict": "unknown", "reason": "guess"},
                {"claim": "d", "verdict": "unknown", "reason": "window-too-short"},
                {"claim": "e", "verdict": "working", "mean_uw": 2**63 - 1},
            ],
            "order": ["a"],
        },
    ),
    ("duplicate", {"of": 0}),
    refused("malformed"),
    refused("malformed", field="gang"),
    refused("out-of-range"),
    refused("event-id-reused"),
    refused("already-open"),
    refused("archived"),
    refused("policy-invalid", key="agingms"),
    refused("tree-invalid", id="Acme", rule="id"),
    refused("tree-invalid", id="/", rule="guarantee-sum"),
    refused("leaf-in-use", id="acme"),
    refused("unknown-claim"),
    refused("wrong-state", state="ended"),
    refused("progress-fell"),
    refused("implausible", limit_uj=0),
    refused("window-empty"),
    refused("window-future"),
    refused("window-overlaps"),
    refused("occupants-invalid"),
    refused("unknown-occupant", claim="a"),
]

BAD = [
    ("an unknown kind", "claim.paused", CLAIM),
    ("a field too many", "claim.committed", CLAIM | {"at_ms": 1}),
    ("a field too few", "claim.committed", {}),
    ("a demand without uj", "claim.admitted", admitted(demand={"mdev": 1})),
    ("an unknown mode", "claim.admitted", admitted(mode="lent")),
    ("borrowed without saying where", "claim.admitted", admitted(mode="borrowed")),
    ("guaranteed and borrowed", "claim.admitted", admitted(borrowed={})),
    ("a borrowed zero", "claim.admitted", admitted(mode="borrowed", borrowed={"a": {"mdev": 0}})),
    ("a borrowed nothing", "claim.admitted", admitted(mode="borrowed", borrowed={"a": {}})),
    (
        "root borrowing",
        "claim.admitted",
        admitted(mode="borrowed", borrowed={"/": {"uj": 1}}),
    ),
    ("a shortage at concurrency", *waiting("concurrency", **SHORT)),
    ("no shortage at a limit", *waiting("limit", node="acme")),
    ("a shortage of 0", *waiting("limit", **(SHORT | {"short": 0}))),
    ("a demand without grade", *waiting("limit", **SHORT, demand=DEMAND)),
    ("a refusal's reason while waiting", *waiting("never-fits", **SHORT)),
    ("a waiting reason as refusal", *unfit("capacity", **SHORT)),
    ("details of another reason", *unfit("unknown-leaf", node="acme")),
    ("never-fits without excess", *unfit("never-fits", node="/", resource="uj")),
    ("a prior of 0", "claim.settled", spent(prior_uj=0)),
    ("undisputed", "claim.settled", spent() | {"disputed": False}),
    ("an unknown basis", "claim.settled", spent(basis="guessed")),
    (
        "cost by declaration",
        "claim.preempting",
        {**CLAIM, "for": "b", "basis": "declared", "cost": {"uj": 1, "completed": 1}},
    ),
    (
        "cost of nothing completed",
        "claim.preempting",
        {**CLAIM, "for": "b", "basis": "measured", "cost": {"uj": 1, "completed": 0}},
    ),
    ("shares of nobody", "meter.split", {"device": "g", "grade": "HwShunt", "shares": []}),
    (
        "overhead with a grade",
        "meter.split",
        {"device": "g", "grade": "HwShunt", "shares": [], "overhead_uj": 1},
    ),
    (
        "a share that is not late",
        "meter.split",
        {"device": "g", "grade": "HwShunt", "shares": [{"claim": "a", "uj": 1, "late": False}]},
    ),
    (
        "no verdict with a rate",
        "idle.reviewed",
        {"verdicts": [{"claim": "a", "verdict": "unknown", "mean_uw": 1}], "order": []},
    ),
    ("a negative seq", "duplicate", {"of": -1}),
    ("a null field", *refused("malformed", field=None)),
    ("an unknown rule of the tree", *refused("tree-invalid", id="a", rule="loop")),
    ("a state at another reason", *refused("progress-fell", state="held")),
    ("an unknown reason", *refused("because")),
    ("no reason", "refused", {}),
]

# The first receipt of an event: which event it may carry.
FIRST = [
    ("pool.opened", {}, opened()),
    ("tree.set", {}, event("tree.set", tree=[])),
    ("policy.set", {}, event("policy.set", policy={})),
    ("period.opened", {"period": "2"}, event("period.opened", period="2")),
    ("pool.archived", {}, event("pool.archived")),
    ("steward.rotated", {"steward": DID}, event("steward.rotate", steward=DID)),
    ("claim.admitted", admitted(), submitted()),
    (*waiting("limit", **SHORT, **STARTS), submitted()),
    (*unfit("unknown-leaf"), submitted(leaf="nobody")),
    (*unfit("wait-expired"), TICK),
    (*unfit("wait-expired"), RAW),
    ("claim.expired", CLAIM, reading()),
    ("claim.uncertain", CLAIM, TICK),
    ("claim.starved", CLAIM, submitted(lease_ms=2**63)),
    ("claim.settled", spent(), event("claim.released", claim="a", outcome="completed")),
    ("claim.preempting", {**CLAIM, "for": "b", "basis": "declared", "priority": 0}, submitted()),
    ("meter.gap", {"device": "g"}, reading(uj=None)),
    ("idle.reviewed", {"verdicts": [], "order": []}, event("idle.review")),
    ("pool.opened", {}, RAW),
    ("duplicate", {"of": 3}, submitted(id="e")),
    ("duplicate", {"of": 3}, event("policy.set", id="e", policy={"agingms": 1})),
    ("duplicate", {"of": 3}, RAW),
    (*refused("malformed"), RAW),
    (*refused("out-of-range"), submitted(priority=-1001)),
]
NOT_FIRST = [
    ("claim.overrun", CLAIM | {"reserved_uj": 0, "metered_uj": 1}, reading()),
    ("claim.spared", {**CLAIM, "for": "b"}, event("claim.cancelled", claim="b")),
    ("guard.on", {"for": "b", "scope": "/"}, TICK),
    ("guard.off", {"scope": "/"}, TICK),
]
WRONG_EVENT = [
    ("another event than committed", "claim.committed", CLAIM, event("claim.renewed", claim="a")),
    ("no event at all", "claim.committed", CLAIM, None),
    ("an event out of range", "claim.admitted", admitted(), submitted(lease_ms=2**63)),
    ("a bignum", *refused("out-of-range"), submitted(lease_ms=2**64)),
    ("a float", *refused("out-of-range"), submitted(lease_ms=1.0)),
    ("bytes that were an event", "claim.committed", CLAIM, RAW),
    ("an unknown type", *refused("malformed", field="type"), event("pool.closed")),
]


def taken(value: dict[str, Any]) -> bool:
    """Whether the grammar has this core, deterministically encoded."""
    return not core_findings(encoded(value))


@pytest.mark.parametrize(("kind", "body"), GOOD)
def test_the_grammar_takes_each_decision(kind: str, body: dict[str, Any]) -> None:
    """Each kind has the body of §3's table, with each reason's own details."""
    assert core_findings(encoded(core(kind, body))) == []


def test_a_core_is_what_one_of_the_kinds_is() -> None:
    """`receipt-core` is the choice of the kinds' rules, all of them and no other."""
    text = (CDDL / "receipts.cddl").read_text()
    choice = re.search(r"^receipt-core = (.*?)\n\n", text, re.M | re.S)
    assert choice is not None
    rules = [kind.value.replace(".", "-") + "-core" for kind in Kind]
    assert sorted(re.split(r"\s*/\s*", choice[1])) == sorted(rules)
    kind, body = GOOD[0]
    assert findings("receipt-core", encoded(core(kind, body))) == []
    assert findings("receipt-core", encoded(core("pool.closed", body)))


def test_every_kind_and_every_reason_has_a_row() -> None:
    """But for those that are said of pools that are not open: there is no ledger for them."""
    reasons = {body["reason"] for _, body in GOOD if "reason" in body}
    assert {kind for kind, _ in GOOD} == {kind.value for kind in Kind}
    unopened = {Reason.UNKNOWN_POOL, Reason.RESOURCES_INVALID}
    assert reasons == {reason.value for reason in Reason if reason not in unopened}


@pytest.mark.parametrize(("why", "kind", "body"), BAD, ids=[row[0] for row in BAD])
def test_the_grammar_refuses_another_body(why: str, kind: str, body: dict[str, Any]) -> None:
    """Bodies are closed: what one kind or one reason says, another does not."""
    assert not taken(core(kind, body))


@pytest.mark.parametrize(("kind", "body", "cause"), FIRST)
def test_the_first_receipt_carries_the_event(
    kind: str, body: dict[str, Any], cause: dict[str, Any]
) -> None:
    """With index 0 the event must be there, and with a later index it must not."""
    assert taken(core(kind, body | {"event": cause}, index=0))
    assert not taken(core(kind, body | {"event": cause}, index=1))
    assert not taken(core(kind, body, index=0))


@pytest.mark.parametrize(("kind", "body", "cause"), NOT_FIRST)
def test_a_consequence_is_never_the_first(
    kind: str, body: dict[str, Any], cause: dict[str, Any]
) -> None:
    """Spared victims, guards and overruns follow another decision of the same event."""
    assert taken(core(kind, body, index=1))
    assert not taken(core(kind, body | {"event": cause}, index=0))


@pytest.mark.parametrize(
    ("why", "kind", "body", "cause"), WRONG_EVENT, ids=[row[0] for row in WRONG_EVENT]
)
def test_the_first_receipt_carries_its_own_event(
    why: str, kind: str, body: dict[str, Any], cause: dict[str, Any] | None
) -> None:
    """A decision that only one event can bring carries no other."""
    assert not taken(core(kind, body | {"event": cause}, index=0))


@pytest.mark.parametrize("name", list(EventType))
def test_any_known_type_may_be_out_of_range(name: EventType) -> None:
    """An event with a number outside its range is kept as it was parsed."""
    cause = {"pool": "p", "type": name.value, "x": -(2**64), "y": [b"", {"z": True}]}
    kind, body = refused("out-of-range")
    assert taken(core(kind, body | {"event": cause}, index=0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jc_receipt", "pool/2"),
        ("id", "p:04"),
        ("id", ":4"),
        ("id", "p"),
        ("pool", ""),
        ("seq", -1),
        ("seq", 2**63),
        ("seq", "4"),
        ("prev", HASH[1:]),
        ("prev", "00"),
        ("closed_at", "2026-11-29T18:44:00Z"),
        ("closed_at", "2026-11-29T18:44:00.12Z"),
        ("closed_at", "2026-13-29T18:44:00.120Z"),
        ("closed_at", "2026-11-29T18:44:00.120+00:00"),
        ("closed_at", 0),
        ("steward", "did:key:z6Mk"),
        ("steward", HASH),
        ("cause", {}),
        ("kind", "claim.renewd"),
        ("body", None),
        ("note", "x"),
    ],
)
def test_the_core_is_closed_and_typed(field: str, value: Any) -> None:
    """§6.5: exactly these keys, each of its type and form."""
    assert taken(core("claim.committed", CLAIM))
    assert not taken(core("claim.committed", CLAIM) | {field: value})


@pytest.mark.parametrize("field", sorted(core("claim.committed", CLAIM)))
def test_no_key_of_the_core_may_be_missing(field: str) -> None:
    """§6.5: all of them, always."""
    value = core("claim.committed", CLAIM)
    del value[field]
    assert not taken(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offset", -1),
        ("partition", None),
        ("digest", HASH + b"\x00"),
        ("count", 0),
        ("topic", b"t"),
        ("key", "p"),
    ],
)
def test_the_cause_is_closed_and_typed(field: str, value: Any) -> None:
    """§6.5: where the event came from, and which of how many receipts this is."""
    cause = core("claim.committed", CLAIM)["cause"] | {field: value}
    assert not taken(core("claim.committed", CLAIM, cause=cause))
