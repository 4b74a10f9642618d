"""Model Runner V2's draft model and n-gram lookup follow the draft length of a step.

The speculators' own code runs, on a CPU; the draft model within is made up. Their kernels and the
rest of the runner need a GPU.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.runtime.engine.compat.executor import patch_workers
from paceline.runtime.engine.worker.v2_draft_length import patch_worker

pytestmark = pytest.mark.engine

MAXIMUM = 4
NUM_REQUESTS = 2


def draft_model_speculator() -> Any:
    """vLLM's class with a draft model that returns 10 in its first pass, 11 in its second, …"""
    from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator

    class Speculator(StandaloneARSpeculator):
        def __init__(self) -> None:
            self.model = object()
            self.num_passes = 0
            self.num_speculative_steps = MAXIMUM
            self.max_model_len = 100
            self.draft_tokens = torch.full((8, MAXIMUM), -7)
            self.draft_logits = None
            self.current_draft_step = torch.tensor(0)
            self.last_token_indices = torch.zeros(8, dtype=torch.int64)
            self.arange_gpu = torch.arange(9, dtype=torch.int32)
            self.idx_mapping = torch.zeros(8, dtype=torch.int64)
            self.temperature = torch.zeros(8)
            self.seeds = torch.zeros(8, dtype=torch.int64)
            self.input_buffers = SimpleNamespace(
                input_ids=torch.zeros(8, dtype=torch.int32),
                positions=torch.zeros(8, dtype=torch.int64),
                seq_lens=torch.zeros(8, dtype=torch.int32),
                query_start_loc=torch.zeros(9, dtype=torch.int32),
            )

        def _run_model(self, input_ids: Any, *_: Any) -> Any:
            self.num_passes += 1
            return torch.zeros(len(input_ids), 3)

        def sample_draft(self, hidden_states: Any, *_: Any) -> Any:
            return torch.full((len(hidden_states),), 9 + self.num_passes)

    return Speculator()


def ngram_speculator() -> Any:
    """vLLM's class; its lookup fails on a CPU."""
    from vllm.v1.worker.gpu.spec_decode.ngram.speculator import NgramGPUSpeculator

    speculator = object.__new__(NgramGPUSpeculator)
    speculator.drafts = torch.full((8, MAXIMUM), 5)
    return speculator


def propose(speculator: Any, length: int | None, *, dummy_run: bool = True) -> Any:
    """A step of two requests that decode one token each, without attention metadata."""
    batch = SimpleNamespace(
        num_reqs=NUM_REQUESTS,
        num_tokens=NUM_REQUESTS,
        input_ids=torch.tensor([1, 2]),
        positions=torch.tensor([3, 4]),
        query_start_loc=torch.tensor([0, 1, 2]),
        seq_lens=torch.tensor([4, 5]),
        idx_mapping=torch.tensor([0, 1]),
    )
    nothing = torch.zeros(8, dtype=torch.int64)
    return speculator.propose(
        batch,
        {},
        {},
        nothing,
        None,
        nothing,
        nothing,
        nothing,
        nothing,
        torch.zeros(8),
        nothing,
        dummy_run=dummy_run,
        skip_attn_for_dummy_run=True,
        num_speculative_tokens=length,
    )


def worker_with(speculator: Any) -> Any:
    return SimpleNamespace(model_runner=SimpleNamespace(speculator=speculator))


@pytest.mark.parametrize(
    ("length", "num_passes"), [(0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (None, 4)]
)
def test_the_draft_model_takes_as_many_passes_as_are_asked_for(
    length: int | None, num_passes: int
) -> None:
    """At 0 one pass, for the KV cache; without a length the maximum. All columns are returned."""
    speculator = draft_model_speculator()
    propose(speculator, length)
    assert speculator.num_passes == MAXIMUM  # vLLM's own, whatever is asked
    speculator = draft_model_speculator()
    assert patch_worker(worker_with(speculator)) == ""
    tokens = propose(speculator, length)
    assert speculator.num_passes == num_passes
    assert tokens.shape == (NUM_REQUESTS, MAXIMUM)
    drafted = [10, 11, 12, 13][:num_passes] + [-7] * (MAXIMUM - num_passes)
    assert tokens.tolist() == [drafted] * NUM_REQUESTS
    assert speculator.num_speculative_steps == MAXIMUM


def test_an_error_leaves_the_maximum_as_it_was() -> None:
    speculator = draft_model_speculator()
    patch_worker(worker_with(speculator))
    speculator._run_model = None
    with pytest.raises(TypeError):
        propose(speculator, 1)
    assert speculator.num_speculative_steps == MAXIMUM


def test_ngrams_are_not_looked_up_at_length_0() -> None:
    """Stock vLLM looks them up at 0 too, and a lookup fails here."""
    speculator = ngram_speculator()
    for length in (0, 1):
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever lacks first
            propose(speculator, length, dummy_run=False)
    assert patch_worker(worker_with(speculator)) == ""
    assert propose(speculator, 0, dummy_run=False).shape == (NUM_REQUESTS, MAXIMUM)
    with pytest.raises(Exception):  # noqa: B017, PT011
        propose(speculator, 1, dummy_run=False)


def test_patching_twice_is_harmless() -> None:
    speculator = draft_model_speculator()
    patch_worker(worker_with(speculator))
    patched = speculator.propose
    assert patch_worker(worker_with(speculator)) == ""
    assert speculator.propose is patched


def test_workers_that_cannot_be_patched_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """No executor, an error, another speculator, a vLLM that does not fit. A pipeline stage without
    a speculator is no reason."""

    class Broken:
        def collective_rpc(self, method: Any) -> list[Any]:
            raise OSError("gone")

    class Workers:
        def collective_rpc(self, method: Any) -> list[Any]:
            return [method(worker_with(None)), method(worker_with(object()))]

    assert patch_workers(None, patch_worker) == "the workers cannot be reached"
    assert patch_workers(Broken(), patch_worker) == "gone"
    assert "object is neither" in patch_workers(Workers(), patch_worker)
    assert patch_worker(worker_with(None)) == ""
    from paceline.runtime.engine.worker import v2_draft_length

    monkeypatch.setattr(
        v2_draft_length, "check_hooks", lambda part: {"v2_ngram_proposal": "is not there"}
    )
    monkeypatch.setattr(
        v2_draft_length, "unfit_for", lambda part, found: found["v2_ngram_proposal"]
    )
    assert patch_worker(worker_with(draft_model_speculator())) == "is not there"
