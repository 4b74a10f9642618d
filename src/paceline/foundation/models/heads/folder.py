"""The folder of a head as vLLM 0.32 loads it, and back.

vLLM checks neither that all tensors are there nor that they have the right shapes, so that is
checked here, when a head is written and when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from paceline.foundation.models.eagle_head import check_eagle3_head
from paceline.foundation.models.heads.head import Eagle3Head, HeadConfig
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.foundation.models.values import DraftError

ARCHITECTURE = "LlamaForCausalLMEagle3"
_WEIGHTS = "model.safetensors"
_TARGETS = ("llama", "mistral", "qwen2", "qwen3")
"""Model types whose logits are the output layer's, of the normed state, and nothing else."""
_OTHER_FORMS = ("norm_before_residual", "norm_output", "norm_before_fc", "fc_norm", "logit_scale")
"""Options of vLLM's class that `Eagle3Head` does not have."""


def head_config_of(config: Any, draft_vocab_size: int) -> HeadConfig:
    """The sizes of a head for a target, of which `config` is transformers' configuration.

    The auxiliary layers of a deep target are those that vLLM takes where a head names none.
    DraftError for a target whose head would have another form.
    """
    if config.model_type not in _TARGETS:
        raise DraftError(
            f"heads are trained for {', '.join(_TARGETS)}, and the target is {config.model_type}; "
            "train a draft model instead, without --head"
        )
    if draft_vocab_size >= config.vocab_size:
        raise DraftError(
            f"the head would draft {draft_vocab_size} tokens, and must draft fewer than the "
            f"{config.vocab_size} of the target; set --head-vocabulary"
        )
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") != "default" or not isinstance(rope.get("rope_theta"), float | int):
        raise DraftError(
            f"a head has Llama's plain rotary positions, and the target's are {rope or 'others'}; "
            "train a draft model instead, without --head"
        )
    num_layers, hidden = config.num_hidden_layers, config.hidden_size
    heads = config.num_attention_heads
    chosen = (
        {2, num_layers // 2, num_layers - 3}
        if num_layers > 7
        else {1, num_layers // 2, num_layers - 1}
    )
    return HeadConfig(
        hidden_size=hidden,
        intermediate_size=config.intermediate_size,
        num_heads=heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or hidden // heads,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=float(rope["rope_theta"]),
        max_positions=config.max_position_embeddings,
        vocab_size=config.vocab_size,
        draft_vocab_size=draft_vocab_size,
        aux_layers=tuple(sorted(chosen)),
    )


def render_config(config: HeadConfig) -> dict[str, Any]:
    """`config.json` of a head."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "dtype": "bfloat16",
        "num_hidden_layers": 1,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "max_position_embeddings": config.max_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.draft_vocab_size,
        "eagle_aux_hidden_state_layer_ids": list(config.aux_layers),
        "num_aux_hidden_states": len(config.aux_layers),
        "norm_before_residual": False,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


def write_head(head: Eagle3Head, folder: Path) -> None:
    """Write weights in bfloat16 and the configuration into an existing folder. Raises OSError."""
    weights = {
        name: value.to(torch.bfloat16 if value.is_floating_point() else value.dtype).contiguous()
        for name, value in head.state_dict().items()
    }
    save_file(weights, folder / _WEIGHTS, {"format": "pt"})
    (folder / _WEIGHTS).chmod(0o644)  # safetensors creates files that only their owner can read
    text = json.dumps(render_config(head.config), indent=1)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def read_head(folder: Path) -> Eagle3Head:
    """The head of a folder, in float32; DraftError if it is none, or incomplete."""
    try:
        head = Eagle3Head(_parse(json.loads((folder / "config.json").read_text(encoding="utf-8"))))
        weights = load_file(folder / _WEIGHTS)
        wanted = {name: value.shape for name, value in head.state_dict().items()}
        differing = {
            name for name in {*wanted, *weights} if wanted.get(name) != _shape(weights, name)
        }
        if differing:
            raise ValueError(f"{min(differing)} is missing, unknown or of another shape")
        head.load_state_dict(weights)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DraftError(
            f"{folder} has no EAGLE-3 head that can be trained and measured here: {error}"
        ) from error
    return head.eval()


def read_fitting_head(folder: Path, target: Path) -> Eagle3Head:
    """The head of a folder; DraftError unless it was made for such a target."""
    try:
        check_eagle3_head(folder, target)
    except ModelUnfit as unfit:
        raise DraftError(str(unfit)) from None
    return read_head(folder)


def _shape(weights: Mapping[str, torch.Tensor], name: str) -> torch.Size | None:
    return weights[name].shape if name in weights else None


def _parse(document: Mapping[str, Any]) -> HeadConfig:
    forms = {**document.get("eagle_config", {}), **document}
    other = [name for name in _OTHER_FORMS if forms.get(name)]
    if other:
        raise ValueError(f"it has {other[0]}")
    rope, activation = document["rope_parameters"], document.get("hidden_act", "silu")
    if rope.get("rope_type", "default") != "default" or activation != "silu":
        raise ValueError(f"it has rotary positions {rope} and {activation}")
    if forms.get("use_aux_hidden_state") is False:
        raise ValueError("it reads one hidden state")
    hidden_size, num_heads = document["hidden_size"], document["num_attention_heads"]
    return HeadConfig(
        hidden_size=hidden_size,
        intermediate_size=document["intermediate_size"],
        num_heads=num_heads,
        num_kv_heads=document["num_key_value_heads"],
        head_dim=document.get(
            "head_dim", document["hidden_size"] // document["num_attention_heads"]
        ),
        rms_norm_eps=document["rms_norm_eps"],
        rope_theta=rope["rope_theta"],
        max_positions=document["max_position_embeddings"],
        vocab_size=document["vocab_size"],
        draft_vocab_size=document["draft_vocab_size"],
        aux_layers=tuple(document["eagle_aux_hidden_state_layer_ids"]),
    )
