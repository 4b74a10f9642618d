"""The memory of one GPU: weights, what vLLM needs while it runs, and the rest for the KV cache.

    KV cache = memory * utilization - weights - draft weights - activations - CUDA graphs - runtime

as vLLM computes it, with estimates in the place of its profiling run.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.capacity.model.matrices import padded_vocabulary
from paceline.foundation.capacity.model.shape import ModelShape

_MIB = 1024**2
_GRAPH_BYTES = 512 * _MIB
_GRAPH_BYTES_PER_LAYER = 12 * _MIB
"""CUDA graphs of all captured sizes: 0.5 to 1.85 GiB, 1.03 on average, in vLLM 0.19 on H100 [1]."""
_RUNTIME_BYTES = 280 * _MIB
_RUNTIME_BYTES_PARALLEL = 2200 * _MIB
"""What the process allocates outside of torch: 0.27 GiB with one GPU; 2.1 GiB with several, for the
buffers of NCCL and of vLLM's all-reduce [1]."""
_LOGIT_COPIES = 3.8
"""Float32 logits of all sequences, sorted copies and probabilities in vLLM's profiling run: 3.7 to
4.0 times the logits in dense models with large vocabularies [1].

[1] Start-up logs of 50 runs: accuracy/results/v0.19.0, github.com/llm-d-incubation/llm-d-planner.
"""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes of one GPU, by use."""

    total: int
    utilization: float
    """vLLM's gpu_memory_utilization."""
    weights: int
    draft_weights: int
    activations: int
    graphs: int
    runtime: int

    @property
    def kv_cache(self) -> int:
        """Bytes left for the KV cache; negative where the model does not fit."""
        return (
            int(self.total * self.utilization)
            - self.weights
            - self.draft_weights
            - self.activations
            - self.graphs
            - self.runtime
        )


def activation_bytes(
    shape: ModelShape,
    *,
    dtype_bytes: int,
    tensor_parallel: int,
    max_batched_tokens: int,
    max_num_seqs: int,
) -> int:
    """Return the peak of activations in a step of `max_batched_tokens`, or of its sampling.

    The widest point of a layer is its feed-forward network: two copies of the hidden state, both
    inputs of the gate and their product. The sampler runs after the layers, so the larger of the
    two is the peak. Experts add a workspace that is kept, one part for each expert of a token.
    """
    sampling = int(_LOGIT_COPIES * 4 * max_num_seqs * padded_vocabulary(shape))
    width = 4 * shape.hidden_size + 3 * shape.intermediate_size // tensor_parallel
    body = max_batched_tokens * width * dtype_bytes
    workspace = 0
    if shape.experts is not None:
        each = 3 * shape.experts.intermediate_size // tensor_parallel + shape.hidden_size
        workspace = max_batched_tokens * shape.experts.num_active * each * dtype_bytes
    return max(body, sampling) + workspace


def graph_bytes(shape: ModelShape, draft: ModelShape | None) -> int:
    """Return an allowance for the CUDA graphs of a target and its draft model."""
    layers = shape.num_layers + (0 if draft is None else draft.num_layers)
    return _GRAPH_BYTES + _GRAPH_BYTES_PER_LAYER * layers


def runtime_bytes(tensor_parallel: int) -> int:
    """Return an allowance for allocations outside of torch."""
    return _RUNTIME_BYTES if tensor_parallel == 1 else _RUNTIME_BYTES_PARALLEL
