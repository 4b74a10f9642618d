"""The bytes of weights and buffers on each GPU, and what one pass reads and multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from paceline.foundation.capacity.model.matrices import Matrix, matrices
from paceline.foundation.capacity.model.shape import HeadAttention, LatentAttention, ModelShape
from paceline.foundation.capacity.model.weight_format import WeightFormat

_MAX_CACHED = 256
"""Models, formats and splits of one plan, which asks for each of them dozens of times."""
_ATTENTION_SCALES_BYTES = 16
"""Four float32 buffers in every attention layer of vLLM, for quantized KV caches."""


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes on one GPU, by use."""

    attention: int
    feed_forward: int
    experts: int
    embeddings: int
    """The embedding table, and the output head where it is a matrix of its own."""
    norms: int
    buffers: int
    """Rotary tables and scales: vLLM allocates them with the model; no checkpoint has them."""

    @property
    def total(self) -> int:
        """All weights and buffers."""
        return (
            self.attention
            + self.feed_forward
            + self.experts
            + self.embeddings
            + self.norms
            + self.buffers
        )


@dataclass(frozen=True, slots=True)
class PassWork:
    """What a forward pass does with the weights of one GPU."""

    always_read_bytes: float
    """Read in every pass."""
    expert_bytes: float
    """Of all routed experts; a pass reads those that its tokens use."""
    num_experts: int
    num_active_experts: int
    active_params: float
    """Multiplied for each token, without the output head."""
    head_params: float = 0.0
    """Of the output head: multiplied for each token that is sampled or verified."""

    def read_bytes(self, tokens: float) -> float:
        """Bytes that a pass over `tokens` reads, tokens choosing experts evenly.

        >>> PassWork(100.0, 80.0, 8, 2, 1.0).read_bytes(1)  # two experts of eight
        120.0
        """
        if not self.num_experts:
            return self.always_read_bytes
        untouched: float = (1 - self.num_active_experts / self.num_experts) ** tokens
        return self.always_read_bytes + self.expert_bytes * (1 - untouched)


@lru_cache(maxsize=_MAX_CACHED)
def weight_bytes(
    shape: ModelShape, weight_format: WeightFormat, tensor_parallel: int = 1
) -> WeightBytes:
    """Return the bytes on each of `tensor_parallel` GPUs."""
    sums = {"attention": 0, "feed_forward": 0, "experts": 0, "embeddings": 0}
    for matrix in matrices(shape, tensor_parallel):
        sums[_use(matrix)] += _bytes(matrix, weight_format)
    return WeightBytes(
        **sums,
        norms=_norm_weights(shape) * weight_format.dtype_bytes,
        buffers=_buffer_bytes(shape, weight_format.dtype_bytes),
    )


@lru_cache(maxsize=_MAX_CACHED)
def pass_work(shape: ModelShape, weight_format: WeightFormat, tensor_parallel: int = 1) -> PassWork:
    """Return what a forward pass reads and multiplies on each of `tensor_parallel` GPUs."""
    always_read, expert_bytes, active_params, head_params = 0, 0, 0, 0
    for matrix in matrices(shape, tensor_parallel):
        if not matrix.is_read:
            continue
        size = _bytes(matrix, weight_format)
        if matrix.copies > 1:
            expert_bytes += size
        else:
            always_read += size
        params = matrix.inputs * matrix.outputs * matrix.num_layers * matrix.num_active
        if matrix.module in ("model.embed_tokens", "lm_head"):
            head_params += params
        else:
            active_params += params
    experts = shape.experts
    return PassWork(
        always_read,
        expert_bytes,
        0 if experts is None else experts.num_experts,
        0 if experts is None else experts.num_active,
        active_params,
        head_params,
    )


def num_params(shape: ModelShape) -> int:
    """Return the number of weights as a model card counts them, without vocabulary padding."""
    total = _norm_weights(shape)
    for matrix in matrices(shape):
        outputs = matrix.outputs
        if matrix.module in ("model.embed_tokens", "lm_head"):
            outputs = shape.vocab_size
        each = matrix.inputs * outputs + (matrix.outputs if matrix.has_bias else 0)
        total += each * matrix.copies * matrix.num_layers
    return total


def _bytes(matrix: Matrix, weight_format: WeightFormat) -> int:
    plain = matrix.inputs * matrix.outputs * weight_format.dtype_bytes
    bias = matrix.outputs * weight_format.dtype_bytes if matrix.has_bias else 0
    if not matrix.is_quantizable or not weight_format.is_quantized:
        return (plain + bias) * matrix.copies * matrix.num_layers
    layers = range(matrix.first_layer, matrix.first_layer + matrix.num_layers)
    total = len(layers) * bias
    for layer in layers:
        own = weight_format.of_module(matrix.module.format(layer=layer))
        total += own.matrix_bytes(matrix.inputs, matrix.outputs, matrix.parts)
    return total * matrix.copies


def _use(matrix: Matrix) -> str:
    if ".self_attn." in matrix.module:
        return "attention"
    if ".experts." in matrix.module:
        return "experts"
    return "feed_forward" if ".mlp" in matrix.module or matrix.module == "fc" else "embeddings"


def _norm_weights(shape: ModelShape) -> int:
    attention = shape.attention
    each = shape.norms_per_layer * shape.hidden_size
    if isinstance(attention, HeadAttention) and attention.has_qk_norm:
        each += 2 * attention.head_dim
    if isinstance(attention, LatentAttention):
        each += attention.kv_lora_rank + (attention.q_lora_rank or 0)
    return each * shape.num_layers + shape.hidden_size


def _buffer_bytes(shape: ModelShape, dtype_bytes: int) -> int:
    rotary = shape.rotary
    size = rotary.num_positions * rotary.rotary_dim * rotary.num_tables * dtype_bytes
    if shape.experts is not None and shape.experts.has_score_bias:
        size += shape.experts.num_experts * 4 * shape.num_expert_layers
    return size + _ATTENTION_SCALES_BYTES * shape.num_layers
