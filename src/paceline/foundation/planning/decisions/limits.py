"""The settings of vLLM that a plan counts with: what is given, and vLLM's defaults for the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.compatibility.length_table import lengths_to_name
from paceline.foundation.planning.decisions.memory import MemoryPlan
from paceline.foundation.planning.values import EngineLimits, Load, PlanError, PlannedModel

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
        kv_dtype=settings.kv_dtype or model.weight_format.kv_dtype or model.weight_format.dtype,
        max_draft_length=settings.max_draft_length,
        is_max_model_len_given=settings.max_model_len is not None,
        draft_lengths=_draft_lengths(settings.max_draft_length, hardware),
        kv_cache_bytes=settings.kv_cache_bytes,
        reserve_bytes=settings.reserve_bytes,
    )


def shorten_to_cache(limits: EngineLimits, memory: MemoryPlan, load: Load) -> EngineLimits:
    """The limits with a longest request that the KV cache holds.

    vLLM refuses to start otherwise. What the user set stays, and no request gets shorter than the
    stated one.
    """
    if limits.is_max_model_len_given or memory.holds_request_of(limits.max_model_len):
        return limits
    low, high = load.context_tokens, limits.max_model_len
    if not memory.holds_request_of(low):
        return limits
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if memory.holds_request_of(middle) else (low, middle)
    return replace(limits, max_model_len=low)


def _draft_lengths(longest: int, hardware: Hardware) -> tuple[int, ...]:
    """On GPUs those that get CUDA graphs; a drafter of Model Runner V1 may use others, too."""
    return tuple(range(longest + 1)) if hardware.is_cpu else lengths_to_name(longest)


def _vllm_defaults(hardware: Hardware) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs of vLLM 0.32's API server (engine/arg_utils.py)."""
    if hardware.is_cpu:
        return 2048, 128
    if hardware.memory_bytes >= 160 * _GIB:
        return 16_384, 1024
    if hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.name:
        return 8192, 1024
    return 2048, 256
