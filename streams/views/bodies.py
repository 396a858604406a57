"""Request bodies: bounded, strict JSON, and the events that they ask for.

Not here: what is done with them (`door`); whether an event is well-formed (`schemas.events` says).

1. A body is one JSON object in UTF-8, at most `BODY_BYTES_MAX`, read within `BODY_SECONDS`; a
   member given twice, a number with a fraction, or one that JSON does not have is refused.
2. Members beside the door's own (`pool_id`, `shape`) are the event's, by the profile's names: what
   §3 says of a claim's or a reading's fields holds here.
3. `shape` is a gang of one.

Profile: §2.4, §2.5, §3.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from aiohttp import web

from schemas.events import decode_event
from schemas.records import Event, EventType, Malformed
from streams.logs.contract import CONTENT_JSON, MAX_KEY_BYTES
from streams.views.httpfaults import HttpFault, bad_request

BODY_BYTES_MAX: Final = 64 * 1024
BODY_SECONDS: Final = 10.0
KEY_CHARACTERS_MAX: Final = 200

Fields = dict[str, Any]


async def read_object(request: web.Request) -> Fields:
    """The request's JSON object. Raises HttpFault (400, 408, 413, 415)."""
    if request.content_type != "application/json":
        raise HttpFault(415, "not-json", "send Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await request.read()
    except TimeoutError:
        raise HttpFault(408, "too-slow", "the body did not come in time") from None
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_once,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not a JSON object as this API takes it: {_short(error)}") from None
    if not isinstance(value, dict):
        raise bad_request("not a JSON object")
    return value


def event_bytes(
    kind: EventType, pool: str, fields: Mapping[str, Any], event_id: str | None
) -> bytes:
    """The event's JSON, if it is one. Raises HttpFault(400) with the field at fault."""
    for name in ("pool", "type", "id"):
        if name in fields:
            raise bad_request(f"{name}: not a member of this body", field=name)
    said = {"pool": pool, "type": kind.value, **fields}
    if event_id is not None:
        said["id"] = event_id
    try:
        data = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
        key = pool.encode()
    except (UnicodeEncodeError, RecursionError):
        raise bad_request("text that is not Unicode, or nested too deep") from None
    if len(key) > MAX_KEY_BYTES:
        raise bad_request("the pool's name is too long", field="pool_id")
    judged: Event | Malformed = decode_event(data, CONTENT_JSON, key)
    if isinstance(judged, Malformed):
        raise bad_request(f"{judged.field}: {judged.detail}", field=judged.field)
    return data


def text_of(fields: Fields, name: str) -> str:
    """A text member, taken out of the fields. Raises HttpFault(400)."""
    value = fields.pop(name, None)
    if not isinstance(value, str) or not value:
        raise bad_request(f"{name}: text is needed", field=name)
    return value


def gang_of(fields: Fields) -> None:
    """Put `shape` as a gang of one. Raises HttpFault(400) where both or neither is given."""
    if ("shape" in fields) == ("gang" in fields):
        raise bad_request("either `shape`, for one member, or `gang`, for several", field="shape")
    if "shape" in fields:
        fields["gang"] = [fields.pop("shape")]


def idempotency_key(request: web.Request) -> str | None:
    """The `Idempotency-Key` header. Raises HttpFault(400)."""
    value = request.headers.get("Idempotency-Key")
    if value is None:
        return None
    if not 0 < len(value) <= KEY_CHARACTERS_MAX or not value.isascii() or not value.isprintable():
        raise bad_request(
            f"Idempotency-Key: 1 to {KEY_CHARACTERS_MAX} printable ASCII characters",
            field="Idempotency-Key",
        )
    return value


def _once(pairs: list[tuple[str, Any]]) -> Fields:
    found: Fields = {}
    for name, value in pairs:
        if name in found:
            raise ValueError("a member is given twice")
        found[name] = value
    return found


def _refuse_number(text: str) -> NoReturn:
    raise ValueError("numbers are whole: write them without a point or an exponent")


def _short(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
