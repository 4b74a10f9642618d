"""What a resting head keeps of the target for the tokens that it misses."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from paceline.engine.worker.resting_draft import _KEPT, _keep_states

pytestmark = pytest.mark.engine


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
    group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=4))
    model = SimpleNamespace(combine_hidden_states=lambda states: states)
    runner = SimpleNamespace(
        kv_cache_config=SimpleNamespace(kv_cache_groups=[group], num_blocks=2),
        drafter=SimpleNamespace(pass_hidden_states_to_model=True, model=model),
    )
    _keep_states(runner, np.array([5, -1]), torch.ones(2, 3), None)
    kept = getattr(runner, _KEPT)
    assert kept.shape == (8, 3)
    assert kept.sum(dim=1).tolist() == [0, 0, 0, 0, 0, 3, 0, 0]
