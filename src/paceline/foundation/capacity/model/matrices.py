"""The weights of one GPU under tensor parallelism, as vLLM creates them.

Query, key and value are one matrix, and so are the two inputs of a gated feed-forward network. KV
heads beyond their number are replicated; the vocabulary is padded to a multiple of 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.foundation.capacity.model.shape import (
    Experts,
    HeadAttention,
    LatentAttention,
    ModelShape,
)

_VOCABULARY_PADDING = 64
"""vLLM's `DEFAULT_VOCAB_PADDING_SIZE`."""
_MAX_TENSOR_PARALLEL = 64


@dataclass(frozen=True, slots=True)
class Matrix:
    """One kind of matrix, and how many of it a GPU holds."""

    module: str
    """Its name in a checkpoint, with {layer} for the number of the layer."""
    inputs: int
    outputs: int
    first_layer: int
    num_layers: int
    copies: int = 1
    """In each layer: the number of experts."""
    num_active: int = 1
    """The copies that compute one token."""
    has_bias: bool = False
    parts: int = 1
    """Matrices of the checkpoint that are joined in it."""
    is_quantizable: bool = True
    is_read: bool = True
    """Whether a pass reads it as a whole; embedding tables are only looked up."""


def padded_vocabulary(shape: ModelShape) -> int:
    """The rows of the embedding table."""
    return -(-shape.vocab_size // _VOCABULARY_PADDING) * _VOCABULARY_PADDING


def tensor_parallel_sizes(shape: ModelShape) -> list[int]:
    """Return the tensor-parallel sizes that vLLM accepts for the model, ascending."""
    return [size for size in range(1, _MAX_TENSOR_PARALLEL + 1) if _obstacle(shape, size) is None]


def check_tensor_parallel(shape: ModelShape, size: int) -> None:
    """Raise ValueError where vLLM cannot split the model over `size` GPUs."""
    obstacle = _obstacle(shape, size) if size > 0 else "it must be positive"
    if obstacle is not None:
        allowed = ", ".join(map(str, tensor_parallel_sizes(shape)))
        raise ValueError(
            f"tensor parallel size {size} does not fit {shape.architecture}: {obstacle}; allowed: "
            f"{allowed}. Set it with --tensor-parallel or --num-gpus"
        )


def _obstacle(shape: ModelShape, size: int) -> str | None:
    heads = shape.attention.num_heads
    if heads % size:
        return f"{heads} attention heads are no multiple of it"
    if isinstance(shape.attention, HeadAttention):
        kv_heads = shape.attention.num_kv_heads
        if kv_heads % size and size % kv_heads:
            return f"{kv_heads} KV heads are neither a multiple nor a divisor of it"
    if shape.num_dense_layers and shape.intermediate_size % size:
        return f"intermediate_size {shape.intermediate_size} is no multiple of it"
    if shape.experts is not None:
        for width in (shape.experts.intermediate_size, shape.experts.shared_intermediate_size):
            if width % size:
                return f"the experts' intermediate_size {width} is no multiple of it"
    if padded_vocabulary(shape) % size:
        return f"the padded vocabulary of {padded_vocabulary(shape)} is no multiple of it"
    return None


def matrices(shape: ModelShape, tensor_parallel: int = 1) -> Iterator[Matrix]:
    """Yield the matrices on each of `tensor_parallel` GPUs.

    The size must be one of `tensor_parallel_sizes`.
    """
    hidden = shape.hidden_size
    if shape.num_read_states:
        yield Matrix("fc", shape.num_read_states * hidden, hidden, 0, 1, is_quantizable=False)
    yield from _attention(shape, tensor_parallel)
    if shape.num_dense_layers:
        yield from _gated_network(
            "model.layers.{layer}.mlp",
            shape.hidden_size,
            shape.intermediate_size // tensor_parallel,
            0,
            shape.num_dense_layers,
            has_bias=shape.has_mlp_bias,
        )
    if shape.experts is not None:
        yield from _experts(shape, shape.experts, tensor_parallel)
    rows = padded_vocabulary(shape) // tensor_parallel
    yield Matrix(
        "model.embed_tokens", shape.hidden_size, rows, 0, 1,
        is_quantizable=False, is_read=shape.ties_embeddings,
    )  # fmt: skip
    if not shape.ties_embeddings:
        yield Matrix("lm_head", shape.hidden_size, rows, 0, 1, is_quantizable=False)


def _attention(shape: ModelShape, tensor_parallel: int) -> Iterator[Matrix]:
    layers, hidden = shape.num_layers, shape.hidden_size
    prefix = "model.layers.{layer}.self_attn"
    attention = shape.attention
    heads = attention.num_heads // tensor_parallel
    if isinstance(attention, LatentAttention):
        latent = attention.kv_lora_rank + attention.qk_rope_head_dim
        queries = heads * (attention.qk_nope_head_dim + attention.qk_rope_head_dim)
        values = heads * (attention.qk_nope_head_dim + attention.v_head_dim)
        rank = attention.q_lora_rank
        if rank is None:
            yield Matrix(f"{prefix}.q_proj", hidden, queries, 0, layers)
            yield Matrix(f"{prefix}.kv_a_proj_with_mqa", hidden, latent, 0, layers)
        else:
            yield Matrix(f"{prefix}.q_a_proj", hidden, rank + latent, 0, layers, parts=2)
            yield Matrix(f"{prefix}.q_b_proj", rank, queries, 0, layers)
        yield Matrix(f"{prefix}.kv_b_proj", attention.kv_lora_rank, values, 0, layers)
        yield Matrix(f"{prefix}.o_proj", heads * attention.v_head_dim, hidden, 0, layers)
        return
    kv_heads = max(1, attention.num_kv_heads // tensor_parallel)
    outputs = (heads + 2 * kv_heads) * attention.head_dim
    # A head's layer reads the embedding of a token beside the state before it.
    inputs = 2 * hidden if shape.num_read_states else hidden
    yield Matrix(
        f"{prefix}.q_proj", inputs, outputs, 0, layers, parts=3, has_bias=attention.has_qkv_bias
    )
    yield Matrix(
        f"{prefix}.o_proj",
        heads * attention.head_dim,
        hidden,
        0,
        layers,
        has_bias=attention.has_output_bias,
    )


def _experts(shape: ModelShape, experts: Experts, tensor_parallel: int) -> Iterator[Matrix]:
    layers = (experts.num_dense_layers, shape.num_expert_layers)
    prefix = "model.layers.{layer}.mlp"
    yield Matrix(
        f"{prefix}.gate", shape.hidden_size, experts.num_experts, *layers, is_quantizable=False
    )
    yield from _gated_network(
        f"{prefix}.experts.0",
        shape.hidden_size,
        experts.intermediate_size // tensor_parallel,
        *layers,
        copies=experts.num_experts,
        num_active=experts.num_active,
    )
    if experts.shared_intermediate_size:
        yield from _gated_network(
            f"{prefix}.shared_experts",
            shape.hidden_size,
            experts.shared_intermediate_size // tensor_parallel,
            *layers,
        )


def _gated_network(
    prefix: str,
    hidden: int,
    width: int,
    first_layer: int,
    num_layers: int,
    *,
    copies: int = 1,
    num_active: int = 1,
    has_bias: bool = False,
) -> Iterator[Matrix]:
    yield Matrix(
        f"{prefix}.gate_proj",
        hidden,
        2 * width,
        first_layer,
        num_layers,
        copies=copies,
        num_active=num_active,
        has_bias=has_bias,
        parts=2,
    )
    yield Matrix(
        f"{prefix}.down_proj",
        width,
        hidden,
        first_layer,
        num_layers,
        copies=copies,
        num_active=num_active,
        has_bias=has_bias,
    )
