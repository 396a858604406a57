"""The write door: a lease from its asking to its end, retries, refusals, bodies that are none."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from aiohttp import ClientSession
from views_support import bearing, decide, site

from schemas import cbor
from streams.logs.contract import Outgoing
from streams.logs.embedded import EmbeddedLog

BOSS = bearing("boss")


async def _json(client: ClientSession, path: str) -> Any:
    async with client.get(path, headers=BOSS) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def _opened(pool: str) -> Outgoing:
    fields = {
        "pool": pool, "type": "pool.opened", "capacity": {"mdev": 2000, "uj": 1000},
        "tree": [{"id": "a", "guarantee": {"mdev": 2000, "uj": 1000}}],
    }  # fmt: skip
    return Outgoing(topic="pool.admin", key=pool.encode(), value=cbor.encode(fields))


async def _post(client: ClientSession, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.post(path, json=body, headers=BOSS | named) as answer:
        return answer.status, await answer.json()


async def test_a_lease_from_its_asking_to_its_end(tmp_path: Path) -> None:
    """Submit, commit, renew, progress, release; wait, cancel; refusals with their reason codes."""
    log = EmbeddedLog(tmp_path / "data")
    await decide(log, [_opened("p")])
    ask = {"pool_id": "p", "leaf": "a", "shape": {"mdev": 2000, "uj": 9}, "grade": "ModelBased"}
    async with site(log, steward=True) as client:
        status, lease = await _post(client, "/compute-leases", ask, Idempotency_Key="k1")
        assert (status, lease["state"], lease["mode"]) == (201, "held", "guaranteed")
        status, again = await _post(client, "/compute-leases", ask, Idempotency_Key="k1")
        assert (status, again["lease_id"]) == (200, lease["lease_id"])
        other = ask | {"shape": {"mdev": 1000, "uj": 9}}
        status, said = await _post(client, "/compute-leases", other, Idempotency_Key="k1")
        assert (status, said["error"]) == (409, "event-id-reused")
        path = f"/compute-leases/{lease['lease_id']}"
        assert (await _post(client, f"{path}/renew", {}))[1]["error"] == "wrong-state"
        assert (await _post(client, f"{path}/commit", {}))[1]["state"] == "running"
        assert (await _post(client, f"{path}/renew", {}))[0] == 200
        assert (await _post(client, f"{path}/renew", {"completed": 4}))[1]["completed"] == 4
        waits = ask | {"claim": "waits"}
        status, waiting = await _post(client, "/compute-leases", waits)
        assert (status, waiting["state"], waiting["reason"]) == (202, "waiting", "share")
        status, gone = await _post(client, "/compute-leases/p:waits/cancel", {})
        assert (status, gone["state"], gone["outcome"]) == (200, "ended", "cancelled")
        never = ask | {"shape": {"mdev": 3000, "uj": 9}}
        assert (await _post(client, "/compute-leases", never))[1]["error"] == "never-fits"
        unknown = ask | {"leaf": "b"}
        assert (await _post(client, "/compute-leases", unknown))[1]["error"] == "unknown-leaf"
        now_ms = time.time_ns() // 1_000_000
        reading = {
            "device": "d", "from_ms": now_ms - 9, "to_ms": now_ms, "uj": 7, "grade": "HwShunt",
            "occupants": [{"claim": lease["claim"], "mdev": 2000}],
        }  # fmt: skip
        status, said = await _post(
            client, "/compute-pools/p/readings", reading, Idempotency_Key="r"
        )
        assert (status, said["decision"]["kind"]) == (201, "meter.split")
        status, said = await _post(
            client, "/compute-pools/p/readings", reading, Idempotency_Key="r"
        )
        assert status == 200
        status, said = await _post(client, "/compute-pools/p/readings", reading)
        assert (status, said["error"]) == (409, "window-overlaps")
        done = {"outcome": "completed", "actual": {"uj": "8", "grade": "ModelBased"}}
        status, ended = await _post(client, f"{path}/release", done)
        assert (status, ended["spent"]["uj"], ended["spent"]["basis"]) == (200, 8, "reported")
        assert (await _json(client, path))["state"] == "ended"
        history = (await _json(client, f"/compute-pools/p/claims/{lease['claim']}"))["receipts"]
        assert [entry["kind"] for entry in history] == [
            "claim.admitted", "claim.committed", "claim.renewed", "claim.progressed",
            "claim.settled",
        ]  # fmt: skip
    await log.close()


NO_REQUESTS = (
    ({}, "pool_id"),
    ({"pool_id": 3}, "pool_id"),
    ({"pool_id": "p", "leaf": "a"}, "shape"),
    ({"pool_id": "p", "leaf": "a", "shape": {}, "gang": []}, "shape"),
    ({"pool_id": "p", "leaf": "a", "shape": {"mdev": 1}, "grade": "HwShunt", "x": 1}, "x"),
    ({"pool_id": "p", "leaf": 3, "shape": {"mdev": 1}, "grade": "HwShunt"}, "leaf"),
    ({"pool_id": "p", "leaf": "a", "shape": {"mdev": 1}, "grade": "none"}, "grade"),
    ({"pool_id": "p", "leaf": "a", "shape": {"mdev": 1}, "type": "tick"}, "type"),
    ({"pool_id": "p", "leaf": "a", "shape": {"mdev": 1}, "id": "x"}, "id"),
)
NO_OBJECTS = (
    (b"{", 400),
    (b"[]", 400),
    (b'{"a":1,"a":1}', 400),
    (b'{"a":1.5}', 400),
    (b'{"a":NaN}', 400),
    (b'{"pool_id":"\\ud800"}', 404),
    (b'{"pool_id":"p","leaf":"\\ud800","shape":{"mdev":1}}', 400),
    (b"\xff", 400),
    (b'{"a":' + b"[" * 30_000, 400),
    (b'{"a":"' + b"x" * 70_000 + b'"}', 413),
)


async def test_a_body_that_is_no_request_is_not_published(tmp_path: Path) -> None:
    """The field at fault is named, whatever comes is a 4xx in JSON; nothing reaches the log."""
    log = EmbeddedLog(tmp_path / "data")
    await decide(log, [_opened("p")])
    async with site(log, steward=True) as client:
        for body, field in NO_REQUESTS:
            status, said = await _post(client, "/compute-leases", body)
            assert (status, said["error"], said["field"]) == (400, "bad-request", field), body
        for data, expected in NO_OBJECTS:
            headers = BOSS | {"Content-Type": "application/json"}
            async with client.post("/compute-leases", data=data, headers=headers) as answer:
                assert answer.status == expected and (await answer.json())["error"], data[:60]
        async with client.post("/compute-leases", data=b"{}", headers=BOSS) as answer:
            assert answer.status == 415
        assert await log.end("pool.claims", 0) == 0
    await log.close()


async def test_without_a_steward_the_answer_is_undecided(tmp_path: Path) -> None:
    """202 when the time to wait is over; the event is in the log."""
    log = EmbeddedLog(tmp_path / "data")
    await decide(log, [_opened("p")])
    ask = {"pool_id": "p", "leaf": "a", "shape": {"mdev": 1}, "grade": "Estimator", "claim": "c"}
    async with site(log, writes=True) as client:
        status, said = await _post(client, "/compute-leases", ask, Prefer="wait=0")
        assert (status, said["state"], said["lease_id"]) == (202, "undecided", "p:c")
        await decide(log, [])
        async with asyncio.timeout(10):
            while (await _post(client, "/compute-leases/p:c/commit", {}, Prefer="wait=0"))[
                0
            ] == 404:
                await asyncio.sleep(0.05)
        assert (await _json(client, "/compute-leases/p:c"))["state"] == "held"
    await log.close()
