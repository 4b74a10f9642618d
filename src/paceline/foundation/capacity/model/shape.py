"""The shape of a decoder-only transformer, as far as memory and arithmetic depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeadAttention:
    """Attention with one key and one value vector per KV head: MHA, GQA and MQA."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_qk_norm: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Attention that caches one latent vector per token (MLA, DeepSeek-V2 and later)."""

    num_heads: int
    q_lora_rank: int | None
    """None: queries are computed in one step, from the hidden state."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture-of-experts part of a model."""

    num_experts: int
    num_active: int
    """Experts that compute each token, shared ones not counted."""
    intermediate_size: int
    """Of one expert."""
    shared_intermediate_size: int = 0
    """Of the expert that every token passes; 0 for none."""
    num_dense_layers: int = 0
    """The first layers, which have no experts."""
    has_score_bias: bool = False
    """Whether the router adds a float32 bias per expert."""


@dataclass(frozen=True, slots=True)
class RotaryCache:
    """The table of cosines and sines that vLLM keeps as a buffer."""

    num_positions: int
    rotary_dim: int
    num_tables: int = 1
    """2 where sliding-window layers rotate with another base than full ones."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One decoder-only transformer."""

    architecture: str
    """As in `config.json`, such as "LlamaForCausalLM"."""
    num_layers: int
    hidden_size: int
    intermediate_size: int
    """Of the dense layers; 0 where every layer has experts."""
    vocab_size: int
    ties_embeddings: bool
    attention: HeadAttention | LatentAttention
    experts: Experts | None
    sliding_windows: tuple[int | None, ...]
    """Tokens that each layer attends to, one entry per layer; None for all."""
    norms_per_layer: int
    """Vectors of `hidden_size` weights in each layer."""
    has_mlp_bias: bool
    rotary: RotaryCache
    max_context_tokens: int
    dtype: str
    """Of the checkpoint: "bfloat16", "float16" or "float32"."""
    num_read_states: int = 0
    """Hidden states of a target that an EAGLE-3 head combines; 0 for a model of its own."""

    @property
    def num_expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.num_layers - self.experts.num_dense_layers

    @property
    def num_dense_layers(self) -> int:
        """Layers with one feed-forward network for all tokens."""
        return self.num_layers - self.num_expert_layers

    @property
    def num_kv_heads(self) -> int:
        """KV heads before tensor parallelism; 1 for the latent vector of MLA."""
        if isinstance(self.attention, LatentAttention):
            return 1
        return self.attention.num_kv_heads
