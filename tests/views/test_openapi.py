"""The OpenAPI document: it names what is served, and what is served is as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from aiohttp import web
from openapi_client import Document
from views_support import POOL, bearing, copy_of, decide, site

from schemas import cbor
from schemas.records import Kind, Reason
from streams.logs.contract import Outgoing
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.views.access import Access
from streams.views.readside import ReadSide
from streams.views.web import make_app

VIEWS = Path(__file__).parents[2] / "streams" / "views"


def document() -> dict[str, Any]:
    """The document as it is kept."""
    found: dict[str, Any] = json.loads((VIEWS / "openapi.json").read_text())
    return found


async def test_the_document_names_every_path_and_no_other(day_directory: Path) -> None:
    """Methods and paths of the application are those of the document."""
    reader = EmbeddedReader(day_directory)
    app = make_app(ReadSide(reader), Access(None))
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    named = {(method, path) for path, item in document()["paths"].items() for method in item}
    assert served == named
    await reader.close()


def test_every_reference_leads_somewhere() -> None:
    """No `$ref` of the document is broken, and nothing that is defined is unused."""
    whole = document()
    text = json.dumps(whole)
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        place: Any = whole
        for name in reference.split("/"):
            place = place[name]
    for group, members in whole["components"].items():
        if group != "securitySchemes":
            for name in members:
                assert f"#/components/{group}/{name}" in text, (group, name)


def test_the_page_has_words_for_every_code() -> None:
    """Every reason and every kind of the profile, and no other."""
    text = (VIEWS / "page" / "words.js").read_text()
    reasons, kinds = text.split("export const KINDS")
    assert set(re.findall(r'^  "([a-z.-]+)":', reasons, re.M)) == {one.value for one in Reason}
    assert set(re.findall(r'^  "([a-z.-]+)":', kinds, re.M)) == {one.value for one in Kind}


async def test_a_client_made_from_the_document_alone_leases_and_releases(tmp_path: Path) -> None:
    """Generated from the document, knowing nothing else: submit, commit, renew, release."""
    log = EmbeddedLog(tmp_path / "data")
    opened = {
        "pool": "p", "type": "pool.opened", "capacity": {"mdev": 2000, "uj": 10**9},
        "tree": [{"id": "a", "guarantee": {"mdev": 2000, "uj": 10**9}}],
    }  # fmt: skip
    await decide(log, [Outgoing(topic="pool.admin", key=b"p", value=cbor.encode(opened))])
    async with site(log, steward=True) as http:
        async with http.get("/openapi.json") as answer:
            described = await answer.json()
        client = Document(described).client(http, bearing("boss"))
        pools = (await client.listPools()).value["pools"]
        assert [pool["pool_id"] for pool in pools] == ["p"]
        shapes = (await client.listShapes(pool_id="p", mdev=1000)).value["leaves"][0]["shapes"]
        assert shapes[0]["starts"] and shapes[0]["mode"] == "guaranteed"
        asked = await client.submitLease(
            body={"pool_id": "p", "leaf": "a", "shape": {"mdev": 1000}, "grade": "ModelBased"},
            **{"Idempotency-Key": "once"},
        )
        assert asked.status == 201
        lease = asked.value["lease_id"]
        assert (await client.commitLease(lease_id=lease, body={})).value["state"] == "running"
        assert (await client.renewLease(lease_id=lease, body={})).status == 200
        outcome = {"outcome": "completed", "actual": {"uj": 7, "grade": "HwShunt"}}
        ended = await client.releaseLease(lease_id=lease, body=outcome)
        assert (ended.value["state"], ended.value["spent"]["uj"]) == ("ended", 7)
        assert (await client.getLease(lease_id=lease)).value["state"] == "ended"
        refused = await client.releaseLease(lease_id=lease, body=outcome)
        assert (refused.status, refused.value["error"]) == (409, "wrong-state")
    await log.close()


async def test_answers_are_as_the_document_says(day_directory: Path, tmp_path: Path) -> None:
    """Every question's answer of the day, whole and of a subtree, is valid by its schema."""
    log = EmbeddedLog(copy_of(day_directory, tmp_path / "data"))
    async with site(log, steward=True) as http:
        for token in ("boss", "cygnus"):
            client = Document(document()).client(http, bearing(token))
            await client.listPools()
            for operation in ("getPool", "listShapes", "listWaiting", "listHeads"):
                await client.call(operation, pool_id=POOL)
            page = (await client.listClaims(pool_id=POOL, limit=300)).value["claims"]
            for claim in page[:: max(1, len(page) // 40)]:
                await client.getClaim(pool_id=POOL, claim=claim["claim"])
                await client.explainClaim(pool_id=POOL, claim=claim["claim"])
                await client.getLease(lease_id=claim["lease_id"])
            await client.getPower(pool_id=POOL, of="leaf", name="cygnus")
            await client.getConsistency(pool_id=POOL, old=5)
            await client.getConsistency(pool_id=POOL, old=5, format="cbor")
            await client.listCountersignatures(pool_id=POOL)
            await client.getReceipt(pool_id=POOL, seq=3)
            await client.getPool(pool_id="none")
    await log.close()


def test_the_framework_is_the_one_that_was_measured() -> None:
    """Request keys are typed: an aiohttp without them is too old."""
    assert hasattr(web, "RequestKey")
