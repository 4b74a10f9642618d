"""Skip the draft model at length 0 and backfill its KV cache before drafting resumes.

At draft length 0 vLLM still runs the draft model once per step to keep its KV cache current
(`SpecDecodeBaseProposer.propose`). Omitting that pass without a backfill makes acceptance collapse
afterwards (vLLM #53420), but with a small target the pass is a third of the step. Here the draft
model rests while the length is 0. Before it drafts again, it computes the missed tokens in a few
large passes, which is less work in total, and none for requests that have ended by then.

`DraftCoverage` tracks what was missed. This module wraps `GPUModelRunner.propose_draft_token_ids`
in vLLM's worker where `drafter_rests` allows it. One step backfills at most as many tokens as it
may prefill, and proposes nothing while tokens are missing, so that a long rest with many long
requests does not stall the engine. Nothing is proposed in two more cases: by an n-gram drafter at
length 0, which has no cache and whose search is skipped, and by any drafter near the context limit,
where vLLM would verify zeros as drafts.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.compat.model_runner_loading import when_model_runner_loads
from paceline.engine.worker.draft_coverage import DraftCoverage, num_missing, take_tokens
from paceline.engine.worker.draft_pass import StepRows, read_step_rows, run_draft_model

logger = logging.getLogger("vllm.paceline.resting_draft")

MARK = "__paceline_resting_draft__"
_COVERAGE = "_paceline_draft_coverage"
_NEAR_LIMIT = "_paceline_near_context_limit"


def drafter_rests(vllm_config: Any, kv_cache_config: Any) -> bool:
    """Return whether this engine's draft model is skipped at length 0 and backfilled later.

    Requirements: a draft model on CPUs that drafts token by token. Synchronous scheduling, because
    under asynchronous scheduling positions are not known in time. One KV cache group of full
    attention, where each token keeps one slot. No KV connector, which would transfer a stale cache.
    Text only, because images would have to be embedded again.
    """
    groups = kv_cache_config.kv_cache_groups
    return (
        vllm_config.speculative_config.method == "draft_model"
        and not vllm_config.speculative_config.parallel_drafting
        and vllm_config.device_config.device_type == "cpu"
        and not vllm_config.scheduler_config.async_scheduling
        and vllm_config.kv_transfer_config is None
        and not vllm_config.model_config.is_multimodal_model
        and len(groups) == 1
        and is_full_attention(groups[0].kv_cache_spec)
    )


def is_full_attention(spec: Any) -> bool:
    """Accept also layers of different sizes, which vLLM groups in one specification."""
    inner = getattr(spec, "kv_cache_specs", None)
    if inner is not None:
        return all(map(is_full_attention, inner.values()))
    return type(spec).__name__ == "FullAttentionSpec"


def apply() -> bool:
    """Register the wrapper for this process's workers; return whether it was registered."""
    return when_model_runner_loads(_wrap_proposal)


def _wrap_proposal() -> None:
    """Wrap the methods in a process that has their module loaded. Idempotent."""
    misfit = unfit_for("resting_draft", check_hooks("resting_draft"))
    if misfit:
        logger.warning(
            "Paceline: resting the draft model is off, because this vLLM does not fit its hooks: "
            "%s. The draft model runs in every step.",
            misfit,
        )
        return
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    stock: Any = runner.propose_draft_token_ids
    if hasattr(stock, MARK):
        return

    @functools.wraps(stock)
    def propose(
        self: Any,
        scheduler_output: Any,
        sampled_token_ids: Any,
        sampling_metadata: Any,
        hidden_states: Any,
        sample_hidden_states: Any,
        aux_hidden_states: Any,
        spec_decode_metadata: Any,
        common_attn_metadata: Any,
        slot_mappings: Any,
    ) -> Any:
        def stock_proposal() -> Any:
            return stock(
                self,
                scheduler_output,
                sampled_token_ids,
                sampling_metadata,
                hidden_states,
                sample_hidden_states,
                aux_hidden_states,
                spec_decode_metadata,
                common_attn_metadata,
                slot_mappings,
            )

        is_off = scheduler_output.num_spec_tokens_to_schedule == 0
        is_near_limit = self.__dict__.pop(_NEAR_LIMIT, False)
        # A list: vLLM would copy even an empty tensor to the CPU.
        no_drafts: list[list[int]] = [[] for _ in range(common_attn_metadata.num_reqs)]
        if is_off and self.speculative_config.method == "ngram":
            return no_drafts
        coverage = _coverage_of(self)
        if coverage is None:
            return no_drafts if is_near_limit else stock_proposal()
        slots = common_attn_metadata.slot_mapping.numpy()
        if is_near_limit or is_off:
            coverage.mark_missed(slots)
            return no_drafts
        try:
            is_complete = _backfill(
                self, coverage, common_attn_metadata, read_step_rows(common_attn_metadata)
            )
        except (
            Exception
        ):  # a stale draft cache costs acceptance, not correctness: serving continues
            logger.exception(
                "Paceline: the backfill of the draft model's KV cache failed; the draft model now "
                "runs in every step"
            )
            setattr(self, _COVERAGE, None)
            return stock_proposal()
        if not is_complete:
            coverage.mark_missed(slots)
            return no_drafts
        proposal = stock_proposal()
        coverage.mark_computed(slots)
        return proposal

    setattr(propose, MARK, True)
    runner.propose_draft_token_ids = propose
    runner._input_fits_in_drafter = _decide_in_proposal(runner._input_fits_in_drafter)


def _decide_in_proposal(stock: Any) -> Any:
    """Wrap the check whether drafting could exceed the drafter's context limit.

    If it could for any request, vLLM skips the drafter for the whole batch and verifies zeros as
    drafts: the maximum number of them, whatever the length. The wrapped check lets the proposal
    run, which notes the missed tokens and proposes nothing.
    """

    @functools.wraps(stock)
    def input_fits(self: Any, common_attn_metadata: Any) -> bool:
        fits = bool(stock(self, common_attn_metadata))
        if fits or common_attn_metadata is None or self.parallel_config.data_parallel_size > 1:
            return fits  # ranks that draft wait for each other
        setattr(self, _NEAR_LIMIT, True)
        return True

    return input_fits


def _coverage_of(runner: Any) -> DraftCoverage | None:
    """Return the runner's coverage, created at the first draft; None where drafters do not rest."""
    if not hasattr(runner, _COVERAGE):
        coverage = None
        if drafter_rests(runner.vllm_config, runner.kv_cache_config):
            # One block of the scheduler may be several blocks of the attention kernel.
            block_size = runner.drafter.block_size
            [group] = runner.kv_cache_config.kv_cache_groups
            num_tokens = runner.kv_cache_config.num_blocks * group.kv_cache_spec.block_size
            coverage = DraftCoverage(num_tokens // block_size, block_size)
        setattr(runner, _COVERAGE, coverage)
    found: DraftCoverage | None = getattr(runner, _COVERAGE)
    return found


def _backfill(runner: Any, coverage: DraftCoverage, common: Any, rows: StepRows) -> bool:
    """Compute what the draft model missed of this step's requests; return whether all fits."""
    gaps = coverage.find_gaps(rows.block_table, rows.num_computed)
    if not gaps:
        return True
    max_tokens = runner.drafter.input_ids.shape[0]
    coverage.mark_computed(run_draft_model(runner, common, rows, take_tokens(gaps, max_tokens)))
    return num_missing(gaps) <= int(max_tokens)


def forget_coverage(worker: Any) -> None:
    """In the worker: forget what the draft model missed, when all requests so far were trials."""
    vars(worker.model_runner).pop(_COVERAGE, None)
