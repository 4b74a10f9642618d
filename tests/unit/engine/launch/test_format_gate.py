"""Formats that a machine cannot serve are refused before anything is loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.format_gate import ServedFormats, choose_formats
from paceline.runtime.engine.launch.hardware import Hardware

VNNI = Hardware(
    device="cpu",
    architecture="x86_64",
    cpu_flags=frozenset({"avx512f", "avx512_vnni"}),
    cpu_ids=(0, 1),
    cpu_quota=None,
    available_memory_bytes=1 << 33,
    openmp_library=None,
    vllm_release="0.32.0",
)
HOPPER = replace(VNNI, device="gpu", gpu_capabilities=((9, 0),))


def model(folder: Path, bits: int | None, input_bits: int = 16) -> str:
    """A folder whose configuration says how its weights are stored."""
    config: dict[str, Any] = {}
    if bits is not None:
        group: dict[str, Any] = {"weights": {"num_bits": bits, "type": "int", "strategy": "group"}}
        if input_bits < 16:
            group["input_activations"] = {"num_bits": input_bits, "type": "int"}
        config["quantization_config"] = {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": group},
        }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def choose(
    hardware: Hardware,
    target: str,
    *vllm_args: str,
    draft: str | None = None,
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
) -> ServedFormats:
    """The choice for a target, with the defaults of `paceline serve`."""
    return choose_formats(
        hardware,
        target=target,
        draft=draft,
        dtype=dtype,
        kv_cache_dtype=kv_cache_dtype,
        vllm_args=vllm_args,
    )


def test_int8_weights_are_served_and_their_kernel_is_expected(tmp_path: Path) -> None:
    formats = choose(VNNI, model(tmp_path / "m", 8, 8))
    assert formats == ServedFormats((), ("CPUInt8ScaledMMLinearKernel",), ())


def test_a_format_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnfit, match=r"w8a16.*Use w8a8 instead"):
        choose(VNNI, model(tmp_path / "m", 8))


def test_four_bit_weights_limit_the_dtype_also_as_draft(tmp_path: Path) -> None:
    plain, packed = model(tmp_path / "plain", None), model(tmp_path / "packed", 4)
    assert choose(VNNI, packed).kernel_dtypes == ("bfloat16", "float16")
    assert choose(VNNI, plain, draft=packed).kernel_dtypes == ("bfloat16", "float16")
    assert choose(VNNI, plain).kernel_dtypes == ()


@pytest.mark.parametrize("given", ["float32", "float"])
def test_four_bit_weights_in_float32_are_refused_wherever_it_is_set(
    tmp_path: Path, given: str
) -> None:
    packed = model(tmp_path / "packed", 4)
    with pytest.raises(ModelUnfit, match="bfloat16 and float16 only"):
        choose(VNNI, packed, f"--dtype={given}")
    if given == "float32":
        with pytest.raises(ModelUnfit, match="bfloat16 and float16 only"):
            choose(VNNI, packed, dtype=given)
        assert choose(VNNI, packed, "--dtype", "bfloat16", dtype=given)


@pytest.mark.parametrize("hardware", [VNNI, HOPPER])
def test_a_format_made_in_loading_that_does_nothing_is_refused(
    tmp_path: Path, hardware: Hardware
) -> None:
    with pytest.raises(ModelUnfit, match="silently does nothing"):
        choose(
            hardware,
            model(tmp_path / "m", None),
            "--quantization",
            "int8_per_channel_weight_only",
        )


def test_naming_the_method_of_a_stored_format_is_allowed(tmp_path: Path) -> None:
    assert choose(VNNI, model(tmp_path / "m", 8, 8), "-q", "compressed-tensors").expected_kernels


@pytest.mark.parametrize("flag", ["--kv-cache-dtype", "--kv_cache_dtype"])
def test_the_kv_cache_format_with_other_tokens_is_refused(tmp_path: Path, flag: str) -> None:
    plain = model(tmp_path / "m", None)
    with pytest.raises(ModelUnfit, match=r"other tokens.*Use fp8 instead"):
        choose(VNNI, plain, flag, "int8_per_token_head")
    assert choose(VNNI, plain, kv_cache_dtype="fp8") == ServedFormats((), (), ())


def test_models_that_vllm_fetches_are_left_to_it() -> None:
    assert choose(VNNI, "someone/model", draft="someone/draft") == ServedFormats((), (), ())


def test_gpus_of_one_class_refuse_and_gpus_of_several_classes_warn(tmp_path: Path) -> None:
    int8 = model(tmp_path / "m", 8, 8)
    two_blackwells = replace(HOPPER, gpu_capabilities=((10, 0), (12, 0)))
    with pytest.raises(ModelUnfit, match="INT8"):
        choose(two_blackwells, int8)
    turing_and_blackwell = replace(HOPPER, gpu_capabilities=((7, 5), (10, 0)))
    formats = choose(turing_and_blackwell, int8)
    assert formats.expected_kernels == ()
    (reason,) = formats.reasons
    assert "GPUs are of different classes" in reason
    assert f"{int8}: the number format is w8a8-int8: on a Blackwell GPU" in reason


@pytest.mark.parametrize("method", ["int8_per_channel_weight_only", "nvfp4_per_token"])
@pytest.mark.parametrize("hardware", [VNNI, HOPPER])
def test_a_format_for_experts_is_a_caution_unless_the_model_is_known_to_be_dense(
    tmp_path: Path, hardware: Hardware, method: str
) -> None:
    mixture = tmp_path / "mixture"
    mixture.mkdir()
    (mixture / "config.json").write_text(json.dumps({"num_local_experts": 8}))
    for target in (str(mixture), "someone/mixture"):
        (reason,) = choose(hardware, target, "--quantization", method).reasons
        assert "quantizes only the experts" in reason


@pytest.mark.parametrize("name", ["config.json", "hf_quant_config.json"])
def test_the_format_of_modelopt_is_judged_wherever_it_stands(name: str, tmp_path: Path) -> None:
    """NVFP4 needs a GPU of its own; before, the format was taken for none."""
    (tmp_path / "config.json").write_text("{}")
    algorithm = {"quant_algo": "NVFP4"}
    content: dict[str, Any] = {"quantization": algorithm}
    if name == "config.json":
        content = {"quantization_config": {"quant_method": "modelopt", **algorithm}}
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(ModelUnfit, match=r"nvfp4|NVFP4"):
        choose(VNNI, str(tmp_path))


def test_a_format_that_vllm_would_not_find_is_refused(tmp_path: Path) -> None:
    """AutoGPTQ's own file: without --quantization vLLM takes the weights for 16-bit ones."""
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (tmp_path / "quantize_config.json").write_text('{"bits": 4, "group_size": 128}')
    with pytest.raises(ModelUnfit, match=r"quantize_config\.json alone.*--quantization gptq"):
        choose(VNNI, str(tmp_path))
    choose(VNNI, str(tmp_path), "--quantization", "gptq")
