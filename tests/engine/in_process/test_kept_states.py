"""What a resting head keeps of the target for the tokens that it misses."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from paceline.runtime.engine.worker.draft_coverage import DraftCoverage
from paceline.runtime.engine.worker.resting_draft import _KEPT, _keep_states, _MissedSteps

pytestmark = pytest.mark.engine


def runner_of_8_slots() -> Any:
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=4))
    model = SimpleNamespace(combine_hidden_states=lambda states: states)
    return SimpleNamespace(
        kv_cache_config=SimpleNamespace(kv_cache_groups=[group], num_blocks=2),
        drafter=SimpleNamespace(pass_hidden_states_to_model=True, model=model),
    )


@pytest.fixture
def filled_memory() -> Iterator[None]:
    """New memory holds NaN, as it may in a process that has computed before."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("filled_memory")
def test_states_that_were_never_kept_are_numbers() -> None:
    """They are read in trial steps, and what the head computes of them stays in its KV cache."""
    runner = runner_of_8_slots()
    _keep_states(runner, [np.array([5, -1])], [(torch.ones(2, 3), None)])
    kept = getattr(runner, _KEPT)
    assert kept.shape == (8, 3)
    assert kept.sum(dim=1).tolist() == [0, 0, 0, 0, 0, 3, 0, 0]


def test_the_states_of_several_steps_are_noted_together() -> None:
    """Slot 5 is written in two of them, as when its block is given to another request, and vLLM
    reuses the array of slots. A step has rows beyond its tokens."""
    runner, coverage = runner_of_8_slots(), DraftCoverage(2, 4)
    missed, slots = _MissedSteps(), np.array([4, 5])
    missed.add(slots, None, [torch.full((3, 1), 1.0), torch.full((3, 2), 2.0)])
    slots[:] = 5, -1
    missed.add(slots, torch.full((2, 3), 9.0), None)
    slots[:] = 0
    assert missed.num_tokens == 4
    missed.note(runner, coverage)
    kept = getattr(runner, _KEPT)
    assert kept[:4].sum() == 0
    assert kept[4].tolist() == [1, 2, 2]
    assert kept[5].tolist() == [9, 9, 9]
    assert kept[6:].sum() == 0
    [gap] = coverage.find_gaps(np.array([[0, 1]]), np.array([6]))
    assert (gap.start, gap.stop) == (4, 6)
    assert missed.num_tokens == 0
    missed.note(runner, coverage)  # nothing is left to note


def test_states_of_another_number_of_tokens_are_refused() -> None:
    missed = _MissedSteps()
    missed.add(np.array([4, 5]), torch.ones(1, 3), None)
    with pytest.raises(ValueError, match="2 tokens have 1 rows of states"):
        missed.note(runner_of_8_slots(), DraftCoverage(2, 4))
