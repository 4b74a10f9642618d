"""The models that the planner's memory is checked on: small, one per shape that it knows.

Each is a `config.json`; vLLM loads it with random weights (`load_format="dummy"`), so nothing is
downloaded. The bundled models and the twin are loaded from their folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.demo import draft_path, target_path

_COMMON = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8000,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


@dataclass(frozen=True)
class Configuration:
    """One model as vLLM loads it."""

    name: str
    config: dict[str, Any] | None = None
    """The `config.json` to write; None for a model in `folder`."""
    folder: Path | None = None
    draft: Path | None = None
    """A draft model that is loaded with it."""
    llm: dict[str, Any] = field(default_factory=dict)
    """More arguments of `vllm.LLM`."""
    plan: tuple[str, ...] = ()
    """More arguments of `paceline plan`."""


def _made(name: str, architecture: str, **changes: Any) -> Configuration:
    return Configuration(name, {"architectures": [architecture], **_COMMON, **changes})


def configurations(twin: Path | None) -> Iterator[Configuration]:
    """Yield every configuration; the twin only where its folder is given."""
    yield Configuration("bundled target", folder=target_path())
    yield Configuration("bundled draft", folder=draft_path())
    yield Configuration("bundled pair", folder=target_path(), draft=draft_path())
    yield Configuration(
        "bundled target, float32", folder=target_path(), llm={"dtype": "float32"},
        plan=("--dtype", "float32"),
    )  # fmt: skip
    yield Configuration(
        "bundled target, fp8 cache", folder=target_path(), llm={"kv_cache_dtype": "fp8"},
        plan=("--kv-cache-dtype", "fp8"),
    )  # fmt: skip
    if twin is not None:
        yield Configuration("twin", folder=twin)
        yield Configuration("twin and draft", folder=twin, draft=draft_path())
    yield _made("Llama, GQA", "LlamaForCausalLM", model_type="llama")
    yield _made("Llama, MHA", "LlamaForCausalLM", model_type="llama", num_key_value_heads=8)
    yield _made(
        "Llama, tied, biases, odd vocabulary", "LlamaForCausalLM", model_type="llama",
        tie_word_embeddings=True, attention_bias=True, mlp_bias=True, vocab_size=8011,
    )  # fmt: skip
    yield _made(
        "Llama, llama3 rotary", "LlamaForCausalLM", model_type="llama",
        rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 512,
        },
        rope_theta=500000.0,
    )  # fmt: skip
    yield _made("Qwen2, tied", "Qwen2ForCausalLM", model_type="qwen2", tie_word_embeddings=True)
    yield _made("Qwen3, MHA", "Qwen3ForCausalLM", model_type="qwen3", num_key_value_heads=8)
    yield _made(
        "Qwen3 MoE", "Qwen3MoeForCausalLM", model_type="qwen3_moe", num_experts=8,
        num_experts_per_tok=2, moe_intermediate_size=256, decoder_sparse_step=1,
        mlp_only_layers=[], norm_topk_prob=True,
    )  # fmt: skip
    yield _made(
        "Mistral, sliding window", "MistralForCausalLM", model_type="mistral", sliding_window=512
    )
    yield _made(
        "Mixtral", "MixtralForCausalLM", model_type="mixtral", num_local_experts=4,
        num_experts_per_tok=2, intermediate_size=512,
    )  # fmt: skip
    yield _made("Phi-3", "Phi3ForCausalLM", model_type="phi3", pad_token_id=0)
    gemma = {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
    yield _made(
        "Gemma 2, every second layer slides", "Gemma2ForCausalLM", model_type="gemma2",
        sliding_window=512, query_pre_attn_scalar=64, attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0, **gemma,
    )  # fmt: skip
    yield _made(
        "Gemma 3, five of six layers slide", "Gemma3ForCausalLM", model_type="gemma3_text",
        num_hidden_layers=12, sliding_window=256, sliding_window_pattern=6,
        query_pre_attn_scalar=64, **gemma,
    )  # fmt: skip
    yield _made(
        "DeepSeek, MLA and experts", "DeepseekV3ForCausalLM", model_type="deepseek_v3",
        moe_intermediate_size=256, first_k_dense_replace=1, n_routed_experts=8,
        n_shared_experts=1, num_experts_per_tok=2, n_group=1, topk_group=1, topk_method="noaux_tc",
        scoring_func="sigmoid", norm_topk_prob=True, routed_scaling_factor=1.0, q_lora_rank=256,
        kv_lora_rank=512, qk_nope_head_dim=64, qk_rope_head_dim=64, v_head_dim=64,
        num_key_value_heads=8, head_dim=None,
    )  # fmt: skip
    yield _made(
        "Llama, W8A8", "LlamaForCausalLM", model_type="llama",
        quantization_config=_compressed("int-quantized", 8, "channel", activations=True),
    )  # fmt: skip
    yield _made(
        "Llama, W4A16", "LlamaForCausalLM", model_type="llama",
        quantization_config=_compressed("pack-quantized", 4, "group", group_size=128),
    )  # fmt: skip
    yield _made(
        "Qwen2, GPTQ", "Qwen2ForCausalLM", model_type="qwen2",
        quantization_config={
            "quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True,
        },
    )  # fmt: skip
    yield _made(
        "Qwen2, AWQ", "Qwen2ForCausalLM", model_type="qwen2", torch_dtype="bfloat16",
        quantization_config={
            "quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
            "version": "gemm",
        },
    )  # fmt: skip


def _compressed(
    form: str, bits: int, strategy: str, *, group_size: int | None = None, activations: bool = False
) -> dict[str, Any]:
    weights = {
        "num_bits": bits, "type": "int", "strategy": strategy, "symmetric": True,
        "dynamic": False, "group_size": group_size,
    }  # fmt: skip
    inputs = {
        "num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True,
    }  # fmt: skip
    group = {
        "targets": ["Linear"],
        "weights": weights,
        "input_activations": inputs if activations else None,
        "format": form,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }
