"""The order and the grouping of the engine tests over pytest's workers."""

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
_SHARES_ONE_WORKER = "in_process"
"""The tests of this folder import vLLM into the worker: one import serves them all."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, for they share an engine; long files first."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
    for item in items:
        folder = item.path.parent.name
        group = folder if folder == _SHARES_ONE_WORKER else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
