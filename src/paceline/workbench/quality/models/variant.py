"""Load a model folder so that it computes what a server computes from it.

Quantized matrices are expanded to the numbers that they stand for; the inputs of products are
rounded where the format does so. What is not reproduced is the order of sums in the server's
kernels.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from paceline.foundation.answer_quality.values import NotComputed, QualityError
from paceline.foundation.models.models import load_config, load_model
from paceline.foundation.quantized.compression import decompress_matrix
from paceline.foundation.quantized.schemes import Scheme
from paceline.workbench.quality.models.formats import SCALE, Format, tensor_files
from paceline.workbench.quality.models.rounding import round_inputs

_PARTS = ("weight", "weight_packed", "weight_scale", "weight_global_scale", "weight_shape")
_COMPUTED_ANYWAY = r"rotary_emb\.inv_freq$"
"""Tensors that old checkpoints have, and every implementation computes itself."""
Tensors = dict[str, torch.Tensor]


def load_variant(folder: Path, form: Format, dtype: torch.dtype, device: torch.device) -> Any:
    """The causal language model of a folder in the arithmetic `dtype`.

    Raises QualityError, NotComputed for a tensor that has no place in the model.
    """
    if form.scheme is None:
        return load_model(folder, dtype, device)
    tensors: Tensors = {}
    for path in tensor_files(folder):
        tensors |= load_file(path)
    return build_model(folder, expand(tensors, form.scheme), form, dtype, device)


def expand(tensors: Tensors, scheme: Scheme) -> Tensors:
    """The stored tensors with every quantized matrix as the numbers that it stands for."""
    found = dict(tensors)
    for name in [name.removesuffix(SCALE) for name in tensors if name.endswith(SCALE)]:
        local = {part: found.pop(f"{name}.{part}") for part in _PARTS if f"{name}.{part}" in found}
        try:
            found[f"{name}.weight"] = decompress_matrix(local, scheme)
        except (KeyError, IndexError, RuntimeError) as error:
            raise QualityError(
                f"the tensors of {name} do not fit {scheme.format}: {error}"
            ) from error
    return found


def build_model(
    folder: Path, tensors: Tensors, form: Format, dtype: torch.dtype, device: torch.device
) -> Any:
    """The model with these unquantized tensors and the folder's configuration."""
    from transformers import AutoModelForCausalLM

    config = load_config(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    try:
        model = AutoModelForCausalLM.from_config(config).to(dtype)
        found = model.load_state_dict(tensors, strict=False)
    except (ValueError, RuntimeError, ImportError) as error:
        raise QualityError(
            f"the tensors of {folder} do not fit its config.json: {error}"
        ) from error
    model.tie_weights()
    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if _ties(config) else set()
    missing = sorted(set(found.missing_keys) - tied)
    if missing:
        raise QualityError(f"{folder} has no tensor {missing[0]}, and {len(missing) - 1} more lack")
    ignored = [_COMPUTED_ANYWAY, *(model._keys_to_ignore_on_load_unexpected or ())]
    unread = [
        name
        for name in sorted(found.unexpected_keys)
        if not any(re.search(pattern, name) for pattern in ignored)
    ]
    if unread:
        raise NotComputed(
            f"{folder} has {len(unread)} tensors that transformers does not read, such as "
            f"{unread[0]}; what a server computes with them is not known here"
        )
    round_inputs(model, form)
    return model.to(device).eval().requires_grad_(False)


def _ties(config: Any) -> bool:
    return bool(getattr(config.get_text_config(), "tie_word_embeddings", False))
