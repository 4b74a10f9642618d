"""In which engines trial steps can run, and what these engines can run. Reads vLLM's configuration.

Trial steps imitate the engine core, so they are refused wherever vLLM keeps more state of a request
than they imitate, and where this has not been tested.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.calibration.plan import EngineLimits
from paceline.runtime.engine.worker.resting_draft import is_full_attention

_METHODS = ("draft_model", "eagle", "eagle3", "medusa", "mtp", "ngram")
"""Suffix decoding is not among them: it drafts from the answers of earlier requests, and would
remember those of the trial requests. Custom drafters may do the same."""
_EXECUTORS = ("UniProcExecutor", "MultiprocExecutor")


def why_unsuitable(vllm_config: Any, kv_cache_config: Any, executor: object) -> str:
    """Return why trial steps cannot run in this engine; empty if they can."""
    parallel = vllm_config.parallel_config
    speculative = vllm_config.speculative_config
    model = vllm_config.model_config
    groups = kv_cache_config.kv_cache_groups
    reasons = {
        "vLLM uses its Model Runner V2": vllm_config.use_v2_model_runner,
        "scheduling is asynchronous": vllm_config.scheduler_config.async_scheduling,
        f"the executor is {type(executor).__name__}": type(executor).__name__ not in _EXECUTORS,
        "the model has several pipeline stages": parallel.pipeline_parallel_size > 1,
        "engines share their batches (data parallelism)": parallel.data_parallel_size > 1,
        "the context of a request is split over GPUs": (
            parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1
        ),
        "experts are moved between GPUs": parallel.enable_eplb,
        f"the drafter is {speculative.method}": speculative.method not in _METHODS,
        "the KV cache is transferred to other engines": vllm_config.kv_transfer_config is not None,
        "encoder outputs are transferred": vllm_config.ec_transfer_config is not None,
        "requests may use LoRA adapters": vllm_config.lora_config is not None,
        "the model takes images or audio": model.is_multimodal_model,
        "the KV cache is not one group of full attention": not (
            len(groups) == 1 and is_full_attention(groups[0].kv_cache_spec)
        ),
    }
    return ", ".join(reason for reason, applies in reasons.items() if applies)


def limits_of(
    vllm_config: Any,
    kv_cache_config: Any,
    *,
    max_draft_length: int,
    allowed_lengths: tuple[int, ...] | None,
    follows_length: bool,
) -> EngineLimits:
    """What the engine can run. It must be suitable."""
    max_tokens = [vllm_config.model_config.max_model_len]
    draft = vllm_config.speculative_config.draft_model_config
    if draft is not None:
        max_tokens.append(draft.max_model_len)
    [group] = kv_cache_config.kv_cache_groups
    return EngineLimits(
        max_requests=vllm_config.scheduler_config.max_num_seqs,
        max_draft_length=max_draft_length,
        max_step_tokens=vllm_config.scheduler_config.max_num_batched_tokens,
        max_request_tokens=min(max_tokens),
        num_blocks=kv_cache_config.num_blocks - 1,  # without the null block
        block_tokens=group.kv_cache_spec.block_size,
        allowed_lengths=allowed_lengths,
        follows_length=follows_length,
    )
