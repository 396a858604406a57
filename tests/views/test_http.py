"""The questions over HTTP: exact bytes, proofs that hold, tags, bounds, a live stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from views_support import POOL, SIGNER, bearing, copy_of, site

from schemas import cbor
from schemas.chain import verify_chain
from schemas.consistency import check_consistency_file
from schemas.merkle import verify_consistency
from schemas.proofs import check_proof
from schemas.trust import PoolTrust
from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.views.connections import Connections

ROOM = f"/compute-pools/{POOL}"
BOSS = bearing("boss")


@pytest.fixture
async def client(day_directory: Path) -> AsyncIterator[ClientSession]:
    """A client of a server that reads the day's log."""
    reader = EmbeddedReader(day_directory)
    async with site(reader) as session:
        yield session
    await reader.close()


async def _json(client: ClientSession, path: str) -> Any:
    async with client.get(path, headers=BOSS) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def test_the_ledger_is_given_byte_for_byte(client: ClientSession) -> None:
    """Whole, it verifies to the head and root that the pool names; ranges are its parts."""
    pool = await _json(client, ROOM)
    async with client.get(f"{ROOM}/ledger", headers=BOSS) as answer:
        assert answer.content_type == "application/cbor-seq"
        items = list(cbor.split_sequence(await answer.read()))
    reader = verify_chain(items)
    assert (reader.length, reader.head.hex()) == (pool["length"], pool["head"])
    assert reader.root().hex() == pool["root"]
    async with client.get(f"{ROOM}/ledger?from=500&to=900", headers=BOSS) as answer:
        assert list(cbor.split_sequence(await answer.read())) == items[500:900]
    async with client.get(f"{ROOM}/receipts/77", headers=BOSS) as answer:
        assert answer.content_type == "application/cose" and await answer.read() == items[77]


async def test_proofs_hold_for_who_has_the_keys_only(client: ClientSession) -> None:
    """Any receipt's proof file checks against a trust file; consistency leads to the root."""
    trusted = PoolTrust(pool=POOL, stewards=frozenset({SIGNER.public_key}), witnesses={}, quorum=0)
    for seq in (0, 1, 1000, 2000):
        async with client.get(f"{ROOM}/proofs/{seq}", headers=BOSS) as answer:
            report = check_proof(await answer.read(), trusted)
        assert report.receipt.seq == seq
    said = await _json(client, f"{ROOM}/consistency?old=777")
    verify_consistency(
        old_size=777,
        new_size=said["new"]["length"],
        old_root=bytes.fromhex(said["old"]["root"]),
        new_root=bytes.fromhex(said["new"]["root"]),
        path=[bytes.fromhex(item) for item in said["path"]],
    )


async def test_a_consistency_file_holds_for_who_has_the_keys_only(client: ClientSession) -> None:
    """`format=cbor` is what `pool check-proof` takes, between lengths that were signed."""
    trusted = PoolTrust(pool=POOL, stewards=frozenset({SIGNER.public_key}), witnesses={}, quorum=0)
    heads = (await _json(client, f"{ROOM}/heads"))["heads"]
    new, old = heads[0]["length"], heads[1]["length"]
    for query in (f"old={old}&new={new}", f"old={old}"):
        async with client.get(f"{ROOM}/consistency?{query}&format=cbor", headers=BOSS) as answer:
            assert answer.content_type == "application/cbor"
            report = check_consistency_file(await answer.read(), trusted)
        assert (report.old.length, report.new.length) == (old, new)


async def test_what_the_asker_has_is_not_sent_again(client: ClientSession) -> None:
    """An answer's tag gives 304; another token's tag does not."""
    async with client.get(ROOM, headers=BOSS) as answer:
        tag = answer.headers["ETag"]
    async with client.get(ROOM, headers=BOSS | {"If-None-Match": f'"x", {tag}'}) as answer:
        assert answer.status == 304 and not await answer.read()
    headers = bearing("cygnus") | {"If-None-Match": tag}
    async with client.get(ROOM, headers=headers) as answer:
        assert answer.status == 200


async def test_big_integers_are_strings(client: ClientSession) -> None:
    """A figure from 2**53 on is a decimal string; smaller ones are numbers."""
    text = json.dumps(await _json(client, ROOM))
    assert all(abs(number) < 2**53 for number in _numbers(json.loads(text)))


def _numbers(value: Any) -> list[int]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value]
    if isinstance(value, dict):
        return [number for member in value.values() for number in _numbers(member)]
    return (
        [number for member in value for number in _numbers(member)]
        if isinstance(value, list)
        else []
    )


UNANSWERABLE = (
    ("/nothing", 404, "not-found"),
    ("/compute-pools/other", 404, "not-found"),
    (f"{ROOM}/claims?limit=501", 400, "bad-request"),
    (f"{ROOM}/claims?limit=0", 400, "bad-request"),
    (f"{ROOM}/claims?limit=01", 400, "bad-request"),
    (f"{ROOM}/claims?limit=-1", 400, "bad-request"),
    (f"{ROOM}/claims?state=gone", 400, "bad-request"),
    (f"{ROOM}/claims?stat=ended", 400, "bad-request"),
    (f"{ROOM}/claims?limit=1&limit=2", 400, "bad-request"),
    (f"{ROOM}/claims/none", 404, "not-found"),
    (f"{ROOM}/claims/none/explanation", 404, "not-found"),
    (f"{ROOM}/power", 400, "bad-request"),
    (f"{ROOM}/power?of=claim&name=none", 404, "not-found"),
    (f"{ROOM}/power?of=leaf&name=none", 404, "not-found"),
    (f"{ROOM}/receipts/999999", 404, "not-found"),
    (f"{ROOM}/receipts/x", 400, "bad-request"),
    (f"{ROOM}/receipts/9999999999999999999999", 400, "bad-request"),
    (f"{ROOM}/ledger?from=9&to=3", 400, "bad-request"),
    (f"{ROOM}/consistency?old=0", 400, "bad-request"),
    (f"{ROOM}/consistency?old=9&new=8", 400, "bad-request"),
    (f"{ROOM}/consistency?old=9&format=xml", 400, "bad-request"),
    (f"{ROOM}/consistency?old=9&new=9&format=cbor", 400, "bad-request"),
    (f"{ROOM}/consistency?old=9&format=cbor", 409, "no-head-yet"),
    ("/compute-leases/none", 404, "not-found"),
    ("/compute-leases/a:b:c", 404, "not-found"),
    (f"/compute-leases/{POOL}:none", 404, "not-found"),
)


async def test_what_cannot_be_answered_says_why(client: ClientSession) -> None:
    """A status, a code, a sentence; never a trace."""
    for path, status, code in UNANSWERABLE:
        async with client.get(path, headers=BOSS) as answer:
            said = await answer.json()
        assert (answer.status, said.get("error")) == (status, code) and said["detail"], path


async def test_other_methods_are_refused_in_json(client: ClientSession) -> None:
    """405 with what is allowed; a body on top is not read."""
    async with client.delete(ROOM, headers=BOSS) as answer:
        assert answer.status == 405 and "GET" in answer.headers["Allow"]
        assert (await answer.json())["error"] == "method-not-allowed"


async def test_waiting_claims_say_why_now_as_the_explanation_does(client: ClientSession) -> None:
    """The list and the single explanation agree, and each has a reason of the profile."""
    waiting = (await _json(client, f"{ROOM}/waiting"))["waiting"]
    assert waiting
    for one in waiting:
        said = await _json(client, f"{ROOM}/claims/{one['claim'].replace('+', '%2B')}/explanation")
        assert {name: said[name] for name in ("reason", "node", "resource", "short")} == {
            name: one[name] for name in ("reason", "node", "resource", "short")
        }


async def test_shapes_agree_with_what_is_then_decided(day_directory: Path, tmp_path: Path) -> None:
    """What is said to start now starts so, and what is not waits for the reason given."""
    log = EmbeddedLog(copy_of(day_directory, tmp_path / "data"))
    async with site(log, steward=True) as client:
        # The day is long past: what time alone has brought about since is settled by any event.
        never = {"pool_id": POOL, "leaf": "cygnus", "grade": "ModelBased", "shape": {"mdev": 10**9}}
        async with client.post("/compute-leases", json=never, headers=BOSS) as answer:
            assert (await answer.json())["error"] == "never-fits"
        tried = 0
        for leaf in ("cygnus", "atlas/serve", "borealis"):
            for mdev in (250, 2000):
                path = f"{ROOM}/shapes?leaf={leaf}&mdev={mdev}&uj=1000"
                shape = (await _json(client, path))["leaves"][0]["shapes"][0]
                body = {
                    "pool_id": POOL, "leaf": leaf, "grade": "ModelBased",
                    "shape": {"mdev": mdev, "uj": 1000},
                }  # fmt: skip
                async with client.post("/compute-leases", json=body, headers=BOSS) as answer:
                    said = await answer.json()
                tried += 1
                if shape["starts"]:
                    assert (answer.status, said["mode"]) == (201, shape["mode"])
                elif answer.status == 202:
                    assert said["reason"] in (shape["reason"], "awaiting-reclaim")
                else:
                    assert said["error"] in (shape["reason"], "queue-full"), said
        assert tried == 6
    await log.close()


async def _events(answer: Any, count: int) -> list[dict[str, Any]]:
    """The next events of a stream."""
    found: list[dict[str, Any]] = []
    event: dict[str, Any] = {}
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("id: "):
            event["id"] = int(line[4:])
        elif line.startswith("data: "):
            event["data"] = json.loads(line[6:])
        elif not line and event:
            found.append(event)
            event = {}
            if len(found) == count:
                break
    return found


async def test_a_stream_resumes_without_a_hole_and_sees_what_comes(
    day_directory: Path, tmp_path: Path
) -> None:
    """Ended anywhere and taken up with Last-Event-ID, the ids are 0, 1, 2, ...; then live ones."""
    log = EmbeddedLog(copy_of(day_directory, tmp_path / "data"))
    async with site(log, steward=True) as client:
        length = (await _json(client, ROOM))["length"]
        ids: list[int] = []
        async with client.get(f"{ROOM}/decisions?from=0", headers=BOSS) as answer:
            ids += [event["id"] for event in await _events(answer, 300)]
        while ids[-1] < length - 1:
            headers = BOSS | {"Last-Event-ID": str(ids[-1])}
            async with client.get(f"{ROOM}/decisions", headers=headers) as answer:
                count = min(1000, length - 1 - ids[-1])
                ids += [event["id"] for event in await _events(answer, count)]
        assert ids == list(range(length))
        length = (await _json(client, ROOM))["length"]
        async with client.get(f"{ROOM}/decisions", headers=BOSS) as answer:
            body = {"pool_id": POOL, "leaf": "cygnus", "shape": {"mdev": 1}, "claim": "late"}
            body |= {"grade": "Estimator"}
            async with client.post("/compute-leases", json=body, headers=BOSS) as posted:
                assert posted.status in (201, 202)
            seen = ""
            while seen != "late":
                seen = (await _events(answer, 1))[0]["data"]["body"].get("claim", "")
    await log.close()


async def test_slow_and_idle_connections_are_cut(day_directory: Path) -> None:
    """Who sends half a head, or nothing, is cut off; who asks is answered meanwhile."""
    reader = EmbeddedReader(day_directory)
    async with site(reader, connections=Connections(idle_s=0.2)) as client:
        url = client._base_url
        assert url is not None and url.host is not None
        slow_reader, slow = await asyncio.open_connection(url.host, url.port)
        slow.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        await slow.drain()
        idle_reader, idle = await asyncio.open_connection(url.host, url.port)
        async with client.get("/health") as answer:
            assert answer.status == 200
        async with asyncio.timeout(10):
            assert await _cut(slow_reader) and await _cut(idle_reader)
        slow.close()
        idle.close()
    await reader.close()


async def _cut(stream: asyncio.StreamReader) -> bool:
    """Wait until the other side has gone."""
    try:
        while await stream.read(1000):
            pass
    except ConnectionResetError:
        pass
    return True
