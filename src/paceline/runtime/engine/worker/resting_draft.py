"""Skip the drafter at length 0 and backfill its KV cache before drafting resumes.

At draft length 0 vLLM still runs a draft model or an EAGLE-3 head once per step to keep its KV
cache current (`SpecDecodeBaseProposer.propose`). Omitting that pass without a backfill makes
acceptance collapse afterwards (vLLM #53420), but with a small target the pass is a third of the
step. Here the drafter rests while the length is 0. Before it drafts again, it computes the missed
tokens in a few large passes, which is less work in total, and none for requests that have ended by
then. A head reads hidden states of the target beside tokens; those of missed tokens are kept,
combined as the head reads them. That reads some megabytes of weights, so it is done for the tokens
of many steps at once.

`DraftCoverage` tracks what was missed. This module wraps `GPUModelRunner.propose_draft_token_ids`
in vLLM's worker where `drafter_rests` allows it. One step backfills at most as many tokens as it
may prefill, and proposes nothing while tokens are missing, so that a long rest with many long
requests does not stall the engine. Nothing is proposed in two more cases: by an n-gram drafter at
length 0, which has no cache and whose search is skipped, and by any drafter near the context limit,
where vLLM would verify zeros as drafts.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.runtime.engine.compat.wrapping import Wrappers
from paceline.runtime.engine.worker.draft_coverage import DraftCoverage, Gap, Ints, take_tokens

logger = logging.getLogger("vllm.paceline.resting_draft")

_COVERAGE = "_paceline_draft_coverage"
_KEPT = "_paceline_kept_states"
"""On the runner: hidden states by cache slot, (num_slots, hidden_size); written where missed."""
_MISSED = "_paceline_missed_steps"
"""On the runner: what the drafter missed in the last steps, `_MissedSteps`."""
_NEAR_LIMIT = "_paceline_near_context_limit"
_MOST_MISSED = 64
"""Tokens that wait to be noted together: more would lengthen the step that notes them by more than
a millisecond."""


def drafter_rests(vllm_config: Any, kv_cache_config: Any) -> bool:
    """Return whether this engine's drafter is skipped at length 0 and backfilled later.

    Requirements: a draft model or an EAGLE-3 head on CPUs that drafts token by token. Synchronous
    scheduling, because under asynchronous scheduling positions are not known in time. One KV cache
    group of full attention, where each token keeps one slot. No KV connector, which would transfer
    a stale cache. Text only, because images would have to be embedded again.
    """
    groups = kv_cache_config.kv_cache_groups
    return (
        vllm_config.speculative_config.method in ("draft_model", "eagle3")
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


def _propose(stock: Any, runner: Any, *arguments: Any, **named: Any) -> Any:
    """Propose drafts, or none while the drafter rests or has tokens to backfill."""
    step = _signature(stock).bind(runner, *arguments, **named).arguments
    common = step["common_attn_metadata"]
    is_off = step["scheduler_output"].num_spec_tokens_to_schedule == 0
    is_near_limit = vars(runner).pop(_NEAR_LIMIT, False)
    # A list: vLLM would copy even an empty tensor to the CPU.
    no_drafts: list[list[int]] = [[] for _ in range(common.num_reqs)]
    if is_off and runner.speculative_config.method == "ngram":
        return no_drafts
    coverage = _coverage_of(runner)
    if coverage is None:
        return no_drafts if is_near_limit else stock(runner, *arguments, **named)
    slots, missed = common.slot_mapping.numpy(), _missed_steps(runner)
    rests = is_near_limit or is_off
    try:
        if not rests:
            missed.note(runner, coverage)
            rests = not _backfill(runner, coverage, common)
        if rests:
            missed.add(slots, step["hidden_states"], step["aux_hidden_states"])
            if missed.num_tokens >= _MOST_MISSED:
                missed.note(runner, coverage)
            return no_drafts
    except Exception:  # a stale draft cache costs acceptance, not correctness: serving continues
        logger.exception(
            "Paceline: the backfill of the drafter's KV cache failed; the drafter now runs in "
            "every step"
        )
        setattr(runner, _COVERAGE, None)
        return no_drafts if rests else stock(runner, *arguments, **named)
    proposal = stock(runner, *arguments, **named)
    coverage.mark_computed(slots)
    return proposal


_signature = functools.cache(inspect.signature)


def _input_fits(stock: Any, runner: Any, common_attn_metadata: Any) -> bool:
    """Let the proposal decide where drafting could exceed the drafter's context limit.

    If it could for any request, vLLM skips the drafter for the whole batch and verifies zeros as
    drafts: the maximum number of them, whatever the length. Here the proposal runs, which notes the
    missed tokens and proposes nothing.
    """
    fits_in = bool(stock(runner, common_attn_metadata))
    if common_attn_metadata is None or runner.parallel_config.data_parallel_size > 1:
        return fits_in  # ranks that draft wait for each other
    setattr(runner, _NEAR_LIMIT, not fits_in)
    return True


def _coverage_of(runner: Any) -> DraftCoverage | None:
    """Return the runner's coverage, created at the first draft; None where drafters do not rest."""
    if not hasattr(runner, _COVERAGE):
        coverage = None
        if drafter_rests(runner.vllm_config, runner.kv_cache_config):
            # One block of the scheduler may be several blocks of the attention kernel.
            block_size = runner.drafter.block_size
            coverage = DraftCoverage(_num_slots(runner) // block_size, block_size)
        setattr(runner, _COVERAGE, coverage)
    found: DraftCoverage | None = getattr(runner, _COVERAGE)
    return found


def _num_slots(runner: Any) -> int:
    """Tokens that the KV cache holds."""
    [group] = runner.kv_cache_config.kv_cache_groups
    return int(runner.kv_cache_config.num_blocks * group.kv_cache_spec.block_size)


def _backfill(runner: Any, coverage: DraftCoverage, common: Any) -> bool:
    """Compute what the drafter missed of this step's requests; return whether all fits."""
    query_lengths = np.diff(common.query_start_loc_cpu.numpy())
    num_rows = len(query_lengths)
    num_computed = common.seq_lens.numpy()[:num_rows] - query_lengths
    gaps = coverage.find_gaps(common.block_table_tensor.numpy()[:num_rows], num_computed)
    if not gaps:
        return True
    taken = take_tokens(gaps, int(runner.drafter.input_ids.shape[0]))
    coverage.mark_computed(_run_drafter(runner, common, taken))
    return taken == gaps


class _MissedSteps:
    """The last steps in which the drafter rested."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._slots: list[Ints] = []
        self._states: list[tuple[Any, Any]] = []

    def add(self, slots: Ints, hidden_states: Any, aux_hidden_states: Any) -> None:
        """Add a step: the cache slot of each of its tokens, and their states as vLLM has them."""
        self.num_tokens += len(slots)
        self._slots.append(slots.copy())  # vLLM reuses the array
        self._states.append((hidden_states, aux_hidden_states))

    def note(self, runner: Any, coverage: DraftCoverage) -> None:
        """Mark the tokens as missed, and keep their states."""
        if not self._slots:
            return
        slots, states = self._slots, self._states
        self.num_tokens, self._slots, self._states = 0, [], []
        coverage.mark_missed(np.concatenate(slots))
        _keep_states(runner, slots, states)


def _missed_steps(runner: Any) -> _MissedSteps:
    if not hasattr(runner, _MISSED):
        setattr(runner, _MISSED, _MissedSteps())
    found: _MissedSteps = getattr(runner, _MISSED)
    return found


def _keep_states(runner: Any, slots: Sequence[Ints], states: Sequence[tuple[Any, Any]]) -> None:
    """Keep what the head reads of the target for the tokens of steps; for a draft model, nothing.

    For each step, the cache slots of its tokens, its hidden states, and those of some layers, or
    None; each has a row per token, and perhaps further rows.
    """
    import torch

    drafter = runner.drafter
    if not drafter.pass_hidden_states_to_model:
        return
    rows = [
        hidden[: len(of_step)]
        if layers is None
        else torch.cat([layer[: len(of_step)] for layer in layers], dim=-1)
        for of_step, (hidden, layers) in zip(slots, states, strict=True)
    ]
    of_all = np.concatenate(slots)
    combined = drafter.model.combine_hidden_states(torch.cat(rows))
    if len(combined) != len(of_all):
        raise ValueError(f"{len(of_all)} tokens have {len(combined)} rows of states")
    if not hasattr(runner, _KEPT):
        # Not uninitialised. The trial steps of a start read states of contexts that were never
        # computed. NaN among them would stay in the head's KV cache, and reach each later request
        # in whose last block such a slot is: attention multiplies it by 0.
        setattr(runner, _KEPT, combined.new_zeros(_num_slots(runner), combined.shape[-1]))
    # A slot may have been given to another request meanwhile: the last states count.
    filled, from_end = np.unique(of_all[::-1], return_index=True)
    is_real = filled >= 0
    last = len(of_all) - 1 - from_end
    kept = getattr(runner, _KEPT)
    kept[torch.from_numpy(filled[is_real])] = combined[torch.from_numpy(last[is_real])]


def _run_drafter(runner: Any, common: Any, batch: Sequence[Gap]) -> Ints:
    """Compute `batch` in one pass; return the cache slots it filled, one per token, in order.

    `common` is the attention metadata of the step, before its drafts change it in place.
    A row that shares blocks with an earlier row of the same pass reads what that row writes,
    because each layer writes all keys and values before it attends.
    """
    import torch
    from vllm.forward_context import set_forward_context

    drafter = runner.drafter
    chosen = [gap.row for gap in batch]
    lengths = [gap.stop - gap.start for gap in batch]
    positions = np.concatenate([np.arange(gap.start, gap.stop) for gap in batch])
    token_rows = np.repeat(chosen, lengths)
    block_size, block_table = drafter.block_size, common.block_table_tensor.numpy()
    slots: Ints = (
        block_table[token_rows, positions // block_size] * block_size + positions % block_size
    )
    # A head computes a position from its hidden state and the token that follows.
    is_head = drafter.pass_hidden_states_to_model
    token_ids = torch.from_numpy(runner.input_batch.token_ids_cpu[token_rows, positions + is_head])
    if drafter.use_heterogeneous_vocab:
        token_ids = drafter.vocab_mapping.map_target_to_draft_ids(token_ids)
    num_tokens = len(positions)
    starts = torch.tensor(np.concatenate(([0], np.cumsum(lengths))), dtype=torch.int32)
    seq_lens = torch.tensor([gap.stop for gap in batch], dtype=torch.int32)
    slot_mapping = torch.from_numpy(slots.astype(np.int64))
    metadata = common.replace(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=seq_lens,
        seq_lens_cpu_upper_bound=seq_lens,
        num_reqs=len(batch),
        num_actual_tokens=num_tokens,
        max_query_len=max(lengths),
        max_seq_len=int(seq_lens.max()),
        block_table_tensor=common.block_table_tensor[chosen],
        slot_mapping=slot_mapping,
        positions=None,
        is_prefilling=None,
    )
    _, per_layer = drafter.build_per_group_and_layer_attn_metadata(metadata)
    drafter.input_ids[:num_tokens] = token_ids
    drafter.positions[:num_tokens] = torch.from_numpy(positions)
    if is_head:
        drafter.hidden_states[:num_tokens] = getattr(runner, _KEPT)[slot_mapping]
    inputs, _ = drafter.build_model_inputs_first_pass(num_tokens, num_tokens, None)
    with set_forward_context(
        per_layer,
        drafter.vllm_config,
        num_tokens=num_tokens,
        slot_mapping=drafter._get_slot_mapping(num_tokens, slot_mapping),
    ):
        drafter.model(**inputs)
    return slots


def forget_coverage(worker: Any) -> None:
    """In the worker: forget what the drafter missed, when all requests so far were trials."""
    vars(worker.model_runner).pop(_COVERAGE, None)
    vars(worker.model_runner).pop(_MISSED, None)


WRAPPERS = Wrappers(
    "resting_draft",
    {
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.propose_draft_token_ids": _propose,
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner._input_fits_in_drafter": _input_fits,
    },
    otherwise="The drafter runs in every step.",
)
