"""Measure at draft length 0 whether the drafter's first token would have been accepted.

The scheduler orders it with a step's output (`FIRST_TOKEN_ORDER`). In that step the drafter
proposes one token, which is kept here and not handed to the scheduler; the token that the target
samples in the next step is the verdict. The verdicts return with the drafts
(`FIRST_TOKEN_REPORT`). The output of the engine does not change.

Requires Model Runner V1, synchronous scheduling, and a drafter that runs at length 0 to keep its KV
cache current, drafts token by token, and takes its most likely token: with sampled drafts, the rate
at which two draws agree would understate acceptance.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.executor import Executor
from paceline.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.engine.worker.probe_reports import (
    FIRST_TOKEN_ORDER,
    FIRST_TOKEN_REPORT,
    RunnerProbe,
)
from paceline.engine.worker.resting_draft import drafter_rests

logger = logging.getLogger("vllm.paceline.first_token_probe")

_RUNS_AT_LENGTH_0 = ("eagle", "eagle3", "mtp", "draft_model")


@dataclass(frozen=True, slots=True)
class _FirstToken:
    """The token that the drafter would have proposed first for one request."""

    num_tokens: int
    """Length of the request's text, without the token sampled in that step."""
    token_id: int


PROBE = RunnerProbe[dict[str, _FirstToken]](
    "the first-token probe", report_attribute=FIRST_TOKEN_REPORT, make_state=dict
)
"""Its state: the kept first token of each request, by request id."""


def apply() -> bool:
    """Register the wrappers for this process's workers; return whether they were registered."""
    return when_model_runner_loads(_wrap_runner)


def head_fraction_of_workers(executor: Executor | None) -> float | None:
    """Return the size of the drafter's output layer relative to it plus the target's weights.

    None where the workers cannot run the probe. Never raises.
    """
    if executor is None:
        return None
    try:
        answers = executor.collective_rpc(_head_fraction)
    except Exception:
        logger.exception(
            "Paceline: the workers did not answer whether they support the first-token probe; "
            "it is off"
        )
        return None
    return None if not answers or None in answers else max(answers)


def _head_fraction(worker: Any) -> float | None:
    """In the worker; None unless the wrappers are installed and the drafter is suitable."""
    runner = worker.model_runner
    config = runner.vllm_config
    speculative = config.speculative_config
    if (
        not PROBE.is_installed(runner)
        or speculative.method not in _RUNS_AT_LENGTH_0
        or speculative.parallel_drafting
        or speculative.draft_sample_method != "greedy"
        or config.scheduler_config.async_scheduling
        or drafter_rests(config, runner.kv_cache_config)
    ):
        return None
    target_bytes = sum(weights.nbytes for weights in runner.model.parameters())
    draft = speculative.draft_model_config
    vocabulary = getattr(draft.hf_config, "draft_vocab_size", None) or draft.get_vocab_size()
    head_bytes = vocabulary * draft.get_hidden_size() * draft.dtype.itemsize
    return float(head_bytes / (head_bytes + target_bytes))


def _wrap_runner() -> None:
    """Wrap the methods in a process that has their module loaded. Idempotent."""
    misfit = unfit_for("first_token_probe", check_hooks("first_token_probe"))
    if misfit:
        logger.warning(
            "Paceline: the first-token probe is off, because this vLLM does not fit its hooks: %s",
            misfit,
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    if hasattr(runner.take_draft_token_ids, PROBE.mark):
        return
    runner.propose_draft_token_ids = _propose_one_when_ordered(runner.propose_draft_token_ids)
    runner.take_draft_token_ids = PROBE.reporting(runner.take_draft_token_ids)


def _propose_one_when_ordered(propose: Any) -> Any:
    """Wrap the method that proposes drafts, called once per step with the sampled tokens."""

    @functools.wraps(propose)
    def propose_and_keep(
        self: Any, scheduler_output: Any, sampled_token_ids: Any, *arguments: Any, **named: Any
    ) -> Any:
        if PROBE.state(self):
            report = PROBE.run(self, _judge, sampled_token_ids)
            if report is not None:
                PROBE.send(self, report)
        is_off = scheduler_output.num_spec_tokens_to_schedule == 0
        # An order is followed even after the probe failed on this rank: other ranks of a
        # tensor-parallel group wait for it in the output layer.
        if not is_off or not getattr(scheduler_output, FIRST_TOKEN_ORDER, False):
            return propose(self, scheduler_output, sampled_token_ids, *arguments, **named)
        scheduler_output.num_spec_tokens_to_schedule = 1
        try:
            proposal = propose(self, scheduler_output, sampled_token_ids, *arguments, **named)
        finally:
            scheduler_output.num_spec_tokens_to_schedule = 0
        self._draft_probs = None
        self._draft_prob_req_ids = None
        if isinstance(proposal, list):  # the drafter could propose nothing
            return proposal
        PROBE.run(self, _keep, proposal)
        return proposal[:, :0]

    return propose_and_keep


def _keep(runner: Any, kept: dict[str, _FirstToken], proposal: Any) -> None:
    """Note the first token of each request that sampled in this step. `proposal` is (rows, 1)."""
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    for row, (token_id,) in enumerate(proposal.tolist()):
        if not discarded[row]:
            num_tokens = int(batch.num_tokens_no_spec[row])
            kept[batch.req_ids[row]] = _FirstToken(num_tokens, token_id)


def _judge(runner: Any, kept: dict[str, _FirstToken], sampled_token_ids: Any) -> dict[str, Any]:
    """Compare the kept tokens with the sampled ones and forget them; return the report.

    A request that did not produce its next token in this step is left out.
    """
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np
    verdicts = []
    for request_id, first in kept.items():
        row = batch.req_id_to_index.get(request_id)
        if row is None or discarded[row]:
            continue
        if int(batch.num_tokens_no_spec[row]) == first.num_tokens + 1:
            verdicts.append(int(int(sampled_token_ids[row][0]) == first.token_id))
    kept.clear()
    return {"verdicts": tuple(verdicts)}
