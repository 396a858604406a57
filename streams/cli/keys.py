"""`pool keys new` and `pool keys show`: key files, and reading one for whoever signs.

1. A key file is PKCS#8 PEM, mode 0600, never written over. With `--password-file` it is encrypted
   with that file's first line.
2. `show` prints public forms only: did:key, kid, raw hex.

Not here: what a key is (`schemas.keys`).
"""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console

from schemas.keys import KeyRefused, SeedSigner, did_key, kid, new_pem, signer_from_pem
from streams.cli.session import Failure, Session, Status, common

PEM_BYTES_MAX = 16 * 1024

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
password_option = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file whose first line encrypts the key.",
)


@click.group()
def keys() -> None:
    """Make and show the keys of stewards and witnesses."""


@keys.command("new")
@_file
@password_option
@common
@click.pass_obj
def new(session: Session, file: Path, password_file: Path | None) -> None:
    """Make a new Ed25519 key in FILE (mode 0600; an existing file is left alone)."""
    write_key(file, new_pem(_read_password(password_file)))
    _show(session, file, read_key(file, password_file))


@keys.command("show")
@_file
@password_option
@common
@click.pass_obj
def show(session: Session, file: Path, password_file: Path | None) -> None:
    """Print the public forms of the key in FILE."""
    _show(session, file, read_key(file, password_file))


def _show(session: Session, file: Path, signer: SeedSigner) -> None:
    public = signer.public_key
    answer = {
        "file": str(file),
        "did": did_key(public),
        "kid": kid(public),
        "public_key": public,
    }

    def plain(out: Console) -> None:
        for name, value in (
            ("did:key", did_key(public)),
            ("kid", kid(public).hex()),
            ("public key", public.hex()),
        ):
            out.print(f"{name:<12}{value}", soft_wrap=True)

    session.answer(answer, plain)


def write_key(file: Path, pem: bytes) -> None:
    """Write a new key file, mode 0600, durable. Raises Failure if there is one already."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Failure(
            "there is a file already", where=str(file), todo="take another name", status=Status.NO
        ) from None
    with os.fdopen(handle, "wb") as stream:
        stream.write(pem)
        stream.flush()
        os.fsync(stream.fileno())


def read_key(file: Path, password_file: Path | None = None) -> SeedSigner:
    """The signer of a key file. Raises Failure: no file, readable by others, no key."""
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            pem = stream.read(PEM_BYTES_MAX)
    except FileNotFoundError:
        raise Failure(
            "no key file", where=str(file), todo="make one: pool keys new FILE", status=Status.USAGE
        ) from None
    if mode & 0o077:
        raise Failure(
            "others may read this key", where=str(file), todo="chmod 600", status=Status.USAGE
        )
    try:
        return signer_from_pem(pem, _read_password(password_file))
    except KeyRefused as refused:
        raise Failure(str(refused), where=str(file), status=Status.USAGE) from refused


def _read_password(file: Path | None) -> bytes | None:
    if file is None:
        return None
    with file.open("rb") as stream:
        return stream.readline(1024).rstrip(b"\r\n")
