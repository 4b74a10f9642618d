"""Small configurations for hand calculations."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}
"""Heads of 8 values; queries, keys and values are 64 + 2 * 16 outputs."""

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 4,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "topk_method": "noaux_tc",
    "vocab_size": 128,
    "tie_word_embeddings": False,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}
