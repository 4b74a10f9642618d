"""Fixtures of the tests that run vLLM's parts in the test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread and no compilation: with tiny tensors, both only take time."""
    import torch
    from vllm.v1.sample import sampler

    compiled = sampler.batched_count_greater_than
    monkeypatch.setattr(sampler, "batched_count_greater_than", compiled._torchdynamo_orig_callable)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)
