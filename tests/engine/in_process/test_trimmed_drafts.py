"""The workers' report of drafts that adaptive verification left out.

vLLM's own code chooses and lays out the drafts, on a CPU, and its own classes hold the batch and
the results; the runner around them is made up.
"""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from paceline.runtime.engine.worker.trimmed_drafts import report_from_worker, verified_lengths

pytestmark = pytest.mark.engine

NAMES = ["a", "b", "c"]
CONFIDENCES = [[0.9, 0.8, 0.7], [0.5, 0.5, 0.5], [0.95, 0.1, 0.9]]
"""Survival: .90 .72 .50; .50 .25 .13; .95 .10 .09."""


def trimmed_batch(
    monkeypatch: pytest.MonkeyPatch, budget: int, scheduled: tuple[int, ...] = (3, 3, 3)
) -> Any:
    """A batch of three requests, of whose drafts vLLM keeps `budget` tokens."""
    from vllm.v1.worker.gpu.input_batch import InputBatch, InputBuffers
    from vllm.v1.worker.gpu.spec_decode import adaptive_verification as vllm_module

    monkeypatch.setattr(
        vllm_module,
        "_assign_draft_token_budget_compiled",
        vllm_module._assign_draft_token_budget,
    )
    manager = object.__new__(vllm_module.AdaptiveVerificationManager)
    manager.num_speculative_steps, manager.num_bonus_tokens = 3, 1
    manager._confidence_probs = torch.tensor(CONFIDENCES)
    manager._batch_draft_capacity = torch.zeros(3, dtype=torch.int32)
    manager.query_start_loc = torch.zeros(4, dtype=torch.int32)
    manager._num_non_draft_tokens = torch.zeros(3, dtype=torch.int32)
    manager._cu_num_logits = torch.zeros(4, dtype=torch.int32)
    manager._batch_budget = (
        dict(zip(NAMES, scheduled, strict=True)),
        dict.fromkeys(NAMES, 1),
        budget,
    )
    device = torch.device("cpu")
    batch = InputBatch.make_dummy(3, 12, InputBuffers(8, 64, device))
    batch.req_ids = NAMES
    batch.num_draft_tokens_per_req = np.array(scheduled, dtype=np.int32)
    batch.cu_num_logits, _, batch.num_draft_tokens, *_ = manager.reallocate_drafts(
        NAMES, torch.arange(3)
    )
    return batch


class Runner:
    """vLLM's runner between the forward pass and the sampling of a step."""

    def __init__(self, batch: Any, *, pcp_manager: Any = None) -> None:
        self.pcp_manager = pcp_manager
        self.execute_model_state: Any = batch and SimpleNamespace(input_batch=batch)

    def sample_tokens(self, grammar_output: Any) -> Any:
        from vllm.v1.outputs import ModelRunnerOutput

        state, self.execute_model_state = self.execute_model_state, None
        if state is None:
            return None  # as vLLM's, after a failed forward pass
        names = state.input_batch.req_ids
        results = ModelRunnerOutput(req_ids=names, req_id_to_index={})
        # The next step reuses the memory.
        output = SimpleNamespace(model_runner_output=results)
        state.input_batch.cu_num_logits.zero_()
        return output


def sampled(runner: Runner) -> Any:
    """The results of a step as they reach the scheduler's process."""
    assert report_from_worker(SimpleNamespace(model_runner=runner)) == ""
    output = runner.sample_tokens(None)
    return pickle.loads(pickle.dumps(output.model_runner_output))


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (4, {"a": 3, "b": 0, "c": 1}),  # .95 .90 .72 .504
        (5, {"a": 3, "b": 1, "c": 1}),  # and .50
        (1, {"a": 0, "b": 0, "c": 1}),
        (0, {"a": 0, "b": 0, "c": 0}),
    ],
)
def test_the_results_say_how_many_drafts_of_each_request_were_verified(
    monkeypatch: pytest.MonkeyPatch, budget: int, kept: dict[str, int]
) -> None:
    assert verified_lengths(sampled(Runner(trimmed_batch(monkeypatch, budget)))) == kept


def test_where_all_drafts_are_verified_there_is_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in a step without drafts, whose batch vLLM does not lay out."""
    assert verified_lengths(sampled(Runner(trimmed_batch(monkeypatch, 9)))) == {}
    without = trimmed_batch(monkeypatch, 0, scheduled=(0, 0, 0))
    assert verified_lengths(sampled(Runner(without))) == {}
    without.num_draft_tokens_per_req = None
    assert verified_lengths(sampled(Runner(without))) == {}


def test_a_step_whose_forward_pass_failed_is_left_to_vllm() -> None:
    runner = Runner(None)
    assert report_from_worker(SimpleNamespace(model_runner=runner)) == ""
    assert runner.sample_tokens(None) is None


def test_a_failure_ends_the_reports_and_not_the_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch = trimmed_batch(monkeypatch, 4)
    batch.cu_num_logits = "planted"
    runner = Runner(batch)
    assert report_from_worker(SimpleNamespace(model_runner=runner)) == ""
    batch.cu_num_logits = SimpleNamespace(zero_=lambda: None)
    assert verified_lengths(runner.sample_tokens(None).model_runner_output) == {}
    assert "count as rejected" in caplog.text
    runner.execute_model_state = SimpleNamespace(input_batch=trimmed_batch(monkeypatch, 4))
    assert verified_lengths(runner.sample_tokens(None).model_runner_output) == {}


def test_patching_twice_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(trimmed_batch(monkeypatch, 4))
    worker = SimpleNamespace(model_runner=runner)
    report_from_worker(worker)
    patched = runner.sample_tokens
    assert report_from_worker(worker) == ""
    assert runner.sample_tokens is patched


def test_a_batch_that_workers_divide_is_not_reported() -> None:
    worker = SimpleNamespace(model_runner=Runner(None, pcp_manager=object()))
    assert "prefill context parallelism" in report_from_worker(worker)
