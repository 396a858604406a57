"""Opens COSE_Sign1 messages with python-cwt, which knows nothing of pools.

Run by the Python of the environment that has it (`.venv-cwt`): it needs an older cbor2 than ours.

The argument is an Ed25519 public key, 64 hex digits. Each line of the input is one message in hex;
for each, one line is written: "accepts" and the payload in hex, or "refuses" and the error.
"""

import hashlib
import sys

from cwt import COSE, COSEKey


def main() -> None:
    """Answer for each line of the input."""
    public_key = bytes.fromhex(sys.argv[1])
    # The library looks keys up by kid. Ours is the key's thumbprint (RFC 9679), made here anew.
    kid = hashlib.sha256(bytes.fromhex("a301012006215820") + public_key).digest()
    key = COSEKey.new({1: 1, 2: kid, 3: -8, -1: 6, -2: public_key})
    for line in sys.stdin:
        try:
            payload = COSE.new().decode(bytes.fromhex(line), key)
        except Exception as error:  # The library lets several kinds through: all are its answer.
            print("refuses", type(error).__name__, str(error).replace("\n", " "))
        else:
            print("accepts", payload.hex())


if __name__ == "__main__":
    main()
