"""Write a trained model as a Hugging Face folder: config, bf16 weights, tokenizer, template."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from demo_recipe.model import Qwen2, Shape
from demo_recipe.tokenizer import CHAT_TEMPLATE, END_OF_TEXT, MESSAGE_END, SPECIAL_TOKENS


def export(model: Qwen2, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the folder; vLLM and transformers load it as Qwen2ForCausalLM."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(
        0o644
    )  # safetensors creates it readable for the owner only
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    _write_json(folder / "config.json", render_config(model.shape))
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": END_OF_TEXT, "eos_token_id": [MESSAGE_END, END_OF_TEXT]},
    )
    end_of_text, _, message_end = SPECIAL_TOKENS
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "eos_token": message_end,
            "pad_token": end_of_text,
            "unk_token": end_of_text,
            "bos_token": None,
            "model_max_length": model.shape.max_positions,
            "add_prefix_space": False,
        },
    )


def render_config(shape: Shape) -> dict[str, object]:
    """The `config.json` of a shape."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "attention_dropout": 0.0,
        "bos_token_id": END_OF_TEXT,
        "eos_token_id": MESSAGE_END,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate_size,
        "layer_types": ["full_attention"] * shape.num_layers,
        "max_position_embeddings": shape.max_positions,
        "max_window_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_hidden_layers": shape.num_layers,
        "num_key_value_heads": shape.num_kv_heads,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": shape.vocab_size,
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
