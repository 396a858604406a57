"""Who may what: a table of tokens, roles and subtrees, and that nothing leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from views_support import POOL, bearing, copy_of, site

from streams.logs.embedded import EmbeddedLog, EmbeddedReader
from streams.views.access import (
    Access,
    Buckets,
    Role,
    TokenFileError,
    digest_of,
    new_token,
    parse_tokens,
)

ROOM = f"/compute-pools/{POOL}"
PATHS = (
    "/compute-pools",
    ROOM,
    f"{ROOM}/shapes",
    f"{ROOM}/claims",
    f"{ROOM}/waiting",
    f"{ROOM}/power?of=leaf&name=borealis",
    f"{ROOM}/power?of=device&name=gpu-01",
    f"{ROOM}/ledger?to=1",
    f"{ROOM}/receipts/0",
    f"{ROOM}/proofs/0",
    f"{ROOM}/heads",
    f"{ROOM}/countersignatures",
    f"{ROOM}/consistency?old=1",
    "/metrics",
)
TABLE = {
    # Who asks, and the status for each path above.
    "nobody": (401,) * 14,
    "boss": (200,) * 14,
    "reader": (200,) * 14,
    "atlas-reader": (200, 200, 200, 200, 200, 403, 403, 403, 404, 404, 200, 200, 200, 403),
    "elsewhere": (200, *(403,) * 13),
    "cygnus": (200, 200, 200, 200, 200, 403, 403, 403, 404, 404, 200, 200, 200, 403),
    "meter": (403,) * 14,
}
WRITES = (
    ("/compute-leases", {"pool_id": POOL, "leaf": "cygnus", "shape": {"mdev": 1}}),
    ("/compute-leases", {"pool_id": POOL, "leaf": "atlas/train", "shape": {"mdev": 1}}),
    (f"/compute-leases/{POOL}:night-guess/cancel", {}),
    (f"/compute-leases/{POOL}:night-big/cancel", {}),
    (f"{ROOM}/readings", {"device": "d", "from_ms": 1, "to_ms": 2, "uj": 1, "occupants": []}),
)
WRITE_TABLE = {
    # This server only reads: 403 `read-only` for who might write elsewhere, 403 for who may not.
    "nobody": ("no-token",) * 5,
    "boss": ("read-only",) * 5,
    "reader": ("forbidden",) * 5,
    "cygnus": ("read-only", "read-only", "read-only", "read-only", "forbidden"),
    "meter": ("forbidden",) * 4 + ("read-only",),
}


async def _text(client: ClientSession, path: str, name: str) -> tuple[int, str]:
    async with client.get(path, headers=bearing(name)) as answer:
        data = await answer.read()
        return answer.status, data.decode("utf-8", "replace")


async def test_every_token_is_answered_as_the_table_says(day_directory: Path) -> None:
    """Statuses by token and path; who may not ask is told nothing of what there is."""
    reader = EmbeddedReader(day_directory)
    async with site(reader) as client:
        for name, statuses in TABLE.items():
            found = [await _text(client, path, name) for path in PATHS]
            assert tuple(status for status, _ in found) == statuses, name
            for status, text in found:
                if status in (401, 403):
                    assert "borealis" not in text and "gpu-" not in text and "night" not in text
    await reader.close()


async def test_every_write_is_refused_as_the_table_says(day_directory: Path) -> None:
    """The role is judged first; then whether this server writes at all."""
    reader = EmbeddedReader(day_directory)
    async with site(reader) as client:
        for name, codes in WRITE_TABLE.items():
            found = []
            for path, body in WRITES:
                async with client.post(path, json=body, headers=bearing(name)) as answer:
                    found.append((await answer.json())["error"])
            assert tuple(found) == codes, name
    await reader.close()


async def test_a_tenant_writes_below_its_node_only(day_directory: Path, tmp_path: Path) -> None:
    """Roles and subtrees where the server does write; what is not one's own is not there."""
    log = EmbeddedLog(copy_of(day_directory, tmp_path / "data"))
    own = {"pool_id": POOL, "leaf": "cygnus", "shape": {"mdev": 1}, "grade": "Estimator"}
    period = {"type": "period.opened", "period": "next"}
    reading = {"device": "new", "from_ms": 1, "to_ms": 2, "uj": 1, "occupants": []}
    table: tuple[tuple[str, str, dict[str, Any], tuple[int, ...]], ...] = (
        ("cygnus", "/compute-leases", own, (201, 202)),
        ("cygnus", "/compute-leases", own | {"leaf": "atlas/train"}, (403,)),
        ("cygnus", "/compute-leases", own | {"leaf": "cygnus2"}, (403,)),
        ("cygnus", "/compute-leases", own | {"pool_id": "other"}, (403,)),
        ("cygnus", f"/compute-leases/{POOL}:night-big/cancel", {}, (404,)),
        ("cygnus", f"/compute-leases/{POOL}:night-guess/cancel", {}, (200, 409)),
        ("cygnus", f"{ROOM}/readings", reading, (403,)),
        ("cygnus", f"{ROOM}/events", period, (403,)),
        ("reader", "/compute-leases", own, (403,)),
        ("meter", "/compute-leases", own, (403,)),
        ("meter", f"{ROOM}/readings", reading | {"grade": "HwShunt"}, (201,)),
        ("meter", f"{ROOM}/events", period, (403,)),
        ("boss", f"{ROOM}/events", period, (201,)),
        ("boss", f"{ROOM}/events", {"type": "tick"}, (400,)),
        ("boss", f"{ROOM}/events", {"type": "pool.archived", "x": 1}, (400,)),
        ("boss", "/compute-pools/none/events", period, (409,)),
    )
    async with site(log, steward=True) as client:
        for name, path, body, statuses in table:
            async with client.post(path, json=body, headers=bearing(name)) as answer:
                assert answer.status in statuses, (name, path, body, await answer.text())
        opened = {"type": "pool.opened", "capacity": {"mdev": 1, "uj": 1}, "tree": []}
        path = "/compute-pools/fresh/events"
        async with client.post(path, json=opened, headers=bearing("boss")) as answer:
            assert (answer.status, (await answer.json())["decision"]["seq"]) == (201, 0)
    await log.close()


async def test_a_tenant_sees_its_subtree_and_one_sum_of_others(day_directory: Path) -> None:
    """Nothing that a subtree's token may read names a node, claim or device of another."""
    reader = EmbeddedReader(day_directory)
    async with site(reader) as client:
        async with client.get(ROOM, headers=bearing("boss")) as answer:
            whole = await answer.json()
        pool = await _json(client, ROOM, "cygnus")
        assert [node["node"] for node in pool["nodes"]] == ["/", "cygnus"]
        assert "waiting" not in pool["nodes"][0] and pool["overhead_uj"] is None
        used = {node["node"]: node["resources"]["mdev"]["used"] for node in whole["nodes"]}
        assert pool["others"]["mdev"] == used["/"] - used["cygnus"]
        claims = await _all_claims(client, "cygnus")
        everybody = await _all_claims(client, "boss")
        own = {claim["claim"] for claim in everybody if claim["leaf"] == "cygnus"}
        assert {claim["claim"] for claim in claims} == own
        foreign = {claim["claim"] for claim in everybody} - own
        texts = [(await _text(client, path, "cygnus"))[1] for path in PATHS]
        for claim in sorted(own):
            for what in ("", "/explanation"):
                texts.append((await _text(client, f"{ROOM}/claims/{claim}{what}", "cygnus"))[1])
        texts.append(await _stream(client, len(everybody)))
        for text in texts:
            for name in (*foreign, "borealis", "atlas"):
                assert f'"{name}"' not in text, (name, text)
        for claim in sorted(foreign)[:20]:
            assert (await _text(client, f"{ROOM}/claims/{claim}", "cygnus"))[0] == 404
            assert (await _text(client, f"/compute-leases/{POOL}:{claim}", "cygnus"))[0] == 404
    await reader.close()


async def test_a_tenants_own_receipts_are_the_only_ones_whose_bytes_it_gets(
    day_directory: Path,
) -> None:
    """Bytes that name a foreign claim, in the decision or in its event, are not there."""
    reader = EmbeddedReader(day_directory)
    async with site(reader) as client:
        everybody = await _all_claims(client, "boss")
        foreign = {c["claim"].encode() for c in everybody if c["leaf"] != "cygnus"}
        given = 0
        for seq in range(0, 2300, 7):
            async with client.get(f"{ROOM}/receipts/{seq}", headers=bearing("cygnus")) as answer:
                data = await answer.read()
            if answer.status == 200:
                given += 1
                assert not any(name in data for name in foreign if len(name) > 9)
            else:
                assert answer.status == 404
        assert given > 3
    await reader.close()


async def _stream(client: ClientSession, _: int) -> str:
    """All decisions that the tenant's stream gives of the whole ledger."""
    pool = await _json(client, ROOM, "cygnus")
    text = ""
    path = f"{ROOM}/decisions?from=0"
    async with client.get(path, headers=bearing("cygnus")) as answer:
        async for line in answer.content:
            text += line.decode()
            if line.startswith(b"id: ") and int(line[4:]) > pool["length"] - 60:
                break
    return text


async def _json(client: ClientSession, path: str, name: str) -> Any:
    async with client.get(path, headers=bearing(name)) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def _all_claims(client: ClientSession, name: str) -> list[Any]:
    claims: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = await _json(client, f"{ROOM}/claims?limit=70&after={after}", name)
        claims += page["claims"]
        after = page["next"]
    return claims


async def test_without_tokens_only_the_loopbacks_own_pages_are_answered(
    day_directory: Path,
) -> None:
    """A name bound to the loopback elsewhere, or another site's page, is refused."""
    reader = EmbeddedReader(day_directory)
    async with site(reader, access=Access(None)) as client:
        for headers, status in (
            ({}, 200),
            ({"Host": "localhost"}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Host": "evil.example:80"}, 403),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
        ):
            async with client.get("/compute-pools", headers=headers) as answer:
                assert answer.status == status, headers
    await reader.close()


async def test_one_token_too_many_waits_and_others_do_not(day_directory: Path) -> None:
    """The bucket is a token's own; 429 says how long to wait."""
    reader = EmbeddedReader(day_directory)
    grants = {digest_of(name): grant for name, grant in _grants().items()}
    async with site(reader, access=Access(grants, per_second=1, burst=3)) as client:
        found = [await _text(client, "/compute-pools", "one") for _ in range(4)]
        assert [status for status, _ in found] == [200, 200, 200, 429]
        async with client.get("/compute-pools", headers=bearing("one")) as answer:
            assert int(answer.headers["Retry-After"]) >= 1
        assert (await _text(client, "/compute-pools", "two"))[0] == 200
    await reader.close()


def _grants() -> dict[str, Any]:
    text = "\n".join(
        f'[tokens.{name}]\nsha256 = "{digest_of(name)}"\nrole = "read"' for name in ("one", "two")
    )
    return {name: parse_tokens(text)[digest_of(name)] for name in ("one", "two")}


def test_a_bucket_refills_and_forgets() -> None:
    """One more each interval, never more than the burst."""
    now = [0]
    buckets = Buckets(per_second=2, burst=4, clock_ns=lambda: now[0])
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 0, 1]
    now[0] = 500_000_000
    assert [buckets.take("a"), buckets.take("a")] == [0, 1]
    now[0] = 10_000_000_000
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 0, 1]


GOOD = f'[tokens.a]\nsha256 = "{"0" * 64}"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one"),
        ("[tokens", "not TOML"),
        ("[other.a]\n", "nothing else"),
        ("tokens = 3", "at least one"),
        ("[tokens]\na = 3", "not a table"),
        ('[tokens.a]\nsha256 = "zz"\nrole = "read"', "hex"),
        (GOOD, "role"),
        (GOOD + 'role = "king"', "role"),
        (GOOD + 'role = "claims"', "subtree"),
        (GOOD + 'role = "admin"\npool = "p"', "everything"),
        (GOOD + 'role = "read"\ntoken = "x"', "unknown"),
        (GOOD + "role = 3", "text"),
        (GOOD + f'role = "read"\n[tokens.b]\nsha256 = "{"0" * 64}"\nrole = "read"', "token of a"),
    ],
)
def test_a_token_file_that_is_none_is_refused(text: str, said: str) -> None:
    """The first fault, and where it is."""
    with pytest.raises(TokenFileError, match=said):
        parse_tokens(text)


def test_a_new_token_is_known_by_its_digest_only() -> None:
    """256 random bits; the file that knows it does not hold it."""
    token = new_token()
    text = f'[tokens.a]\nsha256 = "{digest_of(token)}"\nrole = "claims"\nsubtree = "acme"'
    grant = Access(parse_tokens(text)).grant(f"Bearer {token}")
    assert grant is not None and grant.role is Role.CLAIMS and token not in text
    assert Access(parse_tokens(text)).grant(f"Bearer {token[:-1]}") is None
    assert Access(parse_tokens(text)).grant(f"Basic {token}") is None
    assert len({new_token() for _ in range(100)}) == 100
