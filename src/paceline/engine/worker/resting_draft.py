"""How does drafting nothing cost nothing?

At draft length 0 vLLM still runs the draft model once a step, to keep its KV cache in step with the
target's (`SpecDecodeBaseProposer.propose`); simply leaving that out collapses acceptance afterwards
(vLLM #53420). With a small target that one pass is a third of the step. Here the draft model
rests while the length is 0, and before it drafts again it computes what it missed, in few large
passes: less work even when everything is caught up, and none when it is not needed any more.

`DraftCoverage` knows what was missed. This file puts it into vLLM's worker: a wrapper around
`GPUModelRunner.propose_draft_token_ids`, where `rests` says so. One step makes up for at most as
many tokens as a step may prefill, and proposes nothing while tokens are still missing, so a long
rest with many long requests does not become one long stall. An n-gram drafter, which has no cache,
is spared its search as well. And near the longest text, where vLLM has zeros verified for drafts,
nothing is verified, whatever the drafter.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for
from paceline.engine.worker.draft_coverage import DraftCoverage, num_missing, take_tokens
from paceline.engine.worker.draft_pass import StepRows, compute, rows_of
from paceline.engine.worker.worker_hook import call_in_workers

logger = logging.getLogger("vllm.paceline.resting_draft")

MARK = "__paceline_resting_draft__"
_COVERAGE = "_paceline_draft_coverage"
_TOO_LONG = "_paceline_too_long_to_draft"


def rests(vllm_config: Any, kv_cache_config: Any) -> bool:
    """Whether this engine's drafter does nothing at length 0, and catches up afterwards.

    A draft model on CPUs that drafts token by token; under asynchronous scheduling positions are
    not known in time. One KV cache group of full attention: then a token has one slot, and it
    stays. No KV connector, which would carry a stale cache elsewhere. Text only: images would have
    to be embedded again.
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
        and _is_full_attention(groups[0].kv_cache_spec)
    )


def _is_full_attention(spec: Any) -> bool:
    """Also of layers that differ in size, which vLLM groups in a specification of its own."""
    inner = getattr(spec, "kv_cache_specs", None)
    if inner is not None:
        return all(map(_is_full_attention, inner.values()))
    return type(spec).__name__ == "FullAttentionSpec"


def apply() -> bool:
    """Arrange for the wrapper in this process's workers; True when it is arranged."""
    return call_in_workers(_wrap_proposal)


def _wrap_proposal() -> None:
    """Wrap the method in a process that has its module loaded. Twice is harmless."""
    misfit = unfit_for("resting_draft", check_hooks("resting_draft"))
    if misfit:
        logger.warning("Paceline: the draft model runs also at draft length 0: %s", misfit)
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
        is_too_long = self.__dict__.pop(_TOO_LONG, False)
        # As a list: vLLM would bring a tensor of nothing to the CPU all the same.
        nothing: list[list[int]] = [[] for _ in range(common_attn_metadata.num_reqs)]
        if is_off and self.speculative_config.method == "ngram":
            return nothing
        coverage = coverage_of(self)
        if coverage is None:
            return nothing if is_too_long else stock_proposal()
        slots = common_attn_metadata.slot_mapping.numpy()
        if is_too_long or is_off:
            coverage.miss(slots)
            return nothing
        try:
            is_behind = not _catch_up(
                self, coverage, common_attn_metadata, rows_of(common_attn_metadata)
            )
        except Exception:  # what is missing costs acceptance, not correctness: serving goes on
            logger.exception("Paceline: catching up failed; the draft model rests no more")
            setattr(self, _COVERAGE, None)
            return stock_proposal()
        if is_behind:
            coverage.miss(slots)
            return nothing
        proposal = stock_proposal()
        coverage.compute(slots)
        return proposal

    setattr(propose, MARK, True)
    runner.propose_draft_token_ids = propose
    runner._input_fits_in_drafter = _leave_to_proposal(runner._input_fits_in_drafter)


def _leave_to_proposal(stock: Any) -> Any:
    """Wrap the check whether drafting could pass the longest text that the drafter bears.

    Where it could, for any one request, vLLM leaves the drafter out for the whole batch, asks
    nobody, and has zeros verified as drafts, as many as the maximum at every length. Here the
    proposal is asked all the same: it notes what is missed, and proposes nothing.
    """

    @functools.wraps(stock)
    def input_fits(self: Any, common_attn_metadata: Any) -> bool:
        fits = bool(stock(self, common_attn_metadata))
        if fits or common_attn_metadata is None or self.parallel_config.data_parallel_size > 1:
            return fits  # ranks that draft wait for one another
        setattr(self, _TOO_LONG, True)
        return True

    return input_fits


def coverage_of(runner: Any) -> DraftCoverage | None:
    """The runner's coverage, made when it first drafts; None where the drafter does not rest."""
    if not hasattr(runner, _COVERAGE):
        coverage = None
        if rests(runner.vllm_config, runner.kv_cache_config):
            # A block of the scheduler may be several of the attention kernel's.
            block_size = runner.drafter.block_size
            [group] = runner.kv_cache_config.kv_cache_groups
            num_tokens = runner.kv_cache_config.num_blocks * group.kv_cache_spec.block_size
            coverage = DraftCoverage(num_tokens // block_size, block_size)
        setattr(runner, _COVERAGE, coverage)
    found: DraftCoverage | None = getattr(runner, _COVERAGE)
    return found


def _catch_up(runner: Any, coverage: DraftCoverage, common: Any, rows: StepRows) -> bool:
    """Run the draft model over what it missed of this step's requests; True when all is there."""
    gaps = coverage.gaps(rows.block_table, rows.num_computed)
    if not gaps:
        return True
    max_tokens = runner.drafter.input_ids.shape[0]
    slots, _ = compute(runner, common, rows, take_tokens(gaps, max_tokens))
    coverage.compute(slots)
    return num_missing(gaps) <= int(max_tokens)
