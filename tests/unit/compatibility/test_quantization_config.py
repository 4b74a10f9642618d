"""The format of a model is found wherever its folder keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.compatibility.quantization_config import (
    UnreadableModelFile,
    find_quantization,
    kv_cache_format,
)
from paceline.foundation.compatibility.stored_formats import UNKNOWN, stored_format
from paceline.foundation.compatibility.weight_files import (
    BrokenIndex,
    loaded_bytes,
    loaded_safetensors,
)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


MODELOPT = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}


@pytest.mark.parametrize(
    ("file", "content", "name", "argument"),
    [
        ("hf_quant_config.json", MODELOPT, "nvfp4", None),
        ("hf_quant_config.json", {"quantization": {"quant_algo": "fp8_pb_wo"}}, "fp8-block", None),
        ("quantize_config.json", {"bits": 4, "group_size": 128}, "gptq", "gptq"),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 128}, "awq", "awq"),
    ],
)
def test_the_format_may_stand_in_a_file_of_its_own(
    file: str, content: Any, name: str, argument: str | None, tmp_path: Path
) -> None:
    write(tmp_path, file, content)
    assert stored_format({}, tmp_path) == name
    found = find_quantization({}, tmp_path)
    assert found is not None
    assert (found.file, found.vllm_argument) == (file, argument)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}, "fp8-tensor"),
        ({"quantization_config": {"quant_method": "modelopt", **MODELOPT}}, "nvfp4"),
        ({"text_config": {"quantization_config": {"quant_method": "awq"}}}, "awq"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}},
         UNKNOWN),
    ],
)  # fmt: skip
def test_modelopt_writes_two_forms(config: dict[str, Any], name: str) -> None:
    assert stored_format(config) == name


@pytest.mark.parametrize(
    "settings",
    [
        {"quant_method": ["gptq"]},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": "int4"}}},
        {"quant_method": "compressed-tensors",
         "config_groups": {"a": {"weights": {"type": "int", "num_bits": [4]}}}},
        "gptq",
    ],
)  # fmt: skip
def test_settings_that_no_tool_writes_are_unknown(settings: Any) -> None:
    assert stored_format({"quantization_config": settings}) == UNKNOWN


def test_config_json_comes_first(tmp_path: Path) -> None:
    write(tmp_path, "hf_quant_config.json", MODELOPT)
    own = {"quantization_config": {"quant_method": "fp8"}}
    assert stored_format(own, tmp_path) == "fp8-tensor"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8"),
        (
            {"quant_method": "modelopt",
             "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}},
            "fp8",
        ),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": None}, None),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, None),
    ],
)  # fmt: skip
def test_vllm_takes_the_cache_format_of_modelopt(
    settings: dict[str, Any], expected: str | None
) -> None:
    assert kv_cache_format(settings) == expected


@pytest.mark.parametrize("text", ["{", "[]"])
def test_an_unreadable_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "hf_quant_config.json").write_text(text)
    with pytest.raises(UnreadableModelFile, match=r"hf_quant_config\.json"):
        find_quantization({}, tmp_path)
    assert stored_format({}, tmp_path) == UNKNOWN


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "hf_quant_config.json").write_text("\ufeff" + json.dumps(MODELOPT), "utf-8")
    assert stored_format({}, tmp_path) == "nvfp4"


def weights(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x" * 10)


def test_one_copy_of_the_weights_is_loaded(tmp_path: Path) -> None:
    weights(tmp_path, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    weights(tmp_path, "consolidated.safetensors", "pytorch_model.bin", "adapter.safetensors")
    index = {f"t{i}": f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
    write(tmp_path, "model.safetensors.index.json", {"weight_map": index})
    assert [file.name for file in loaded_safetensors(tmp_path)] == sorted(index.values())
    assert loaded_bytes(tmp_path) == 20


@pytest.mark.parametrize(
    ("names", "loaded"),
    [
        (("model.safetensors", "consolidated.safetensors"), ["model.safetensors"]),
        (("model.safetensors", "pytorch_model.bin"), ["model.safetensors"]),
        (("consolidated-00001-of-00001.safetensors",), ["consolidated-00001-of-00001.safetensors"]),
    ],
)
def test_without_an_index_a_second_copy_is_left_out(
    names: tuple[str, ...], loaded: list[str], tmp_path: Path
) -> None:
    weights(tmp_path, *names)
    assert [file.name for file in loaded_safetensors(tmp_path)] == loaded
    assert loaded_bytes(tmp_path) == 10


def test_older_weights_count_where_there_are_no_others(tmp_path: Path) -> None:
    weights(tmp_path, "pytorch_model-1.bin", "pytorch_model-2.bin")
    assert loaded_bytes(tmp_path) == 20


def test_a_broken_index_is_named(tmp_path: Path) -> None:
    weights(tmp_path, "model.safetensors")
    write(tmp_path, "model.safetensors.index.json", {"weights": 1})
    with pytest.raises(BrokenIndex, match=r"model\.safetensors\.index\.json is no index"):
        loaded_safetensors(tmp_path)
