"""Who may what: bearer tokens with roles, and how often each may ask.

Not here: reading the token file (the command), HTTP (`web`), what a subtree shows (`answers`).

1. A token file is TOML: `[tokens.NAME]` with `sha256` (the token's SHA-256, lower hex), `role`, and
   optionally `pool` and `subtree` (a node; default all). Tokens have 256 random bits, so a plain
   hash keeps them; the file never holds one.
2. `read` sees pools and claims; `claims` sees them too and may submit, commit, renew, release and
   cancel below its subtree, which it must name; `meters` may send readings and sees nothing;
   `admin` may all of it, for every pool.
3. A token for one pool or one subtree is answered for others as if they did not exist, or, where
   the question itself is not its to ask, `forbidden` before anything is looked up.
4. Without a token file everybody is `admin`: for who binds to the loopback only.
5. A bucket of `BURST` requests, refilled at `PER_SECOND`, for each token; and one for each address
   that shows no token. Beyond it: 429, with the seconds to wait.

Invariant: a secret is compared by its hash only, and never shown.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import time
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from schemas.records import ROOT

TOKEN_PREFIX: Final = "pool_"
PER_SECOND: Final = 50
BURST: Final = 200
BUCKETS_MAX: Final = 4096
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_MEMBERS: Final = frozenset({"sha256", "role", "pool", "subtree"})


class Role(StrEnum):
    """What a token is for."""

    READ = "read"
    CLAIMS = "claims"
    METERS = "meters"
    ADMIN = "admin"


class TokenFileError(Exception):
    """A token file that is refused: where in it, and what is wrong there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What the holder of a token may do. `pool` None: every pool; `subtree` `/`: all of it."""

    name: str
    role: Role
    pool: str | None = None
    subtree: str = ROOT

    @property
    def sees(self) -> bool:
        """Whether it may see pools and claims."""
        return self.role is not Role.METERS

    @property
    def claims(self) -> bool:
        """Whether it may submit and change claims."""
        return self.role in (Role.CLAIMS, Role.ADMIN)

    @property
    def meters(self) -> bool:
        """Whether it may send readings."""
        return self.role in (Role.METERS, Role.ADMIN)

    @property
    def operates(self) -> bool:
        """Whether it may open, change and archive pools."""
        return self.role is Role.ADMIN

    @property
    def sees_all(self) -> bool:
        """Whether it may see everything of its pools: ledgers, devices, everybody's claims."""
        return self.sees and self.subtree == ROOT


ANYBODY: Final = Grant(name="anybody", role=Role.ADMIN)


class Access:
    """Grants by token. `grants` None: no tokens are asked for (rule 4)."""

    def __init__(
        self,
        grants: Mapping[str, Grant] | None,
        *,
        per_second: int = PER_SECOND,
        burst: int = BURST,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._grants = grants
        self._buckets = Buckets(per_second=per_second, burst=burst, clock_ns=clock_ns)

    @property
    def is_open(self) -> bool:
        """Whether no token is asked for."""
        return self._grants is None

    def grant(self, authorization: str | None) -> Grant | None:
        """The grant of an `Authorization` header; None if it names no token known here."""
        if self._grants is None:
            return ANYBODY
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        digest = sha256(token.strip().encode("utf-8", "replace")).hexdigest()
        return self._grants.get(digest)

    def wait_s(self, who: str) -> int:
        """0, or in how many seconds this request would not be one too many."""
        return self._buckets.take(who)


class Buckets:
    """Token buckets by name, the longest unused forgotten beyond `BUCKETS_MAX`."""

    def __init__(self, *, per_second: int, burst: int, clock_ns: Callable[[], int]) -> None:
        self._each_ns = 1_000_000_000 // per_second
        self._full_ns = self._each_ns * burst
        self._clock_ns = clock_ns
        self._empty_at: OrderedDict[str, int] = OrderedDict()

    def take(self, who: str) -> int:
        """Take one; 0 if there was one, else the seconds until there is."""
        now = self._clock_ns()
        # What is kept is the instant at which the bucket would be full again.
        full_at = max(now, self._empty_at.pop(who, now))
        after = full_at + self._each_ns
        too_many = after - now > self._full_ns
        self._empty_at[who] = full_at if too_many else after
        while len(self._empty_at) > BUCKETS_MAX:
            self._empty_at.popitem(last=False)
        return -(-(after - now - self._full_ns) // 1_000_000_000) if too_many else 0


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A token that nobody has."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """What of a token stands in the file."""
    return sha256(token.encode()).hexdigest()


def parse_tokens(text: str) -> dict[str, Grant]:
    """The grants of a token file by their tokens' digests. Raises TokenFileError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TokenFileError(f"not TOML: {error}") from error
    tokens = document.get("tokens")
    if document.keys() != {"tokens"} or not isinstance(tokens, dict) or not tokens:
        raise TokenFileError("the file holds [tokens.NAME] tables, at least one, and nothing else")
    grants: dict[str, Grant] = {}
    for name, entry in tokens.items():
        digest, grant = _entry(name, entry)
        if digest in grants:
            raise TokenFileError(f"tokens.{name}: the token of {grants[digest].name}")
        grants[digest] = grant
    return grants


def _entry(name: str, entry: object) -> tuple[str, Grant]:
    where = f"tokens.{name}"
    if not isinstance(entry, dict):
        raise TokenFileError(f"{where}: not a table")
    for member in sorted(entry.keys() - _MEMBERS):
        raise TokenFileError(f"{where}.{member}: unknown")
    if not all(isinstance(value, str) for value in entry.values()):
        raise TokenFileError(f"{where}: every member is text")
    digest = entry.get("sha256", "")
    if not _HEX.fullmatch(digest):
        raise TokenFileError(f"{where}.sha256: not 64 lower hex digits")
    try:
        role = Role(entry.get("role", ""))
    except ValueError:
        raise TokenFileError(f"{where}.role: one of {', '.join(Role)}") from None
    if role is Role.CLAIMS and "subtree" not in entry:
        raise TokenFileError(f"{where}.subtree: a claims token names its node, `/` for all")
    if role is Role.ADMIN and entry.keys() & {"pool", "subtree"}:
        raise TokenFileError(f"{where}: an admin token is for everything")
    subtree = entry.get("subtree", ROOT)
    return digest, Grant(name=name, role=role, pool=entry.get("pool"), subtree=subtree)
