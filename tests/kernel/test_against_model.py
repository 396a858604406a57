"""The kernel decides as an independent, slow model of the profile does, field by field.

Not here: the model and the sequences (`tests/model`), and long runs of them
(`python -m tests.model.differential`).
"""

from __future__ import annotations

import pytest

from tests.kernel.crowds import crowd
from tests.model.differential import first_difference, kernel_decisions
from tests.model.generate import PROFILES, generate


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("profile", PROFILES)
def test_random_sequences_are_decided_as_the_model_does(profile: str, seed: int) -> None:
    """Kernel and model answer every event of a random sequence alike."""
    assert first_difference(generate(seed, 80, profile), kernel_decisions) is None


@pytest.mark.parametrize("seed", range(5))
def test_crowds_are_decided_as_the_model_does(seed: int) -> None:
    """The same for crowded pools of many leaves with long queues."""
    assert first_difference(crowd(seed, 80), kernel_decisions) is None
