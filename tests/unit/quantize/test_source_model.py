"""What is read of a model before its weights are."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from paceline.foundation.quantized.errors import QuantizeError
from paceline.foundation.quantized.source_model import checksums, read_source, source_files


def test_layers_and_sizes_are_read_from_the_headers(tiny: Path) -> None:
    source = read_source(str(tiny))
    assert source.architecture == "Qwen2ForCausalLM"
    assert source.num_layers == 2
    assert source.dtype == "bfloat16"
    assert source.num_bytes == 2 * source.num_params
    assert source.tensors["model.layers.1.mlp.up_proj.weight"].shape == (96, 64)
    names = [path.name for path in source.other_files()]
    assert names == [
        "chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json"
    ]  # fmt: skip


def test_checksums_are_those_of_the_files(tiny: Path) -> None:
    source = read_source(str(tiny))
    read: list[int] = []
    found = checksums(source_files(source), read.append)
    assert set(found) > {"config.json", "model.safetensors", "tokenizer.json"}
    weights = (tiny / "model.safetensors").read_bytes()
    assert found["model.safetensors"] == {
        "bytes": len(weights),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    assert sum(read) == sum(entry["bytes"] for entry in found.values())


def test_a_quantized_model_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "quantized"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "awq", "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(QuantizeError, match=r"already quantized \(awq\)"):
        read_source(str(folder))


def test_what_is_no_model_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match="neither a folder nor"):
        read_source(str(tmp_path / "gone"))
    with pytest.raises(QuantizeError, match=r"config\.json cannot be read"):
        read_source(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(QuantizeError, match="convert its weights to safetensors"):
        read_source(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"1234567890")
    with pytest.raises(QuantizeError, match="not a safetensors file"):
        read_source(str(tmp_path))
