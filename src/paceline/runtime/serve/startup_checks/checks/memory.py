"""Check that weights, KV cache and working memory fit this machine.

A start is refused only for weights that are larger than what vLLM may use of a GPU. The rest is a
warning, also where the sizes are exact: how much memory is free changes, and vLLM takes formats and
settings that the planner does not know.
"""

from __future__ import annotations

from paceline.runtime.engine.launch.visible_gpus import Gpu, are_alike, smallest_used
from paceline.runtime.serve.startup_checks.facts import EngineMemory, StartupFacts
from paceline.runtime.serve.startup_checks.sizes import size_text
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    Found,
    passed,
    refused,
    warning,
)

_TOLERANCE = 1.01
"""The planner's KV cache is within 0.35 % of vLLM's."""


def check_memory(facts: StartupFacts) -> Found | None:
    """None without engines."""
    if facts.launch is None:
        return None
    if facts.device == "gpu":
        return _judge_gpu(facts)
    if facts.memory is None:
        raise CannotJudge(facts.why_no_memory)
    return _judge_cpu(facts, facts.memory)


def _judge_cpu(facts: StartupFacts, memory: EngineMemory) -> Found:
    assert memory.kv_cache_bytes is not None
    if facts.has_running_engines:
        raise CannotJudge("engines that are taken over hold memory")
    too_long = _judge_context(memory, memory.kv_cache_bytes, "engine.kv_cache_bytes")
    if too_long is not None:
        return too_long
    if not facts.available_bytes:
        raise CannotJudge("the free memory of this machine is not known")
    number = facts.num_engines
    certain = memory.weights_bytes + memory.draft_weights_bytes + memory.kv_cache_bytes
    likely = certain + memory.working_bytes
    engines = f"{number} engine(s) of " if number > 1 else ""
    parts = f"{_weights(memory)}, KV cache {size_text(memory.kv_cache_bytes)}"
    estimated = f"{parts}, working memory about {size_text(memory.working_bytes)}"
    free = f"{size_text(facts.available_bytes)} are free"
    advice = (
        "Lower engine.kv_cache_bytes or engine.replicas, serve a smaller or quantized model "
        "(paceline quantize), or free memory"
    )
    if number * certain > facts.available_bytes:
        return warning(f"{engines}{size_text(certain)} ({parts}) do not fit: {free}. {advice}")
    if number * likely > facts.available_bytes:
        return warning(f"{engines}{size_text(likely)} ({estimated}) may not fit: {free}. {advice}")
    return passed(f"{engines}{size_text(likely)} ({estimated}); {free}")


def _judge_gpu(facts: StartupFacts) -> Found:
    launch, memory = facts.launch, facts.memory
    assert launch is not None
    share, sets_cache = launch.gpu_memory_utilization, launch.kv_cache_bytes is not None
    if launch.uses_ray or "--config" in launch.unplanned_flags:
        raise CannotJudge("Ray or the file of --config decides about GPUs and their memory")
    if facts.has_shared_gpus and facts.num_engines * share > 1 and not sets_cache:
        most = int(100 / facts.num_engines) / 100
        return warning(
            f"engine.replicas is {facts.num_engines} and each engine takes {share:g} of the same "
            f"GPUs' memory: {facts.num_engines * launch.num_devices} are needed for GPUs of their "
            f"own, and {len(facts.gpus)} are visible (CUDA_VISIBLE_DEVICES) or not known by number."
            f" Set --gpu-memory-utilization after -- to at most {most:g}, or engine.replicas lower"
        )
    if memory is None:
        raise CannotJudge(facts.why_no_memory)
    gpu = smallest_used(facts.gpus, launch.num_devices)
    if gpu is None or gpu.memory_bytes is None:
        raise CannotJudge("the memory of the GPUs is not known (nvidia-smi)")
    weights = memory.weights_bytes + memory.draft_weights_bytes
    if memory.kv_cache_bytes is not None:
        budget, left, setting = gpu.memory_bytes, memory.kv_cache_bytes, "engine.kv_cache_bytes"
        certain, each = weights + left, f"{size_text(gpu.memory_bytes)} on each GPU"
    else:
        budget, setting = int(share * gpu.memory_bytes), "--gpu-memory-utilization"
        left, certain = budget - weights, weights
        each = f"{share:g} of {size_text(gpu.memory_bytes)} on each GPU ({setting})"
    if certain > budget:
        cache = "" if certain == weights else f", KV cache {size_text(left)}"
        return refused(
            f"the weights do not fit: {_weights(memory)}{cache}, and vLLM may use {each}. Use more "
            "GPUs (--tensor-parallel-size), quantize the model (paceline quantize), or serve a "
            "smaller one"
        )
    too_long = _judge_context(memory, left, setting)
    if too_long is not None:
        return too_long
    if memory.kv_cache_bytes is None:
        return _judge_estimates(facts, memory, gpu, left - memory.working_bytes, each)
    return _judge_estimates(facts, memory, gpu, left, each)


def _judge_estimates(
    facts: StartupFacts, memory: EngineMemory, gpu: Gpu, left: int, each: str
) -> Found:
    """What is likely: working memory, and memory that other processes hold now."""
    assert facts.launch is not None
    assert gpu.memory_bytes is not None
    working = f"working memory about {size_text(memory.working_bytes)}"
    wanted = int(facts.launch.gpu_memory_utilization * gpu.memory_bytes)
    if memory.kv_cache_bytes is not None:
        wanted = memory.weights_bytes + memory.draft_weights_bytes + memory.kv_cache_bytes
    if left < memory.request_kv_bytes:
        return warning(
            f"{_weights(memory)} and {working} leave {size_text(max(0, left))} of {each} for the "
            f"KV cache, and one request of {memory.max_model_len:,} tokens takes "
            f"{size_text(memory.request_kv_bytes)}: vLLM may refuse to start. Lower "
            "engine.max_model_len, use more GPUs, or quantize the model"
        )
    is_certain = are_alike(facts.gpus) and not facts.launch.names_devices
    num_used = facts.launch.num_devices * (1 if facts.has_shared_gpus else facts.num_engines)
    used = facts.gpus[:num_used] if is_certain else ()
    free = [one.free_bytes for one in used if one.free_bytes is not None]
    if free and min(free) < wanted and not facts.has_running_engines:
        return warning(
            f"only {size_text(min(free))} of {size_text(gpu.memory_bytes)} are free on a GPU and "
            f"vLLM takes {size_text(wanted)}: it refuses to start while other processes hold the "
            "rest. End them, or lower --gpu-memory-utilization"
        )
    return passed(
        f"{_weights(memory)}, {working}, {size_text(left)} for the KV cache; vLLM may use {each}"
    )


def _judge_context(memory: EngineMemory, cache_bytes: int, setting: str) -> Found | None:
    """A cache that cannot hold one request: vLLM refuses it, once the weights are loaded."""
    if memory.request_kv_bytes <= cache_bytes * _TOLERANCE:
        return None
    fitting = int(memory.max_model_len * cache_bytes / memory.request_kv_bytes)
    return warning(
        f"one request of {memory.max_model_len:,} tokens takes {size_text(memory.request_kv_bytes)}"
        f" of KV cache, which has {size_text(max(0, cache_bytes))}. Set engine.max_model_len "
        f"below {fitting:,}, or raise {setting}"
    )


def _weights(memory: EngineMemory) -> str:
    text = f"weights {size_text(memory.weights_bytes)}"
    if memory.draft_weights_bytes:
        text += f", draft {size_text(memory.draft_weights_bytes)}"
    return text
