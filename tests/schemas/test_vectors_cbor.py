"""The public CBOR suites, each vector with the answer §6.6 gives and the rule that says why.

The rules are tried in order and the first that matches a vector gives its answer, so that every
vector has exactly one; the numbers say how many each rule must match.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import cbor2
import pytest

from schemas import cbor
from schemas.cbor import CborError
from tests.shared import vectors

ACCEPTED = "accepted"

# (pattern in the vector's description, the answer, words of the error, how many)
GOOD = [
    (r"^u\d\d?: .*(not |non-)preferred", "canonical", "not the deterministic", 7),
    (r"^s\d\d?: .*(not |non-)preferred", "canonical", "not the deterministic", 5),
    (r"^f(16|32|64): |^M(AX|IN)_SAFE_INTEGER [+-] ", "decode", "a float", 53),
    (r"^bigint: |^Date: ", "decode", "a tag", 5),
    (r"^Map: ", "decode", "a map key that is not a text", 2),
    (r"^array: deeply-nested|^map: deeply-nested", "decode", "nested deeper|a map key", 3),
    (r"^[us]\d\d?: |^string: |^JS: ", ACCEPTED, "", 13),
]

# (pattern in the hex text, the answer, words of the error, how many)
APPENDIX_A = [
    (r"^f[9ab]", "decode", "a float", 22),
    (r"^[cd]", "decode", "a tag", 8),
    (r"^f7", "decode", "undefined", 1),
    (r"^f0|^f8", "decode", "a simple value", 3),
    (r"^a20102", "decode", "a map key that is not a text", 1),
    (r"^([579b]f|8[0-9]).*ff(820405)?$", "canonical", "an indefinite length", 11),
    (r"", ACCEPTED, "", 36),
]


def rule_for(text: str, rules: list[tuple[str, str, str, int]]) -> tuple[str, str, str, int]:
    return next(rule for rule in rules if re.search(rule[0], text))


def check_answer(data: bytes, rule: tuple[str, str, str, int], decoded: Any) -> None:
    _, answer, words, _ = rule
    if answer == ACCEPTED:
        assert cbor.decode(data) == decoded
        assert cbor.encode(decoded) == data
        return
    with pytest.raises(CborError, match=words) as caught:
        cbor.decode(data)
    assert caught.value.check == answer


def suite(name: str) -> Any:
    path = vectors("cbor-wg-cbor-test-vectors", "tests", "rfc8949", f"{name}.cbor")
    return cbor2.loads(path.read_bytes(), max_depth=2000)["tests"]


def test_good_vectors_of_cbor_wg() -> None:
    """Well-formed CBOR: what is of the data model and deterministic is taken, the rest refused."""
    counts: Counter[str] = Counter()
    for vector in suite("good"):
        rule = rule_for(vector["description"], GOOD)
        counts[rule[0]] += 1
        check_answer(vector["encoded"], rule, vector["decoded"])
    assert counts == {rule[0]: rule[3] for rule in GOOD}


def test_bad_vectors_of_cbor_wg() -> None:
    """All 47 are refused as `decode`; two are well-formed, and refused for their tags."""
    bad = suite("bad")
    assert len(bad) == 47
    tags = 0
    for vector in bad:
        for reader in (cbor.decode, cbor.decode_loose):
            with pytest.raises(CborError) as caught:
                reader(vector["encoded"])
            if reader is cbor.decode:
                assert caught.value.check == "decode"
                tags += caught.value.detail == "a tag"
    assert tags == 2


def test_appendix_a_of_rfc_8949() -> None:
    """The RFC's examples: 36 of 82 are of the data model and deterministic."""
    path = vectors("cbor-test-vectors", "appendix_a.json")
    counts: Counter[str] = Counter()
    for vector in json.loads(path.read_text()):
        rule = rule_for(vector["hex"], APPENDIX_A)
        counts[rule[0]] += 1
        check_answer(bytes.fromhex(vector["hex"]), rule, decoded_of(vector))
    assert counts == {rule[0]: rule[3] for rule in APPENDIX_A}


def decoded_of(vector: dict[str, Any]) -> Any:
    """The suite's value; byte strings come in diagnostic notation, and so do refused values."""
    if "decoded" in vector:
        return vector["decoded"]
    literal = re.fullmatch(r"h'([0-9a-f]*)'", vector["diagnostic"])
    return bytes.fromhex(literal[1]) if literal else None
