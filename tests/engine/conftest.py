"""Which engine tests share a worker of pytest, and the order in which the workers get them.

With `--dist loadfile` one worker runs a whole group: the tests of a file, or of several files that
share a server or an import. Each worker takes the next group when it has finished one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from paceline.engine.launch.layout import EAGER_ENVIRONMENT

os.environ.update(EAGER_ENVIRONMENT)  # torch reads it when it is imported

_SHARED = {
    "test_tenants.py": "paceline serve",
    "test_serve.py": "paceline serve",
    "test_vllm_command.py": "vllm serve",
    "test_gateway_engine.py": "vllm serve",
}
"""Files of one group, in order: the files that end the server come last."""
_SHARED_FOLDERS = {
    "in_process": "vLLM in the test process",
    "any_length": "vLLM in the test process",
}
"""Folders whose tests import vLLM, which takes 8 s of processor time per worker."""
_LONGEST_FIRST = (
    "paceline serve",
    "test_verdicts.py",
    "test_continuation.py",
    "test_replay_scoring.py",
    "vllm serve",
    "test_drafters.py",
    "vLLM in the test process",
)
"""A long group at the end would keep one worker busy and leave the other idle."""


class _ByGroup(LoadFileScheduling):
    """As `--dist loadfile`, with the files of a group taken for one file."""

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(Path(nodeid.partition("::")[0]))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByGroup | None:
    """Distribute by group where the tests are distributed by file."""
    return _ByGroup(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort: long groups first, and within a group the order of `_SHARED`."""
    order = list(_SHARED)
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}

    def key(item: pytest.Item) -> tuple[int, int]:
        name = item.path.name
        return (
            rank.get(_group_of(item.path), len(rank)),
            order.index(name) if name in _SHARED else len(order),
        )

    items.sort(key=key)


def _group_of(file: Path) -> str:
    return _SHARED.get(file.name) or _SHARED_FOLDERS.get(file.parent.name, file.name)
