"""The environment of the engine tests, and the order of files that share a server."""

from __future__ import annotations

import os

import pytest

from paceline.runtime.engine.launch.layout import EAGER_ENVIRONMENT

os.environ.update(EAGER_ENVIRONMENT)  # torch reads it when it is imported

_IN_ORDER = (
    "test_tenants.py",
    "test_serve.py",
    "test_vllm_command.py",
    "test_cut_streams.py",
    "test_gateway_engine.py",
)
"""Files that share a `paceline serve`, then files that share a `vllm serve`. Those whose tests kill
the server come last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files that share a server; other tests come after them, in their own order."""

    def rank(item: pytest.Item) -> int:
        name = item.path.name
        return _IN_ORDER.index(name) if name in _IN_ORDER else len(_IN_ORDER)

    items.sort(key=rank)
