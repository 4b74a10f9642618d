"""The order in which pytest's workers get the files of the engine tests."""

from __future__ import annotations

import pytest

_LONGEST_FIRST = (
    "test_serve.py",
    "test_continuation.py",
    "test_gateway_engine.py",
    "test_replay_scoring.py",
    "test_vllm_command.py",
    "test_tenants.py",
)
"""A long file at the end would keep one worker busy and leave the other idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the long files first; the others keep their order."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
