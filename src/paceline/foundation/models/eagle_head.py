"""Recognise the folder of an EAGLE-3 head, and check that it fits its target.

vLLM 0.32 checks neither that a head is complete nor that it was made for the target: a missing
tensor is whatever is in memory, and a head without a table of its vocabulary drafts other tokens.
What a configuration does not say is left to vLLM, which knows several formats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.models.model_folder import ModelUnfit

_SECTIONS = ("transformer_layer_config", "text_config")
"""Where speculators' heads and multimodal targets have their sizes."""
_OUTER = ("fc.weight", "norm.weight")
_OF_THE_LAYER = (
    "hidden_norm",
    "input_layernorm",
    "mlp.down_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "post_attention_layernorm",
    "self_attn.k_proj",
    "self_attn.o_proj",
    "self_attn.q_proj",
    "self_attn.v_proj",
)
_LAYER_NAMES = ("midlayer", "layers.0")
_OWN_VOCABULARY = ("d2t", "lm_head.weight")
"""Without them, vLLM takes the target's first tokens for those of the head."""
_MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""


def is_eagle3_head(folder: Path) -> bool:
    """Whether `config.json` of the folder names an EAGLE-3 architecture."""
    names = _config(folder).get("architectures") or ()
    return any("Eagle3" in name for name in names if isinstance(name, str))


def check_eagle3_head(head: Path, target: Path) -> None:
    """Raise ModelUnfit unless the head has all that vLLM needs to draft for the target."""
    of_head, of_target = _config(head), _config(target)
    made_for = {
        "vocab_size": _size(of_head, "vocab_size"),
        "hidden_size": _size(of_head, "target_hidden_size") or _size(of_head, "hidden_size"),
    }
    for name, found in made_for.items():
        wanted = _size(of_target, name)
        if found is not None and wanted is not None and found != wanted:
            raise ModelUnfit(
                f"{head} cannot draft for {target}: it was made for a target with {name} {found}, "
                f"and this one has {wanted}. `paceline draft train --head` makes one"
            )
    layers = of_head.get("eagle_aux_hidden_state_layer_ids") or ()
    num_layers = _size(of_target, "num_hidden_layers")
    if num_layers is not None and any(layer > num_layers for layer in layers):
        raise ModelUnfit(
            f"{head} cannot draft for {target}: it reads layer {max(layers)}, and the target has "
            f"{num_layers}"
        )
    own, whole = _size(of_head, "draft_vocab_size"), made_for["vocab_size"]
    missing = _missing(head, has_own_vocabulary=None not in (own, whole) and own != whole)
    if missing:
        raise ModelUnfit(f"{head} is no complete EAGLE-3 head: model.safetensors lacks {missing}")


def _missing(head: Path, *, has_own_vocabulary: bool) -> str | None:
    """A tensor that the head lacks; None also where the weights are in other files."""
    path = head / "model.safetensors"
    if not path.is_file():
        return None
    present = {name.removeprefix("model.") for name in _tensors(path)}
    layer = next((name for name in _LAYER_NAMES if f"{name}.hidden_norm.weight" in present), "")
    layer = layer or _LAYER_NAMES[0]
    needed = [*_OUTER, *(f"{layer}.{name}.weight" for name in _OF_THE_LAYER)]
    needed += _OWN_VOCABULARY if has_own_vocabulary else ()
    return next((name for name in needed if name not in present), None)


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _size(config: Mapping[str, Any], name: str) -> int | None:
    sections = [config, *(config.get(section) for section in _SECTIONS)]
    found = (section.get(name) for section in sections if isinstance(section, dict))
    return next((value for value in found if isinstance(value, int)), None)


def _tensors(path: Path) -> set[str]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, _MAX_HEADER_BYTES)))
    except (OSError, ValueError) as error:
        raise ModelUnfit(f"{path} cannot be read: {error}") from None
    return set(header) if isinstance(header, dict) else set()
