"""The public Ed25519 suites under libsodium's rule, which is the implementation of record.

Rule, in the words of the suites' flags: a signature is refused if A or R is of low order (which
all that are not canonical here are), if the low-order parts of R and [k]A do not cancel, if S is
not below L, or if it has not 64 bytes; otherwise it is good iff the equation holds.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from schemas.batch import verify_signatures
from schemas.cose import SignatureTask, is_signed
from schemas.keys import KeyRefused, check_public_key
from tests.shared import vectors

REFUSING_FLAGS = {
    "low_order_A",
    "low_order_R",
    "non_canonical_A",
    "non_canonical_R",
    "low_order_residue",
}
REFUSING_FLAGS_OPENSSL = {"non_canonical_R", "low_order_residue"}
KEY_FLAGS = {"low_order_A", "non_canonical_A", "low_order_component_A"}


def wycheproof() -> list[tuple[SignatureTask, dict[str, Any]]]:
    path = vectors("C2SP-wycheproof", "testvectors_v1", "ed25519_test.json")
    return [
        (
            SignatureTask(
                bytes.fromhex(test["msg"]),
                bytes.fromhex(test["sig"]),
                bytes.fromhex(group["publicKey"]["pk"]),
            ),
            test,
        )
        for group in json.loads(path.read_text())["testGroups"]
        for test in group["tests"]
    ]


def cctv() -> list[tuple[SignatureTask, set[str]]]:
    path = vectors("C2SP-CCTV", "ed25519", "ed25519vectors.json")
    return [
        (
            SignatureTask(
                vector["msg"].encode(), bytes.fromhex(vector["sig"]), bytes.fromhex(vector["key"])
            ),
            set(vector["flags"] or ()),
        )
        for vector in json.loads(path.read_text())
    ]


def accepted_by_openssl(task: SignatureTask) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(task.public_key).verify(task.signature, task.message)
    except InvalidSignature:
        return False
    return True


def is_key(raw: bytes) -> bool:
    try:
        check_public_key(raw)
    except KeyRefused:
        return False
    return True


def test_wycheproof() -> None:
    """All 151 are answered as their authors label them: 88 valid, 63 not; every key is one."""
    tests = wycheproof()
    for task, test in tests:
        assert is_signed(task) == (test["result"] == "valid"), test["tcId"]
        assert is_key(task.public_key)
    assert len(tests) == 151
    assert sum(test["result"] == "valid" for _, test in tests) == 88


def test_cctv_under_libsodiums_rule() -> None:
    """All 914 follow the rule above: 43 are accepted."""
    tests = cctv()
    for task, flags in tests:
        assert is_signed(task) == (not flags & REFUSING_FLAGS), flags
    assert len(tests) == 914
    assert sum(not flags & REFUSING_FLAGS for _, flags in tests) == 43


def test_cctv_keys() -> None:
    """A key with any low-order part, or not canonical, is none: one accepted vector is left."""
    left = []
    for task, flags in cctv():
        assert is_key(task.public_key) == (not flags & KEY_FLAGS), flags
        if is_key(task.public_key) and is_signed(task):
            left.append(flags)
    assert left == [set()]


def test_openssl_accepts_more() -> None:
    """Known, and why one library decides: OpenSSL takes 165 that libsodium does not, none less.

    With keys that are keys, they differ in one: R = 0, which only the key's holder can make.
    """
    more = []
    for task, flags in cctv():
        accepted = accepted_by_openssl(task)
        assert accepted == (not flags & REFUSING_FLAGS_OPENSSL), flags
        if accepted != is_signed(task):
            assert accepted
            more.append((task, flags))
    assert len(more) == 165
    assert [flags for task, flags in more if is_key(task.public_key)] == [{"low_order_R"}]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_first_bad_one_is_found_whatever_the_threads(threads: int) -> None:
    """Many signatures checked at once give the same answer as one by one."""
    tasks = [task for task, test in wycheproof() if test["result"] == "valid"]
    assert verify_signatures(tasks, threads=threads) is None
    assert verify_signatures([], threads=threads) is None
    for bad in ({0}, {30, 60}, {87}, {43, 44}, set(range(88))):
        spoilt = [
            task._replace(message=task.message + b"!") if at in bad else task
            for at, task in enumerate(tasks)
        ]
        assert verify_signatures(spoilt, threads=threads) == min(bad)
