"""Assertions in the helpers of these tests say what they compared."""

import pytest

HELPERS = ("auditor", "books", "objections", "recompute", "scenes", "twins")

pytest.register_assert_rewrite(*(f"tests.kernel.{name}" for name in HELPERS))
