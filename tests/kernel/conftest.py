"""Assertions in the helpers of these tests say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.kernel.scenes", "tests.kernel.twins", "tests.kernel.auditor")
