"""Run the draft model over chosen tokens of a step's requests, outside vLLM's own drafting.

The tokens must be known already. Used to backfill what the draft model missed while it rested
(`resting_draft`). Requires a CPU, synchronous scheduling and one KV cache group, which
`resting_draft.drafter_rests` ensures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.engine.worker.draft_coverage import Gap, Ints


@dataclass(frozen=True, slots=True)
class StepRows:
    """The requests of a step, in the batch's order, before the step drafts."""

    num_computed: Ints
    """Tokens in the target's KV cache before the step, shape (num_rows,)."""
    block_table: Ints
    """Cache blocks of each request, shape (num_rows, max_blocks)."""


def read_step_rows(common: Any) -> StepRows:
    """Read the requests from vLLM's attention metadata, which drafting changes in place."""
    query_lengths = np.diff(common.query_start_loc_cpu.numpy())
    num_rows = len(query_lengths)
    return StepRows(
        common.seq_lens.numpy()[:num_rows] - query_lengths,
        common.block_table_tensor.numpy()[:num_rows],
    )


def run_draft_model(runner: Any, common: Any, rows: StepRows, batch: Sequence[Gap]) -> Ints:
    """Compute `batch` in one pass; return the cache slots it filled, one per token, in order.

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
    block_size = drafter.block_size
    slots: Ints = (
        rows.block_table[token_rows, positions // block_size] * block_size + positions % block_size
    )
    token_ids = torch.from_numpy(runner.input_batch.token_ids_cpu[token_rows, positions])
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
    inputs, _ = drafter.build_model_inputs_first_pass(num_tokens, num_tokens, None)
    with set_forward_context(
        per_layer,
        drafter.vllm_config,
        num_tokens=num_tokens,
        slot_mapping=drafter._get_slot_mapping(num_tokens, slot_mapping),
    ):
        drafter.model(**inputs)
    return slots
