"""Compute what an engine needs of memory, with the planner's arithmetic.

Reads the configuration of the models, as `paceline plan` does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.memory_budget import activation_bytes
from paceline.foundation.capacity.model.matrices import tensor_parallel_sizes
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.decisions.memory import MemoryPlan, plan_memory
from paceline.foundation.planning.sources.catalogue import CPU, Catalogue
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.foundation.planning.values import (
    EngineLimits,
    Load,
    Placement,
    PlanError,
    PlannedModel,
    no_drafter,
)
from paceline.runtime.engine.launch.visible_gpus import Gpu
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import EngineMemory
from paceline.runtime.serve.startup_checks.values import CannotJudge

_PROCESS_BYTES = 450 * 1024**2
"""What a process takes to import the CPU build of vLLM 0.32.0: measured as 447 MiB of anonymous
memory. An engine has two such processes, the API server and the engine core."""
_ANY_GPU = "h100"
"""Of its entry in the catalogue only the size of a cache block counts, which all GPUs share."""


def compute_memory(
    launch: EngineLaunch, catalogue: Catalogue, *, gpu: Gpu | None, available_bytes: int
) -> EngineMemory:
    """Return the needs of one engine, on each GPU or for all its workers on a CPU.

    `gpu` is the smallest GPU that the engine uses; None on a CPU, where `available_bytes` are free.
    Raises CannotJudge if the planner does not know the model or a setting.
    """
    if launch.unplanned_flags:
        raise CannotJudge(f"the planner does not follow {', '.join(launch.unplanned_flags)}")
    hardware = _hardware(catalogue, gpu, available_bytes)
    try:
        target = _find(launch.model, launch, catalogue, is_cpu=gpu is None)
        drafter = no_drafter()
        if launch.draft_model is not None:
            draft = _find(launch.draft_model, launch, catalogue, is_cpu=gpu is None)
            drafter = replace(drafter, kind="model", model=draft)
        limits = _limits(launch, hardware, target)
        placement = Placement(hardware, launch.tensor_parallel, launch.tensor_parallel)
        plan = plan_memory(target, drafter, placement, limits)
    except PlanError as error:
        raise CannotJudge(str(error)) from None
    return _needs(plan, target, launch, limits, num_workers=launch.tensor_parallel, gpu=gpu)


def find_tensor_parallel_sizes(
    launch: EngineLaunch | None, catalogue: Catalogue, *, of_draft: bool = False
) -> tuple[int, ...]:
    """Return into how many parts vLLM can split the target or the draft model.

    Empty if that is not known.
    """
    if launch is None or launch.tensor_parallel == 1 or launch.unplanned_flags:
        return ()
    model = launch.draft_model if of_draft else launch.model
    if model is None:
        return ()
    try:
        shape = find_model(model, catalogue).shape
    except PlanError:
        return ()
    return tuple(tensor_parallel_sizes(shape))


def _needs(
    plan: MemoryPlan,
    target: PlannedModel,
    launch: EngineLaunch,
    limits: EngineLimits,
    *,
    num_workers: int,
    gpu: Gpu | None,
) -> EngineMemory:
    budget = plan.budget
    # At least: blocks and groups of layers round it up.
    request_bytes = sum(
        layer.num_layers
        * layer.bytes_per_token
        * min(limits.max_model_len, layer.window or limits.max_model_len)
        for layer in (*plan.target_layers, *plan.draft_layers)
    )
    if gpu is not None:
        return EngineMemory(
            weights_bytes=budget.weights,
            draft_weights_bytes=budget.draft_weights,
            working_bytes=budget.activations + budget.graphs + budget.runtime,
            kv_cache_bytes=launch.kv_cache_bytes,
            request_kv_bytes=request_bytes,
            max_model_len=limits.max_model_len,
        )
    activations = activation_bytes(
        target.shape,
        dtype_bytes=target.weight_format.dtype_bytes,
        tensor_parallel=num_workers,
        max_batched_tokens=limits.max_batched_tokens,
        max_num_seqs=limits.max_num_seqs,
    )
    return EngineMemory(
        weights_bytes=num_workers * budget.weights,
        draft_weights_bytes=num_workers * budget.draft_weights,
        working_bytes=num_workers * activations + (1 + num_workers) * _PROCESS_BYTES,
        kv_cache_bytes=num_workers * plan.kv_cache_bytes,
        request_kv_bytes=num_workers * request_bytes,
        max_model_len=limits.max_model_len,
    )


def _hardware(catalogue: Catalogue, gpu: Gpu | None, available_bytes: int) -> Hardware:
    nowhere = Machine(1, available_bytes, frozenset())
    if gpu is None:
        return catalogue.find(CPU, nowhere, None).hardware
    if gpu.memory_bytes is None:
        raise CannotJudge("the driver does not state the memory of the GPU")
    return replace(catalogue.find(_ANY_GPU, nowhere, None).hardware, memory_bytes=gpu.memory_bytes)


def _find(name: str, launch: EngineLaunch, catalogue: Catalogue, *, is_cpu: bool) -> PlannedModel:
    """The model in the format in which the engine computes."""
    if not Path(name).is_dir() and catalogue.model_config(name) is None:
        raise CannotJudge(f"the planner's table has no {name}, and it is not a folder on this disk")
    if launch.dtype != "auto":
        return find_model(name, catalogue, dtype=launch.dtype)
    found = find_model(name, catalogue)
    if found.weight_format.dtype == "float32" and not is_cpu:
        # vLLM's choice for float32 checkpoints where 16 bits are computed natively.
        return find_model(name, catalogue, dtype="bfloat16")
    return found


_KNOWN_KV_FORMATS = frozenset({"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"})


def _limits(launch: EngineLaunch, hardware: Hardware, target: PlannedModel) -> EngineLimits:
    if launch.kv_cache_dtype not in _KNOWN_KV_FORMATS:
        raise CannotJudge(f"the planner does not know --kv-cache-dtype {launch.kv_cache_dtype}")
    longest = target.shape.max_context_tokens
    settings = LimitSettings(
        gpu_memory_utilization=launch.gpu_memory_utilization,
        max_model_len=min(launch.max_model_len or longest, longest),
        max_num_seqs=launch.max_num_seqs,
        max_batched_tokens=launch.max_batched_tokens,
        kv_dtype="fp8" if launch.kv_cache_dtype.startswith("fp8") else None,
        kv_cache_bytes=launch.kv_cache_bytes,
    )
    return engine_limits(settings, hardware, target, Load(prompt_tokens=1, output_tokens=1))
