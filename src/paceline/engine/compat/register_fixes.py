"""The hooks that the fixes of vLLM's CPU sampling and their self-check rely on.

Data only, part of `register`. Written from the source of vLLM 0.32.0.
"""

from __future__ import annotations

from paceline.engine.compat.hook import VLLM_FILES, VLLM_REPOSITORY, VllmHook

# When a hook can be removed.
_STOCK_PASSES = "the stock function passes tests/engine/in_process/test_cpu_sampler.py"

FIX_HOOKS: tuple[VllmHook, ...] = (
    VllmHook(
        name="engine_core_executor",
        target="vllm.v1.engine.core:EngineCore.__init__",
        expected=("model_executor", "scheduler"),
        part="sampler_check",
        purpose="find the executor, which exists before the scheduler is created",
        upstream=f"{VLLM_FILES}/v1/engine/core.py",
        remove_when="vLLM hands the executor to the scheduler",
    ),
    VllmHook(
        name="dispatched_expand",
        target="vllm.v1.sample.rejection_sampler:expand_batch_to_tokens",
        expected=("_expand",),
        is_body=True,
        part="sampler_check",
        purpose="calls `_expand`, the replacement of the kernel, which the check calls too",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="dispatched_rejection",
        target="vllm.v1.sample.rejection_sampler:rejection_sample",
        expected=("_rejection_random_sample",),
        is_body=True,
        part="sampler_check",
        purpose="calls `_rejection_random_sample`, which the check calls too",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="worker_order",
        target="vllm.v1.worker.worker_base:WorkerWrapperBase.init_worker",
        expected=("load_general_plugins", "register_triton_kernel_overrides"),
        is_body=True,
        part="sampler_check",
        purpose="each worker loads plugins before it reads the sampling functions",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="kernels_read_late",
        target="vllm.platforms.cpu:CpuPlatform.register_triton_kernel_overrides",
        expected=("_expand_kernel_impl", "_rejection_random_sample_kernel_impl"),
        is_body=True,
        part="cpu_sampler",
        purpose="reads the functions by name when a worker starts, so it uses replacements",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="expand_kernel",
        target="vllm.utils.cpu_triton_utils:_expand_kernel_impl",
        expected=(
            "output",
            "input_val",
            "cu_num_tokens",
            "replace_from",
            "replace_to",
            "MAX_NUM_TOKENS",
        ),
        part="cpu_sampler",
        purpose="write temperature, top-k and top-p per draft token into the output on CPU",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="rejection_random_sample_kernel",
        target="vllm.utils.cpu_triton_utils:_rejection_random_sample_kernel_impl",
        expected=(
            "output_token_ids",
            "cu_num_draft_tokens",
            "draft_token_ids",
            "draft_probs",
            "target_probs",
            "bonus_token_ids",
            "recovered_token_ids",
            "uniform_probs",
            "is_greedy",
            "max_spec_len",
            "vocab_size",
            "synthetic_conditional_rates",
            "NO_DRAFT_PROBS",
            "SYNTHETIC_MODE",
        ),
        part="cpu_sampler",
        purpose="reject padded drafts (-1) on CPU instead of reading outside the tensor",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="apply_top_k_only",
        target="vllm.v1.sample.ops.topk_topp_sampler:apply_top_k_only",
        expected=("logits", "k"),
        part="cpu_top_k",
        purpose="handle top-k without top-p in a step that verifies no draft token",
        upstream=f"{VLLM_REPOSITORY}/issues/55005",
        remove_when=_STOCK_PASSES,
    ),
    VllmHook(
        name="platform_worker_hook",
        target="vllm.platforms.cpu:CpuPlatform.register_triton_kernel_overrides",
        expected=(),
        part="seeded_generator",
        purpose="patch the model runner when a CPU worker creates it",
        upstream=f"{VLLM_FILES}/platforms/interface.py",
        remove_when="vLLM rewinds generators on CPUs without an error",
    ),
    VllmHook(
        name="bookkeeping_sync",
        target="vllm.v1.worker.gpu_model_runner:GPUModelRunner._bookkeeping_sync",
        expected=(
            "self",
            "scheduler_output",
            "sampler_output",
            "logits",
            "hidden_states",
            "num_scheduled_tokens",
        ),
        part="seeded_generator",
        purpose="rewinds the generators of seeded requests, which crashes the engine on CPUs",
        upstream=f"{VLLM_FILES}/v1/worker/gpu_model_runner.py",
        remove_when="vLLM rewinds generators on CPUs without an error",
    ),
)
