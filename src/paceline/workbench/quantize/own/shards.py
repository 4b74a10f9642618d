"""Read the source's tensors by layer, and write one file of tensors per layer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from paceline.foundation.quantized.source_model import SourceModel

_TMP = ".tmp"


def read_layer(source: SourceModel, index: int) -> dict[str, torch.Tensor]:
    """Return the tensors of decoder layer `index` by name within the layer."""
    names = {}
    for name in source.tensors:
        at = source.layer_of(name)
        if at is not None and at[0] == index:
            names[name] = at[1]
    return {names[name]: tensor for name, tensor in _read(source, list(names)).items()}


def read_rest(source: SourceModel) -> dict[str, torch.Tensor]:
    """Return the tensors of no decoder layer by full name: embeddings, last norm, head."""
    return _read(source, [name for name in source.tensors if source.layer_of(name) is None])


def shard_name(index: int, num_layers: int) -> str:
    """Return the file of layer `index`; the index after the last layer is that of the rest.

    >>> shard_name(0, 2)
    'model-00001-of-00003.safetensors'
    """
    return f"model-{index + 1:05d}-of-{num_layers + 1:05d}.safetensors"


def write_shard(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a file that exists complete or not at all, readable like any other."""
    temporary = path.with_name(path.name + _TMP)
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        temporary,
        metadata={"format": "pt"},
    )
    temporary.chmod(0o644)  # safetensors creates it readable for the owner only
    os.replace(temporary, path)


def read_shard(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """Return the tensors of a written file, by name without `prefix`."""
    return {name.removeprefix(prefix): tensor for name, tensor in load_file(path).items()}


def write_index(folder: Path) -> None:
    """Write the index of all files of tensors in the folder."""
    weight_map: dict[str, str] = {}
    total = 0
    for path in sorted(folder.glob("model-*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                weight_map[name] = path.name
        total += path.stat().st_size
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content, indent=2) + "\n")


def _read(source: SourceModel, names: list[str]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for file in sorted({source.tensors[name].file for name in names}):
        with safe_open(source.folder / file, "pt") as opened:
            for name in names:
                if source.tensors[name].file == file:
                    found[name] = opened.get_tensor(name)
    return found
