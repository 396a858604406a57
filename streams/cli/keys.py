"""`pool keys new` and `pool keys show`: key files, and reading one for whoever signs.

1. A key file is PKCS#8 PEM, mode 0600, never written over. With `--password-file` it is encrypted
   with that file's first line; every command that signs has that option, whichever key it takes.
2. `show` prints public forms only: did:key, kid, raw hex.

Not here: what a key is (`schemas.keys`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click
from rich.console import Console

from schemas.keys import (
    KeyFault,
    KeyRefused,
    SeedSigner,
    did_key,
    kid,
    new_pem,
    signer_from_pem,
)
from streams.cli.session import Failure, Session, Status, common

PEM_BYTES_MAX = 16 * 1024

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
password_option = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file whose first line opens the key, or encrypts a new one.",
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
    write_key(file, new_pem(read_password(password_file)))
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
    """Write a new key file, mode 0600, whole and durable or not at all.

    Raises Failure if there is one already; OSError, of this file.
    """
    try:
        _write_new(file, pem)
    except FileExistsError:
        raise Failure(
            "there is a file already", where=str(file), todo="take another name", status=Status.NO
        ) from None
    except OSError as error:
        # What it names is the draft, or nothing.
        raise OSError(error.errno, error.strerror, str(file)) from error


def _write_new(file: Path, pem: bytes) -> None:
    """A draft beside the file, synced, then its name: half a key is never found under it."""
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, file)
        _sync(file.parent)
    finally:
        os.unlink(draft)


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
        return signer_from_pem(pem, read_password(password_file))
    except KeyRefused as refused:
        raise _refused(refused, file, password_file) from refused


def _refused(refused: KeyRefused, file: Path, password_file: Path | None) -> Failure:
    encrypted = refused.reason is KeyFault.PASSWORD
    if encrypted and password_file is None:
        what, todo = "this key is encrypted", "name the file of its password: --password-file FILE"
    else:
        what, todo = str(refused), "name its own password's file" if encrypted else ""
    return Failure(what, where=str(file), todo=todo, status=Status.USAGE)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_password(file: Path | None) -> bytes | None:
    """The first line of a password file, of one if there is one. Raises Failure if it is empty."""
    if file is None:
        return None
    with file.open("rb") as stream:
        password = stream.readline(1024).rstrip(b"\r\n")
    if not password:
        raise Failure(
            "no password", where=str(file), todo="its first line must be one", status=Status.USAGE
        )
    return password
