"""The Merkle tree: against a recursive definition, and against transparency-dev's vectors.

The vectors are data of others (`tests.shared`), not part of this repository.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.merkle import (
    EMPTY_ROOT,
    Frontier,
    HashStore,
    ProofError,
    ProofFault,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_at,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from tests.shared import vectors

LEAVES = [leaf_hash(b"receipt %d" % index) for index in range(70)]


def recursive_root(leaves: list[bytes]) -> bytes:
    """RFC 9162 §2.1.1 as it is written there."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(recursive_root(leaves[:split]), recursive_root(leaves[split:]))


def vector_files(kind: str) -> list[Path]:
    return sorted(vectors("transparency-dev-merkle", "testdata", kind).rglob("*.json"))


def plain(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def test_the_shared_vectors_are_all_there() -> None:
    """98 inclusion and 98 consistency vectors are published."""
    assert (len(vector_files("inclusion")), len(vector_files("consistency"))) == (98, 98)


# The one vector that a convention of ours decides otherwise: its two equal "roots" are 12 bytes.
SHORT_ROOTS = "sizes-are-equal-one-and-proof-is-empty.json"


@pytest.mark.parametrize("path", vector_files("inclusion"), ids=lambda p: p.parent.name + p.stem)
def test_inclusion_vectors(path: Path) -> None:
    """An inclusion proof is accepted exactly where transparency-dev says so."""
    case = json.loads(path.read_text())
    arguments = {
        "leaf": plain(case["leafHash"]),
        "index": case["leafIdx"],
        "size": case["treeSize"],
        "path": [plain(item) for item in case["proof"] or ()],
        "root": plain(case["root"]),
    }
    check(case["wantErr"], lambda: verify_inclusion(**arguments))


@pytest.mark.parametrize("path", vector_files("consistency"), ids=lambda p: p.parent.name + p.stem)
def test_consistency_vectors(path: Path) -> None:
    """A consistency proof is accepted exactly where transparency-dev says so."""
    case = json.loads(path.read_text())
    arguments = {
        "old_size": case["size1"],
        "new_size": case["size2"],
        "old_root": plain(case["root1"]),
        "new_root": plain(case["root2"]),
        "path": [plain(item) for item in case["proof"] or ()],
    }
    want_error = case["wantErr"] or path.name == SHORT_ROOTS
    check(want_error, lambda: verify_consistency(**arguments))


def check(want_error: bool, verify: Callable[[], None]) -> None:
    if want_error:
        with pytest.raises(ProofError):
            verify()
    else:
        verify()


def test_short_roots_are_refused_for_their_length() -> None:
    """Equal roots of a wrong length are no roots; of the right length they are consistent."""
    with pytest.raises(ProofError) as refused:
        verify_consistency(old_size=1, new_size=1, old_root=b"x", new_root=b"x", path=[])
    assert refused.value.reason is ProofFault.HASH
    one = LEAVES[0]
    verify_consistency(old_size=1, new_size=1, old_root=one, new_root=one, path=[])


def test_every_small_tree_has_the_recursive_root() -> None:
    """The frontier, the store and the RFC's recursion agree for 0 to 69 leaves."""
    frontier, store = Frontier(), HashStore()
    for size in range(len(LEAVES)):
        expected = recursive_root(LEAVES[:size])
        assert frontier.root() == store.root() == root_of(LEAVES[:size]) == expected
        assert frontier.size == store.size == size
        frontier.append(LEAVES[size])
        store.append(LEAVES[size])
    assert Frontier().root() == EMPTY_ROOT == recursive_root([])


def test_a_store_knows_the_roots_of_the_past() -> None:
    """Every earlier root comes from the store of a later tree."""
    store = HashStore(LEAVES)
    for size in range(len(LEAVES) + 1):
        assert store.root(size) == recursive_root(LEAVES[:size])


def test_every_inclusion_proof_holds_and_no_other_size_does_at_its_place() -> None:
    """Each proof holds for its own leaf and index, and for no other leaf or index."""
    store = HashStore(LEAVES)
    for size in (1, 2, 3, 7, 8, 9, 64, 69, 70):
        root = store.root(size)
        for index in range(size):
            path = inclusion_proof(store, index, size)
            arguments = {"size": size, "path": path, "root": root}
            verify_inclusion(leaf=LEAVES[index], index=index, **arguments)
            other = (index + 1) % size
            if other != index:
                with pytest.raises(ProofError):
                    verify_inclusion(leaf=LEAVES[other], index=index, **arguments)
                with pytest.raises(ProofError):
                    verify_inclusion(leaf=LEAVES[index], index=other, **arguments)


def test_every_consistency_proof_holds() -> None:
    """Each pair of sizes has a proof, and it does not hold for another older root."""
    store = HashStore(LEAVES)
    for new_size in range(1, len(LEAVES) + 1):
        for old_size in range(1, new_size + 1):
            path = consistency_proof(store, old_size, new_size)
            arguments = {"old_size": old_size, "new_size": new_size, "path": path}
            roots = {"old_root": store.root(old_size), "new_root": store.root(new_size)}
            verify_consistency(**arguments, **roots)
            with pytest.raises(ProofError):
                verify_consistency(**arguments, **roots | {"old_root": leaf_hash(b"other")})


def test_a_path_back_tells_the_older_root_without_being_told_it() -> None:
    """From the newer root alone and a path, the root at any earlier size follows."""
    store = HashStore(LEAVES)
    for new_size in (2, 3, 64, 69, 70):
        for old_size in range(1, new_size):
            path = store.path_back(old_size=old_size, new_size=new_size)
            sizes = {"old_size": old_size, "new_size": new_size}
            assert root_at(**sizes, new_root=store.root(new_size), path=path) == store.root(
                old_size
            )
            with pytest.raises(ProofError) as refused:
                root_at(**sizes, new_root=leaf_hash(b"other"), path=path)
            assert refused.value.reason is ProofFault.ROOT
    with pytest.raises(ProofError):
        root_at(old_size=5, new_size=5, new_root=store.root(5), path=[])


def test_a_list_of_hashes_makes_the_same_proofs_as_a_store() -> None:
    """Proofs do not depend on what they were made from."""
    store = HashStore(LEAVES)
    assert inclusion_proof(LEAVES, 41, 70) == inclusion_proof(store, 41, 70)
    assert consistency_proof(LEAVES, 41, 70) == consistency_proof(store, 41, 70)


def test_a_million_leaves_need_at_most_twenty_hashes() -> None:
    """A proof's length is the tree's height."""
    store = HashStore([LEAVES[0]] * 2**12)
    assert len(inclusion_proof(store, 5, 2**12)) == 12
    assert len(consistency_proof(store, 5, 2**12)) <= 13


def test_a_frontier_survives_its_plain_form() -> None:
    """A stored frontier grows on as if it had never been stored."""
    for size in range(len(LEAVES)):
        frontier = Frontier()
        for leaf in LEAVES[:size]:
            frontier.append(leaf)
        twin = Frontier.from_plain(frontier.to_plain())
        assert twin == frontier
        copied = frontier.copy()
        twin.append(LEAVES[size])
        copied.append(LEAVES[size])
        assert twin.root() == copied.root() == recursive_root(LEAVES[: size + 1])
        assert frontier.size == size


@pytest.mark.parametrize(
    ("plain_form", "reason"),
    [
        (None, ProofFault.SHAPE),
        ({"size": 1}, ProofFault.SHAPE),
        ({"size": -1, "peaks": []}, ProofFault.SIZE),
        ({"size": True, "peaks": [LEAVES[0]]}, ProofFault.SIZE),
        ({"size": 2**63, "peaks": [LEAVES[0]]}, ProofFault.SIZE),
        ({"size": 3, "peaks": [LEAVES[0]]}, ProofFault.SHAPE),
        ({"size": 3, "peaks": b"\x00\x01"}, ProofFault.SHAPE),
        ({"size": 1, "peaks": [b"short"]}, ProofFault.HASH),
    ],
)
def test_a_damaged_frontier_is_refused(plain_form: object, reason: ProofFault) -> None:
    """What no frontier wrote is not read as one."""
    with pytest.raises(ProofError) as refused:
        Frontier.from_plain(plain_form)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: inclusion_proof(LEAVES, 70, 70), ProofFault.INDEX),
        (lambda: inclusion_proof(LEAVES, -1, 70), ProofFault.INDEX),
        (lambda: inclusion_proof(LEAVES, 0, 71), ProofFault.SIZE),
        (lambda: consistency_proof(LEAVES, 0, 5), ProofFault.SIZE),
        (lambda: consistency_proof(LEAVES, 6, 5), ProofFault.SIZE),
        (lambda: consistency_proof(LEAVES, 5, 71), ProofFault.SIZE),
        (lambda: HashStore(LEAVES).root(71), ProofFault.SIZE),
    ],
)
def test_no_proof_is_made_of_what_is_not_there(
    make: Callable[[], object], reason: ProofFault
) -> None:
    """Asking for a proof outside of the tree says which number is wrong."""
    with pytest.raises(ProofError) as refused:
        make()
    assert refused.value.reason is reason


def test_too_many_hashes_are_refused_before_they_are_hashed() -> None:
    """No proof has more than 64 hashes, however large its claimed size."""
    path = [LEAVES[0]] * 65
    for verify in (
        lambda: verify_inclusion(
            leaf=LEAVES[0], index=0, size=2**63 - 1, path=path, root=LEAVES[0]
        ),
        lambda: verify_consistency(
            old_size=1, new_size=2**63 - 1, old_root=LEAVES[0], new_root=LEAVES[0], path=path
        ),
    ):
        with pytest.raises(ProofError) as refused:
            verify()
        assert refused.value.reason is ProofFault.LENGTH


@settings(max_examples=100)
@given(st.data())
def test_a_bent_proof_never_holds(data: st.DataObject) -> None:
    """One bit changed, one hash dropped or doubled: refused, and with nothing but ProofError."""
    size = data.draw(st.integers(2, 70))
    index = data.draw(st.integers(0, size - 1))
    path = inclusion_proof(LEAVES, index, size)
    where = data.draw(st.integers(0, len(path) - 1))
    match data.draw(st.sampled_from(["bit", "drop", "double"])):
        case "bit":
            bit = data.draw(st.integers(0, 255))
            number = int.from_bytes(path[where], "big") ^ (1 << bit)
            path[where] = number.to_bytes(32, "big")
        case "drop":
            del path[where]
        case _:
            path.insert(where, path[where])
    with pytest.raises(ProofError):
        verify_inclusion(
            leaf=LEAVES[index], index=index, size=size, path=path, root=root_of(LEAVES[:size])
        )
