"""The questions: pools, claims, ledgers, proofs. Each is answered from the read side as it stands.

Not here: who asks (`web`, `context`), what is said (`answers`, `figures`, `shapes`), the stream of
decisions and the raw ledger (`streaming`), the write door (`door`).

Invariant: nothing here waits for anything but the log, where exact bytes are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from schemas.consistency import make_consistency_file
from schemas.merkle import ProofError
from schemas.proofs import make_proof
from schemas.receipts import open_receipt
from schemas.records import Grade
from streams.views import answers, shapes
from streams.views.claimrows import STATES
from streams.views.context import Asked, number
from streams.views.figures import node_of
from streams.views.fold import PoolView
from streams.views.httpfaults import HttpFault, bad_request, forbidden, json_answer, not_found
from streams.views.index import LIVE, is_below

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PAGE_MAX: Final = 500
PAGE: Final = 100
LIVE_STATE: Final = "live"
SERIES: Final = ("device", "leaf", "claim")


async def list_pools(request: web.Request) -> web.Response:
    """`GET /compute-pools`."""
    asked = Asked(request)
    asked.may_see()
    wanted = asked.grant.pool
    shown = [
        answers.summary(view, asked.below)
        for name, view in sorted(asked.side.pools.items())
        if wanted in (None, name)
    ]
    return json_answer({"pools": shown}, headers={"Cache-Control": "private, no-cache"})


async def get_pool(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}`."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    return asked.answer(view, answers.pool(view, asked.side.tables, asked.below))


async def get_shapes(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/shapes`."""
    asked = Asked(request, "leaf", "mdev", "uj", "grade")
    asked.may_see()
    view = asked.view()
    leaf = asked.text("leaf")
    if leaf is not None and not is_below(leaf, asked.below):
        raise forbidden("that leaf is not below this token's node")
    mdev = asked.number("mdev", -1)
    found = shapes.leaves(
        view.state,
        asked.below,
        leaf=leaf,
        mdev=None if mdev < 0 else mdev,
        uj=asked.number("uj", 0),
        grade=Grade(asked.one_of("grade", tuple(Grade)) or Grade.MODEL_BASED),
    )
    return asked.answer(view, {"pool_id": view.pool, "leaves": found})


async def list_claims(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/claims`: a page of claims in the order they first came."""
    asked = Asked(request, "state", "leaf", "after", "limit")
    asked.may_see()
    view = asked.view()
    state = asked.one_of("state", (*STATES, LIVE_STATE))
    states = LIVE if state == LIVE_STATE else None if state is None else frozenset({state})
    below = asked.text("leaf") or asked.below
    if not is_below(below, asked.below):
        raise forbidden("that node is not below this token's node")
    # A page of none would say that it goes on where it began, for ever.
    limit = asked.number("limit", PAGE, least=1, most=PAGE_MAX)
    found = view.index.find(place_from=asked.number("after", 0), states=states, below=below)
    page: list[answers.Plain] = []
    after: int | None = None
    for place, claim_id in found:
        if len(page) == limit:
            after = place
            break
        row = answers.claim_row(view, asked.side.tables, claim_id, asked.below)
        if row is not None:
            page.append(answers.claim(view, row, asked.below))
    return asked.answer(view, {"pool_id": view.pool, "claims": page, "next": after})


async def get_claim(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/claims/{claim}`: the claim with its receipts."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    claim_id = request.match_info["claim"]
    row = answers.claim_row(view, asked.side.tables, claim_id, asked.below)
    if row is None:
        raise not_found("no such claim here")
    said = answers.claim(view, row, asked.below)
    said["receipts"] = answers.history(row)
    return asked.answer(view, said)


async def get_explanation(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/claims/{claim}/explanation`: why it waits now."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    claim_id = request.match_info["claim"]
    row = answers.claim_row(view, asked.side.tables, claim_id, asked.below)
    if row is None:
        raise not_found("no such claim here")
    said = answers.why(view, claim_id, asked.below)
    if said is None:
        said = {"claim": claim_id, "state": row["state"], "reason": row.get("reason")}
    said["last"] = answers.history(row)[-1]
    return asked.answer(view, said)


async def list_waiting(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/waiting`: who waits, and why now."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    shown = answers.waiting(view, asked.below)
    return asked.answer(view, {"pool_id": view.pool, "waiting": shown})


async def get_power(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/power?of=leaf&name=...`: measured power over time."""
    asked = Asked(request, "of", "name")
    asked.may_see()
    view = asked.view()
    of, name = asked.one_of("of", SERIES), asked.text("name")
    if of is None or name is None:
        raise bad_request("say what: of=device, leaf or claim, and its name")
    if of == "device":
        asked.may_see_all()
    elif of == "leaf" and not is_below(name, asked.below):
        raise forbidden("that leaf is not below this token's node")
    elif of == "claim":
        leaf = view.index.leaf(name)
        if leaf is None or not is_below(leaf, asked.below):
            raise not_found("no such claim here")
    if of == "leaf" and node_of(view.state, name) is None:
        raise not_found("no such node here")
    windows = answers.windows(view, asked.side.tables, of, name)
    return asked.answer(view, {"pool_id": view.pool, "of": of, "name": name, "windows": windows})


async def get_receipt(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/receipts/{seq}`: a receipt's exact bytes (COSE_Sign1)."""
    asked = Asked(request)
    view, seq = _view_and_seq(asked)
    data = await _bytes_of(asked, view, seq)
    return web.Response(
        body=data, content_type="application/cose", headers={"Cache-Control": "private, no-cache"}
    )


async def get_proof(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/proofs/{seq}`: a proof file (profile §6.9)."""
    asked = Asked(request)
    view, seq = _view_and_seq(asked)
    data = await _bytes_of(asked, view, seq)
    return await _file(view, make_proof, receipt=data, seq=seq)


async def get_consistency(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/consistency?old=&new=`: one ledger begins with the other.

    With `format=cbor` it is a consistency file (profile §6.9), under signed heads of both lengths.
    """
    asked = Asked(request, "old", "new", "format")
    asked.may_see()
    view = asked.view()
    new = asked.number("new", view.length)
    old = asked.number("old", 0)
    if not 1 <= old <= new <= view.length:
        raise bad_request(f"1 <= old <= new <= {view.length}, the ledger's length")
    if asked.one_of("format", ("json", "cbor")) == "cbor":
        return await _consistency_file(view, old, None if asked.text("new") is None else new)
    path = view.leaves.consistency_path(old_size=old, new_size=new)
    said = {
        "pool_id": view.pool,
        "old": _end(view, old),
        "new": _end(view, new),
        "path": [item.hex() for item in path],
    }
    return asked.answer(view, said)


async def get_heads(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/heads`: the newest signed heads, newest first."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    heads = [
        {"length": length, "statement": data.hex()}
        for length, data in sorted(view.heads.items(), reverse=True)
    ]
    return asked.answer(view, {"pool_id": view.pool, "heads": heads})


async def get_countersignatures(request: web.Request) -> web.Response:
    """`GET /compute-pools/{pool_id}/countersignatures`: each witness's newest."""
    asked = Asked(request)
    asked.may_see()
    view = asked.view()
    signed = [
        {"public_key": key.hex(), "statement": data.hex()}
        for key, data in view.countersignatures.items()
    ]
    said = {
        "pool_id": view.pool,
        "standing": answers.standing(view),
        "countersignatures": signed,
    }
    return asked.answer(view, said)


async def _consistency_file(view: PoolView, old: int, new: int | None) -> web.Response:
    if old == new:
        raise bad_request("a file leads from one length to a longer one: old < new")
    return await _file(view, make_consistency_file, old_length=old, new_length=new)


async def _file(view: PoolView, make: Callable[..., bytes], **about: Any) -> web.Response:
    """What `make` proves under the heads and countersignatures that the view has kept."""
    try:
        proof = await asyncio.to_thread(
            make,
            leaves=view.leaves,
            heads=list(view.heads.values()),
            countersignatures=list(view.countersignatures.values()),
            **about,
        )
    except ProofError as error:
        raise HttpFault(409, "no-head-yet", error.detail) from error
    return web.Response(
        body=proof, content_type="application/cbor", headers={"Cache-Control": "private, no-cache"}
    )


def _view_and_seq(asked: Asked) -> tuple[PoolView, int]:
    asked.may_see()
    view = asked.view()
    seq = number(asked.request.match_info["seq"], "seq")
    if seq >= view.length:
        raise not_found("no such receipt here")
    return view, seq


async def _bytes_of(asked: Asked, view: PoolView, seq: int) -> bytes:
    """A receipt's bytes, if the asker may have them. Raises HttpFault(404)."""
    found = await asked.side.receipts(view, seq, seq + 1)
    if not found or not answers.may_see_bytes(view, open_receipt(found[0])[1], asked.below):
        raise not_found("no such receipt here")
    return found[0]


def _end(view: PoolView, length: int) -> answers.Plain:
    end = view.end(length)
    return {"length": length, "head": end.head.hex(), "root": end.root.hex()}
