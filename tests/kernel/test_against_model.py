"""The kernel decides as an independent, slow model of the profile does, field by field.

Not here: the model and the sequences (`tests/model`), and long runs of them
(`python -m tests.model.differential`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.kernel.crowds import crowd
from tests.kernel.naive_pass import plain_passes
from tests.kernel.scenes import timed
from tests.kernel.test_admin import tables
from tests.model.corners import Script
from tests.model.differential import first_difference, kernel_decisions
from tests.model.generate import PROFILES, generate, run
from tests.model.scripts import SCRIPTS, played
from tests.model.sieges import SIEGES


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("profile", PROFILES)
def test_random_sequences_are_decided_as_the_model_does(profile: str, seed: int) -> None:
    """Kernel and model answer every event of a random sequence alike."""
    assert first_difference(generate(seed, 80, profile), kernel_decisions) is None


@pytest.mark.parametrize("seed", range(5))
def test_crowds_are_decided_as_the_model_does(seed: int) -> None:
    """The same for crowded pools of many leaves with long queues."""
    assert first_difference(crowd(seed, 80), kernel_decisions) is None


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("profile", SIEGES)
def test_sieges_are_decided_as_the_model_does(profile: str, seed: int) -> None:
    """The same, with the kernel's pass and with the plain one, where much is reclaimed and held."""
    walk = run(seed, 100, profile)
    assert first_difference(walk.events, kernel_decisions, walk.answers) is None
    with plain_passes():
        assert first_difference(walk.events, kernel_decisions, walk.answers) is None


def test_every_row_is_decided_as_the_model_does() -> None:
    """Kernel and model answer the pasts and the events of all rule tables alike."""
    rows = [row for table in tables().values() for row in table]
    assert len(rows) > 300
    for row in rows:
        events = list(timed([*row.given, row.when]))
        assert first_difference(events, kernel_decisions) is None, row.name


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_decided_as_the_model_does(script: Callable[[Random], Script]) -> None:
    """The same for each script by itself, with a few choices of its numbers."""
    for seed in range(5):
        assert first_difference(played(script(Random(seed))), kernel_decisions) is None
