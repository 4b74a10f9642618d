"""The number format of a model folder: which matrices are quantized, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from paceline.foundation.answer_quality.values import NotComputed, QualityError
from paceline.foundation.compatibility.stored_formats import UNQUANTIZED, stored_format
from paceline.foundation.quantized.schemes import SCHEMES, Scheme
from paceline.workbench.quality.models.uncomputed import find_setting, find_tensor

_SCHEME_OF = {
    "w4a16": SCHEMES["gptq"],
    "w8a8-int8": SCHEMES["w8a8"],
    "fp8-channel": SCHEMES["fp8"],
    "nvfp4": SCHEMES["nvfp4"],
}
SCALE = ".weight_scale"


@dataclass(frozen=True, slots=True)
class Format:
    """How a folder stores its matrices. Equal for folders that plain rounding makes alike."""

    name: str
    """Row of the table of number formats; `none` for unquantized weights."""
    scheme: Scheme | None
    group_size: int | None
    matrices: frozenset[str]
    """Modules whose weights are quantized, such as `model.layers.0.mlp.up_proj`."""

    @property
    def label(self) -> str:
        """For messages and tables."""
        if self.name == UNQUANTIZED:
            return "unquantized"
        return self.name if self.group_size is None else f"{self.name}, groups of {self.group_size}"


PLAIN = Format(UNQUANTIZED, None, None, frozenset())


def read_format(folder: Path) -> Format:
    """The format of a folder.

    Raises NotComputed for one that is computed by servers only, QualityError if the tensors
    contradict the configuration.
    """
    config = _read_config(folder)
    name = stored_format(config, folder)
    tensors = tensor_names(folder)
    scaled = frozenset(one.removesuffix(SCALE) for one in tensors if one.endswith(SCALE))
    if name == UNQUANTIZED and scaled:
        raise QualityError(
            f"{folder} has quantized tensors ({len(scaled)} scales), and its config.json has no "
            "quantization_config; a server would load it as unquantized"
        )
    unread = find_tensor(tensors, scaled)
    if unread:
        raise NotComputed(
            f"{folder} has the tensor {unread}, with which servers compute and this command does "
            "not; score the answers of the served model instead"
        )
    if name == UNQUANTIZED:
        return PLAIN
    quantization = _quantization(config)
    setting = find_setting(quantization, name) if name in _SCHEME_OF else ""
    if name not in _SCHEME_OF or setting:
        raise NotComputed(
            f"{folder} is stored as {name}{' with ' if setting else ''}{setting}, which is not "
            f"computed in process; known are {', '.join(_SCHEME_OF)} as compressed-tensors stores "
            "them, symmetric, with dynamic scales of inputs"
        )
    if not scaled:
        raise QualityError(
            f"the config.json of {folder} says {name}, and no tensor is quantized: the format has "
            "no effect"
        )
    return Format(name, _SCHEME_OF[name], _group_size(quantization), scaled)


def stored_name(folder: Path) -> str:
    """The row of the table of number formats. QualityError if config.json cannot be read."""
    return stored_format(_read_config(folder), folder)


def tensor_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder. QualityError without any."""
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise QualityError(f"{folder} has no safetensors file; convert its weights first")
    return found


def tensor_names(folder: Path) -> list[str]:
    """The names of all tensors of a folder."""
    names: list[str] = []
    for path in tensor_files(folder):
        try:
            with safe_open(path, "pt") as file:
                names += file.keys()
        except (OSError, SafetensorError) as error:
            raise QualityError(f"{path} is not a readable safetensors file: {error}") from error
    return names


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise QualityError(f"{folder}/config.json cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise QualityError(f"{folder}/config.json is not a JSON object")
    return config


def _quantization(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that `stored_format` reads; empty without any."""
    text_config = config.get("text_config")
    found = config.get("quantization_config") or config.get("compression_config")
    if not found and isinstance(text_config, Mapping):
        found = text_config.get("quantization_config")
    return found or {}


def _group_size(quantization: Mapping[str, Any]) -> int | None:
    """Inputs that share a scale, equal in all groups; None if all inputs of an output do."""
    group = next(iter(quantization["config_groups"].values()))
    size = group["weights"].get("group_size")
    return size if size and size > 0 else None
