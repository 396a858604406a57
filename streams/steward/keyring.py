"""The keys that a steward may sign with, and which of them is a pool's.

Reading key files is the caller's business (`schemas.keys` parses PEM).

1. A new pool's ledger is begun with the first key.
2. A ledger goes on with the key that it names: the one that wrote it, or the one handed over to.
3. A key that is a witness's is refused outright: whoever countersigns must be somebody else.

Profile: §6.7, §6.10.
"""

from collections.abc import Iterable, Sequence

from schemas.keys import Signer, check_public_key, did_key
from streams.steward.errors import StewardStopped


class Keyring:
    """Signers by their raw public key. Raises: schemas.keys.KeyRefused, StewardStopped."""

    def __init__(self, signers: Sequence[Signer], *, witnesses: Iterable[bytes] = ()) -> None:
        assert signers, "a steward has a key"
        refused = frozenset(witnesses)
        for signer in signers:
            check_public_key(signer.public_key)
            if signer.public_key in refused:
                raise StewardStopped(
                    "the steward's key is a witness's",
                    where=did_key(signer.public_key),
                    todo="give the steward a key of its own",
                )
        self.primary = signers[0]
        self._signers = {signer.public_key: signer for signer in signers}

    def of(self, public_key: bytes) -> Signer | None:
        """The signer of a raw public key, if it is one of ours."""
        return self._signers.get(public_key)
