"""Hooks about CUDA graphs on GPUs: which draft lengths get them, and which drafter keeps them busy.

Data only. The `worker` hooks are in modules of the workers; only tests check them.
"""

from __future__ import annotations

from paceline.runtime.engine.compat.hook import VLLM_FILES, VLLM_REPOSITORY, VllmHook

_GRAPHS_FOR_ALL = "vLLM captures graphs for every draft length, or for those that a plugin names"

GRAPH_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="length_table",
        target="vllm.config.speculative:SpeculativeConfig",
        expected=("num_speculative_tokens_per_batch_size",),
        part="captured_lengths",
        purpose="name the draft lengths that get full CUDA graphs",
        upstream=f"{VLLM_REPOSITORY}/pull/45953",
        remove_when=_GRAPHS_FOR_ALL,
    ),
    VllmHook(
        name="length_table_lookup",
        target="vllm.v1.spec_decode.dynamic.utils:build_dynamic_sd_schedule_lookup",
        expected=(
            "num_speculative_tokens_per_batch_size",
            "vllm_max_batch_size",
            "vllm_num_speculative_tokens",
        ),
        part="captured_lengths",
        purpose="read from the table which lengths have graphs",
        upstream=f"{VLLM_REPOSITORY}/pull/45953",
        remove_when=_GRAPHS_FOR_ALL,
    ),
    VllmHook(
        name="v1_table_costs_graphs",
        target="vllm.config.vllm:VllmConfig._maybe_override_dynamic_sd_cudagraph_mode",
        expected=("has_full_cudagraphs", "use_v2_model_runner", "PIECEWISE"),
        is_body=True,
        part="captured_lengths",
        purpose="gives up all full graphs under Model Runner V1, so no table is given there",
        upstream=f"{VLLM_REPOSITORY}/pull/32374",
        remove_when=_GRAPHS_FOR_ALL,
    ),
    VllmHook(
        name="asynchronous_ngram",
        target="vllm.config.vllm:VllmConfig.__post_init__",
        expected=("NgramGPUTypes", "async_scheduling"),
        is_body=True,
        part="captured_lengths",
        purpose="leaves asynchronous scheduling on for `ngram_gpu` and not for `ngram`",
        remove_when="asynchronous scheduling stays on for `ngram`",
    ),
    VllmHook(
        name="v2_captured_graphs",
        target="vllm.v1.worker.gpu.cudagraph_utils:CudaGraphManager._init_candidates",
        expected=(
            "uses_dynamic_speculative_decoding",
            "num_speculative_tokens_per_batch_size",
            "build_dynamic_sd_schedule_lookup",
            "cudagraph_capture_sizes",
            "groupby",
        ),
        is_body=True,
        part="worker",
        purpose="captures every size for each length of the table; a step finds only the next size",
        upstream=f"{VLLM_REPOSITORY}/pull/48329",
        remove_when=_GRAPHS_FOR_ALL,
    ),
    VllmHook(
        name="v2_ngram_class",
        target="vllm.v1.worker.gpu.spec_decode:init_speculator",
        expected=("use_ngram", "NgramGPUSpeculator"),
        is_body=True,
        part="worker",
        purpose="has one class for `ngram` and `ngram_gpu`; it fills slots without a match",
        upstream=f"{VLLM_FILES}/v1/worker/gpu/spec_decode/__init__.py",
        remove_when="asynchronous scheduling stays on for `ngram`",
    ),
)
