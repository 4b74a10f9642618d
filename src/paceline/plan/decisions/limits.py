"""The settings of vLLM that a plan counts with: what is given, and vLLM's defaults for the rest."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.capacity.hardware import Hardware
from paceline.plan.values import EngineLimits, Load, PlanError, PlannedModel

_GIB = 1024**3
DEFAULT_UTILIZATION = 0.9
"""vLLM's default was 0.9 for long; above it, other processes and fragmentation cause aborts."""
_MIN_MODEL_LEN = 8192
_CONTEXT_HEADROOM = 4
"""Times the stated prompt and answer: chosen empirically, for requests longer than the mean."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What the command line sets; None leaves vLLM's default."""

    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_batched_tokens: int | None = None
    kv_dtype: str | None = None
    max_draft_length: int = 8
    kv_cache_bytes: int | None = None
    reserve_bytes: int | None = None


def engine_limits(
    settings: LimitSettings, hardware: Hardware, model: PlannedModel, load: Load
) -> EngineLimits:
    """Return the limits for a model on a kind of hardware.

    Raises `PlanError` where the stated requests are longer than the model allows.
    """
    longest = model.shape.max_context_tokens
    wanted = settings.max_model_len or max(_MIN_MODEL_LEN, _CONTEXT_HEADROOM * load.context_tokens)
    max_model_len = min(wanted, longest)
    if load.context_tokens > max_model_len:
        raise PlanError(
            f"--prompt-tokens {load.prompt_tokens} and --output-tokens {load.output_tokens} need "
            f"{load.context_tokens} tokens; at most {max_model_len} are allowed (the model's "
            f"{longest}, or --max-model-len)"
        )
    batched_tokens, num_seqs = _vllm_defaults(hardware)
    return EngineLimits(
        gpu_memory_utilization=settings.gpu_memory_utilization or DEFAULT_UTILIZATION,
        max_model_len=max_model_len,
        max_num_seqs=settings.max_num_seqs or num_seqs,
        max_batched_tokens=settings.max_batched_tokens or batched_tokens,
        kv_dtype=settings.kv_dtype or model.weight_format.dtype,
        max_draft_length=settings.max_draft_length,
        kv_cache_bytes=settings.kv_cache_bytes,
        reserve_bytes=settings.reserve_bytes,
    )


def _vllm_defaults(hardware: Hardware) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs of vLLM 0.32's API server (engine/arg_utils.py)."""
    if hardware.is_cpu:
        return 2048, 128
    if hardware.memory_bytes >= 160 * _GIB:
        return 16_384, 1024
    if hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.name:
        return 8192, 1024
    return 2048, 256
