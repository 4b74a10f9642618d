"""The format of a folder, from its configuration and its tensors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from paceline.foundation.answer_quality.values import NotComputed, QualityError
from paceline.workbench.quality.models.formats import PLAIN, read_format


def test_the_format_names_every_quantized_matrix(w8a8: Path, tiny: Path) -> None:
    found = read_format(w8a8)
    assert (found.name, found.group_size, len(found.matrices)) == ("w8a8-int8", None, 14)
    assert "model.layers.1.mlp.down_proj" in found.matrices
    assert read_format(tiny) == PLAIN


def copied(folder: Path, to: Path, **config: object) -> Path:
    shutil.copytree(folder, to)
    file = to / "config.json"
    content = json.loads(file.read_text()) | config
    file.write_text(json.dumps({name: value for name, value in content.items() if value}))
    return to


def test_a_format_that_no_tensor_has_is_refused(tiny: Path, w8a8: Path, tmp_path: Path) -> None:
    """Such a folder would be loaded, and nothing of it would be quantized."""
    quantization = json.loads((w8a8 / "config.json").read_text())["quantization_config"]
    folder = copied(tiny, tmp_path / "no-op", quantization_config=quantization)
    with pytest.raises(QualityError, match="the format has no effect"):
        read_format(folder)


def test_quantized_tensors_without_their_configuration_are_refused(
    w8a8: Path, tmp_path: Path
) -> None:
    folder = copied(w8a8, tmp_path / "lost", quantization_config=None)
    with pytest.raises(QualityError, match="would load it as unquantized"):
        read_format(folder)


def test_zero_points_are_left_to_servers(w8a8: Path, tmp_path: Path) -> None:
    quantization = json.loads((w8a8 / "config.json").read_text())["quantization_config"]
    quantization["config_groups"]["group_0"]["weights"]["symmetric"] = False
    folder = copied(w8a8, tmp_path / "zero-points", quantization_config=quantization)
    with pytest.raises(NotComputed, match="w8a8-int8 with zero points, which is not computed"):
        read_format(folder)


@pytest.mark.parametrize(
    "tensor",
    [
        "model.layers.0.mlp.up_proj.weight_g_idx",
        "model.layers.0.mlp.up_proj.input_scale",
        "model.layers.0.self_attn.k_scale",
    ],
)
def test_tensors_that_only_servers_use_are_left_to_servers(
    w8a8: Path, tmp_path: Path, tensor: str
) -> None:
    folder = copied(w8a8, tmp_path / "more")
    save_file({tensor: torch.ones(1)}, folder / "more.safetensors")
    with pytest.raises(NotComputed, match=f"the tensor {tensor}, with which servers compute"):
        read_format(folder)
