"""`pool serve`: the read side over HTTP, with its page; on an embedded log beside a steward.

1. `--data DIR` holds DIR: a steward decides in this process what others ask through the write door.
   With `--read-only` it reads DIR beside whoever holds it, and takes no writes.
2. Without `--tokens` it binds to the loopback only, asks for no token, and says so.
3. On Kafka it folds every partition in memory; with `--tables DIR` it is one of a group of workers
   that share the partitions, keep their rows in RocksDB in DIR, and answer for each other.
4. `pool token` makes a token: the lines for the token file on stdout, and on stderr the secret for
   its holder, which no file of the server's gets.

Not here: what is served (`streams.views`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click

from schemas.keys import did_key
from schemas.trust import PoolTrust, Trust, TrustError, parse_trust
from streams.cli.keys import password_option, read_key
from streams.cli.ledgers import TRUST_BYTES_MAX, read_file
from streams.cli.session import TEXT, Failure, Session, Status, common
from streams.cli.stewarding import steward_key
from streams.cli.where import Where, on_a_log
from streams.steward import Keyring
from streams.views.access import (
    PER_SECOND,
    Access,
    Grant,
    Role,
    TokenFileError,
    digest_of,
    is_loopback,
    new_token,
    parse_tokens,
)
from streams.views.place import GROUP_DEFAULT, Place

TOKENS_BYTES_MAX = 1024**2
PORT = 8321
TRUST_FILE = "trust.toml"


@click.command()
@on_a_log
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind to.")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True)
@click.option(
    "--tokens",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Who may what (TOML); without it, the loopback only and everybody may all.",
)
@click.option(
    "--trust",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Grade ledgers by this trust file (TOML) [DIR/trust.toml if there is one].",
)
@click.option("--read-only", is_flag=True, help="Read beside whoever holds DIR; take no writes.")
@click.option(
    "--tables",
    type=click.Path(file_okay=False, path_type=Path),
    help="Share the partitions with other servers, and keep rows here (Kafka).",
)
@click.option("--group", default=GROUP_DEFAULT, show_default=True, help="Who shares (Kafka).")
@click.option("--url", help="Where others of the group reach this server [http://HOST:PORT].")
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    default=PER_SECOND,
    show_default=True,
    help="Requests a second for each token, or address without one; bursts of four times that.",
)
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The steward's key file on an embedded log [DIR/steward.pem].",
)
@password_option
@common
@click.pass_obj
def serve(
    session: Session,
    where: Where,
    host: str,
    port: int,
    tokens: Path | None,
    trust: Path | None,
    read_only: bool,
    tables: Path | None,
    group: str,
    url: str | None,
    rate: int,
    key: Path | None,
    password_file: Path | None,
) -> None:
    """Serve pools, decisions, proofs and a page over HTTP until told to stop."""
    # A server takes a moment to load, which other commands need not wait for.
    from streams.cli import serving

    grants = None if tokens is None else _read_tokens(tokens)
    if grants is None and not is_loopback(host):
        raise Failure(
            "without tokens it is served on the loopback only",
            where=host,
            todo="name a token file: --tokens FILE (`pool token` makes tokens)",
            status=Status.USAGE,
        )
    if trust is None and where.data is not None and (where.data / TRUST_FILE).is_file():
        trust = where.data / TRUST_FILE
    trust_of = _trust_of(trust)
    keyring: Keyring | None = None
    if where.data is not None and not read_only:
        if key is None:
            signer = steward_key(where.data, password_file)
        else:
            signer = read_key(key, password_file)
        session.note(f"steward {did_key(signer.public_key)}")
        keyring = Keyring([signer])
    access = Access(grants, per_second=rate, burst=4 * rate)
    if tables is not None:
        place = _place(where, tables, group, url, host, port)
        asyncio.run(serving.serve_shared(session, where, access, trust_of, place, host, port))
        return
    asyncio.run(serving.serve_all(session, where, access, trust_of, keyring, host, port))


@click.command()
@click.argument("name", type=TEXT)
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True)
@click.option("--pool", type=TEXT, help="Only for this pool [every one].")
@click.option(
    "--subtree", type=TEXT, help="Only at and below this node [all; `claims` must name one]."
)
@common
@click.pass_obj
def token(session: Session, name: str, role: str, pool: str | None, subtree: str | None) -> None:
    """Make a token for NAME: append stdout to the server's token file, give NAME the secret."""
    secret = new_token()
    members = {"sha256": digest_of(secret), "role": role}
    members |= {key: value for key, value in (("pool", pool), ("subtree", subtree)) if value}
    lines = [f'[tokens."{name}"]', *(f'{key} = "{value}"' for key, value in members.items())]
    try:
        parse_tokens("\n".join(lines))
    except TokenFileError as error:
        raise Failure(str(error), status=Status.USAGE) from error
    if session.json:
        session.line({"name": name, "token": secret, **members, "lines": lines})
        return
    for line in lines:
        session.say(line)
    session.note(f"for {name}, shown this once: {secret}")


def _place(where: Where, tables: Path, group: str, url: str | None, host: str, port: int) -> Place:
    """Where this worker is. Raises Failure: not on Kafka, or nobody could reach it."""
    if where.kafka is None:
        raise Failure("--tables is for Kafka", todo="leave it out", status=Status.USAGE)
    if url is None and port == 0:
        raise Failure(
            "others must be able to reach this server",
            todo="name a port, or --url",
            status=Status.USAGE,
        )
    return Place(
        datadir=tables,
        url=url or f"http://{f'[{host}]' if ':' in host else host}:{port}/",
        group=group,
    )


def _read_tokens(path: Path) -> dict[str, Grant]:
    try:
        return parse_tokens(read_file(path, TOKENS_BYTES_MAX).decode())
    except (TokenFileError, UnicodeDecodeError) as error:
        raise Failure(f"not a token file: {error}", where=str(path), status=Status.USAGE) from error


def _trust_of(path: Path | None) -> Callable[[str], PoolTrust | None]:
    """What the trust file says of a pool; nobody is trusted for one that it does not name."""
    if path is None:
        return lambda pool: None
    try:
        trust: Trust = parse_trust(read_file(path, TRUST_BYTES_MAX).decode())
    except (TrustError, UnicodeDecodeError) as error:
        raise Failure(f"not a trust file: {error}", where=str(path), status=Status.USAGE) from error
    return trust.pools.get
