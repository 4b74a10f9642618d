"""Does it fit, and how many requests at once: the memory of one GPU under a placement."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.capacity.kv_cache import cpu_kv_cache_bytes
from paceline.foundation.capacity.memory_budget import (
    MemoryBudget,
    activation_bytes,
    graph_bytes,
    runtime_bytes,
)
from paceline.foundation.capacity.model.kv_layout import KvLayers, KvLayout, kv_layers, kv_layout
from paceline.foundation.capacity.model.matrices import check_tensor_parallel
from paceline.foundation.capacity.model.weights import WeightBytes, weight_bytes
from paceline.foundation.planning.values import (
    Drafter,
    EngineLimits,
    Placement,
    PlanError,
    PlannedModel,
)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one GPU, and what fits into its KV cache."""

    budget: MemoryBudget
    weights: WeightBytes
    """Of the target, on each GPU."""
    kv_cache_bytes: int
    """On each GPU; 0 where the weights leave nothing."""
    target_layers: tuple[KvLayers, ...]
    draft_layers: tuple[KvLayers, ...]
    layout: KvLayout
    tokens_in_flight: int
    """Most tokens that steps in progress may add, as vLLM's start-up log counts them."""

    @property
    def fits(self) -> bool:
        """Whether one request of the shortest context has room."""
        return self.layout.num_blocks(self.kv_cache_bytes) >= self.layout.blocks_per_request(1)

    @property
    def free_bytes(self) -> int:
        """Left for the KV cache on each GPU; negative where the weights alone do not fit."""
        return self.kv_cache_bytes or self.budget.kv_cache

    def bytes_per_request(self, context_tokens: int) -> int:
        """Of the KV cache on each GPU."""
        return self.layout.blocks_per_request(context_tokens) * self.layout.bytes_per_block

    def holds_request_of(self, max_model_len: int) -> bool:
        """Whether vLLM starts: it refuses to where the longest request does not fit."""
        _, concurrency = self.layout.logged_tokens(
            self.kv_cache_bytes, max_model_len, self.tokens_in_flight
        )
        return concurrency >= 1.0

    def max_requests(self, context_tokens: int) -> int:
        """Requests of this context that decode at once on one replica."""
        return self.layout.max_requests(self.kv_cache_bytes, context_tokens)


def plan_memory(
    model: PlannedModel, drafter: Drafter, placement: Placement, limits: EngineLimits
) -> MemoryPlan:
    """Divide the memory of each GPU.

    A draft model is split over the same GPUs as the target. Raises `PlanError` for a
    tensor-parallel size that the target or the draft does not allow.
    """
    size = placement.tensor_parallel
    hardware = placement.hardware
    shapes = [model.shape] if drafter.model is None else [model.shape, drafter.model.shape]
    for shape in shapes:
        try:
            check_tensor_parallel(shape, size)
        except ValueError as error:
            raise PlanError(str(error)) from None
    weights = weight_bytes(model.shape, model.weight_format, size)
    draft_weights, draft_layers = 0, list[KvLayers]()
    if drafter.model is not None:
        draft = drafter.model
        draft_weights = weight_bytes(draft.shape, draft.weight_format, size).total
        draft_layers = kv_layers(draft.shape, limits.kv_dtype, size)
    target_layers = kv_layers(model.shape, limits.kv_dtype, size)
    reserve = (0, 0, 0) if hardware.is_cpu else _reserve(model, drafter, size, limits)
    if limits.reserve_bytes is not None:
        reserve = (limits.reserve_bytes, 0, 0)
    budget = MemoryBudget(
        hardware.memory_bytes, limits.gpu_memory_utilization, weights.total, draft_weights, *reserve
    )
    return MemoryPlan(
        budget,
        weights,
        _kv_cache_bytes(budget, placement, limits),
        tuple(target_layers),
        tuple(draft_layers),
        kv_layout([*target_layers, *draft_layers], hardware.kv_block_tokens),
        # With asynchronous scheduling, vLLM's default on GPUs, two steps are in progress.
        limits.max_batched_tokens * (1 if hardware.is_cpu else 2),
    )


def _reserve(
    model: PlannedModel, drafter: Drafter, size: int, limits: EngineLimits
) -> tuple[int, int, int]:
    activations = activation_bytes(
        model.shape,
        dtype_bytes=model.weight_format.dtype_bytes,
        tensor_parallel=size,
        max_batched_tokens=limits.max_batched_tokens,
        max_num_seqs=limits.max_num_seqs,
    )
    draft_shape = None if drafter.model is None else drafter.model.shape
    return activations, graph_bytes(model.shape, draft_shape), runtime_bytes(size)


def _kv_cache_bytes(budget: MemoryBudget, placement: Placement, limits: EngineLimits) -> int:
    if limits.kv_cache_bytes is not None:
        return limits.kv_cache_bytes
    if not placement.hardware.is_cpu:
        return max(0, budget.kv_cache)
    # As `paceline serve` lays a CPU engine out, whose weights are in the same memory.
    free = budget.total - budget.weights - budget.draft_weights
    return cpu_kv_cache_bytes(max(0, free), weights_bytes=budget.weights)
