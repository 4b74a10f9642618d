"""Model shapes without weights: folders with a config.json, for vLLM's `--load-format dummy`.

The figures are those of the models' published config.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one Qwen2 model."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int = 151_936
    """One size for target and draft, so that vLLM's Model Runner V2 takes the pair."""
    ties_embeddings: bool = False
    has_mtp_layer: bool = False
    """Whether one layer more predicts further tokens, as in MiMo, which is Qwen2 otherwise."""


SHAPES = {
    "32b": Shape(64, 5120, 27_648, 40, 8),
    "7b": Shape(28, 3584, 18_944, 28, 4),
    "1.5b": Shape(28, 1536, 8960, 12, 2, ties_embeddings=True),
    "0.5b": Shape(24, 896, 4864, 14, 2, ties_embeddings=True),
}
SHAPES["7b-mtp"] = replace(SHAPES["7b"], has_mtp_layer=True)
PAIRS = {"7b": "0.5b", "7b-mtp": None, "32b": "1.5b"}
"""Target and draft model; None where the target drafts by its own layer."""


def write_model(folder: Path, shape: Shape) -> Path:
    """Write the folder of a model with this shape; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    architecture = "MiMoForCausalLM" if shape.has_mtp_layer else "Qwen2ForCausalLM"
    config = {
        "architectures": [architecture],
        "model_type": "qwen2",
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.ties_embeddings,
        "max_position_embeddings": 32_768,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if shape.has_mtp_layer:
        config |= {"num_nextn_predict_layers": 1, "attention_bias": True}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder
