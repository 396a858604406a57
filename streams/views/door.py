"""The write door, for those who do not speak Kafka: leases, in the shape of a compute-pool API.

Not here: bodies (`bodies`), deciding (a steward does), what a lease looks like (`answers`).

1. A request becomes one event, published as anybody would; its receipts are awaited, and the
   answer is the decision with its reason code. The lease in the answer is the claim after it.
2. Admitted: 201. Waiting: 202. Refused: 409, `error` being the reason code. Not decided in time:
   202, `state` `undecided`; the event is in the log and will be decided.
3. With an `Idempotency-Key` the event's id is made of the token's name and the key; a claim that
   names no id gets one made of them: the same request again is the same event, answered 200.
   Without one a retry may be a second request.
4. A lease of another subtree is not there. Whether a claim is below a token's node is judged by its
   leaf, in the request or in the claim's row.

5. Who operates the server may also send an operator's event: where this process holds the log's
   directory, there is no other way in.

Invariant: nothing is published for somebody who may not.
Profile: §3.
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Any, Final

from aiohttp import web

from schemas.receipts import Receipt
from schemas.records import EventType, Kind
from streams import topics
from streams.client import decision_of
from streams.logs.contract import CONTENT_JSON, DEAD_DETAIL, DEAD_REASON, Log, Outgoing
from streams.logs.errors import LogTrouble
from streams.steward.fold import TOPIC_OF
from streams.views import answers, bodies, leases
from streams.views.context import Asked
from streams.views.fold import PoolView
from streams.views.httpfaults import HttpFault, bad_request, forbidden, json_answer, not_found
from streams.views.index import is_below
from streams.views.readside import Heard

WAIT_SECONDS: Final = 10
WAIT_SECONDS_MAX: Final = 30
UNDECIDED: Final = "undecided"
_WAIT: Final = re.compile(r"(?:^|[,;]\s*)wait=(\d{1,4})(?=$|[,;\s])")

_OPERATORS: Final = tuple(
    str(kind)
    for kind, topic in TOPIC_OF.items()
    if topic == topics.ADMIN and kind is not EventType.TICK
)

LOG: Final = web.AppKey("log", Log)
"""The log to publish to; an application without it answers 403 to every write."""

Plain = dict[str, Any]


async def submit(request: web.Request) -> web.Response:
    """`POST /compute-leases`: ask for capacity."""
    asked, fields = await _asked(request)
    view = asked.pool(bodies.text_of(fields, "pool_id"))
    leaf = fields.get("leaf")
    if isinstance(leaf, str) and not is_below(leaf, asked.below):
        raise forbidden("that leaf is not below this token's node")
    bodies.gang_of(fields)
    event_id = _event_id(asked)
    if fields.get("claim") is None:
        fields["claim"] = _claim_id(event_id)
    claim_id = str(fields["claim"])
    heard = await _ask(asked, view.pool, EventType.CLAIM_SUBMITTED, fields, event_id)
    return _answer(asked, view, EventType.CLAIM_SUBMITTED, claim_id, heard)


async def get_lease(request: web.Request) -> web.Response:
    """`GET /compute-leases/{lease_id}`."""
    asked = Asked(request)
    asked.may_see()
    view, claim_id = _claim(asked)
    return asked.answer(view, _lease(asked, view, claim_id))


async def commit(request: web.Request) -> web.Response:
    """`POST /compute-leases/{lease_id}/commit`: what was held runs."""
    return await _change(request, EventType.CLAIM_COMMITTED)


async def renew(request: web.Request) -> web.Response:
    """`POST /compute-leases/{lease_id}/renew`: it runs on; with `completed`, so far."""
    return await _change(request, EventType.CLAIM_RENEWED)


async def release(request: web.Request) -> web.Response:
    """`POST /compute-leases/{lease_id}/release`: it ended, with an outcome and what it spent."""
    return await _change(request, EventType.CLAIM_RELEASED)


async def cancel(request: web.Request) -> web.Response:
    """`POST /compute-leases/{lease_id}/cancel`: it need not wait any longer."""
    return await _change(request, EventType.CLAIM_CANCELLED)


async def reading(request: web.Request) -> web.Response:
    """`POST /compute-pools/{pool_id}/readings`: what a device spent in a window."""
    asked, fields = await _asked(request, meters=True)
    view = asked.view()
    heard = await _ask(asked, view.pool, EventType.METER_READ, fields, _event_id(asked))
    return _plainly(asked, view.pool, EventType.METER_READ, heard)


async def event(request: web.Request) -> web.Response:
    """`POST /compute-pools/{pool_id}/events`: an operator's event; the pool may not be open yet."""
    asked = Asked(request)
    if not asked.grant.operates:
        raise forbidden("this token may not do that")
    fields = await _body(asked)
    pool = request.match_info["pool_id"]
    kind = bodies.text_of(fields, "type")
    if kind not in _OPERATORS:
        raise bad_request(f"type: one of {', '.join(_OPERATORS)}", field="type")
    heard = await _ask(asked, pool, EventType(kind), fields, _event_id(asked))
    return _plainly(asked, pool, EventType(kind), heard)


async def _change(request: web.Request, kind: EventType) -> web.Response:
    asked, fields = await _asked(request)
    view, claim_id = _claim(asked)
    if kind is EventType.CLAIM_RENEWED and "completed" in fields:
        kind = EventType.CLAIM_PROGRESSED
    if "claim" in fields:
        raise bad_request("claim: the path says it", field="claim")
    fields["claim"] = claim_id
    heard = await _ask(asked, view.pool, kind, fields, _event_id(asked))
    return _answer(asked, view, kind, claim_id, heard)


async def _asked(request: web.Request, *, meters: bool = False) -> tuple[Asked, bodies.Fields]:
    """The request and its body. Raises HttpFault (400, 403, 408, 413, 415)."""
    asked = Asked(request)
    if not (asked.grant.meters if meters else asked.grant.claims):
        raise forbidden("this token may not do that")
    return asked, await _body(asked)


async def _body(asked: Asked) -> bodies.Fields:
    """The request's object, on a server that writes. Raises HttpFault (400, 403, 408, 413, 415)."""
    if LOG not in asked.request.app:
        raise HttpFault(403, "read-only", "this server only reads; send events another way")
    return await bodies.read_object(asked.request)


def _claim(asked: Asked) -> tuple[PoolView, str]:
    """The pool and the claim in the path. Raises HttpFault (403, 404)."""
    names = leases.split(asked.request.match_info["lease_id"])
    if names is None:
        raise not_found("no such lease here")
    if asked.grant.pool not in (None, names[0]):
        raise forbidden("this token is for another pool")
    view = asked.side.pools.get(names[0])
    leaf = None if view is None else view.index.leaf(names[1])
    if view is None or leaf is None or not is_below(leaf, asked.below):
        raise not_found("no such lease here")
    return view, names[1]


async def _ask(
    asked: Asked, pool: str, kind: EventType, fields: Plain, event_id: str | None
) -> Heard | None:
    """Publish the event and await what becomes of it. Raises HttpFault (400, 503)."""
    data = bodies.event_bytes(kind, pool, fields, event_id)
    outgoing = Outgoing(
        topic=TOPIC_OF[kind], key=pool.encode(), value=data, content_type=CONTENT_JSON
    )
    try:
        position = (await asked.request.app[LOG].publish([outgoing]))[0]
    except LogTrouble:
        raise HttpFault(
            503, "log-unavailable", "the log did not take it, or it is not known whether it did",
            headers={"Retry-After": "2"},
        ) from None  # fmt: skip
    place = (position.topic, position.partition, position.offset)
    return await asked.side.answer(place, _wait_seconds(asked.request))


def _answer(
    asked: Asked, view: PoolView, kind: EventType, claim_id: str, heard: Heard | None
) -> web.Response:
    decided = _decided(kind, claim_id, heard)
    lease = leases.lease_id(view.pool, claim_id)
    headers = {"Location": f"/compute-leases/{leases.in_path(lease)}"}
    if decided is None:
        said: Plain = {"lease_id": lease, "pool_id": view.pool, "claim": claim_id}
        return json_answer(said | {"state": UNDECIDED}, status=202, headers=headers)
    _refuse(asked, view, decided)
    said = _lease(asked, view, claim_id)
    said["decision"] = answers.decision(view, decided, asked.below)
    status = 200
    if kind is EventType.CLAIM_SUBMITTED and decided.kind is not Kind.DUPLICATE:
        status = 202 if decided.kind is Kind.CLAIM_WAITING else 201
    return json_answer(said, status=status, headers=headers)


def _plainly(asked: Asked, pool: str, kind: EventType, heard: Heard | None) -> web.Response:
    """The answer to an event that is about no lease."""
    decided = _decided(kind, None, heard)
    if decided is None:
        return json_answer({"pool_id": pool, "state": UNDECIDED}, status=202)
    _refuse(asked, asked.side.pools[pool], decided)
    status = 200 if decided.kind is Kind.DUPLICATE else 201
    said = {"seq": decided.seq, "kind": decided.kind.value}
    return json_answer({"pool_id": pool, "decision": said}, status=status)


def _decided(kind: EventType, claim_id: str | None, heard: Heard | None) -> Receipt | None:
    """The receipt that answers. Raises HttpFault(409) for a dead letter."""
    if heard is None:
        return None
    if heard.dead is not None:
        headers = dict(heard.dead.headers)
        reason = headers.get(DEAD_REASON, b"dead").decode("utf-8", "replace")
        detail = headers.get(DEAD_DETAIL, b"").decode("utf-8", "replace")
        raise HttpFault(409, reason, f"the pool does not take it: {detail}")
    return decision_of(heard.receipts, kind, claim_id)


def _refuse(asked: Asked, view: PoolView, decided: Receipt) -> None:
    """Raises HttpFault(409) where the answer is no."""
    if decided.kind not in (Kind.REFUSED, Kind.CLAIM_REFUSED):
        return
    reason = str(decided.body.get("reason"))
    said = answers.decision(view, decided, asked.below)
    if said is None:
        # A refusal that names no claim is the asker's own all the same: it is of the asker's event.
        said = {"seq": decided.seq, "kind": decided.kind.value, "body": {"reason": reason}}
    raise HttpFault(409, reason, "the pool decided: no", more={"decision": said})


def _lease(asked: Asked, view: PoolView, claim_id: str) -> Plain:
    row = answers.claim_row(view, asked.side.tables, claim_id, asked.below)
    if row is None:
        raise not_found("no such lease here")
    return answers.claim(view, row, asked.below)


def _event_id(asked: Asked) -> str | None:
    """Rule 3: the event's id for the request's Idempotency-Key."""
    key = bodies.idempotency_key(asked.request)
    return None if key is None else f"http/{asked.grant.name}/{key}"


def _claim_id(event_id: str | None) -> str:
    if event_id is None:
        return f"lease-{secrets.token_hex(8)}"
    return f"lease-{sha256(event_id.encode()).hexdigest()[:16]}"


def _wait_seconds(request: web.Request) -> int:
    """How long the asker wants to wait: `Prefer: wait=SECONDS` (RFC 7240)."""
    found = _WAIT.search(request.headers.get("Prefer", ""))
    return WAIT_SECONDS if found is None else min(int(found[1]), WAIT_SECONDS_MAX)
