"""Recognise the folder of an EAGLE-3 head, and check that it fits its target.

vLLM 0.32 checks neither that a head is complete nor that it was made for the target: a missing
tensor is whatever is in memory, and a head without a table of its vocabulary drafts other tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paceline.engine.launch.model_folder import ModelUnfit

_SIZES = ("vocab_size", "hidden_size")
_OF_A_HEAD = ("fc.weight", "norm.weight")
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
    for name in _SIZES:
        wanted = of_target.get(name)
        found = of_head.get("target_hidden_size" if name == "hidden_size" else name)
        found = of_head.get(name) if found is None else found
        if found != wanted:
            raise ModelUnfit(
                f"{head} cannot draft for {target}: it was made for a target with {name} {found}, "
                f"and this one has {wanted}. Train one: paceline draft train {target} --head"
            )
    layers = of_head.get("eagle_aux_hidden_state_layer_ids") or ()
    num_layers = of_target.get("num_hidden_layers", 0)
    if any(layer > num_layers for layer in layers):
        raise ModelUnfit(
            f"{head} cannot draft for {target}: it reads layer {max(layers)}, and the target has "
            f"{num_layers}"
        )
    is_reduced = of_head.get("draft_vocab_size", of_head.get("vocab_size")) != of_head["vocab_size"]
    needed = (*_OF_A_HEAD, *(_OWN_VOCABULARY if is_reduced else ()))
    present = _tensors(head)
    missing = [name for name in needed if present and name not in present]
    if missing:
        raise ModelUnfit(
            f"{head} is no complete EAGLE-3 head: model.safetensors lacks {missing[0]}"
        )


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _tensors(folder: Path) -> set[str]:
    """The names in `model.safetensors`; empty where the weights are in other files."""
    path = folder / "model.safetensors"
    if not path.is_file():
        return set()
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, _MAX_HEADER_BYTES))
        return set(json.loads(header))
    except (OSError, ValueError) as error:
        raise ModelUnfit(f"{path} cannot be read: {error}") from None
