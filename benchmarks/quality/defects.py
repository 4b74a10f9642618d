"""Faults of a quantized model, planted in a copy of a sound folder, each at several sizes.

A fault draws its place (layer, matrix, head, rows) from `random`, so that every seed has another.
The copy has no provenance: the fault is one that was made before the folder was written.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from paceline.foundation.quantized.architecture import LINEARS

_TOKENIZER = ("tokenizer*.json", "generation_config.json", "*.jinja")
_NIBBLES = 4 * torch.arange(8, dtype=torch.int32)
"""Bits by which the eight 4-bit values of an int32 are shifted."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of a folder, which a fault changes in place."""

    tensors: dict[str, torch.Tensor]
    config: dict[str, Any]

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return int(self.config["num_hidden_layers"])

    def matrices(self, layer: int) -> list[str]:
        """The names of a layer's quantized matrices."""
        return [f"model.layers.{layer}.{name}" for name in LINEARS]


@dataclass(frozen=True, slots=True)
class Defect:
    """One kind of fault."""

    name: str
    base: str
    """Sound folder that it is planted in: `w8a8`, or `w4a16` in groups of 32."""
    sizes: tuple[float, ...]
    """Ascending. Chosen before any seed of the study was run, from studies with other prompts and
    seeds. The last one is the stated size; one that is smaller shows how much room it leaves."""
    what: str
    """The size in words."""
    plant: Callable[[Stored, random.Random, float], None] = field(repr=False)

    def in_words(self, size: float) -> str:
        """The size in words."""
        return self.what.format(size=size)


def write_faulty(defect: Defect, base: Path, folder: Path, seed: int, size: float) -> Path:
    """Write a copy of `base` with the fault to `folder`, which is replaced, and return it."""
    stored = read_folder(base)
    with torch.no_grad():
        defect.plant(stored, random.Random(f"{defect.name} {seed}"), size)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_tokenizer(base, folder)
    (folder / "config.json").write_text(json.dumps(stored.config, indent=2) + "\n")
    tensors = {name: tensor.contiguous() for name, tensor in stored.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy the tokenizer, the chat template and the stop tokens."""
    for pattern in _TOKENIZER:
        for path in source.glob(pattern):
            shutil.copyfile(path, folder / path.name)


def read_folder(folder: Path) -> Stored:
    """The tensors and the configuration of a folder."""
    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return Stored(tensors, json.loads((folder / "config.json").read_text()))


def _wrong_scale(stored: Stored, draws: random.Random, size: float) -> None:
    for name in stored.matrices(draws.randrange(stored.num_layers)):
        stored.tensors[f"{name}.weight_scale"] *= 1 + size


def _shifted_zero(stored: Stored, draws: random.Random, size: float) -> None:
    """Values of a fraction `size` of the groups of one layer are one step too high."""
    for name in stored.matrices(draws.randrange(stored.num_layers)):
        packed = stored.tensors[f"{name}.weight_packed"]
        groups = stored.tensors[f"{name}.weight_scale"].shape
        chosen = torch.rand(groups, generator=_generator(draws)) < size
        steps = chosen.int().repeat_interleave(packed.shape[1] // groups[1], dim=1).unsqueeze(-1)
        values = (((packed.unsqueeze(-1) >> _NIBBLES) & 15) + steps).clamp(max=15)
        stored.tensors[f"{name}.weight_packed"] = (values << _NIBBLES).sum(-1, dtype=torch.int32)


def _group_order(stored: Stored, draws: random.Random, size: float) -> None:
    """In `size` layers, the scales of each row's groups are in reverse order."""
    for layer in draws.sample(range(stored.num_layers), round(size)):
        for name in stored.matrices(layer):
            scales = stored.tensors[f"{name}.weight_scale"]
            stored.tensors[f"{name}.weight_scale"] = scales.flip(-1)


def _zeroed_head(stored: Stored, draws: random.Random, size: float) -> None:
    heads = int(stored.config["num_attention_heads"])
    for number in draws.sample(range(heads * stored.num_layers), round(size)):
        name = f"model.layers.{number // heads}.self_attn.o_proj.weight"
        width = stored.tensors[name].shape[1] // heads
        start = number % heads * width
        stored.tensors[name][:, start : start + width] = 0


def _swapped_rows(stored: Stored, draws: random.Random, size: float) -> None:
    """Pairs of rows of one up_proj change places, with their scales."""
    name = f"model.layers.{draws.randrange(stored.num_layers)}.mlp.up_proj"
    rows = draws.sample(range(len(stored.tensors[f"{name}.weight"])), 2 * round(size))
    swapped = [row for pair in zip(rows[1::2], rows[::2], strict=True) for row in pair]
    for part in ("weight", "weight_scale"):
        tensor = stored.tensors[f"{name}.{part}"]
        tensor[rows] = tensor[swapped]


def _head_noise(stored: Stored, draws: random.Random, size: float) -> None:
    """Noise on the output matrix, relative to its standard deviation; it is stored untied."""
    weight = stored.tensors["model.embed_tokens.weight"]
    noise = torch.randn(weight.shape, generator=_generator(draws))
    head = weight.float() + size * weight.float().std() * noise
    stored.tensors["lm_head.weight"] = head.to(weight.dtype)
    stored.config["tie_word_embeddings"] = False


def _rope_base(stored: Stored, draws: random.Random, size: float) -> None:
    stored.config["rope_parameters"]["rope_theta"] *= size


def _norm_eps(stored: Stored, draws: random.Random, size: float) -> None:
    stored.config["rms_norm_eps"] = size


def _missing_bias(stored: Stored, draws: random.Random, size: float) -> None:
    """The biases of q, k and v of `size` layers are zero."""
    for layer in draws.sample(range(stored.num_layers), round(size)):
        for name in ("q_proj", "k_proj", "v_proj"):
            stored.tensors[f"model.layers.{layer}.self_attn.{name}.bias"].zero_()


def _generator(draws: random.Random) -> torch.Generator:
    return torch.Generator().manual_seed(draws.randrange(2**31))


DEFECTS = (
    Defect(
        "layer scale", "w8a8", (0.05, 0.07), "{size:.0%} too large in one layer",
        _wrong_scale,
    ),
    Defect(
        "zero point", "w4a16", (0.7, 0.9), "a step off in {size:.0%} of a layer",
        _shifted_zero,
    ),
    Defect(
        "order of groups", "w4a16", (2, 3), "reversed in {size:.0f} of 6 layers",
        _group_order,
    ),
    Defect("zeroed head", "w8a8", (1,), "{size:.0f} of 36 attention heads", _zeroed_head),
    Defect(
        "swapped rows", "w8a8", (32, 48), "{size:.0f} pairs of one up_proj", _swapped_rows
    ),
    Defect(
        "noise on lm_head", "w8a8", (0.05, 0.06), "{size:.0%} of its deviation",
        _head_noise,
    ),
    Defect("RoPE base", "w8a8", (1.5, 2), "{size:g} times the right one", _rope_base),
    Defect(
        "RMS norm epsilon", "w8a8", (5e-4,), "{size:g} instead of 1e-06", _norm_eps
    ),
    Defect(
        "missing biases", "w8a8", (6,), "of q, k, v in {size:.0f} of 6 layers", _missing_bias
    ),
)  # fmt: skip
"""A wrong scale of the KV cache is not among them: the command computes with the scale 1, and a
folder with others is `undecided`."""
