"""In which order are the files given to the workers?"""

from __future__ import annotations

import pytest

_LONGEST_FIRST = (
    "test_sampled_losslessness.py",
    "test_sampled_faults.py",
    "test_resting_draft.py",
    "test_serve.py",
    "test_continuation.py",
    "test_replay_scoring.py",
    "test_vllm_command.py",
)
"""Minutes each. Left for the end, one of them keeps one worker busy and the other idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rest stays in its order."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
