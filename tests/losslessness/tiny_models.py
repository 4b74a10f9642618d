"""Small drafters of the bundled target, for vLLM's methods that need a model of their own.

Each function writes a folder in Hugging Face's layout. The heads combine random weights, drawn from
a seed, with weights that make them repeat the last token: most of their drafts are rejected and
some are accepted.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from paceline.demo import draft_path, target_path

_NOISE = 0.02
"""Standard deviation of random weights, as Qwen2 initialises."""

Weights = dict[str, torch.Tensor]


def write_eagle_head(folder: Path) -> Path:
    """An EAGLE head of the bundled target.

    It repeats the last token, because it returns the target's hidden state, from which the target
    chose that token.
    """
    size = _target_config()["hidden_size"]
    passed_on = torch.cat([torch.zeros(size, size), torch.eye(size)], dim=1)
    weights = _decoder_layer("layers.0", seed=1) | {"fc.weight": passed_on}
    del weights["layers.0.input_layernorm.weight"]  # the first layer of an EAGLE head has none
    return _write(folder, _head_config("LlamaForCausalLM"), weights)


def write_eagle3_head(folder: Path) -> Path:
    """An EAGLE-3 head of the bundled target; it returns the last of its three hidden states."""
    target = _target_weights()
    config = _head_config("LlamaForCausalLMEagle3")
    config["draft_vocab_size"] = config["vocab_size"]
    config["eagle_aux_hidden_state_layer_ids"] = [2, 4, 6]
    size = config["hidden_size"]
    weights = _decoder_layer("midlayer", seed=2, attends_to=2 * size) | {
        "midlayer.hidden_norm.weight": torch.ones(size),
        "fc.weight": torch.cat([torch.zeros(size, 2 * size), torch.eye(size)], dim=1),
        "norm.weight": target["model.norm.weight"].float(),
        "lm_head.weight": target["model.embed_tokens.weight"].float(),
    }
    return _write(folder, config, weights)


def write_reduced_eagle3_head(folder: Path) -> Path:
    """The EAGLE-3 head with three quarters of the target's tokens."""
    write_eagle3_head(folder)
    config = json.loads((folder / "config.json").read_text())
    tokens = torch.tensor([token for token in range(config["vocab_size"]) if token % 4 != 3])
    config["draft_vocab_size"] = len(tokens)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"][tokens]
    weights["d2t"] = tokens - torch.arange(len(tokens))
    return _write(folder, config, weights)


def write_mtp_target(folder: Path) -> Path:
    """The bundled target as a MiMo model: Qwen2 with one layer that predicts the token after next.

    Transformers has no MiMo, so the model type stays Qwen2's; vLLM reads the architecture.
    """
    config = _target_config() | {
        "architectures": ["MiMoForCausalLM"],
        "num_nextn_predict_layers": 1,
        "attention_bias": True,
    }
    size = config["hidden_size"]
    layer = "model.mtp_layers.0"
    weights = _target_weights() | _decoder_layer(layer, seed=4, bias=True)
    weights |= {
        f"{layer}.token_layernorm.weight": torch.ones(size),
        f"{layer}.hidden_layernorm.weight": torch.ones(size),
        f"{layer}.final_layernorm.weight": torch.ones(size),
        f"{layer}.input_proj.weight": torch.cat([torch.zeros(size, size), torch.eye(size)], dim=1),
    }
    return _write(_with_tokenizer(folder, target_path()), config, weights)


def write_medusa_heads(folder: Path, num_heads: int) -> Path:
    """Medusa heads of the bundled target; all of them read its hidden state."""
    target = _target_config()
    size = target["hidden_size"]
    config = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": size,
        "vocab_size": target["vocab_size"],
        "medusa_num_heads": num_heads,
        "medusa_num_layers": 1,
    }
    weights: Weights = {}
    for head in range(num_heads):
        weights[f"{head}.0.linear.weight"] = _random(size, size, seed=500 + head) / 10
        weights[f"{head}.1.weight"] = _target_weights()["model.embed_tokens.weight"].float()
    return _write(folder, config, weights)


def write_parallel_draft(folder: Path) -> Path:
    """The bundled draft, marked as drafting all tokens in one pass, without training for it."""
    config = json.loads((draft_path() / "config.json").read_text()) | {"pard_token": 1}
    weights = load_file(draft_path() / "model.safetensors")
    return _write(_with_tokenizer(folder, draft_path()), config, weights)


def write_foreign_draft(folder: Path, num_merges_less: int = 400) -> Path:
    """The bundled draft with another tokenizer: fewer tokens, and different ids for all of them."""
    config = json.loads((draft_path() / "config.json").read_text())
    weights = load_file(draft_path() / "model.safetensors")
    tokenizer = json.loads((draft_path() / "tokenizer.json").read_text())
    model, special = tokenizer["model"], tokenizer["added_tokens"]
    lost = {"".join(merge) for merge in model["merges"][-num_merges_less:]}
    model["merges"] = model["merges"][:-num_merges_less]
    old_ids = model["vocab"] | {token["content"]: token["id"] for token in special}
    kept = sorted((token for token in old_ids if token not in lost), key=old_ids.__getitem__)
    random.Random(0).shuffle(kept)
    new_ids = {token: new_id for new_id, token in enumerate(kept)}
    model["vocab"] = {token: new_ids[token] for token in kept if token in model["vocab"]}
    for token in special:
        token["id"] = new_ids[token["content"]]
    rows = torch.tensor([old_ids[token] for token in kept])
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][rows]
    config |= {
        "vocab_size": len(kept),
        "bos_token_id": new_ids["<|endoftext|>"],
        "eos_token_id": new_ids["<|im_end|>"],
    }
    _with_tokenizer(folder, draft_path())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return _write(folder, config, weights)


def _with_tokenizer(folder: Path, model: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model / name, folder)
    return folder


def _target_config() -> dict[str, Any]:
    config: dict[str, Any] = json.loads((target_path() / "config.json").read_text())
    return config


def _target_weights() -> Weights:
    return load_file(target_path() / "model.safetensors")


def _head_config(architecture: str) -> dict[str, Any]:
    """One Llama layer of the target's shape."""
    target = _target_config()
    kept = (
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "vocab_size",
        "hidden_act",
        "rope_parameters",
        "bos_token_id",
        "eos_token_id",
    )
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "intermediate_size": 128,
        "tie_word_embeddings": False,
        **{key: target[key] for key in kept},
    }


def _decoder_layer(
    prefix: str, *, seed: int, attends_to: int | None = None, bias: bool = False
) -> Weights:
    """The weights of a Llama or Qwen2 layer; `attends_to` is the width of its attention input."""
    config = _target_config()
    size = config["hidden_size"]
    head = size // config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]
    width = size if attends_to is None else attends_to
    inner = config["intermediate_size"] if bias else 128
    shapes = {
        "self_attn.q_proj": (size, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (size, size),
        "mlp.gate_proj": (inner, size),
        "mlp.up_proj": (inner, size),
        "mlp.down_proj": (size, inner),
    }
    weights = {
        f"{prefix}.{name}.weight": _random(*shape, seed=100 * seed + i)
        for i, (name, shape) in enumerate(shapes.items())
    }
    for name in ("input_layernorm", "post_attention_layernorm"):
        weights[f"{prefix}.{name}.weight"] = torch.ones(size)
    if bias:
        for name in ("q_proj", "k_proj", "v_proj"):
            rows = shapes[f"self_attn.{name}"][0]
            weights[f"{prefix}.self_attn.{name}.bias"] = torch.zeros(rows)
    return weights


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * _NOISE


def _write(folder: Path, config: dict[str, Any], weights: Weights) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    contiguous = {name: weight.contiguous() for name, weight in weights.items()}
    save_file(contiguous, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
