"""The weights that a training starts from: an existing draft, or some layers of the target.

A new draft has the target's architecture with fewer layers. Its embeddings, its output head, its
norms and its layers are copied from the target, the layers at equal distances from the first to the
last. So it has the target's tokenizer and learns sooner than random weights.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from paceline.foundation.models.values import DraftError

_LAYER = re.compile(r"^(.*\blayers\.|.*\bh\.)(\d+)(\..+)$")


def chosen_layers(num_target: int, num_draft: int) -> list[int]:
    """The target's layers that the draft starts with, first and last included.

    >>> chosen_layers(28, 3)
    [0, 14, 27]
    """
    if num_draft == 1:
        return [0]
    return [round(i * (num_target - 1) / (num_draft - 1)) for i in range(num_draft)]


def shrink_config(config: Any, num_layers: int) -> Any:
    """A copy of the target's configuration with fewer layers.

    Settings that list a value per layer, such as `layer_types`, keep those of the chosen layers.
    """
    num_target = getattr(config, "num_hidden_layers", None)
    if not isinstance(num_target, int):
        raise DraftError(
            f"a new draft is cut from the target's layers, and {type(config).__name__} does not "
            "say how many it has; give an existing draft with --draft"
        )
    if not 1 <= num_layers < num_target:
        raise DraftError(
            f"--layers is {num_layers}; a draft has 1 to {num_target - 1} layers, fewer than the "
            f"{num_target} of the target"
        )
    small = copy.deepcopy(config)
    chosen = chosen_layers(num_target, num_layers)
    for name, value in config.to_dict().items():
        if "layer" in name and isinstance(value, list) and len(value) == num_target:
            setattr(small, name, [value[index] for index in chosen])
    small.num_hidden_layers = num_layers
    return small


def shrink_weights(weights: Mapping[str, Any], num_target: int, num_layers: int) -> dict[str, Any]:
    """The target's weights without the layers that were not chosen, the others renumbered."""
    position = {index: new for new, index in enumerate(chosen_layers(num_target, num_layers))}
    kept = {}
    for name, weight in weights.items():
        layer = _LAYER.match(name)
        if layer is None:
            kept[name] = weight
        elif int(layer[2]) in position:
            kept[f"{layer[1]}{position[int(layer[2])]}{layer[3]}"] = weight
    return kept


def cut_from_target(target: Any, num_layers: int) -> Any:
    """A draft with `num_layers` layers of the target, in float32 on the target's device.

    It is in evaluation mode, as a model that is loaded: acceptance is measured without dropout.
    """
    from transformers import AutoModelForCausalLM

    config = shrink_config(target.config, num_layers)
    draft = AutoModelForCausalLM.from_config(config).float()
    weights = shrink_weights(target.state_dict(), target.config.num_hidden_layers, num_layers)
    try:
        draft.load_state_dict(weights)
    except RuntimeError as error:
        raise DraftError(
            f"the layers of {type(target).__name__} cannot be copied into a smaller model; give "
            "an existing draft with --draft"
        ) from error
    return draft.to(target.device).eval()
