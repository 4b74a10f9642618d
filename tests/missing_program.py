"""What a test does without a program of others that it needs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(missing: str) -> NoReturn:
    """Skip the test with this reason. In CI, and for root, who can install programs, it fails."""
    if os.environ.get("CI") or os.geteuid() == 0:
        pytest.fail(missing)
    pytest.skip(missing)
