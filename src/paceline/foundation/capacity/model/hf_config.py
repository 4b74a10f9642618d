"""Read a Hugging Face `config.json` into a `ModelShape`; refuse what is not known exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paceline.foundation.capacity.model.shape import (
    Experts,
    HeadAttention,
    LatentAttention,
    ModelShape,
    RotaryCache,
)

_LLAMA_LIKE = ("LlamaForCausalLM", "MistralForCausalLM", "Phi3ForCausalLM")
_QWEN = ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM")
_GEMMA = ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
_DEEPSEEK = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM")
KNOWN_ARCHITECTURES = (*_LLAMA_LIKE, "MixtralForCausalLM", *_QWEN, *_GEMMA, *_DEEPSEEK)

_DTYPES = ("bfloat16", "float16", "float32")
_GEMMA3_PATTERN = 6
"""Every sixth layer of Gemma 3 attends to the whole context, unless the config says otherwise."""


_READ_STATES = 3
"""Of an EAGLE-3 head that names no layers, as in vLLM."""


_SCALED_ALREADY = frozenset(
    {"default", "su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
"""Kinds of rope scaling whose max_position_embeddings is the scaled context (vLLM's
config/model.py)."""


class UnknownModelError(ValueError):
    """A configuration whose weights or KV cache cannot be computed."""


def read_model_config(config: Mapping[str, Any]) -> ModelShape:
    """Return the shape of the model that `config`, a parsed `config.json`, describes.

    It may be that of an EAGLE-3 head. Raises `UnknownModelError` for an architecture that is not in
    `KNOWN_ARCHITECTURES` and for missing or contradictory values.
    """
    names = config.get("architectures") or ()
    architecture = names[0] if names else None
    is_head = isinstance(architecture, str) and "Eagle3" in architecture
    if not isinstance(architecture, str) or not (is_head or architecture in KNOWN_ARCHITECTURES):
        raise UnknownModelError(
            f"architecture {architecture!r} is not one whose weights and KV cache are known "
            f"exactly; known: {', '.join(KNOWN_ARCHITECTURES)}. It is the first entry of "
            "'architectures' in config.json"
        )
    reader = _Reader(config, architecture)
    num_layers = reader.positive("num_hidden_layers")
    vocabulary = "draft_vocab_size" if is_head and "draft_vocab_size" in config else "vocab_size"
    return ModelShape(
        architecture=architecture,
        num_layers=num_layers,
        hidden_size=reader.positive("hidden_size"),
        intermediate_size=reader.dense_intermediate_size(),
        vocab_size=reader.positive(vocabulary),
        ties_embeddings=is_head or bool(config.get("tie_word_embeddings", architecture in _GEMMA)),
        attention=reader.attention(),
        experts=reader.experts(num_layers),
        sliding_windows=reader.sliding_windows(num_layers),
        norms_per_layer=4 if architecture in _GEMMA else 3 if is_head else 2,
        has_mlp_bias=bool(config.get("mlp_bias", False)),
        rotary=reader.rotary(),
        max_context_tokens=reader.max_context_tokens(),
        dtype=reader.dtype(),
        num_read_states=reader.num_read_states() if is_head else 0,
    )


class _Reader:
    """Reads the fields of one config, with errors that name the field."""

    def __init__(self, config: Mapping[str, Any], architecture: str) -> None:
        self._config = config
        self._architecture = architecture

    def positive(self, name: str) -> int:
        value = self._config.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UnknownModelError(
                f"{name} in config.json is {value!r}; {self._architecture} needs a positive integer"
            )
        return value

    def dtype(self) -> str:
        name = self._config.get("dtype") or self._config.get("torch_dtype") or "float32"
        if name not in _DTYPES:
            raise UnknownModelError(
                f"dtype in config.json is {name!r}; allowed: {', '.join(_DTYPES)}"
            )
        return str(name)

    def num_read_states(self) -> int:
        layers = self._config.get("eagle_aux_hidden_state_layer_ids")
        return len(layers) if isinstance(layers, list) and layers else _READ_STATES

    def dense_intermediate_size(self) -> int:
        if self._architecture == "MixtralForCausalLM":
            return 0
        if self._architecture == "Qwen3MoeForCausalLM" and not self._config.get("mlp_only_layers"):
            return 0
        return self.positive("intermediate_size")

    def attention(self) -> HeadAttention | LatentAttention:
        if self._architecture in _DEEPSEEK:
            rank = self._config.get("q_lora_rank")
            return LatentAttention(
                num_heads=self.positive("num_attention_heads"),
                q_lora_rank=None if rank is None else self.positive("q_lora_rank"),
                kv_lora_rank=self.positive("kv_lora_rank"),
                qk_nope_head_dim=self.positive("qk_nope_head_dim"),
                qk_rope_head_dim=self.positive("qk_rope_head_dim"),
                v_head_dim=self.positive("v_head_dim"),
            )
        num_heads = self.positive("num_attention_heads")
        has_bias = bool(self._config.get("attention_bias", False))
        is_qwen2 = self._architecture == "Qwen2ForCausalLM"
        num_kv_heads = (
            num_heads
            if self._config.get("num_key_value_heads") is None
            else self.positive("num_key_value_heads")
        )
        return HeadAttention(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=self._head_dim(num_heads),
            has_qkv_bias=is_qwen2 or has_bias,
            has_output_bias=has_bias and self._architecture in (*_LLAMA_LIKE, *_GEMMA),
            has_qk_norm=self._architecture
            in ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Gemma3ForCausalLM"),
        )

    def _head_dim(self, num_heads: int) -> int:
        # vLLM's Qwen2 derives the size of a head and ignores the field.
        given = self._config.get("head_dim")
        if given is not None and self._architecture != "Qwen2ForCausalLM":
            return self.positive("head_dim")
        if self._architecture in _GEMMA:
            return 256
        if self._architecture in ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM"):
            return 128
        hidden = self.positive("hidden_size")
        if hidden % num_heads:
            raise UnknownModelError(
                f"hidden_size {hidden} in config.json is no multiple of num_attention_heads "
                f"{num_heads}; set head_dim"
            )
        return hidden // num_heads

    def experts(self, num_layers: int) -> Experts | None:
        if self._architecture == "MixtralForCausalLM":
            return Experts(
                num_experts=self.positive("num_local_experts"),
                num_active=self.positive("num_experts_per_tok"),
                intermediate_size=self.positive("intermediate_size"),
            )
        if self._architecture == "Qwen3MoeForCausalLM":
            dense = self._config.get("mlp_only_layers") or []
            if self._config.get("decoder_sparse_step", 1) != 1 or dense != [*range(len(dense))]:
                raise UnknownModelError(
                    "decoder_sparse_step must be 1 and mlp_only_layers a list 0, 1, … of the first "
                    f"layers; config.json has {self._config.get('decoder_sparse_step')!r} and "
                    f"{dense!r}"
                )
            return Experts(
                num_experts=self.positive("num_experts"),
                num_active=self.positive("num_experts_per_tok"),
                intermediate_size=self.positive("moe_intermediate_size"),
                shared_intermediate_size=self._config.get("shared_expert_intermediate_size") or 0,
                num_dense_layers=len(dense),
            )
        if self._architecture in _DEEPSEEK and self._config.get("n_routed_experts"):
            if self._config.get("moe_layer_freq", 1) != 1:
                raise UnknownModelError(
                    f"moe_layer_freq in config.json is {self._config['moe_layer_freq']!r}; only 1 "
                    "(experts in every layer after the dense ones) is known"
                )
            size = self.positive("moe_intermediate_size")
            return Experts(
                num_experts=self.positive("n_routed_experts"),
                num_active=self.positive("num_experts_per_tok"),
                intermediate_size=size,
                shared_intermediate_size=size * (self._config.get("n_shared_experts") or 0),
                num_dense_layers=min(self._config.get("first_k_dense_replace", 0), num_layers),
                has_score_bias=self._config.get("topk_method") == "noaux_tc",
            )
        return None

    def sliding_windows(self, num_layers: int) -> tuple[int | None, ...]:
        window = self._config.get("sliding_window")
        types = self._config.get("layer_types")
        if window is None or self._architecture in _DEEPSEEK:
            return (None,) * num_layers
        if self._architecture in _QWEN and not self._config.get("use_sliding_window", False):
            return (None,) * num_layers
        if types is not None:
            if len(types) != num_layers:
                raise UnknownModelError(
                    f"layer_types in config.json has {len(types)} entries; num_hidden_layers is "
                    f"{num_layers}"
                )
            return tuple(window if kind == "sliding_attention" else None for kind in types)
        if self._architecture == "Gemma2ForCausalLM":
            return tuple(None if layer % 2 else window for layer in range(num_layers))
        if self._architecture == "Gemma3ForCausalLM":
            pattern = self._config.get("sliding_window_pattern", _GEMMA3_PATTERN)
            return tuple(
                None if (layer + 1) % pattern == 0 else window for layer in range(num_layers)
            )
        return (window,) * num_layers

    def max_context_tokens(self) -> int:
        """As vLLM derives it: some kinds of scaling leave max_position_embeddings to be scaled."""
        positions = self.positive("max_position_embeddings")
        if self._architecture == "Gemma3ForCausalLM":
            return positions
        return int(positions * max(self._context_factors(), default=1.0))

    def _context_factors(self) -> Iterator[float]:
        scaling = self._scaling()
        # Newer configs have one set of parameters, or one for every kind of layer.
        parts = [part for part in scaling.values() if isinstance(part, Mapping)] or [scaling]
        for part in parts:
            factor = _number(part, "factor")
            if factor is not None and _rope_type(part) not in _SCALED_ALREADY:
                yield factor

    def _scaling(self) -> Mapping[str, Any]:
        scaling = self._config.get("rope_parameters") or self._config.get("rope_scaling") or {}
        if not isinstance(scaling, Mapping):
            raise UnknownModelError(
                f"rope_scaling in config.json is {scaling!r}; it must be an object or null"
            )
        return scaling

    def rotary(self) -> RotaryCache:
        scaling = self._scaling()
        is_gemma3 = self._architecture == "Gemma3ForCausalLM"
        if is_gemma3:
            # One set of parameters per kind of layer; only full layers scale.
            scaling = {}
        positions = self.positive("max_position_embeddings")
        kind = _rope_type(scaling)
        name = "original_max_position_embeddings"
        original = _number(scaling, name) or _number(self._config, name)
        factor = _number(scaling, "factor") or 1.0
        if kind in ("yarn", "deepseek_yarn") and original:
            positions = int(original * factor)
        elif kind in ("linear", "dynamic"):
            positions = int(positions * factor)
        elif kind == "longrope" and original:
            positions += int(original)
        if self._architecture in _DEEPSEEK:
            dim = self.positive("qk_rope_head_dim")
        else:
            name = "partial_rotary_factor"
            share = _number(scaling, name) or _number(self._config, name) or 1.0
            dim = int(self._head_dim(self.positive("num_attention_heads")) * share)
        return RotaryCache(positions, dim, num_tables=2 if is_gemma3 else 1)


def _rope_type(scaling: Mapping[str, Any]) -> str:
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _number(values: Mapping[str, Any], name: str) -> float | None:
    """A field of a rope scaling; None where it is absent or null."""
    value = values.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):
        raise UnknownModelError(
            f"{name} of the rope scaling in config.json is {value!r}; it must be a number above 0"
        )
    return float(value)
