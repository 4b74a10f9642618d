"""The draft lengths that have full CUDA graphs, read from vLLM's configuration.

`paceline.foundation.compatibility.length_table` says why not all have, and names them. This module
imports vLLM when it is asked.
"""

from __future__ import annotations

from typing import Any


def captured_lengths(vllm_config: Any) -> tuple[int, ...] | None:
    """Return 0 and the lengths with full CUDA graphs, ascending; None if every length is allowed.

    0 is always among them, because drafts may have to stop. None where vLLM captures no full graphs
    for decoding, or only those of the maximum: then the governor measures what each
    length costs.

    Also with adaptive verification: the target's graphs then serve steps of every length, but an
    EAGLE or MTP drafter has graphs for the named lengths, and drafts every other one eagerly.
    """
    table = vllm_config.speculative_config.num_speculative_tokens_per_batch_size
    if not table or not _decodes_in_full_graphs(vllm_config):
        return None
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    lookup = build_dynamic_sd_schedule_lookup(
        table,
        vllm_max_batch_size=vllm_config.scheduler_config.max_num_seqs,
        vllm_num_speculative_tokens=vllm_config.num_speculative_tokens,
    )
    return tuple(sorted({0, *lookup[1:]}))


def captures_full_graphs(vllm_config: Any) -> bool:
    """Return whether vLLM has full CUDA graphs for decode steps of one length, and none for others.

    (With `cudagraph_mode` FULL, and with adaptive verification, one set of graphs serves steps of
    every length.)
    """
    adapts = vllm_config.speculative_config.enable_adaptive_verification
    return _decodes_in_full_graphs(vllm_config) and not adapts


def _decodes_in_full_graphs(vllm_config: Any) -> bool:
    mode = vllm_config.compilation_config.cudagraph_mode
    return bool(
        vllm_config.use_v2_model_runner
        and mode
        and mode.separate_routine()
        and mode.has_full_cudagraphs()
    )
